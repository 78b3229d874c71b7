// Prefill and repair with mma.sync, for every device from compute capability 8.0.
//
// One block of threads computes one tile (at most 64 rows x heads of a group) for one key head. Each warp holds 16
// tile rows; pages of keys and values stream through shared memory, two ahead, and are read by all warps.
//
// Grid (tiles, kv_heads), 128 threads, shared memory 4 * 64 * DIM * 2 bytes.
#include "fragments.cuh"

namespace {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;

__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

template <int DIM>
struct Smem {
  static constexpr int TILE = PAGE * DIM * 2;
  // Byte address of 16 bytes in a page tile; chunks are exchanged so that 8 rows of one column hit different banks.
  static __device__ __forceinline__ uint32_t at(int slot, int chunk) {
    return slot * (DIM * 2) + ((chunk ^ (slot & 7)) * 16);
  }
};

// Starts copying a page's keys (which = 0) or values (1).
template <int DIM>
__device__ void fetch(uint32_t to, const AttentionArgs& args, const Block& block, int kv_head, int which) {
  const bf16* from = args.pool + ((size_t(block.page) * 2 + which) * args.kv_heads + kv_head) * PAGE * DIM;
  constexpr int CHUNKS = DIM / 8;
#pragma unroll
  for (int i = threadIdx.x; i < PAGE * CHUNKS; i += THREADS)
    copy16(to + Smem<DIM>::at(i / CHUNKS, i % CHUNKS), from + i * 8);
}

__device__ __forceinline__ void load4(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}

__device__ __forceinline__ void load4_transposed(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}

// The queries of 16 tile rows, rotated for keys with this turn, as operand A.
template <int DIM>
__device__ void rotated(uint32_t (&q)[DIM / 16][4], const AttentionArgs& args, const LaneRows& rows, int turned) {
  int c = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bf16* from = args.q + size_t(rows.row[i]) * args.q_stride + rows.head[i] * DIM;
    const float2* angles = args.angles + size_t(max(rows.position[i] - turned, 0)) * (DIM / 2);
    auto pair_of = [&](int column) { return *reinterpret_cast<const uint32_t*>(from + column); };
    if (args.interleaved) {
#pragma unroll
      for (int k = 0; k < DIM / 16; ++k) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          int column = 16 * k + 8 * part + c;
          uint32_t x = pair_of(column);
          float a = low(x), b = high(x);
          turn(a, b, angles[column / 2]);
          q[k][2 * part + i] = pack(a, b);
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < DIM / 32; ++k) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          int column = 16 * k + 8 * part + c;
          uint32_t x = pair_of(column), y = pair_of(column + DIM / 2);
          float4 two = *reinterpret_cast<const float4*>(angles + column);
          float a0 = low(x), b0 = low(y), a1 = high(x), b1 = high(y);
          turn(a0, b0, make_float2(two.x, two.y));
          turn(a1, b1, make_float2(two.z, two.w));
          q[k][2 * part + i] = pack(a0, a1);
          q[k + DIM / 32][2 * part + i] = pack(b0, b1);
        }
      }
    }
  }
}

