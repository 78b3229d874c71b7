// Few rows against many pages: decoding, and the attention masses that probes ask for. For every device; Hopper decodes
// by decode_sm90.cu.
//
// The bound is memory, so keys and values go from device memory to registers in 16-byte pieces, once, without a stop in
// shared memory.
#include "few.cuh"

namespace {

constexpr int THREADS = 32 * WARPS;

__device__ __forceinline__ uint4 load16(const bf16* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
}

// A page in device memory.
template <int DIM>
struct GlobalPage {
  const bf16* keys;
  const bf16* values;

  __device__ __forceinline__ GlobalPage(const AttentionArgs& args, const Block& block, int kv_head)
      : keys(args.pool + (size_t(block.page) * 2 * args.kv_heads + kv_head) * PAGE * DIM),
        values(keys + size_t(args.kv_heads) * PAGE * DIM) {}
  __device__ __forceinline__ static int slot(int i) { return i; }
  __device__ __forceinline__ static int chunk(int i) { return i; }
  __device__ __forceinline__ uint4 key(int slot, int t) const { return load16(keys + slot * DIM + 32 * t + threadIdx.x % 4 * 8); }
  __device__ __forceinline__ uint4 value(int slot, int t, int c) const { return load16(values + slot * DIM + 64 * t + 8 * c); }
};

template <int DIM>
__device__ void decode(const AttentionArgs& args) {
  __shared__ Sums<DIM> shared;
  Tile tile = args.tiles[blockIdx.x];
  int kv_head = blockIdx.y, lane = threadIdx.x % 32;
  auto position = [&](int m) { return position_of(args, tile.first_row, tile.rows, m); };
  Column mine = column_of(args, tile.first_row, kv_head, lane / 4, position(lane / 4));
  int positions[2] = {position(2 * (lane % 4)), position(2 * (lane % 4) + 1)};

  WarpSums<DIM, GlobalPage<DIM>> sums;
  uint32_t query[DIM / 32][4];
  int turned = INT_MIN;
  for (int at = tile.block_begin + threadIdx.x / 32; at < tile.block_end; at += WARPS) {
    Block block = args.blocks[at];
    if (unseen(block, tile.high)) continue;
    if (block.turn != turned) {
      turned = block.turn;
      rotated<DIM>(query, args, mine, turned);
    }
    sums.add_page(args, block, GlobalPage<DIM>(args, block, kv_head), positions, query, block.hidden == 0 && block.high <= tile.low);
  }
  sums.leave(shared);
  __syncthreads();
  write<DIM>(args, tile, kv_head, shared);
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
  GlobalPage<DIM> page(args, block, kv_head);
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
      logits<DIM>(s, page, 16 * n, query);
      mask_slots<GlobalPage<DIM>>(s, args, block, positions, 16 * n);
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

// Grid (tiles, kv_heads), 128 threads. Tiles have at most 8 tile rows.
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
