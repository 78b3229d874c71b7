// Attention of many rows over paged keys, for Hopper (sm_90a): prefill and repair.
//
// Launch
//   entry points   attention_sm90_d128, attention_sm90_d64 (by head_dim)
//   arguments      (const __grid_constant__ AttentionArgs, const __grid_constant__ CUtensorMap)
//   block          384 threads: one warpgroup that loads, two that compute
//   dynamic shared 200192 bytes for head_dim 128, 151936 for head_dim 64 (`attention_sm90_*_shared`); at most one
//                  block runs on a multiprocessor
//   grid           tiles_count * kv_heads blocks, kv_head fastest. Blocks start in this order: the host puts the tiles
//                  with most blocks first. A smaller grid is also right: a block then takes every gridDim.x-th tile.
//   tensor map     2-D, bf16, over args.pool: inner dimension head_dim, outer pages * 2 * kv_heads * 64, box 64 x 64,
//                  128-byte swizzle
//   limits         rows * group <= 128 in every tile (host: rows = 128 / group); q, out and partial_out aligned to 16
//                  bytes, q_stride a multiple of 8; scale_log2 > 0
//
// Tile row m (0 <= m < rows * group) is row first_row + m / group, query head kv_head * group + m % group.
//
// A row's result depends on its query, its position and its blocks alone, to the bit: no step combines rows, blocks
// that a row doesn't see change nothing in it, and the order of sums is the order of blocks. So the cut of rows into
// tiles doesn't show in the results. (A split over blocks does: partial results are rounded where they are combined.)
//
// Hidden slots get weight 0, and 0 * value has to be 0. So the pool must hold finite values only, beyond the end of a
// part too; it starts as zeros and only finite values are written.
#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

#include "parts.cuh"

namespace {

constexpr int TILE_ROWS = 128;
constexpr int WARPGROUP = 128;
constexpr int CONSUMER_WARPS = TILE_ROWS / 16;
constexpr int THREADS = WARPGROUP + CONSUMER_WARPS * 32;
constexpr int BOX_COLUMNS = 64;
constexpr int BOX_BYTES = PAGE * BOX_COLUMNS * 2;

#ifndef SM90_PINGPONG
#define SM90_PINGPONG 1
#endif

// Reference point of a row that has seen nothing. Finite, so that (-inf) - UNSEEN is -inf and not NaN.
constexpr float UNSEEN = -1e30f;
// The reference point moves only when a logit exceeds it by this much (base 2). Weights stay below 2^8 then, which
// costs no precision, and most steps need not rescale the sums.
constexpr float SLACK = 8.0f;

// What a tile has to do about a block. Bit 0: mask. Bit 1: each row has its own mask. Bit 2: by the stage's list.
enum Kind : int32_t {
  KIND_SKIP = -1,   // no row sees any slot
  KIND_OPEN = 0,    // every row sees every slot
  KIND_HIDDEN = 1,  // every row sees every slot that isn't hidden
  KIND_RUN = 3,     // positions follow each other; rows see a part of them
  KIND_LISTED = 7,  // positions are in the stage's list
  KIND_END = 8,     // the tile has no more blocks
};

// What the consumers need to know about the block in a stage.
struct __align__(16) Step {
  int32_t kind;
  int32_t turn;
  int32_t first;
  int32_t reserved;
  uint64_t hidden;
  uint64_t reserved2;
};

// Keys and values of a ring stage are boxes of [64 slots][64 columns], 128 bytes a slot, swizzled by the copy engine.
template <int DIM>
struct Layout {
  static constexpr int STAGES = DIM == 128 ? 5 : 8;
  static constexpr int KEYS_BYTES = PAGE * DIM * 2;
  static constexpr int STAGE_BYTES = 2 * KEYS_BYTES;
  // 16 bytes of padding: rows of a quarter-warp then lie in different banks.
  static constexpr int QUERY_STRIDE = DIM * 2 + 16;
  static constexpr int QUERIES = STAGES * STAGE_BYTES;
  static constexpr int STEPS = QUERIES + TILE_ROWS * QUERY_STRIDE;
  static constexpr int LISTS = STEPS + STAGES * int(sizeof(Step));
  static constexpr int FULL = LISTS + STAGES * PAGE * 4;
  static constexpr int EMPTY = FULL + STAGES * 8;
  static constexpr int BYTES = (EMPTY + STAGES * 8 + 127) / 128 * 128;
};
static_assert(Layout<128>::BYTES == 200192 && Layout<64>::BYTES == 151936, "keep the text on top up to date");

// ---------------------------------------------------------------------------------------------- shared memory, barriers

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}

