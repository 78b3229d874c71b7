// Decoding on Hopper (sm_90a): few rows against many pages, which the copy engine brings to shared memory.
//
// Launch
//   entry points   attention_decode_sm90_d128, attention_decode_sm90_d64 (by head_dim)
//   arguments      (const __grid_constant__ AttentionArgs, const __grid_constant__ CUtensorMap)
//   block          160 threads: one warp that loads, four that compute
//   dynamic shared 115584 bytes for head_dim 128, 107648 for head_dim 64: two blocks run on a multiprocessor
//   grid           min(2 * multiprocessors, tiles_count * kv_heads) blocks. Work item i is tile i / kv_heads and head
//                  i % kv_heads; each block takes one item of every round of gridDim.x items, and the next items' loads
//                  run ahead.
//   tensor map     as for attention_sm90.cu
//   limits         tiles of at most 8 tile rows and 32 blocks
//
// Warp w takes pages w, w + 4, .. of those that the tile sees, in their order, and the four sums are merged in the order
// of the warps. So the bits of a row that is its tile's only one depend on its query, its position and its blocks alone.
// With others in its tile they depend on which pages those see.
//
// Pages go through the stages in turn, whoever takes them. That a page has come is told by barriers of the warp that
// takes it: a barrier only tells the phase before last from the last one, so whoever waits at it must have seen all.
//
// A page is boxes of 64 slots and 64 elements, 128 bytes a slot, of which the copy engine swaps the 16-byte chunks: chunk
// c of slot s lies at c ^ (s % 8). Slots and chunks are numbered so that the eight lanes that read at once meet eight
// different chunks.
#include "few.cuh"
#include "hopper.cuh"

namespace {

constexpr int CONSUMERS = 32 * WARPS;
constexpr int THREADS = 32 + CONSUMERS;
constexpr int BOX_COLUMNS = 64;
constexpr int BOX_BYTES = PAGE * BOX_COLUMNS * 2;
constexpr int TASKS = 4;

// What the consumers need to know about a tile.
struct __align__(16) Task {
  Tile tile;
  int32_t kv_head;
  // Pages that it sees.
  int32_t pages;
  int32_t reserved[2];
  // By tile row, -1 for rows that the tile lacks.
  int32_t positions[COLUMNS];
};

template <int DIM>
struct Layout {
  static constexpr int STAGES = DIM == 128 ? 3 : 6;
  static constexpr int BOXES = DIM / BOX_COLUMNS;
  static constexpr int STAGE_BYTES = 2 * BOXES * BOX_BYTES;
  static constexpr int SUMS = STAGES * STAGE_BYTES;
  static constexpr int TASK = SUMS + int(sizeof(Sums<DIM>));
  static constexpr int STEPS = TASK + TASKS * int(sizeof(Task));
  static constexpr int FULL = STEPS + STAGES * int(sizeof(Block));
  static constexpr int EMPTY = FULL + WARPS * STAGES * 8;
  static constexpr int TASK_FULL = EMPTY + STAGES * 8;
  static constexpr int TASK_EMPTY = TASK_FULL + TASKS * 8;
  static constexpr int BYTES = (TASK_EMPTY + TASKS * 8 + 63) / 64 * 64;
};
static_assert(Layout<128>::BYTES == 115584 && Layout<64>::BYTES == 107648, "keep the text on top up to date");
static_assert(sizeof(Block) % 8 == 0 && sizeof(Task) % 16 == 0);

// A page in shared memory.
template <int DIM>
struct StagedPage {
  const unsigned char* stage;

  __device__ __forceinline__ static int slot(int i) { return i / 2 + i % 2 * 4; }
  __device__ __forceinline__ static int chunk(int i) { return i / 2 + i % 2 * 4; }
  __device__ __forceinline__ uint4 at(int box, int slot, int c) const {
    return *reinterpret_cast<const uint4*>(stage + box * BOX_BYTES + slot * 128 + ((c ^ (slot & 7)) << 4));
  }
  __device__ __forceinline__ uint4 key(int slot, int t) const { return at(t / 2, slot, t % 2 * 4 + threadIdx.x % 4); }
  __device__ __forceinline__ uint4 value(int slot, int t, int c) const { return at(DIM / BOX_COLUMNS + t, slot, c); }
};

__device__ __forceinline__ void consumers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

// One warp: for each tile what the consumers need to know, then the pages that some row sees.
template <int DIM>
__device__ __forceinline__ void produce(const AttentionArgs& args, const CUtensorMap* map, unsigned char* shared) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32;
  const uint32_t base = shared_address(shared);
  Block* steps = reinterpret_cast<Block*>(shared + L::STEPS);
  Task* slots = reinterpret_cast<Task*>(shared + L::TASK);
  Ring<L::STAGES> ring;
  Ring<TASKS> tasks;
  // Of lane w, for warp w.
  Ring<L::STAGES> taken;

