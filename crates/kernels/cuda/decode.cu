// Few rows against many pages: decoding, and the attention masses that probes ask for.
//
// The bound is memory, so keys and values go from device memory to registers in 16-byte pieces, once, without a stop in
// shared memory. Products are transposed: a page's slots are the rows of operand A and up to 8 tile rows
// (rows x heads of a group) are the columns of operand B. Sums over head elements may run in any fixed order, so a lane
// takes for its share of k whichever 16 bytes it can load at once.
//
// With g = lane / 4 and q = lane % 4 a lane holds of a product's result the slots g and g + 8 and the tile rows 2q and
// 2q + 1.
#include "fragments.cuh"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int COLUMNS = 8;

// A tile row of this lane's operand B (column g), and those of its results (columns 2q, 2q + 1).
struct Column {
  int row;
  int head;
  int position;
};

__device__ __forceinline__ Column column_of(const AttentionArgs& args, int first_row, int rows, int kv_head, int m) {
  int group = args.heads / args.kv_heads;
  bool there = m < rows * group;
  Column column;
  column.row = first_row + (there ? m / group : 0);
  column.head = kv_head * group + (there ? m % group : 0);
  column.position = there ? args.positions[column.row] : -1;
  return column;
}

__device__ __forceinline__ uint4 load16(const bf16* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
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

// Logits (not scaled) of 16 slots.
template <int DIM>
__device__ __forceinline__ void logits(float (&s)[4], const bf16* keys, const uint32_t (&query)[DIM / 32][4]) {
  int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  uint4 near[DIM / 32], far[DIM / 32];
#pragma unroll
  for (int t = 0; t < DIM / 32; ++t) {
    near[t] = load16(keys + g * DIM + 32 * t + 8 * q);
    far[t] = load16(keys + (g + 8) * DIM + 32 * t + 8 * q);
  }
#pragma unroll
  for (int t = 0; t < DIM / 32; ++t) {
    uint32_t first[4] = {near[t].x, far[t].x, near[t].y, far[t].y};
    uint32_t second[4] = {near[t].z, far[t].z, near[t].w, far[t].w};
    mma(s, first, query[t][0], query[t][1]);
    mma(s, second, query[t][2], query[t][3]);
  }
}

// Hides from both tile rows of a lane what they must not see of 16 slots.
__device__ __forceinline__ void mask_slots(float (&s)[4], const AttentionArgs& args, const Block& block, const int (&positions)[2], int slot) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int at = slot + threadIdx.x % 32 / 4 + 8 * half;
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

// Adds 16 slots' values. Tile i of the result's rows holds element 64 * (i / 4) + 8 * row + 2 * (i % 4) for its rows
// 0..8 and the element after it for rows 8..16.
template <int DIM>
__device__ __forceinline__ void add_values(float (&out)[DIM / 16][4], const bf16* values, uint32_t p0, uint32_t p1) {
  int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const bf16* from = values + 8 * g;
  uint4 v[DIM / 64][4];
#pragma unroll
  for (int t = 0; t < DIM / 64; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[t][i] = load16(from + (2 * q + i % 2 + i / 2 * 8) * DIM + 64 * t);
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
struct Shared {
  float out[WARPS][COLUMNS][DIM];
  float max[WARPS][COLUMNS];
  float sum[WARPS][COLUMNS];
};

template <int DIM>
struct WarpSums {
  float out[DIM / 16][4] = {};
  float max[2] = {-INFINITY, -INFINITY};
  // Of this lane's slots only.
  float sum[2] = {};

  __device__ __forceinline__ void add_page(const AttentionArgs& args, const Block& block, int kv_head, const int (&positions)[2],
                                           const uint32_t (&query)[DIM / 32][4], bool whole) {
    const bf16* keys = args.pool + (size_t(block.page) * 2 * args.kv_heads + kv_head) * PAGE * DIM;
    const bf16* values = keys + size_t(args.kv_heads) * PAGE * DIM;
    float s[PAGE / 16][4] = {};
#pragma unroll
    for (int n = 0; n < PAGE / 16; ++n) logits<DIM>(s[n], keys + 16 * n * DIM, query);
    if (!whole) {
#pragma unroll
      for (int n = 0; n < PAGE / 16; ++n) mask_slots(s[n], args, block, positions, 16 * n);
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
      add_values<DIM>(out, values + 16 * n * DIM, p0, p1);
    }
  }

  __device__ __forceinline__ void leave(Shared<DIM>& shared) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int column = 2 * q + i;
      float total = slots_sum(sum[i]);
      if (g == 0) shared.max[warp][column] = max[i], shared.sum[warp][column] = total;
#pragma unroll
      for (int n = 0; n < DIM / 16; ++n) {
        float2* at = reinterpret_cast<float2*>(&shared.out[warp][column][64 * (n / 4) + 8 * g + 2 * (n % 4)]);
        *at = make_float2(out[n][i], out[n][2 + i]);
      }
    }
  }
};

// Merges the warps' sums in their order and writes them: a part of the result, or the result.
template <int DIM>
__device__ void write(const AttentionArgs& args, const Tile& tile, int kv_head, int first, const Shared<DIM>& shared) {
  int group = args.heads / args.kv_heads;
  for (int i = threadIdx.x; i < COLUMNS * DIM; i += THREADS) {
    int column = i / DIM, d = i % DIM, m = first + column;
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

template <int DIM>
__device__ void decode(const AttentionArgs& args) {
  __shared__ Shared<DIM> shared;
  Tile tile = args.tiles[blockIdx.x];
  int kv_head = blockIdx.y, first = COLUMNS * blockIdx.z;
  int lane = threadIdx.x % 32;
  if (first >= tile.rows * (args.heads / args.kv_heads)) return;
  Column mine = column_of(args, tile.first_row, tile.rows, kv_head, first + lane / 4);
  int positions[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) positions[i] = column_of(args, tile.first_row, tile.rows, kv_head, first + 2 * (lane % 4) + i).position;

  WarpSums<DIM> sums;
  uint32_t query[DIM / 32][4];
  int turned = INT_MIN;
  for (int at = tile.block_begin + threadIdx.x / 32; at < tile.block_end; at += WARPS) {
    Block block = args.blocks[at];
    if (unseen(block, tile.high)) continue;
    if (block.turn != turned) {
      turned = block.turn;
      rotated<DIM>(query, args, mine, turned);
    }
    sums.add_page(args, block, kv_head, positions, query, block.hidden == 0 && block.high <= tile.low);
  }
  sums.leave(shared);
  __syncthreads();
  write<DIM>(args, tile, kv_head, first, shared);
}

// Adds, for every scored slot, weight · exp(s - lse) of some rows and all heads of a group, each term as an integer
// multiple of 2^-32: a sum of integers does not depend on its order.
template <int DIM>
__device__ void masses(const AttentionArgs& args, const MassTile* tiles, const MassRow* mass_rows, unsigned long long* sums) {
  MassTile tile = tiles[blockIdx.x];
  int at = tile.block_begin + blockIdx.z * WARPS + threadIdx.x / 32, kv_head = blockIdx.y;
  if (at >= tile.block_end) return;
  Block block = args.blocks[at];
  if (block.mass < 0 || block.low > block.high) return;
  int group = args.heads / args.kv_heads, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const bf16* keys = args.pool + (size_t(block.page) * 2 * args.kv_heads + kv_head) * PAGE * DIM;
  auto column = [&](int m) {
    bool there = m < tile.count * group;
    Column c;
    c.row = mass_rows[tile.first + (there ? m / group : 0)].row;
    c.head = kv_head * group + (there ? m % group : 0);
    c.position = there ? args.positions[c.row] : -1;
    return c;
  };
  for (int first = 0; first < tile.count * group; first += COLUMNS) {
    uint32_t query[DIM / 32][4];
    rotated<DIM>(query, args, column(first + g), block.turn);
    int positions[2];
    float bases[2], weights[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int m = first + 2 * q + i;
      Column c = column(m);
      positions[i] = c.position;
      MassRow row = mass_rows[tile.first + min(m / group, tile.count - 1)];
      bool scores = c.position >= 0 && !(at >= row.except_begin && at < row.except_end);
      weights[i] = scores ? row.weight : 0.0f;
      bases[i] = args.lse[size_t(c.row) * args.heads + c.head] * 1.4426950408889634f;
    }
#pragma unroll 1
    for (int n = 0; n < PAGE / 16; ++n) {
      float s[4] = {};
      logits<DIM>(s, keys + 16 * n * DIM, query);
      mask_slots(s, args, block, positions, 16 * n);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned long long term = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float share = s[2 * half + i] == -INFINITY ? 0.0f : exp2f(fmaf(s[2 * half + i], args.scale_log2, -bases[i]));
          // A share is at most 1; what is no number counts as nothing.
          term += share <= 2.0f ? __float2ull_rn(weights[i] * share * 4294967296.0f) : 0;
        }
        term += __shfl_xor_sync(0xffffffffu, term, 1);
        term += __shfl_xor_sync(0xffffffffu, term, 2);
        if (q == 0 && term) atomicAdd(sums + block.mass + 16 * n + 8 * half + g, term);
      }
    }
  }
}

}  // namespace