// Barriers of both consuming warpgroups.
__device__ __forceinline__ void named_sync(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void named_arrive(int id) { asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory"); }

__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Place in the ring of stages, and the parity of its current round.
template <int STAGES>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// ------------------------------------------------------------------------------------------------------ matrix products

#define REGS4(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3])
#define REGS16(a, i) REGS4(a, i), REGS4(a, i + 4), REGS4(a, i + 8), REGS4(a, i + 12)
#define REGS32(a) REGS16(a, 0), REGS16(a, 16)
#define REGS64(a) REGS16(a, 0), REGS16(a, 16), REGS16(a, 32), REGS16(a, 48)

// c += a * b for 64 rows of a warpgroup, 16 deep; a in registers. TRANSPOSED: b lies with its columns contiguous.
// accumulate == 0: c = a * b.
template <bool TRANSPOSED>
__device__ __forceinline__ void multiply(float (&c)[32], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
      : REGS32(c)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSED ? 1 : 0));
}

template <bool TRANSPOSED>
__device__ __forceinline__ void multiply(float (&c)[64], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
      : REGS64(c)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSED ? 1 : 0));
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving uses of the registers across this point: it doesn't know that products run on.
template <int N>
__device__ __forceinline__ void pin(float (&a)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(a[i])::"memory");
}

// Descriptor of a swizzled box in shared memory: groups of 8 slots lie 1024 bytes apart, boxes BOX_BYTES.
__device__ __forceinline__ uint64_t box_descriptor(uint32_t address) {
  constexpr uint64_t SWIZZLE_128 = uint64_t(1) << 62;
  constexpr uint64_t BETWEEN_GROUPS = uint64_t(1024 >> 4) << 32;
  constexpr uint64_t BETWEEN_BOXES = uint64_t(BOX_BYTES >> 4) << 16;
  return SWIZZLE_128 | BETWEEN_GROUPS | BETWEEN_BOXES | ((address >> 4) & 0x3fff);
}

// logits = queries * keys^T, for 64 slots.
template <int DIM>
__device__ __forceinline__ void queries_by_keys(float (&logits)[32], const uint32_t (&queries)[DIM / 16][4],
                                                uint32_t keys) {
  const uint64_t b = box_descriptor(keys);
#pragma unroll
  for (int k = 0; k < DIM / 16; ++k) {
    const int bytes = (k / 4) * BOX_BYTES + (k % 4) * 32;
    multiply<false>(logits, queries[k], b + (bytes >> 4), k > 0);
  }
}

// sums += weights * values, for 64 slots.
template <int DIM>
__device__ __forceinline__ void weights_by_values(float (&sums)[DIM / 2], const uint32_t (&weights)[4][4],
                                                  uint32_t values) {
  const uint64_t b = box_descriptor(values);
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply<true>(sums, weights[k], b + ((k * 16 * 128) >> 4), 1);
}

// ------------------------------------------------------------------------------------------------------------- producer

__device__ __forceinline__ Kind classify(const Block& block, const Tile& tile) {
  if (block.hidden == ~uint64_t(0) || block.low > tile.high) return KIND_SKIP;
  if (block.high <= tile.low) return block.hidden == 0 ? KIND_OPEN : KIND_HIDDEN;
  return block.listed ? KIND_LISTED : KIND_RUN;
}

