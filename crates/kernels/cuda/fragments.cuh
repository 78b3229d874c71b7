// Pieces that the attention kernels for mma.sync share: the product itself, visibility, and one step of the softmax.
//
// A warp works on 16 tile rows. Of an m16n8k16 product a lane holds, with g = lane / 4 and q = lane % 4: of A the
// rows g and g + 8 and the columns 2q, 2q + 1, 2q + 8, 2q + 9; of B the same k and column g; of the result the rows g
// and g + 8, columns 2q and 2q + 1.
#pragma once
#include "numbers.cuh"
#include "parts.cuh"

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Whether no row of the tile can see anything of the block, which is then skipped: to the last bit as if it had run.
__device__ __forceinline__ bool unseen(const Block& block, int high) { return block.low > high || block.low > block.high; }

// The two tile rows of a lane.
struct LaneRows {
  // Position, or -1 for a row that the tile does not have.
  int position[2];
  // Row and head of the batch; meaningful where the position is not -1.
  int row[2];
  int head[2];
};

__device__ __forceinline__ LaneRows lane_rows(const AttentionArgs& args, const Tile& tile, int kv_head, int first) {
  LaneRows rows;
  int group = args.heads / args.kv_heads;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int m = first + threadIdx.x % 32 / 4 + 8 * i;
    bool there = m < tile.rows * group;
    rows.row[i] = tile.first_row + (there ? m / group : 0);
    rows.head[i] = kv_head * group + (there ? m % group : 0);
    rows.position[i] = there ? args.positions[rows.row[i]] : -1;
  }
  return rows;
}

// Masks logits of 8 slots from `slot`: what the rows must not see becomes -inf.
__device__ __forceinline__ void mask(float (&s)[4], const AttentionArgs& args, const Block& block, const LaneRows& rows, int slot) {
  int at = slot + 2 * (threadIdx.x % 4);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    int position = block.listed ? args.slot_positions[block.first + at + j] : block.first + at + j;
    bool hidden = block.hidden >> (at + j) & 1;
    if (hidden || position > rows.position[0]) s[j] = -INFINITY;
    if (hidden || position > rows.position[1]) s[2 + j] = -INFINITY;
  }
}

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Turns the logits of N x 8 slots into weights relative to the running maximum, which they may raise, and scales what
// was summed before by `alpha`. A row that sees none of the slots keeps its bits: alpha is 1 and the weights are 0.
template <int N>
__device__ __forceinline__ void soften(float (&s)[N][4], float (&max)[2], float (&sum)[2], float (&alpha)[2], float scale) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < N; ++n) top = fmaxf(top, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
    float raised = fmaxf(max[i], quad_max(top) * scale);
    float base = raised == -INFINITY ? 0.0f : raised;
    alpha[i] = exp2_approx(max[i] - base);
    max[i] = raised;
    float total = 0;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      s[n][2 * i] = exp2_approx(fmaf(s[n][2 * i], scale, -base));
      s[n][2 * i + 1] = exp2_approx(fmaf(s[n][2 * i + 1], scale, -base));
      total += s[n][2 * i] + s[n][2 * i + 1];
    }
    sum[i] = fmaf(sum[i], alpha[i], quad_sum(total));
  }
}
