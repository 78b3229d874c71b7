// Attention of many rows over paged keys, for Hopper (sm_90a): prefill and repair.
//
// Launch
//   entry points   attention_sm90_d128, attention_sm90_d64 (by head_dim)
//   arguments      (const __grid_constant__ AttentionArgs, const __grid_constant__ CUtensorMap)
//   block          384 threads: one warpgroup that loads, two that compute
//   dynamic shared 203136 bytes for head_dim 128, 171520 for head_dim 64: one block runs on a multiprocessor
//   grid           min(multiprocessors, tiles_count * kv_heads) blocks. Work item i is tile i / kv_heads and head
//                  i % kv_heads; each block takes one item of every round of gridDim.x items, the next item's loads
//                  running ahead. The host sorts the tiles by the number of blocks that they see, greatest first.
//                  One block for each item is right too, and slower where tiles see few blocks.
//   tensor map     2-D, bf16, over args.pool: inner dimension head_dim, outer pages * 2 * kv_heads * 64, box 64 x 64,
//                  128-byte swizzle
//   limits         group <= 16; rows * group <= 128 in every tile (host: rows = 128 / group); q, out and partial_out
//                  aligned to 16 bytes, q_stride a multiple of 8; scale_log2 > 0
//
// Tile row m (0 <= m < rows * group) is row first_row + m / group, query head kv_head * group + m % group.
//
// A row's result depends on its query, its position and its blocks alone, to the bit: no step combines rows, blocks
// that a row doesn't see change nothing in it, and the order of sums is the order of blocks. So the cut of rows into
// tiles doesn't show in the results. (A split over blocks does: partial results are rounded where they are combined.
// The first of a partial result's pair is the point that its weights refer to, at most the greatest logit (base 2) and
// at least that less 8. To combine: weights 2^(first - greatest first) for sums and rows alike.)
//
// Hidden slots get weight 0, and 0 * value has to be 0. So the pool must hold finite values only, beyond the end of a
// part too; it starts as zeros and only finite values are written.
#include <cuda_bf16.h>
#include <stdint.h>

#include "hopper.cuh"
#include "numbers.cuh"
#include "parts.cuh"

namespace {

constexpr int TILE_ROWS = 128;
constexpr int WARPGROUP = 128;
constexpr int WARPGROUP_ROWS = TILE_ROWS / 2;
constexpr int CONSUMERS = TILE_ROWS / 16 * 32;
constexpr int THREADS = WARPGROUP + CONSUMERS;
constexpr int BOX_COLUMNS = 64;
constexpr int BOX_BYTES = PAGE * BOX_COLUMNS * 2;

// Reference point of a row that has seen nothing. Finite, so that (-inf) - UNSEEN is -inf and not NaN.
constexpr float UNSEEN = -1e30f;
// The reference point moves only when a thread's weights of a block sum up to more than this. That costs no precision,
// and most steps need neither look for the greatest logit nor rescale the sums.
constexpr float SUM_LIMIT = 256.0f;

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

// What the consumers need to know about a tile. `positions` by tile row, -1 for rows that the tile lacks.
struct __align__(16) Task {
  Tile tile;
  int32_t kv_head;
  int32_t reserved[3];
  int32_t positions[TILE_ROWS];
};

// Keys and values of a ring stage are boxes of [64 slots][64 columns], 128 bytes a slot, swizzled by the copy engine.
// Queries stand twice: a tile's are loaded while the one before runs.
template <int DIM>
struct Layout {
  static constexpr int STAGES = DIM == 128 ? 4 : 8;
  static constexpr int KEYS_BYTES = PAGE * DIM * 2;
  static constexpr int STAGE_BYTES = 2 * KEYS_BYTES;
  // 16 bytes of padding: rows of a quarter-warp then lie in different banks.
  static constexpr int QUERY_STRIDE = DIM * 2 + 16;
  static constexpr int QUERY_BYTES = TILE_ROWS * QUERY_STRIDE;
  static constexpr int QUERIES = STAGES * STAGE_BYTES;
  static constexpr int TASKS = QUERIES + 2 * QUERY_BYTES;
  static constexpr int STEPS = TASKS + 2 * int(sizeof(Task));
  static constexpr int LISTS = STEPS + STAGES * int(sizeof(Step));
  static constexpr int FULL = LISTS + STAGES * PAGE * 4;
  static constexpr int EMPTY = FULL + STAGES * 8;
  static constexpr int TASK_FULL = EMPTY + STAGES * 8;
  static constexpr int TASK_EMPTY = TASK_FULL + 2 * 8;
  static constexpr int BYTES = (TASK_EMPTY + 2 * 8 + 127) / 128 * 128;
};
static_assert(Layout<128>::BYTES == 203136 && Layout<64>::BYTES == 171520, "keep the text on top up to date");

// ---------------------------------------------------------------------------------------------- shared memory, barriers

// 16 bytes from global to shared memory, zeros if not `wanted`.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Brings the line into the first-level cache, without waiting for it.
__device__ __forceinline__ void touch(const void* p) {
  [[maybe_unused]] uint32_t unused;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(unused) : "l"(p));
}