// Copies a block's list of positions to its stage. Hidden slots get a position that no row reaches; what the list
// says of them isn't read, as it may end before them.
__device__ __forceinline__ void copy_positions(int32_t* to, const int32_t* from, uint64_t hidden, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int slot = half * 32 + lane;
    to[slot] = (hidden >> slot & 1) ? INT32_MAX : __ldg(from + slot);
  }
}

// One warp: for each tile, the blocks that some row sees, in order, then an end mark.
template <int DIM>
__device__ __forceinline__ void produce(const AttentionArgs& args, const CUtensorMap* map, unsigned char* shared) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32;
  const uint32_t base = shared_address(shared);
  Step* steps = reinterpret_cast<Step*>(shared + L::STEPS);
  Ring<L::STAGES> ring;

  for (int work = blockIdx.x; work < args.tiles_count * args.kv_heads; work += gridDim.x) {
    const Tile tile = args.tiles[work / args.kv_heads];
    const int kv_head = work % args.kv_heads;
    for (int begin = tile.block_begin; begin < tile.block_end; begin += 32) {
      Block block;
      Kind kind = KIND_SKIP;
      if (begin + lane < tile.block_end) {
        block = args.blocks[begin + lane];
        kind = classify(block, tile);
      }
      uint32_t wanted = __ballot_sync(~0u, kind != KIND_SKIP);
      while (wanted) {
        const int source = __ffs(wanted) - 1;
        wanted &= wanted - 1;
        barrier_wait(base + L::EMPTY + ring.stage * 8, ring.parity ^ 1);
        if (__shfl_sync(~0u, int(kind), source) == KIND_LISTED) {
          const int first = __shfl_sync(~0u, block.first, source);
          const uint64_t hidden = __shfl_sync(~0u, (unsigned long long)block.hidden, source);
          copy_positions(reinterpret_cast<int32_t*>(shared + L::LISTS) + ring.stage * PAGE, args.slot_positions + first,
                         hidden, lane);
        }
        __syncwarp();
        if (lane == source) {
          Step& step = steps[ring.stage];
          step.kind = kind;
          step.turn = block.turn;
          step.first = block.first;
          step.hidden = block.hidden;
          const uint32_t full = base + L::FULL + ring.stage * 8;
          barrier_arrive_expect(full, L::STAGE_BYTES);
          const uint32_t to = base + ring.stage * L::STAGE_BYTES;
#pragma unroll
          for (int box = 0; box < 2 * DIM / BOX_COLUMNS; ++box) {
            const int value = box / (DIM / BOX_COLUMNS);
            const int column = box % (DIM / BOX_COLUMNS) * BOX_COLUMNS;
            const int row = ((int(block.page) * 2 + value) * args.kv_heads + kv_head) * PAGE;
            load_box(to + box * BOX_BYTES, map, column, row, full);
          }
        }
        __syncwarp();
        ring.advance();
      }
    }
    barrier_wait(base + L::EMPTY + ring.stage * 8, ring.parity ^ 1);
    if (lane == 0) {
      steps[ring.stage].kind = KIND_END;
      barrier_arrive(base + L::FULL + ring.stage * 8);
    }
    __syncwarp();
    ring.advance();
  }
}

// ------------------------------------------------------------------------------------------------------------ consumers
//
// A warpgroup has 64 tile rows, a warp 16. In the fragments of wgmma, lane = 4 * g + t of a warp has rows g and g + 8
// of the 16, and of 8 columns 2t and 2t + 1.

