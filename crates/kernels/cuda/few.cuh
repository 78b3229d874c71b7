// Few rows against many pages: what the kernels share that read every page once.
//
// Products are transposed: a page's slots are the rows of operand A and up to 8 tile rows (rows x heads of a group) are
// the columns of operand B. Sums over head elements may run in any fixed order, so a lane takes for its share of k
// whichever 16 bytes it can load at once.
//
// With g = lane / 4 and q = lane % 4 a lane holds of a product's result the slots g and g + 8 (of 16, in the order in
// which a page's reader numbers them) and the tile rows 2q and 2q + 1.
//
// A reader of pages of DIM elements a slot has
//   slot(i)           the slot of 8 that is number i in a product, so that a reader may take turns as its memory likes
//   chunk(i)          the 16 bytes of 128 that are number i of a value
//   key(slot, t)      of a slot's key the 8 elements from 32 t + 8 q
//   value(slot, t, c) of a slot's value the 8 elements from 64 t + 8 c
#pragma once
#include "fragments.cuh"

namespace {

constexpr int WARPS = 4;
constexpr int COLUMNS = 8;

// A tile row of this lane's operand B (column g), and those of its results (columns 2q, 2q + 1).
struct Column {
  int row;
  int head;
  int position;
};

__device__ __forceinline__ int position_of(const AttentionArgs& args, int first_row, int rows, int m) {
  int group = args.heads / args.kv_heads;
  return m < rows * group ? args.positions[first_row + m / group] : -1;
}

__device__ __forceinline__ Column column_of(const AttentionArgs& args, int first_row, int kv_head, int m, int position) {
  int group = args.heads / args.kv_heads;
  bool there = position >= 0;
  return {first_row + (there ? m / group : 0), kv_head * group + (there ? m % group : 0), position};
}

// A column's query, rotated for keys with this turn: of every 32 elements the 8 from 8q.
template <int DIM>
__device__ void rotated(uint32_t (&query)[DIM / 32][4], const AttentionArgs& args, const Column& column, int turned) {
  int q = threadIdx.x % 4;
  const bf16* from = args.q + size_t(column.row) * args.q_stride + column.head * DIM + 8 * q;
  const float2* angles = args.angles + size_t(max(column.position - turned, 0)) * (DIM / 2);
  auto read = [&](uint32_t (&x)[4], int t) {
    uint4 v = *reinterpret_cast<const uint4*>(from + 32 * t);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
  };
  if (args.interleaved) {
#pragma unroll
    for (int t = 0; t < DIM / 32; ++t) {
      uint32_t x[4];
      read(x, t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float a = low(x[i]), b = high(x[i]);
        turn(a, b, angles[16 * t + 4 * q + i]);
        query[t][i] = pack(a, b);
      }
    }
  } else {
#pragma unroll
    for (int t = 0; t < DIM / 64; ++t) {
      uint32_t x[4], y[4];
      read(x, t);
      read(y, t + DIM / 64);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float4 two = *reinterpret_cast<const float4*>(angles + 32 * t + 8 * q + 2 * i);
        float a0 = low(x[i]), b0 = low(y[i]), a1 = high(x[i]), b1 = high(y[i]);
        turn(a0, b0, make_float2(two.x, two.y));
        turn(a1, b1, make_float2(two.z, two.w));
        query[t][i] = pack(a0, a1);
        query[t + DIM / 64][i] = pack(b0, b1);
      }
    }
  }
}

// Logits (not scaled) of 16 slots from `first`.
template <int DIM, typename Reader>
__device__ __forceinline__ void logits(float (&s)[4], const Reader& page, int first, const uint32_t (&query)[DIM / 32][4]) {
  int slot = first + Reader::slot(threadIdx.x % 32 / 4);
  uint4 near[DIM / 32], far[DIM / 32];
#pragma unroll
  for (int t = 0; t < DIM / 32; ++t) {
    near[t] = page.key(slot, t);
    far[t] = page.key(slot + 8, t);
  }
#pragma unroll
  for (int t = 0; t < DIM / 32; ++t) {
    uint32_t first[4] = {near[t].x, far[t].x, near[t].y, far[t].y};
    uint32_t second[4] = {near[t].z, far[t].z, near[t].w, far[t].w};
    mma(s, first, query[t][0], query[t][1]);
    mma(s, second, query[t][2], query[t][3]);
  }
}

// Hides from both tile rows of a lane what they must not see of 16 slots from `first`.
template <typename Reader>
__device__ __forceinline__ void mask_slots(float (&s)[4], const AttentionArgs& args, const Block& block, const int (&positions)[2], int first) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int at = first + Reader::slot(threadIdx.x % 32 / 4) + 8 * half;
    int position = block.listed ? args.slot_positions[block.first + at] : block.first + at;
    bool hidden = block.hidden >> at & 1;
    if (hidden || position > positions[0]) s[2 * half] = -INFINITY;
    if (hidden || position > positions[1]) s[2 * half + 1] = -INFINITY;
  }
}