// Tiles and heads that a block of the grid takes one after the other. The direction changes from round to round: who
// got the largest of one round gets the smallest of the next.
struct Work {
  int index;
  int round = 0;
  __device__ __forceinline__ bool next(const AttentionArgs& args) {
    index = round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    ++round;
    return index < args.tiles_count * args.kv_heads;
  }
};

// m / group and m % group of tile row m, group <= 16.
struct Groups {
  int group;
  uint32_t inverse;
  __device__ __forceinline__ explicit Groups(const AttentionArgs& args)
      : group(args.heads / args.kv_heads), inverse(0xffffu / group + 1) {}
  __device__ __forceinline__ int row(int m) const { return int(uint32_t(m) * inverse >> 16); }
  __device__ __forceinline__ int head(int m) const { return m - row(m) * group; }
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
__device__ __forceinline__ void load_blocks(const AttentionArgs& args, const CUtensorMap* map, unsigned char* shared) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32;
  const uint32_t base = shared_address(shared);
  Step* steps = reinterpret_cast<Step*>(shared + L::STEPS);
  Ring<L::STAGES> ring;

  for (Work work; work.next(args);) {
    const Tile tile = args.tiles[work.index / args.kv_heads];
    const int kv_head = work.index % args.kv_heads;
    const int position = lane < tile.rows ? __ldg(args.positions + tile.first_row + lane) : -1;
    int turn = INT32_MIN;
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
        // The angles of the rows at a new turn: near when the consumers come to it. With more rows than lanes, they
        // would not fit in the cache.
        const int next_turn = __shfl_sync(~0u, block.turn, source);
        if (next_turn != turn && position >= next_turn && tile.rows <= 32) {
          const float2* angles = args.angles + int64_t(position - next_turn) * (DIM / 2);
#pragma unroll
          for (int line = 0; line < DIM / 2; line += 16) touch(angles + line);
        }
        turn = next_turn;
        barrier_wait(base + L::EMPTY + ring.stage * 8, ring.parity ^ 1);
        if (__shfl_sync(~0u, int(kind), source) == KIND_LISTED) {
          const int first = __shfl_sync(~0u, block.first, source);
          const uint64_t hidden = __shfl_sync(~0u, (unsigned long long)block.hidden, source);
          copy_positions(reinterpret_cast<int32_t*>(shared + L::LISTS) + ring.stage * PAGE, args.slot_positions + first,
                         hidden, lane);
        }
        const uint32_t full = base + L::FULL + ring.stage * 8;
        if (lane == source) {
          Step& step = steps[ring.stage];
          step.kind = kind;
          step.turn = block.turn;
          step.first = block.first;
          step.hidden = block.hidden;
          barrier_arrive_expect(full, L::STAGE_BYTES);
          const uint32_t to = base + ring.stage * L::STAGE_BYTES;
#pragma unroll
          for (int box = 0; box < 2 * DIM / BOX_COLUMNS; ++box) {
            const int value = box / (DIM / BOX_COLUMNS);
            const int column = box % (DIM / BOX_COLUMNS) * BOX_COLUMNS;
            const int row = ((int(block.page) * 2 + value) * args.kv_heads + kv_head) * PAGE;
            load_box(to + box * BOX_BYTES, map, column, row, full);
          }
        } else {
          barrier_arrive(full);
        }
        __syncwarp();
        ring.advance();
      }
    }
    barrier_wait(base + L::EMPTY + ring.stage * 8, ring.parity ^ 1);
    if (lane == 0) steps[ring.stage].kind = KIND_END;
    barrier_arrive(base + L::FULL + ring.stage * 8);
    __syncwarp();
    ring.advance();
  }
}