__device__ __forceinline__ float2 unpack(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float power2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float log2_of(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// (a cos - b sin, a sin + b cos); angle = (cos, sin)
__device__ __forceinline__ float2 rotated(float a, float b, float cosine, float sine) {
  return make_float2(__fmaf_rn(a, cosine, -__fmul_rn(b, sine)), __fmaf_rn(a, sine, __fmul_rn(b, cosine)));
}

// The warp's 16 queries, as the projection left them, to shared memory; zeros for rows that the tile lacks.
template <int DIM>
__device__ __forceinline__ void load_queries(unsigned char* queries, const AttentionArgs& args, const Tile& tile,
                                             int kv_head, int group, int first_m, int lane) {
  constexpr int CHUNKS = DIM / 8;
#pragma unroll
  for (int i = 0; i < 16 * CHUNKS / 32; ++i) {
    const int row = (i * 32 + lane) / CHUNKS;
    const int chunk = (i * 32 + lane) % CHUNKS;
    const int m = first_m + row;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (m < tile.rows * group) {
      const int64_t offset = int64_t(tile.first_row + m / group) * args.q_stride + (kv_head * group + m % group) * DIM;
      value = __ldg(reinterpret_cast<const uint4*>(args.q + offset) + chunk);
    }
    *reinterpret_cast<uint4*>(queries + row * Layout<DIM>::QUERY_STRIDE + chunk * 16) = value;
  }
}

// Fragments of the thread's two queries, each rotated by its angles. Both members of a pair are in the same thread's
// fragments: DIM / 32 fragments apart, or beside each other if pairs are interleaved.
template <int DIM>
__device__ __forceinline__ void rotate_queries(uint32_t (&fragments)[DIM / 16][4], const unsigned char* queries,
                                               const float2* const (&angles)[2], bool interleaved, int lane) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const unsigned char* row = queries + (g + 8 * r) * Layout<DIM>::QUERY_STRIDE;
    if (interleaved) {
#pragma unroll
      for (int i = 0; i < DIM / 8; ++i) {
        const int column = i * 8 + 2 * t;
        const float2 a = unpack(*reinterpret_cast<const uint32_t*>(row + column * 2));
        const float2 angle = __ldg(angles[r] + column / 2);
        const float2 b = rotated(a.x, a.y, angle.x, angle.y);
        fragments[i / 2][i % 2 * 2 + r] = pack(b.x, b.y);
      }
    } else {
#pragma unroll
      for (int i = 0; i < DIM / 16; ++i) {
        const int column = i * 8 + 2 * t;
        const float2 a = unpack(*reinterpret_cast<const uint32_t*>(row + column * 2));
        const float2 b = unpack(*reinterpret_cast<const uint32_t*>(row + (column + DIM / 2) * 2));
        const float4 angle = __ldg(reinterpret_cast<const float4*>(angles[r] + column));
        const float2 first = rotated(a.x, b.x, angle.x, angle.y);
        const float2 second = rotated(a.y, b.y, angle.z, angle.w);
        fragments[i / 2][i % 2 * 2 + r] = pack(first.x, second.x);
        fragments[i / 2 + DIM / 32][i % 2 * 2 + r] = pack(first.y, second.y);
      }
    }
  }
}

// Slots that a row does not see, of a block whose positions start at `first`.
__device__ __forceinline__ uint64_t hidden_from(int position, int first, uint64_t hidden) {
  const int seen = position - first + 1;
  if (seen <= 0) return ~uint64_t(0);
  return seen >= PAGE ? hidden : hidden | (~uint64_t(0) << seen);
}

// Logits of hidden slots become -inf.
__device__ __forceinline__ void mask(float (&logits)[32], const Step& step, const int32_t* list,
                                     const int (&positions)[2], int t) {
  const float none = __int_as_float(0xff800000);
  if (!(step.kind & 1)) return;
  if (!(step.kind & 2)) {
    const uint64_t hidden = step.hidden >> (2 * t);
    const uint32_t words[2] = {uint32_t(hidden), uint32_t(hidden >> 32)};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const bool off = words[j / 4] & (1u << (j % 4 * 8 + e));
        logits[4 * j + e] = off ? none : logits[4 * j + e];
        logits[4 * j + 2 + e] = off ? none : logits[4 * j + 2 + e];
      }
    }
  } else if (!(step.kind & 4)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint64_t hidden = hidden_from(positions[r], step.first, step.hidden) >> (2 * t);
      const uint32_t words[2] = {uint32_t(hidden), uint32_t(hidden >> 32)};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int i = 4 * j + 2 * r + e;
          logits[i] = (words[j / 4] & (1u << (j % 4 * 8 + e))) ? none : logits[i];
        }
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int2 at = *reinterpret_cast<const int2*>(list + 8 * j + 2 * t);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        logits[4 * j + 2 * r] = at.x <= positions[r] ? logits[4 * j + 2 * r] : none;
        logits[4 * j + 2 * r + 1] = at.y <= positions[r] ? logits[4 * j + 2 * r + 1] : none;
      }
    }
  }
}