// Over the lanes that hold the same tile rows.
__device__ __forceinline__ float slots_max(float x) {
#pragma unroll
  for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

__device__ __forceinline__ float slots_sum(float x) {
#pragma unroll
  for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// An 8 x 8 tile of bf16 the other way round.
__device__ __forceinline__ uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ uint32_t lows(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ uint32_t highs(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x7632); }

// Adds the values of 16 slots from `first`. Tile i of the result's rows holds element 64 * (i / 4) + 8 * chunk(row) +
// 2 * (i % 4) for its rows 0..8 and the element after it for rows 8..16.
template <int DIM, typename Reader>
__device__ __forceinline__ void add_values(float (&out)[DIM / 16][4], const Reader& page, int first, uint32_t p0, uint32_t p1) {
  int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  uint4 v[DIM / 64][4];
#pragma unroll
  for (int t = 0; t < DIM / 64; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[t][i] = page.value(first + Reader::slot(2 * q + i % 2) + i / 2 * 8, t, Reader::chunk(g));
  }
#pragma unroll
  for (int t = 0; t < DIM / 64; ++t) {
    uint32_t words[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i][0] = v[t][i].x, words[i][1] = v[t][i].y, words[i][2] = v[t][i].z, words[i][3] = v[t][i].w;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      uint32_t a[4] = {lows(words[0][w], words[1][w]), highs(words[0][w], words[1][w]),
                       lows(words[2][w], words[3][w]), highs(words[2][w], words[3][w])};
      mma(out[4 * t + w], a, p0, p1);
    }
  }
}

template <int DIM>
struct Sums {
  float out[WARPS][COLUMNS][DIM];
  float max[WARPS][COLUMNS];
  float sum[WARPS][COLUMNS];
};

template <int DIM, typename Reader>
struct WarpSums {
  float out[DIM / 16][4] = {};
  float max[2] = {-INFINITY, -INFINITY};
  // Of this lane's slots only.
  float sum[2] = {};

  __device__ __forceinline__ void add_page(const AttentionArgs& args, const Block& block, const Reader& page, const int (&positions)[2],
                                           const uint32_t (&query)[DIM / 32][4], bool whole) {
    float s[PAGE / 16][4] = {};
#pragma unroll
    for (int n = 0; n < PAGE / 16; ++n) logits<DIM>(s[n], page, 16 * n, query);
    if (!whole) {
#pragma unroll
      for (int n = 0; n < PAGE / 16; ++n) mask_slots<Reader>(s[n], args, block, positions, 16 * n);
    }
    float alpha[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float top = -INFINITY;
#pragma unroll
      for (int n = 0; n < PAGE / 16; ++n) top = fmaxf(top, fmaxf(s[n][i], s[n][2 + i]));
      float raised = fmaxf(max[i], slots_max(top) * args.scale_log2);
      float base = raised == -INFINITY ? 0.0f : raised;
      alpha[i] = exp2_approx(max[i] - base);
      max[i] = raised;
      float total = 0;
#pragma unroll
      for (int n = 0; n < PAGE / 16; ++n) {
        s[n][i] = exp2_approx(fmaf(s[n][i], args.scale_log2, -base));
        s[n][2 + i] = exp2_approx(fmaf(s[n][2 + i], args.scale_log2, -base));
        total += s[n][i] + s[n][2 + i];
      }
      sum[i] = fmaf(sum[i], alpha[i], total);
    }
#pragma unroll
    for (int n = 0; n < DIM / 16; ++n) {
      out[n][0] *= alpha[0], out[n][1] *= alpha[1];
      out[n][2] *= alpha[0], out[n][3] *= alpha[1];
    }
#pragma unroll
    for (int n = 0; n < PAGE / 16; ++n) {
      uint32_t p0 = transposed(pack(s[n][0], s[n][1])), p1 = transposed(pack(s[n][2], s[n][3]));
      add_values<DIM>(out, page, 16 * n, p0, p1);
    }
  }

  __device__ __forceinline__ void leave(Sums<DIM>& sums) const {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x / 32 % WARPS;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int column = 2 * q + i;
      float total = slots_sum(sum[i]);
      if (g == 0) sums.max[warp][column] = max[i], sums.sum[warp][column] = total;
#pragma unroll
      for (int n = 0; n < DIM / 16; ++n) {
        float2* at = reinterpret_cast<float2*>(&sums.out[warp][column][64 * (n / 4) + 8 * Reader::chunk(g) + 2 * (n % 4)]);
        *at = make_float2(out[n][i], out[n][2 + i]);
      }
    }
  }
};

// Merges the warps' sums in their order and writes them: a part of the result, or the result.
template <int DIM>
__device__ void write(const AttentionArgs& args, const Tile& tile, int kv_head, const Sums<DIM>& shared) {
  int group = args.heads / args.kv_heads;
  for (int i = threadIdx.x % (32 * WARPS); i < COLUMNS * DIM; i += 32 * WARPS) {
    int column = i / DIM, d = i % DIM, m = column;
    if (m >= tile.rows * group) continue;
    float max = -INFINITY;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) max = fmaxf(max, shared.max[w][column]);
    float base = max == -INFINITY ? 0.0f : max, sum = 0, out = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      float factor = exp2_approx(shared.max[w][column] - base);
      sum = fmaf(shared.sum[w][column], factor, sum);
      out = fmaf(shared.out[w][column][d], factor, out);
    }
    if (tile.partial >= 0) {
      size_t at = (size_t(tile.partial) * args.kv_heads + kv_head) * args.partial_rows + m;
      args.partial_out[at * DIM + d] = out;
      if (d == 0) args.partial_sums[at] = make_float2(max, sum);
    } else {
      size_t at = size_t(tile.first_row + m / group) * args.heads + kv_head * group + m % group;
      args.out[at * DIM + d] = __float2bfloat16_rn(sum > 0 ? out / sum : 0.0f);
      if (args.lse && d == 0) args.lse[at] = (max + log2f(sum)) * 0.6931471805599453f;
    }
  }
}

}  // namespace