// What a warp has summed up for its rows.
template <int DIM>
struct Sums {
  float out[DIM / 8][4] = {};
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};

  __device__ __forceinline__ void add(const AttentionArgs& args, const Block& block, const LaneRows& rows,
                                      const uint32_t (&q)[DIM / 16][4], uint32_t keys, uint32_t values, bool whole) {
    int lane = threadIdx.x % 32;
    float s[PAGE / 8][4] = {};
#pragma unroll
    for (int k = 0; k < DIM / 16; ++k) {
#pragma unroll
      for (int n = 0; n < PAGE / 16; ++n) {
        uint32_t b[4];
        load4(b, keys + Smem<DIM>::at(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
        mma(s[2 * n], q[k], b[0], b[1]);
        mma(s[2 * n + 1], q[k], b[2], b[3]);
      }
    }
    if (!whole) {
#pragma unroll
      for (int n = 0; n < PAGE / 8; ++n) mask(s[n], args, block, rows, 8 * n);
    }
    float alpha[2];
    soften(s, max, sum, alpha, args.scale_log2);
#pragma unroll
    for (int n = 0; n < DIM / 8; ++n) {
      out[n][0] *= alpha[0], out[n][1] *= alpha[0];
      out[n][2] *= alpha[1], out[n][3] *= alpha[1];
    }
#pragma unroll
    for (int k = 0; k < PAGE / 16; ++k) {
      uint32_t p[4] = {pack(s[2 * k][0], s[2 * k][1]), pack(s[2 * k][2], s[2 * k][3]),
                       pack(s[2 * k + 1][0], s[2 * k + 1][1]), pack(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
      for (int n = 0; n < DIM / 16; ++n) {
        uint32_t b[4];
        load4_transposed(b, values + Smem<DIM>::at(16 * k + lane % 16, 2 * n + lane / 16));
        mma(out[2 * n], p, b[0], b[1]);
        mma(out[2 * n + 1], p, b[2], b[3]);
      }
    }
  }

  __device__ __forceinline__ void write(const AttentionArgs& args, const LaneRows& rows) {
    int c = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (rows.position[i] < 0) continue;
      size_t at = size_t(rows.row[i]) * args.heads + rows.head[i];
      float inverse = sum[i] > 0 ? 1.0f / sum[i] : 0.0f;
#pragma unroll
      for (int n = 0; n < DIM / 8; ++n)
        *reinterpret_cast<uint32_t*>(args.out + at * DIM + 8 * n + c) = pack(out[n][2 * i] * inverse, out[n][2 * i + 1] * inverse);
      if (args.lse && c == 0) args.lse[at] = (max[i] + log2f(sum[i])) * 0.6931471805599453f;
    }
  }
};

template <int DIM>
__device__ void prefill(const AttentionArgs& args) {
  extern __shared__ __align__(128) unsigned char memory[];
  Tile tile = args.tiles[blockIdx.x];
  int kv_head = blockIdx.y;
  uint32_t base = shared_address(memory);
  LaneRows rows = lane_rows(args, tile, kv_head, threadIdx.x / 32 * 16);

  auto next = [&](int at) {
    while (at < tile.block_end && unseen(args.blocks[at], tile.high)) ++at;
    return at;
  };
  auto start = [&](int at, int stage) {
    if (at < tile.block_end) {
      fetch<DIM>(base + 2 * stage * Smem<DIM>::TILE, args, args.blocks[at], kv_head, 0);
      fetch<DIM>(base + (2 * stage + 1) * Smem<DIM>::TILE, args, args.blocks[at], kv_head, 1);
    }
    asm volatile("cp.async.commit_group;");
  };

  Sums<DIM> sums;
  uint32_t q[DIM / 16][4];
  int turned = INT_MIN, stage = 0, at = next(tile.block_begin);
  start(at, 0);
  while (at < tile.block_end) {
    int following = next(at + 1);
    start(following, stage ^ 1);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    Block block = args.blocks[at];
    if (block.turn != turned) {
      turned = block.turn;
      rotated<DIM>(q, args, rows, turned);
    }
    uint32_t keys = base + 2 * stage * Smem<DIM>::TILE;
    sums.add(args, block, rows, q, keys, keys + Smem<DIM>::TILE, block.hidden == 0 && block.high <= tile.low);
    __syncthreads();
    stage ^= 1;
    at = following;
  }
  sums.write(args, rows);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) attention_prefill_d64(const __grid_constant__ AttentionArgs args) { prefill<64>(args); }
extern "C" __global__ void __launch_bounds__(THREADS) attention_prefill_d128(const __grid_constant__ AttentionArgs args) { prefill<128>(args); }