__device__ __forceinline__ float greatest_of_four_lanes(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float sum_of_four_lanes(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(~0u, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(~0u, x, 2));
}

// Running softmax of the thread's two rows.
struct Softmax {
  // Reference point, base 2: weights are 2^(logit * scale - reference).
  float reference[2];
  // Sum of this thread's weights.
  float sum[2];

  __device__ __forceinline__ void start() {
    reference[0] = reference[1] = UNSEEN;
    sum[0] = sum[1] = 0.0f;
  }

  // Turns logits into weights. Returns whether earlier sums have to be multiplied by `factor`, which is the same for
  // all of the warp; a row whose reference point stays has factor 1, so its neighbours don't change its bits.
  __device__ __forceinline__ bool weigh(float (&logits)[32], float scale, float (&factor)[2]) {
    float greatest[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float a = logits[2 * r], b = logits[2 * r + 1];
#pragma unroll
      for (int j = 1; j < 8; ++j) {
        a = fmaxf(a, logits[4 * j + 2 * r]);
        b = fmaxf(b, logits[4 * j + 2 * r + 1]);
      }
      greatest[r] = __fmul_rn(fmaxf(a, b), scale);
    }
    const bool grown = greatest[0] > reference[0] + SLACK || greatest[1] > reference[1] + SLACK;
    const bool rescale = __any_sync(~0u, grown);
    if (rescale) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float top = greatest_of_four_lanes(greatest[r]);
        const float next = top > reference[r] + SLACK ? top : reference[r];
        factor[r] = power2(reference[r] - next);
        sum[r] = __fmul_rn(sum[r], factor[r]);
        reference[r] = next;
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float a, b;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float& x = logits[4 * j + 2 * r];
        float& y = logits[4 * j + 2 * r + 1];
        x = power2(__fmaf_rn(x, scale, -reference[r]));
        y = power2(__fmaf_rn(y, scale, -reference[r]));
        a = j == 0 ? x : __fadd_rn(a, x);
        b = j == 0 ? y : __fadd_rn(b, y);
      }
      sum[r] = __fadd_rn(sum[r], __fadd_rn(a, b));
    }
    return rescale;
  }
};

// Weights as the left operand of the next product: its fragments have the layout of two result fragments.
__device__ __forceinline__ void pack_weights(uint32_t (&packed)[4][4], const float (&weights)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) packed[i / 4][i % 4] = pack(weights[2 * i], weights[2 * i + 1]);
}

template <int N>
__device__ __forceinline__ void scale_rows(float (&sums)[N], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = __fmul_rn(sums[i], factor[i / 2 % 2]);
}

// Normalised rows to `out`, by way of the warp's queries in shared memory, which are no longer needed.
template <int DIM>
__device__ __forceinline__ void store_rows(const AttentionArgs& args, const Tile& tile, int kv_head, int group,
                                           int first_m, const float (&sums)[DIM / 2], const Softmax& softmax,
                                           unsigned char* staging, int lane) {
  constexpr int CHUNKS = DIM / 8;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = softmax.sum[r] > 0.0f ? __fdividef(1.0f, softmax.sum[r]) : 0.0f;
    unsigned char* row = staging + (g + 8 * r) * Layout<DIM>::QUERY_STRIDE;
#pragma unroll
    for (int j = 0; j < DIM / 8; ++j)
      *reinterpret_cast<uint32_t*>(row + j * 16 + t * 4) =
          pack(__fmul_rn(sums[4 * j + 2 * r], factor), __fmul_rn(sums[4 * j + 2 * r + 1], factor));
    const int m = first_m + g + 8 * r;
    if (args.lse != nullptr && t == 0 && m < tile.rows * group) {
      const float ln2 = 0.69314718056f;
      const float lse = softmax.sum[r] > 0.0f ? (softmax.reference[r] + log2_of(softmax.sum[r])) * ln2
                                              : __int_as_float(0xff800000);
      args.lse[int64_t(tile.first_row + m / group) * args.heads + kv_head * group + m % group] = lse;
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * CHUNKS / 32; ++i) {
    const int row = (i * 32 + lane) / CHUNKS;
    const int chunk = (i * 32 + lane) % CHUNKS;
    const int m = first_m + row;
    if (m < tile.rows * group) {
      const uint4 value = *reinterpret_cast<const uint4*>(staging + row * Layout<DIM>::QUERY_STRIDE + chunk * 16);
      const int64_t head = int64_t(tile.first_row + m / group) * args.heads + kv_head * group + m % group;
      reinterpret_cast<uint4*>(args.out + head * DIM)[chunk] = value;
    }
  }
}