// Another warp: for each tile, its queries as the projection left them (zeros for rows that the tile lacks) and what
// else the consumers need.
template <int DIM>
__device__ __forceinline__ void load_tasks(const AttentionArgs& args, unsigned char* shared) {
  using L = Layout<DIM>;
  constexpr int CHUNKS = DIM / 8;
  const int lane = threadIdx.x % 32;
  const uint32_t base = shared_address(shared);
  const Groups groups(args);
  Ring<2> ring;

  for (Work work; work.next(args); ring.advance()) {
    const Tile tile = args.tiles[work.index / args.kv_heads];
    const int kv_head = work.index % args.kv_heads;
    Task& task = reinterpret_cast<Task*>(shared + L::TASKS)[ring.stage];
    barrier_wait(base + L::TASK_EMPTY + ring.stage * 8, ring.parity ^ 1);
    const __nv_bfloat16* q =
        args.q + int64_t(tile.first_row) * args.q_stride + kv_head * groups.group * DIM + lane % CHUNKS * 8;
    const uint32_t to = base + L::QUERIES + ring.stage * L::QUERY_BYTES + lane % CHUNKS * 16;
#pragma unroll 4
    for (int m = lane / CHUNKS; m < TILE_ROWS; m += 32 / CHUNKS) {
      const bool wanted = m < tile.rows * groups.group;
      const int64_t offset = int64_t(groups.row(m)) * args.q_stride + groups.head(m) * DIM;
      copy_async(to + m * L::QUERY_STRIDE, wanted ? q + offset : args.q, wanted);
    }
    if (lane == 0) {
      task.tile = tile;
      task.kv_head = kv_head;
    }
#pragma unroll
    for (int m = lane; m < TILE_ROWS; m += 32)
      task.positions[m] = m < tile.rows * groups.group ? __ldg(args.positions + tile.first_row + groups.row(m)) : -1;
    copy_async_wait();
    barrier_arrive(base + L::TASK_FULL + ring.stage * 8);
  }
}

// ------------------------------------------------------------------------------------------------------------ consumers
//
// A warpgroup has 64 tile rows, a warp 16. In the fragments of wgmma, lane = 4 * g + t of a warp has rows g and g + 8
// of the 16, and of 8 columns 2t and 2t + 1.