// Grid (tiles, kv_heads, tile rows / 8 rounded up), 128 threads.
extern "C" __global__ void __launch_bounds__(THREADS) attention_decode_d64(const __grid_constant__ AttentionArgs args) { decode<64>(args); }
extern "C" __global__ void __launch_bounds__(THREADS) attention_decode_d128(const __grid_constant__ AttentionArgs args) { decode<128>(args); }

// Grid (mass tiles, kv_heads, most blocks of a tile / 4 rounded up), 128 threads. Needs the rows' lse.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_masses_d64(const __grid_constant__ AttentionArgs args, const MassTile* tiles, const MassRow* rows, unsigned long long* sums) {
  masses<64>(args, tiles, rows, sums);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_masses_d128(const __grid_constant__ AttentionArgs args, const MassTile* tiles, const MassRow* rows, unsigned long long* sums) {
  masses<128>(args, tiles, rows, sums);
}

// Merges partial results in their order. Grid (merges, most rows of a merge * heads), head_dim / 2 threads.
extern "C" __global__ void attention_merge(const __grid_constant__ AttentionArgs args, const Merge* merges) {
  Merge merge = merges[blockIdx.x];
  int row = blockIdx.y / args.heads, head = blockIdx.y % args.heads, dim = 2 * blockDim.x;
  if (row >= merge.rows) return;
  int group = args.heads / args.kv_heads, kv_head = head / group, m = row * group + head % group;
  auto at = [&](int i) { return (size_t(merge.partial_begin + i) * args.kv_heads + kv_head) * args.partial_rows + m; };
  float max = -INFINITY;
  for (int i = 0; i < merge.partial_count; ++i) max = fmaxf(max, args.partial_sums[at(i)].x);
  float base = max == -INFINITY ? 0.0f : max, sum = 0;
  float2 out = make_float2(0, 0);
  for (int i = 0; i < merge.partial_count; ++i) {
    float2 part = args.partial_sums[at(i)];
    float factor = exp2_approx(part.x - base);
    float2 o = reinterpret_cast<const float2*>(args.partial_out + at(i) * dim)[threadIdx.x];
    sum = fmaf(part.y, factor, sum);
    out.x = fmaf(o.x, factor, out.x);
    out.y = fmaf(o.y, factor, out.y);
  }
  size_t to = size_t(merge.first_row + row) * args.heads + head;
  float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  reinterpret_cast<uint32_t*>(args.out + to * dim)[threadIdx.x] = pack(out.x * inverse, out.y * inverse);
  if (args.lse && threadIdx.x == 0) args.lse[to] = (max + log2f(sum)) * 0.6931471805599453f;
}