template <int DIM>
__device__ __forceinline__ void store_partial(const AttentionArgs& args, const Tile& tile, int kv_head, int group,
                                              int first_m, const float (&sums)[DIM / 2], const Softmax& softmax,
                                              int lane) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int m = first_m + g + 8 * r;
    if (m >= tile.rows * group) continue;
    const int64_t row = (int64_t(tile.partial) * args.kv_heads + kv_head) * TILE_ROWS + m;
#pragma unroll
    for (int j = 0; j < DIM / 8; ++j)
      *reinterpret_cast<float2*>(args.partial_out + row * DIM + j * 8 + t * 2) =
          make_float2(sums[4 * j + 2 * r], sums[4 * j + 2 * r + 1]);
    if (t == 0) {
      const bool seen = softmax.sum[r] > 0.0f;
      args.partial_sums[row] = make_float2(seen ? softmax.reference[r] : __int_as_float(0xff800000), softmax.sum[r]);
    }
  }
}

// The two warpgroups take turns in issuing products, so that one's softmax runs beside the other's products.
__device__ __forceinline__ void turn_begin(int warpgroup) {
  if (SM90_PINGPONG) named_sync(1 + warpgroup);
}

__device__ __forceinline__ void turn_end(int warpgroup) {
  if (SM90_PINGPONG) named_arrive(2 - warpgroup);
}