__device__ __forceinline__ float2 unpack(uint32_t pair) {
  return make_float2(low(pair), high(pair));
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

// Fragments of the thread's two queries, each rotated by its angles. Both members of a pair are in the same thread's
// fragments: DIM / 32 fragments apart, or beside each other if pairs are interleaved.
template <int DIM>
__device__ __forceinline__ void rotate_queries(uint32_t (&fragments)[DIM / 16][4], const unsigned char* queries,
                                               const float2* const (&angles)[2], bool interleaved, int lane) {
  const int g = lane / 4, t = lane % 4;
  const unsigned char* const rows[2] = {queries + g * Layout<DIM>::QUERY_STRIDE,
                                        queries + (g + 8) * Layout<DIM>::QUERY_STRIDE};
  if (interleaved) {
#pragma unroll
    for (int i = 0; i < DIM / 4; ++i) {
      const int r = i % 2, column = i / 2 * 8 + 2 * t;
      const float2 a = unpack(*reinterpret_cast<const uint32_t*>(rows[r] + column * 2));
      const float2 angle = __ldg(angles[r] + column / 2);
      const float2 b = rotated(a.x, a.y, angle.x, angle.y);
      fragments[i / 4][i % 4] = pack(b.x, b.y);
    }
  } else {
#pragma unroll
    for (int i = 0; i < DIM / 8; ++i) {
      const int r = i % 2, column = i / 2 * 8 + 2 * t;
      const float2 a = unpack(*reinterpret_cast<const uint32_t*>(rows[r] + column * 2));
      const float2 b = unpack(*reinterpret_cast<const uint32_t*>(rows[r] + (column + DIM / 2) * 2));
      const float4 angle = __ldg(reinterpret_cast<const float4*>(angles[r] + column));
      const float2 first = rotated(a.x, b.x, angle.x, angle.y);
      const float2 second = rotated(a.y, b.y, angle.z, angle.w);
      fragments[i / 4][i % 4] = pack(first.x, second.x);
      fragments[i / 4 + DIM / 32][i % 4] = pack(first.y, second.y);
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
  // Reference point, base 2: weights are 2^(logit * scale - reference). At least the greatest logit less 8.
  float reference[2];
  // Sum of this thread's weights.
  float sum[2];

  // For a tile without blocks
  __device__ __forceinline__ void start() {
    reference[0] = reference[1] = UNSEEN;
    sum[0] = sum[1] = 0.0f;
  }

  // Weights from logits, and their sums.
  __device__ __forceinline__ void exponentials(const float (&logits)[32], float (&weights)[32], float scale,
                                               float (&sums)[2]) const {
    float even[2], odd[2];
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int r = i / 2 % 2;
      weights[i] = power2(__fmaf_rn(logits[i], scale, -reference[r]));
      weights[i + 1] = power2(__fmaf_rn(logits[i + 1], scale, -reference[r]));
      even[r] = i < 4 ? weights[i] : __fadd_rn(even[r], weights[i]);
      odd[r] = i < 4 ? weights[i + 1] : __fadd_rn(odd[r], weights[i + 1]);
    }
    sums[0] = __fadd_rn(even[0], odd[0]);
    sums[1] = __fadd_rn(even[1], odd[1]);
  }

  // Greatest logit of a row, over all threads that have it.
  __device__ __forceinline__ static float greatest(const float (&logits)[32], int r) {
    float top = fmaxf(logits[2 * r], logits[2 * r + 1]);
#pragma unroll
    for (int i = 2 + r; i < 16; i += 2) top = fmaxf(top, fmaxf(logits[2 * i], logits[2 * i + 1]));
    return greatest_of_four_lanes(top);
  }

  // Turns the logits of the first block into weights.
  __device__ __forceinline__ void start(const float (&logits)[32], float (&weights)[32], float scale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float top = __fmul_rn(greatest(logits, r), scale);
      reference[r] = top < UNSEEN ? UNSEEN : top;
    }
    exponentials(logits, weights, scale, sum);
  }

  // Turns logits into weights. Returns whether earlier sums have to be multiplied by `factor`, which is the same for
  // all of the warp; a row whose reference point stays has factor 1 and the same weights as before, so its neighbours
  // don't change its bits.
  __device__ __forceinline__ bool weigh(const float (&logits)[32], float (&weights)[32], float scale, int lane,
                                        float (&factor)[2]) {
    float sums[2];
    exponentials(logits, weights, scale, sums);
    // In this form true for NaN too. A row that saw nothing before gets infinite weights here, so it moves.
    const bool over[2] = {!(sums[0] <= SUM_LIMIT), !(sums[1] <= SUM_LIMIT)};
    const bool rescale = __any_sync(~0u, over[0] || over[1]);
    if (rescale) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float top = __fmul_rn(greatest(logits, r), scale);
        // A row's four lanes move together.
        const bool moves = __ballot_sync(~0u, over[r]) >> (lane & 28) & 15;
        const float next = moves ? top : reference[r];
        factor[r] = power2(reference[r] - next);
        sum[r] = __fmul_rn(sum[r], factor[r]);
        reference[r] = next;
      }
      exponentials(logits, weights, scale, sums);
    }
    sum[0] = __fadd_rn(sum[0], sums[0]);
    sum[1] = __fadd_rn(sum[1], sums[1]);
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
__device__ __forceinline__ void store_rows(const AttentionArgs& args, const Tile& tile, int kv_head, Groups groups,
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
    if (args.lse != nullptr && t == 0 && m < tile.rows * groups.group) {
      const float ln2 = 0.69314718056f;
      const float lse = softmax.sum[r] > 0.0f ? (softmax.reference[r] + log2_of(softmax.sum[r])) * ln2
                                              : __int_as_float(0xff800000);
      args.lse[int64_t(tile.first_row + groups.row(m)) * args.heads + kv_head * groups.group + groups.head(m)] = lse;
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * CHUNKS / 32; ++i) {
    const int row = (i * 32 + lane) / CHUNKS;
    const int chunk = (i * 32 + lane) % CHUNKS;
    const int m = first_m + row;
    if (m < tile.rows * groups.group) {
      const uint4 value = *reinterpret_cast<const uint4*>(staging + row * Layout<DIM>::QUERY_STRIDE + chunk * 16);
      const int64_t head =
          int64_t(tile.first_row + groups.row(m)) * args.heads + kv_head * groups.group + groups.head(m);
      reinterpret_cast<uint4*>(args.out + head * DIM)[chunk] = value;
    }
  }
}

template <int DIM>
__device__ __forceinline__ void store_partial(const AttentionArgs& args, const Tile& tile, int kv_head, Groups groups,
                                              int first_m, const float (&sums)[DIM / 2], const Softmax& softmax,
                                              int lane) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int m = first_m + g + 8 * r;
    if (m >= tile.rows * groups.group) continue;
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

template <int DIM>
__device__ __forceinline__ void consume(const AttentionArgs& args, unsigned char* shared, int warpgroup) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32;
  const int first_m = warpgroup * WARPGROUP_ROWS + threadIdx.x / 32 % 4 * 16;
  const uint32_t base = shared_address(shared);
  const Step* steps = reinterpret_cast<const Step*>(shared + L::STEPS);
  const int32_t* lists = reinterpret_cast<const int32_t*>(shared + L::LISTS);
  Ring<L::STAGES> ring;
  Ring<2> tasks;
  const Groups groups(args);

  for (Work work; work.next(args); tasks.advance()) {
    const Task& task = reinterpret_cast<const Task*>(shared + L::TASKS)[tasks.stage];
    unsigned char* queries = shared + L::QUERIES + tasks.stage * L::QUERY_BYTES + first_m * L::QUERY_STRIDE;
    barrier_wait(base + L::TASK_FULL + tasks.stage * 8, tasks.parity);
    const int positions[2] = {task.positions[first_m + lane / 4], task.positions[first_m + lane / 4 + 8]};
    const auto release = [&](int stage) { barrier_arrive(base + L::EMPTY + stage * 8); };
    const auto read_step = [&]() -> Step {
      barrier_wait(base + L::FULL + ring.stage * 8, ring.parity);
      return steps[ring.stage];
    };
    if (warpgroup * WARPGROUP_ROWS >= task.tile.rows * groups.group) {
      // None of the tile's rows is this warpgroup's: the other one shall have the processor.
      for (bool ended = false; !ended; ring.advance()) {
        ended = read_step().kind == KIND_END;
        release(ring.stage);
      }
      barrier_arrive(base + L::TASK_EMPTY + tasks.stage * 8);
      continue;
    }

    float sums[DIM / 2];
#pragma unroll
    for (int i = 0; i < DIM / 2; ++i) sums[i] = 0.0f;
    Softmax softmax;
    softmax.start();
    uint32_t fragments[DIM / 16][4];
    uint32_t packed[4][4];

    const auto turn_to = [&](int turn) {
      // Rows before the block's turn see nothing in it; any angle will do for them.
      const float2* const angles[2] = {args.angles + int64_t(max(positions[0] - turn, 0)) * (DIM / 2),
                                       args.angles + int64_t(max(positions[1] - turn, 0)) * (DIM / 2)};
      rotate_queries<DIM>(fragments, queries, angles, args.interleaved != 0, lane);
    };
    const auto begin_logits = [&](float(&logits)[32], int stage) {
      queries_by_keys<DIM>(logits, fragments, base + stage * L::STAGE_BYTES);
      products_commit();
    };
    const auto begin_values = [&](int stage) {
      weights_by_values<DIM>(sums, packed, base + stage * L::STAGE_BYTES + L::KEYS_BYTES);
      products_commit();
    };

    Step next = read_step();
    if (next.kind != KIND_END) {
      // The first block. The step after a block's is read while its products run: it has long been there.
      Step step = next;
      int previous = ring.stage;
      {
        turn_to(step.turn);
        float logits[32], weights[32];
        products_begin();
        begin_logits(logits, previous);
        ring.advance();
        next = read_step();
        products_wait<0>();
        pin(logits);
        mask(logits, step, lists + previous * PAGE, positions, lane % 4);
        softmax.start(logits, weights, args.scale_log2);
        pack_weights(packed, weights);
      }

      // In a round: the logits of a block, beside them the values of the block before; then the block's softmax.
      while (next.kind != KIND_END) {
        if (next.turn != step.turn) turn_to(next.turn);
        step = next;
        const int stage = ring.stage;
        float logits[32], weights[32], factor[2];
        products_begin();
        begin_logits(logits, stage);
        begin_values(previous);
        ring.advance();
        next = read_step();
        products_wait<1>();
        pin(logits);
        mask(logits, step, lists + stage * PAGE, positions, lane % 4);
        const bool rescale = softmax.weigh(logits, weights, args.scale_log2, lane, factor);
        pin(weights);
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
        pack_weights(packed, weights);
        previous = stage;
      }
      products_begin();
      begin_values(previous);
      products_wait<0>();
      pin(sums);
      release(previous);
    }
    release(ring.stage);
    ring.advance();

    softmax.sum[0] = sum_of_four_lanes(softmax.sum[0]);
    softmax.sum[1] = sum_of_four_lanes(softmax.sum[1]);
    const Tile tile = task.tile;
    // Keeps the compiler from working out rows and heads before the tiles and holding them in registers all along.
    int stored_m = first_m;
    asm volatile("" : "+r"(stored_m));
    if (tile.partial >= 0) {
      store_partial<DIM>(args, tile, task.kv_head, groups, stored_m, sums, softmax, lane);
    } else {
      store_rows<DIM>(args, tile, task.kv_head, groups, stored_m, sums, softmax, queries, lane);
    }
    barrier_arrive(base + L::TASK_EMPTY + tasks.stage * 8);
  }
}

template <int DIM>
__device__ __forceinline__ void attention(const AttentionArgs& args, const CUtensorMap* map) {
  using L = Layout<DIM>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  if (threadIdx.x == 0) {
    if (base % 1024 != 0) __trap();
    for (int i = 0; i < L::STAGES; ++i) {
      barrier_init(base + L::FULL + i * 8, 32);
      barrier_init(base + L::EMPTY + i * 8, CONSUMERS);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(base + L::TASK_FULL + i * 8, 32);
      barrier_init(base + L::TASK_EMPTY + i * 8, CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  // The same for all of a warp, which the compiler can't see without the exchange.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  if (warp < WARPGROUP / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0) load_blocks<DIM>(args, map, shared);
    if (warp == 1) load_tasks<DIM>(args, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<DIM>(args, shared, warp / 4 - 1);
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