  for (int item = blockIdx.x; item < args.tiles_count * args.kv_heads; item += gridDim.x, tasks.advance()) {
    const Tile tile = args.tiles[item / args.kv_heads];
    const int kv_head = item % args.kv_heads, at = tile.block_begin + lane;
    Block block;
    bool sees = false;
    if (at < tile.block_end) {
      block = args.blocks[at];
      sees = !unseen(block, tile.high);
    }
    uint32_t wanted = __ballot_sync(~0u, sees);

    Task& task = slots[tasks.stage];
    barrier_wait(base + L::TASK_EMPTY + tasks.stage * 8, tasks.parity ^ 1);
    if (lane == 0) {
      task.tile = tile;
      task.kv_head = kv_head;
      task.pages = __popc(wanted);
    }
    if (lane < COLUMNS) task.positions[lane] = position_of(args, tile.first_row, tile.rows, lane);
    barrier_arrive(base + L::TASK_FULL + tasks.stage * 8);

    for (int taker = 0; wanted; taker = (taker + 1) % WARPS) {
      const int source = __ffs(wanted) - 1;
      wanted &= wanted - 1;
      barrier_wait(base + L::EMPTY + ring.stage * 8, ring.parity ^ 1);
      const uint32_t full = base + L::FULL + (taker * L::STAGES + __shfl_sync(~0u, taken.stage, taker)) * 8;
      if (lane == taker) taken.advance();
      if (lane == source) {
        steps[ring.stage] = block;
        const uint32_t to = base + ring.stage * L::STAGE_BYTES;
        barrier_arrive_expect(full, L::STAGE_BYTES);
#pragma unroll
        for (int box = 0; box < 2 * L::BOXES; ++box) {
          const int row = ((int(block.page) * 2 + box / L::BOXES) * args.kv_heads + kv_head) * PAGE;
          load_box(to + box * BOX_BYTES, map, box % L::BOXES * BOX_COLUMNS, row, full);
        }
      }
      __syncwarp();
      ring.advance();
    }
  }
}

template <int DIM>
__device__ __forceinline__ void consume(const AttentionArgs& args, unsigned char* shared) {
  using L = Layout<DIM>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t base = shared_address(shared);
  const Block* steps = reinterpret_cast<const Block*>(shared + L::STEPS);
  const Task* slots = reinterpret_cast<const Task*>(shared + L::TASK);
  Sums<DIM>& together = *reinterpret_cast<Sums<DIM>*>(shared + L::SUMS);
  Ring<L::STAGES> ring, taken;
  Ring<TASKS> tasks;

  for (int item = blockIdx.x; item < args.tiles_count * args.kv_heads; item += gridDim.x, tasks.advance()) {
    barrier_wait(base + L::TASK_FULL + tasks.stage * 8, tasks.parity);
    const Task& task = slots[tasks.stage];
    const Tile tile = task.tile;
    const int kv_head = task.kv_head, pages = task.pages;
    const Column mine = column_of(args, tile.first_row, kv_head, lane / 4, task.positions[lane / 4]);
    const int positions[2] = {task.positions[2 * (lane % 4)], task.positions[2 * (lane % 4) + 1]};
    barrier_arrive(base + L::TASK_EMPTY + tasks.stage * 8);

    WarpSums<DIM, StagedPage<DIM>> sums;
    uint32_t query[DIM / 32][4];
    int turned = INT_MIN;
    for (int page = 0; page < pages; ++page, ring.advance()) {
      if (page % WARPS != warp) continue;
      barrier_wait(base + L::FULL + (warp * L::STAGES + taken.stage) * 8, taken.parity);
      taken.advance();
      const Block block = steps[ring.stage];
      if (block.turn != turned) {
        turned = block.turn;
        rotated<DIM>(query, args, mine, turned);
      }
      const bool whole = block.hidden == 0 && block.high <= tile.low;
      sums.add_page(args, block, StagedPage<DIM>{shared + ring.stage * L::STAGE_BYTES}, positions, query, whole);
      barrier_arrive(base + L::EMPTY + ring.stage * 8);
    }
    sums.leave(together);
    consumers_meet();
    write<DIM>(args, tile, kv_head, together);
    consumers_meet();
  }
}

template <int DIM>
__device__ __forceinline__ void decode(const AttentionArgs& args, const CUtensorMap* map) {
  using L = Layout<DIM>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  if (threadIdx.x == 0) {
    if (base % 1024 != 0) __trap();
    for (int i = 0; i < WARPS * L::STAGES; ++i) barrier_init(base + L::FULL + i * 8, 1);
    for (int i = 0; i < L::STAGES; ++i) barrier_init(base + L::EMPTY + i * 8, 32);
    for (int i = 0; i < TASKS; ++i) {
      barrier_init(base + L::TASK_FULL + i * 8, 32);
      barrier_init(base + L::TASK_EMPTY + i * 8, CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < CONSUMERS) {
    consume<DIM>(args, shared);
  } else {
    produce<DIM>(args, map, shared);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention_decode_sm90_d128(const __grid_constant__ AttentionArgs args, const __grid_constant__ CUtensorMap pool_map) {
  decode<128>(args, &pool_map);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention_decode_sm90_d64(const __grid_constant__ AttentionArgs args, const __grid_constant__ CUtensorMap pool_map) {
  decode<64>(args, &pool_map);
}