template <int DIM>
__device__ __forceinline__ void consume(const AttentionArgs& args, unsigned char* shared, int warpgroup) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32;
  const int first_m = warpgroup * 64 + threadIdx.x / 32 % 4 * 16;
  const int group = args.heads / args.kv_heads;
  const uint32_t base = shared_address(shared);
  unsigned char* queries = shared + L::QUERIES + first_m * L::QUERY_STRIDE;
  const Step* steps = reinterpret_cast<const Step*>(shared + L::STEPS);
  const int32_t* lists = reinterpret_cast<const int32_t*>(shared + L::LISTS);
  Ring<L::STAGES> ring;

  if (warpgroup == 1) turn_end(warpgroup);
  for (int work = blockIdx.x; work < args.tiles_count * args.kv_heads; work += gridDim.x) {
    const Tile tile = args.tiles[work / args.kv_heads];
    const int kv_head = work % args.kv_heads;
    load_queries<DIM>(queries, args, tile, kv_head, group, first_m, lane);
    int positions[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int m = first_m + lane / 4 + 8 * r;
      positions[r] = m < tile.rows * group ? __ldg(args.positions + tile.first_row + m / group) : -1;
    }
    __syncwarp();

    float sums[DIM / 2];
#pragma unroll
    for (int i = 0; i < DIM / 2; ++i) sums[i] = 0.0f;
    Softmax softmax;
    softmax.start();
    uint32_t fragments[DIM / 16][4];
    uint32_t weights[4][4];
    float logits[32];
    float factor[2];

    const auto turn_to = [&](int turn) {
      // Rows before the block's turn see nothing in it; any angle will do for them.
      const float2* const angles[2] = {args.angles + int64_t(max(positions[0] - turn, 0)) * (DIM / 2),
                                       args.angles + int64_t(max(positions[1] - turn, 0)) * (DIM / 2)};
      rotate_queries<DIM>(fragments, queries, angles, args.interleaved != 0, lane);
    };
    const auto release = [&](int stage) {
      if (lane == 0) barrier_arrive(base + L::EMPTY + stage * 8);
    };

    barrier_wait(base + L::FULL + ring.stage * 8, ring.parity);
    Step step = steps[ring.stage];
    if (step.kind != KIND_END) {
      int turn = step.turn;
      turn_to(turn);
      turn_begin(warpgroup);
      products_begin();
      queries_by_keys<DIM>(logits, fragments, base + ring.stage * L::STAGE_BYTES);
      products_commit();
      turn_end(warpgroup);
      products_wait<0>();
      pin(logits);
      mask(logits, step, lists + ring.stage * PAGE, positions, lane % 4);
      softmax.weigh(logits, args.scale_log2, factor);
      pack_weights(weights, logits);
      int previous = ring.stage;
      ring.advance();

      // In a round: logits of a block, beside them the values of the block before; then the block's softmax.
      while (true) {
        barrier_wait(base + L::FULL + ring.stage * 8, ring.parity);
        step = steps[ring.stage];
        if (step.kind == KIND_END) break;
        if (step.turn != turn) {
          turn = step.turn;
          turn_to(turn);
        }
        turn_begin(warpgroup);
        products_begin();
        queries_by_keys<DIM>(logits, fragments, base + ring.stage * L::STAGE_BYTES);
        products_commit();
        weights_by_values<DIM>(sums, weights, base + previous * L::STAGE_BYTES + L::KEYS_BYTES);
        products_commit();
        turn_end(warpgroup);
        products_wait<1>();
        pin(logits);
        mask(logits, step, lists + ring.stage * PAGE, positions, lane % 4);
        const bool rescale = softmax.weigh(logits, args.scale_log2, factor);
        pin(logits);
        pin(softmax.sum);
        // The wait stands in both branches so that the compiler can't move it up before the exponentials, into the
        // block of code that they are in: they are to run beside the product.
        if (rescale) {
          products_wait<0>();
          pin(sums);
          scale_rows(sums, factor);
        } else {
          asm volatile("wgmma.wait_group.sync.aligned 0; // nothing to rescale" ::: "memory");
          pin(sums);
        }
        release(previous);
        pack_weights(weights, logits);
        previous = ring.stage;
        ring.advance();
      }
      products_begin();
      weights_by_values<DIM>(sums, weights, base + previous * L::STAGE_BYTES + L::KEYS_BYTES);
      products_commit();
      products_wait<0>();
      pin(sums);
      release(previous);
    }
    release(ring.stage);
    ring.advance();

    softmax.sum[0] = sum_of_four_lanes(softmax.sum[0]);
    softmax.sum[1] = sum_of_four_lanes(softmax.sum[1]);
    if (tile.partial >= 0) {
      store_partial<DIM>(args, tile, kv_head, group, first_m, sums, softmax, lane);
    } else {
      store_rows<DIM>(args, tile, kv_head, group, first_m, sums, softmax, queries, lane);
    }
    __syncwarp();
  }
  if (warpgroup == 0) turn_begin(warpgroup);
}

template <int DIM>
__device__ __forceinline__ void attention(const AttentionArgs& args, const CUtensorMap* map) {
  using L = Layout<DIM>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  if (threadIdx.x == 0) {
    if (base % 1024 != 0) __trap();
    for (int i = 0; i < L::STAGES; ++i) {
      barrier_init(base + L::FULL + i * 8, 1);
      barrier_init(base + L::EMPTY + i * 8, CONSUMER_WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  // The same for all of a warp, which the compiler can't see without the exchange.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x < 32) produce<DIM>(args, map, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<DIM>(args, shared, warpgroup - 1);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_sm90_d128(const __grid_constant__ AttentionArgs args, const __grid_constant__ CUtensorMap pool_map) {
  attention<128>(args, &pool_map);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_sm90_d64(const __grid_constant__ AttentionArgs args, const __grid_constant__ CUtensorMap pool_map) {
  attention<64>(args, &pool_map);
}
