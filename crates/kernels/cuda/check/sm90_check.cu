// Checks attention_sm90.cu against a slow reference and times it.
//
// nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++17 -o sm90_check sm90_check.cu
// sm90_check [check | time | small | profile]...
// small: little scenes, for compute-sanitizer; profile: a few launches, for ncu
#include "../attention_sm90.cu"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#define CUDA(call)                                                                               \
  do {                                                                                           \
    const cudaError_t error_ = (call);                                                           \
    if (error_ != cudaSuccess) {                                                                 \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

using std::vector;
using Random = std::mt19937_64;

static int uniform(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// -------------------------------------------------------------------------------------------------------------- scenes

struct Sequence {
  int row_begin, row_end, block_begin, block_end;
};

struct Scene {
  std::string name;
  int dim = 128, kv_heads = 2, group = 4, interleaved = 0;
  float spread = 1.5f;       // standard deviation of the queries
  bool spikes = false;       // some keys are much larger than others
  vector<Block> blocks;
  vector<int> slot_positions, positions;
  vector<Sequence> sequences;
  int pages = 0;

  void begin_sequence() {
    const int rows = int(positions.size()), count = int(blocks.size());
    sequences.push_back({rows, rows, count, count});
  }

  void add_row(int position) {
    positions.push_back(position);
    sequences.back().row_end = int(positions.size());
  }

  // `length` slots at positions first, first + 1, ..; hidden(i) says whether slot i is hidden.
  void add_run(int first, int length, int turn, const std::function<bool(int)>& hidden) {
    for (int start = 0; start < length; start += PAGE)
      add_block(first + start, std::min(PAGE, length - start), turn, 0,
                [&](int i) { return first + start + i; }, [&](int i) { return hidden(start + i); });
  }

  void add_listed(const vector<int>& list) {
    const int base = int(slot_positions.size());
    slot_positions.insert(slot_positions.end(), list.begin(), list.end());
    for (int start = 0; start < int(list.size()); start += PAGE)
      add_block(base + start, std::min(PAGE, int(list.size()) - start), 0, 1,
                [&](int i) { return list[start + i]; }, [](int) { return false; });
  }

 private:
  void add_block(int first, int slots, int turn, int listed, const std::function<int(int)>& position,
                 const std::function<bool(int)>& hidden) {
    Block block = {};
    block.page = pages++;
    block.turn = turn;
    block.first = first;
    block.listed = listed;
    block.low = INT32_MAX;
    block.high = INT32_MIN;
    block.mass = -1;
    for (int i = 0; i < PAGE; ++i) {
      if (i >= slots || hidden(i)) {
        block.hidden |= uint64_t(1) << i;
      } else {
        block.low = std::min(block.low, position(i));
        block.high = std::max(block.high, position(i));
      }
    }
    blocks.push_back(block);
    sequences.back().block_end = int(blocks.size());
  }
};

static bool shown(int) { return false; }

struct Document {
  int length;
  double hidden;  // share of slots that are repaired
};

// A prefix, documents and an overlay with the repaired and some fresh rows; those are the rows that run.
static void add_blended(Scene& scene, Random& random, int prefix, const vector<Document>& documents, int fresh,
                        bool shuffled, double dropped_rows) {
  scene.begin_sequence();
  scene.add_run(0, prefix, 0, shown);
  int at = prefix;
  vector<int> overlay;
  for (const Document& document : documents) {
    const int anchor = std::min(at, uniform(random, 0, 3));
    vector<char> hidden(document.length);
    for (int i = 0; i < document.length; ++i) {
      hidden[i] = std::uniform_real_distribution<double>()(random) < document.hidden;
      if (document.length > 300 && i >= 64 && i < 192) hidden[i] = 1;  // whole pages
      if (hidden[i]) overlay.push_back(at + i);
    }
    scene.add_run(at, document.length, at - anchor, [&](int i) { return hidden[i] != 0; });
    at += document.length;
  }
  for (int i = 0; i < fresh; ++i) overlay.push_back(at + i);
  for (int position : overlay)
    if (position == overlay.back() || std::uniform_real_distribution<double>()(random) >= dropped_rows)
      scene.add_row(position);
  if (shuffled) std::shuffle(overlay.begin(), overlay.end(), random);
  scene.add_listed(overlay);
}

static void add_prefill(Scene& scene, int slots, int first_row) {
  scene.begin_sequence();
  scene.add_run(0, slots, 0, shown);
  for (int p = first_row; p < slots; ++p) scene.add_row(p);
}

static int blocks_seen(const Scene& scene, const Tile& tile) {
  int count = 0;
  for (int b = tile.block_begin; b < tile.block_end; ++b)
    count += scene.blocks[b].hidden != ~uint64_t(0) && scene.blocks[b].low <= tile.high;
  return count;
}

// Tiles of `rows` rows, the first of each sequence `shift` rows shorter; each over `splits` shares of the blocks.
static vector<Tile> cut(const Scene& scene, int rows, int shift, int splits) {
  vector<Tile> tiles;
  int partial = 0;
  for (const Sequence& s : scene.sequences) {
    for (int begin = s.row_begin; begin < s.row_end;) {
      const int end = std::min(s.row_end, begin + (begin == s.row_begin ? std::max(1, rows - shift) : rows));
      for (int i = 0; i < splits; ++i) {
        const int64_t count = s.block_end - s.block_begin;
        Tile tile = {};
        tile.first_row = begin;
        tile.rows = end - begin;
        tile.block_begin = s.block_begin + int(count * i / splits);
        tile.block_end = s.block_begin + int(count * (i + 1) / splits);
        tile.low = scene.positions[begin];
        tile.high = scene.positions[end - 1];
        tile.partial = splits > 1 ? partial++ : -1;
        tile.reserved = i == 0 ? splits : 0;
        tiles.push_back(tile);
      }
      begin = end;
    }
  }
  vector<std::pair<int, int>> order;
  for (int i = 0; i < int(tiles.size()); ++i) order.push_back({-blocks_seen(scene, tiles[i]), i});
  std::sort(order.begin(), order.end());
  vector<Tile> sorted;
  for (const auto& entry : order) sorted.push_back(tiles[entry.second]);
  return sorted;
}

// Tiles for a card with so many multiprocessors: those that see much are cut over blocks, into shares of at most what a
// multiprocessor has to do on average and a little more. `reserved` of a first share is the number of shares. (Shares of
// half of that were slower: every share costs about as much as five blocks.)
static vector<Tile> cut_balanced(const Scene& scene, int rows, int multiprocessors) {
  const vector<Tile> whole = cut(scene, rows, 0, 1);
  int64_t all = 0;
  for (const Tile& tile : whole) all += blocks_seen(scene, tile);
  const int share = std::max<int>(8, int(all * scene.kv_heads * 9 / 8 / multiprocessors) + 1);
  vector<std::pair<int, Tile>> found;
  int partial = 0;
  for (const Tile& tile : whole) {
    const int seen = blocks_seen(scene, tile), shares = (seen + share - 1) / share;
    int block = tile.block_begin, passed = 0;
    for (int i = 0; i < std::max(1, shares); ++i) {
      Tile part = tile;
      part.block_begin = block;
      const int until = shares ? int(int64_t(seen) * (i + 1) / shares) : 0;
      int here = 0;
      while (block < tile.block_end && (i + 1 >= shares || passed < until)) {
        const bool sees = scene.blocks[block].hidden != ~uint64_t(0) && scene.blocks[block].low <= tile.high;
        passed += sees;
        here += sees;
        ++block;
      }
      part.block_end = block;
      part.partial = shares > 1 ? partial++ : -1;
      part.reserved = i == 0 ? shares : 0;
      found.push_back({here, part});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  vector<Tile> tiles;
  for (const auto& entry : found) tiles.push_back(entry.second);
  return tiles;
}

static double visible_pairs(const Scene& scene) {
  double pairs = 0;
  for (const Sequence& s : scene.sequences)
    for (int row = s.row_begin; row < s.row_end; ++row)
      for (int b = s.block_begin; b < s.block_end; ++b) {
        const Block& block = scene.blocks[b];
        if (block.hidden == ~uint64_t(0) || block.low > scene.positions[row]) continue;
        if (block.high <= scene.positions[row]) {
          pairs += 64 - __builtin_popcountll(block.hidden);
          continue;
        }
        for (int i = 0; i < PAGE; ++i) {
          if (block.hidden >> i & 1) continue;
          pairs += (block.listed ? scene.slot_positions[block.first + i] : block.first + i) <= scene.positions[row];
        }
      }
  return pairs;
}

// ------------------------------------------------------------------------------------------------------------ on device

template <class T>
struct Buffer {
  T* data = nullptr;
  size_t count = 0;
  explicit Buffer(size_t n) : count(n) { CUDA(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T))); }
  explicit Buffer(const vector<T>& from) : Buffer(from.size()) {
    if (count) CUDA(cudaMemcpy(data, from.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  vector<T> read() const {
    vector<T> to(count);
    if (count) CUDA(cudaMemcpy(to.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }
  void poison() { CUDA(cudaMemset(data, 0xff, count * sizeof(T))); }
};

__device__ float gauss(uint64_t seed, uint64_t index) {
  uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    sum += float(x & 0xffff) + float(x >> 16 & 0xffff) + float(x >> 32 & 0xffff) + float(x >> 48);
  }
  return (sum / 65536.0f - 4.0f) * 1.2247f;
}

__global__ void fill(__nv_bfloat16* to, size_t count, uint64_t seed, float spread) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    to[i] = __float2bfloat16(gauss(seed, i) * spread);
}

// Slots that nobody may see get values that would show; some keys become long.
__global__ void spoil(AttentionArgs args, int blocks, int dim, int spikes) {
  const Block block = args.blocks[blockIdx.x];
  const int slot = threadIdx.x;
  const bool hidden = block.hidden >> slot & 1;
  const bool spike = spikes && (block.page * 64 + slot) * 2654435761u % 97 == 0;
  if (!hidden && !spike) return;
  for (int head = 0; head < args.kv_heads; ++head)
    for (int value = 0; value < 2; ++value) {
      __nv_bfloat16* at = args.pool + (((size_t(block.page) * 2 + value) * args.kv_heads + head) * 64 + slot) * dim;
      for (int d = 0; d < dim; ++d)
        at[d] = hidden ? __float2bfloat16((d + slot) % 2 ? 3e38f : -1e30f)
                       : __float2bfloat16(__bfloat162float(at[d]) * (value ? 1.0f : 6.0f));
    }
}

// One warp a row and head, slot after slot, sums in f64. round: rotated queries are rounded to bf16.
__global__ void reference(AttentionArgs args, const int2* row_blocks, int dim, int round, float* out, float* lse) {
  const int lane = threadIdx.x;
  const int row = blockIdx.x, head = blockIdx.y;
  const int kv_head = head / (args.heads / args.kv_heads);
  const int position = args.positions[row];
  const int per_lane = dim / 32;
  const __nv_bfloat16* q = args.q + size_t(row) * args.q_stride + size_t(head) * dim;
  float query[4];
  double sums[4] = {0, 0, 0, 0}, greatest = -INFINITY, sum = 0;
  int turn = INT32_MIN;
  for (int b = row_blocks[row].x; b < row_blocks[row].y; ++b) {
    const Block block = args.blocks[b];
    if (block.hidden == ~uint64_t(0) || block.low > position) continue;
    if (block.turn != turn) {
      turn = block.turn;
      for (int i = 0; i < per_lane; ++i) {
        const int d = lane + 32 * i;
        const int pair = args.interleaved ? d / 2 : d % (dim / 2);
        const bool second = args.interleaved ? d % 2 : d >= dim / 2;
        const int other = args.interleaved ? d ^ 1 : (d + dim / 2) % dim;
        const float2 angle = args.angles[size_t(position - turn) * (dim / 2) + pair];
        const float mine = __bfloat162float(q[d]), its = __bfloat162float(q[other]);
        query[i] = second ? fmaf(its, angle.y, mine * angle.x) : fmaf(mine, angle.x, -(its * angle.y));
        if (round) query[i] = __bfloat162float(__float2bfloat16(query[i]));
      }
    }
    const __nv_bfloat16* keys = args.pool + ((size_t(block.page) * 2 * args.kv_heads + kv_head) * 64) * dim;
    const __nv_bfloat16* values = keys + size_t(args.kv_heads) * 64 * dim;
    for (int slot = 0; slot < 64; ++slot) {
      if (block.hidden >> slot & 1) continue;
      const int at = block.listed ? args.slot_positions[block.first + slot] : block.first + slot;
      if (at > position) continue;
      float dot = 0;
      for (int i = 0; i < per_lane; ++i) dot += query[i] * __bfloat162float(keys[slot * dim + lane + 32 * i]);
      for (int d = 16; d; d /= 2) dot += __shfl_xor_sync(~0u, dot, d);
      const double logit = double(dot) * args.scale_log2;
      if (logit > greatest) {
        const double factor = exp2(greatest - logit);
        sum *= factor;
        for (int i = 0; i < per_lane; ++i) sums[i] *= factor;
        greatest = logit;
      }
      const double weight = exp2f(float(logit - greatest));
      sum += weight;
      for (int i = 0; i < per_lane; ++i) sums[i] += weight * double(__bfloat162float(values[slot * dim + lane + 32 * i]));
    }
  }
  for (int i = 0; i < per_lane; ++i)
    out[(size_t(row) * args.heads + head) * dim + lane + 32 * i] = sum > 0 ? float(sums[i] / sum) : 0.0f;
  if (lane == 0) lse[size_t(row) * args.heads + head] = sum > 0 ? float((greatest + log2(sum)) * M_LN2) : -INFINITY;
}

// Brings partial results together: tile.reserved of them, from number tile.partial on.
__global__ void combine(AttentionArgs args, const Tile* tiles, int dim) {
  const Tile tile = tiles[blockIdx.x];
  const int splits = tile.reserved;
  const int group = args.heads / args.kv_heads, kv_head = blockIdx.y, m = blockIdx.z;
  if (m >= tile.rows * group) return;
  float greatest = -INFINITY, sum = 0, value = 0;
  for (int i = 0; i < splits; ++i)
    greatest = fmaxf(greatest, args.partial_sums[((tile.partial + i) * args.kv_heads + kv_head) * 128 + m].x);
  for (int i = 0; i < splits; ++i) {
    const size_t at = (size_t(tile.partial + i) * args.kv_heads + kv_head) * 128 + m;
    const float2 part = args.partial_sums[at];
    if (part.y == 0) continue;
    const float factor = exp2f(part.x - greatest);
    sum += part.y * factor;
    value += args.partial_out[at * dim + threadIdx.x] * factor;
  }
  const size_t head = size_t(tile.first_row + m / group) * args.heads + kv_head * group + m % group;
  args.out[head * dim + threadIdx.x] = __float2bfloat16(sum > 0 ? value / sum : 0.0f);
  if (threadIdx.x == 0) args.lse[head] = sum > 0 ? (greatest + log2f(sum)) * 0.69314718f : -INFINITY;
}

using Encode = decltype(&cuTensorMapEncodeTiled);

static Encode encoder() {
  static Encode found = nullptr;
  if (!found) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) std::exit(1);
    found = reinterpret_cast<Encode>(entry);
  }
  return found;
}

static CUtensorMap map_pool(void* pool, int dim, uint64_t rows) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cuuint64_t(dim), rows};
  const cuuint64_t strides[1] = {cuuint64_t(dim) * 2};
  const cuuint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  const CUresult result = encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, pool, sizes, strides, box, steps,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(result));
    std::exit(1);
  }
  return map;
}

// A scene's arrays on the device. `copies` pools with other contents, so that timing doesn't read the same data again.
struct Device {
  const Scene& scene;
  int heads, rows, q_stride;
  size_t pool_count;
  Buffer<__nv_bfloat16> q, out, pool;
  Buffer<float> lse;
  Buffer<float2> angles;
  Buffer<int> positions, slot_positions;
  Buffer<Block> blocks;
  AttentionArgs args = {};
  vector<CUtensorMap> maps;
  int multiprocessors = 0;

  static vector<float2> make_angles(const Scene& scene) {
    const int half = scene.dim / 2;
    const int count = *std::max_element(scene.positions.begin(), scene.positions.end()) + 1;
    vector<float2> table(size_t(count) * half);
    for (int i = 0; i < half; ++i) {
      const double rate = std::pow(500000.0, -double(i) / half);
      for (int p = 0; p < count; ++p) table[size_t(p) * half + i] = {float(std::cos(p * rate)), float(std::sin(p * rate))};
    }
    return table;
  }

  Device(const Scene& s, uint64_t seed, int copies = 1)
      : scene(s), heads(s.kv_heads * s.group), rows(int(s.positions.size())),
        q_stride((heads + 2 * s.kv_heads) * s.dim), pool_count(size_t(s.pages) * 2 * s.kv_heads * 64 * s.dim),
        q(size_t(rows) * q_stride), out(size_t(rows) * heads * s.dim), pool(pool_count * copies),
        lse(size_t(rows) * heads), angles(make_angles(s)), positions(s.positions), slot_positions(s.slot_positions),
        blocks(s.blocks) {
    fill<<<1024, 256>>>(q.data, q.count, seed, s.spread);
    fill<<<4096, 256>>>(pool.data, pool.count, seed + 1, 1.0f);
    args.q = q.data;
    args.out = out.data;
    args.lse = lse.data;
    args.angles = angles.data;
    args.positions = positions.data;
    args.blocks = blocks.data;
    args.slot_positions = slot_positions.data;
    args.q_stride = q_stride;
    args.heads = heads;
    args.kv_heads = s.kv_heads;
    args.interleaved = s.interleaved;
    args.scale_log2 = float(1.4426950408889634 / std::sqrt(double(s.dim)));
    for (int i = copies - 1; i >= 0; --i) {
      args.pool = pool.data + pool_count * i;
      spoil<<<int(s.blocks.size()), 64>>>(args, int(s.blocks.size()), s.dim, s.spikes);
      maps.insert(maps.begin(), map_pool(args.pool, s.dim, uint64_t(s.pages) * 2 * s.kv_heads * 64));
    }
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  }

  // blocks_at_once 0: one for every tile and head.
  void launch(const Buffer<Tile>& tiles, int copy = 0, int blocks_at_once = 0) {
    args.tiles = tiles.data;
    args.tiles_count = int(tiles.count);
    args.pool = pool.data + pool_count * copy;
    const auto kernel = scene.dim == 128 ? attention_sm90_d128 : attention_sm90_d64;
    const int shared = scene.dim == 128 ? Layout<128>::BYTES : Layout<64>::BYTES;
    static bool prepared[2];
    if (!prepared[scene.dim == 128]) CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    prepared[scene.dim == 128] = true;
    const int all = args.tiles_count * args.kv_heads;
    kernel<<<blocks_at_once ? std::min(all, blocks_at_once) : all, THREADS, shared>>>(args, maps[copy]);
    CUDA(cudaGetLastError());
  }

  void poison() {
    out.poison();
    lse.poison();
  }
};

// ---------------------------------------------------------------------------------------------------------------- check

struct Result {
  vector<__nv_bfloat16> out;
  vector<float> lse;
  bool operator==(const Result& other) const {
    return std::memcmp(out.data(), other.out.data(), out.size() * 2) == 0 &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * 4) == 0;
  }
};

static Result run(Device& device, const vector<Tile>& tiles, int blocks_at_once = 0) {
  Buffer<Tile> on_device(tiles);
  device.poison();
  device.launch(on_device, 0, blocks_at_once);
  CUDA(cudaDeviceSynchronize());
  return {device.out.read(), device.lse.read()};
}

static Result run_split(Device& device, const vector<Tile>& tiles) {
  vector<Tile> firsts;
  for (const Tile& tile : tiles)
    if (tile.partial >= 0 && tile.reserved > 0) firsts.push_back(tile);
  Buffer<Tile> on_device(tiles), firsts_on_device(firsts);
  const size_t partial_rows = tiles.size() * device.scene.kv_heads * 128;
  Buffer<float> partial_out(partial_rows * device.scene.dim);
  Buffer<float2> partial_sums(partial_rows);
  partial_out.poison();
  partial_sums.poison();
  device.args.partial_out = partial_out.data;
  device.args.partial_sums = partial_sums.data;
  device.poison();
  device.launch(on_device);
  if (!firsts.empty())
    combine<<<dim3(unsigned(firsts.size()), device.scene.kv_heads, 128), device.scene.dim>>>(
        device.args, firsts_on_device.data, device.scene.dim);
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
  return {device.out.read(), device.lse.read()};
}

struct Errors {
  double out = 0, lse = 0;
};

static Errors compare(const Result& result, const vector<float>& out, const vector<float>& lse) {
  double difference = 0, norm = 0;
  Errors errors;
  for (size_t i = 0; i < out.size(); ++i) {
    const double d = double(__bfloat162float(result.out[i])) - out[i];
    difference += d * d;
    norm += double(out[i]) * out[i];
  }
  errors.out = std::sqrt(difference / norm);
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isinf(lse[i]) && lse[i] == result.lse[i]) continue;
    const double d = std::fabs(double(result.lse[i]) - lse[i]);
    if (!(d <= errors.lse)) errors.lse = d;  // NaN comes through
  }
  return errors;
}

static bool check(const Scene& scene, uint64_t seed) {
  Device device(scene, seed);
  vector<int2> row_blocks(device.rows);
  for (const Sequence& s : scene.sequences)
    for (int row = s.row_begin; row < s.row_end; ++row) row_blocks[row] = {s.block_begin, s.block_end};
  Buffer<int2> row_blocks_on_device(row_blocks);
  Buffer<float> out(device.out.count), lse(device.lse.count);
  device.args.pool = device.pool.data;
  // Against exact rotation, and against rotated queries rounded as the kernel rounds them: that has to fit closely.
  vector<float> expected[2], expected_lse[2];
  for (int rounded = 0; rounded < 2; ++rounded) {
    reference<<<dim3(device.rows, device.heads), 32>>>(device.args, row_blocks_on_device.data, scene.dim, rounded,
                                                       out.data, lse.data);
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    expected[rounded] = out.read();
    expected_lse[rounded] = lse.read();
  }
  const int rows = TILE_ROWS / scene.group;
  const Result whole = run(device, cut(scene, rows, 0, 1));
  const Errors errors = compare(whole, expected[0], expected_lse[0]);
  const Errors close = compare(whole, expected[1], expected_lse[1]);
  const bool again = run(device, cut(scene, rows, 0, 1)) == whole;
  const bool shifted = run(device, cut(scene, rows, rows / 3 + 1, 1)) == whole;
  const bool narrow = run(device, cut(scene, std::max(1, rows / 2 - 1), 1, 1)) == whole;
  const bool alone = device.rows > 3000 || run(device, cut(scene, 1, 0, 1)) == whole;
  const bool fewer = run(device, cut(scene, rows, 0, 1), device.multiprocessors) == whole;
  const Errors split = compare(run_split(device, cut(scene, rows, 0, 3)), expected[1], expected_lse[1]);
  const Errors balanced = compare(run_split(device, cut_balanced(scene, rows, 40)), expected[1], expected_lse[1]);
  // Spikes: weights hang on the rounding of the queries, so that only the close comparison says something.
  const bool good = (scene.spikes || (errors.out <= 5e-3 && errors.lse <= 1.5e-2)) && close.out <= 3e-3 &&
                    close.lse <= 5e-5 && split.out <= 3e-3 && split.lse <= 5e-5 &&
                    balanced.out <= 3e-3 && balanced.lse <= 5e-5 && again && shifted && narrow && alone &&
                    fewer;
  std::printf(
      "%-22s d%-3d g%-2d %s rows %5d blocks %4d out %.2e lse %.1e close %.2e %.1e split %.2e %.1e same%s%s%s%s%s %s\n",
      scene.name.c_str(), scene.dim, scene.group, scene.interleaved ? "il" : "hf", device.rows, int(scene.blocks.size()),
      errors.out, errors.lse, close.out, close.lse, split.out, split.lse, again ? " again" : " AGAIN!",
      shifted ? " shifted" : " SHIFTED!", narrow ? " narrow" : " NARROW!", alone ? " alone" : " ALONE!",
      fewer ? " fewer" : " FEWER!", good ? "ok" : "FAILED");
  std::fflush(stdout);
  return good;
}

static Scene scene_of(const char* name, int dim, int kv_heads, int group, int interleaved) {
  Scene scene;
  scene.name = name;
  scene.dim = dim;
  scene.kv_heads = kv_heads;
  scene.group = group;
  scene.interleaved = interleaved;
  return scene;
}

static bool check_small() {
  Random random(7);
  bool good = true;
  for (int dim : {128, 64}) {
    Scene scene = scene_of("small", dim, 2, 3, dim == 64);
    add_prefill(scene, 200, 60);
    add_blended(scene, random, 70, {{20, .2}, {1, 0}, {330, .3}}, 9, true, 0.3);
    good &= check(scene, 1);
  }
  return good;
}

static bool check_all() {
  Random random(42);
  bool good = true;
  uint64_t seed = 100;
  for (int dim : {128, 64}) {
    const int groups[] = {1, 3, 4, 6, 7, 8, 16, 2};
    for (int i = 0; i < 8; ++i) {
      const int group = groups[i];
      Scene prefill = scene_of("prefix", dim, 2, group, i % 2);
      for (int length : {1, 2, 63, 64, 65, 300, 1000}) add_prefill(prefill, length, length > 100 ? length / 3 : 0);
      good &= check(prefill, seed += 10);

      Scene blended = scene_of("documents, overlay", dim, 2, group, (i + 1) % 2);
      add_blended(blended, random, 100, {{300, .1}, {1, 0}, {20, .3}, {20, 0}, {700, .2}, {64, 1.0}, {129, .5}}, 40, true, 0);
      add_blended(blended, random, 0, {{1, 0}, {1, 1}, {500, .15}, {65, 0}}, 1, true, 0.5);
      add_blended(blended, random, 1500, {{400, .05}, {330, .02}}, 3, false, 0.2);
      good &= check(blended, seed += 10);
    }
    Scene one = scene_of("one row", dim, 1, 5, 0);
    add_prefill(one, 1, 0);
    good &= check(one, seed += 10);

    // Positions that nothing stands at or before: the first document starts at 50, a row at 20 is run.
    Scene blind = scene_of("rows that see nothing", dim, 2, 4, 0);
    blind.begin_sequence();
    blind.add_run(50, 100, 30, shown);
    for (int p = 20; p < 150; p += 3) blind.add_row(p);
    blind.begin_sequence();
    blind.add_run(0, 100, 0, [](int) { return true; });
    blind.add_row(5);
    good &= check(blind, seed += 10);

    Scene spiky = scene_of("spikes", dim, 2, 4, 1);
    spiky.spikes = true;
    add_prefill(spiky, 2000, 1000);
    add_blended(spiky, random, 64, {{700, .2}, {20, .1}}, 64, true, 0);
    good &= check(spiky, seed += 10);

    Scene many = scene_of("200 documents of 20", dim, 2, 8, 0);
    add_blended(many, random, 50, vector<Document>(200, Document{20, .1}), 30, false, 0);
    good &= check(many, seed += 10);

    Scene longer = scene_of("33k", dim, 1, 8, 0);
    add_prefill(longer, 33001, 32900);
    add_blended(longer, random, 20000, {{8000, .002}, {5000, .002}}, 30, true, 0);
    good &= check(longer, seed += 10);
  }
  Scene prefill = scene_of("prefix 4096", 128, 2, 4, 0);
  add_prefill(prefill, 4096, 0);
  good &= check(prefill, seed += 10);
  std::printf("check: %s\n", good ? "all good" : "FAILED");
  return good;
}

// ----------------------------------------------------------------------------------------------------------------- time

static float median_ms(const std::function<void(int)>& launch, int repeats) {
  vector<cudaEvent_t> events(repeats + 1);
  for (auto& event : events) CUDA(cudaEventCreate(&event));
  // Long enough for the clocks to settle at what the card's power allows.
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; std::chrono::steady_clock::now() - start < std::chrono::milliseconds(120); ++i) {
    launch(i);
    if (i % 8 == 7) CUDA(cudaDeviceSynchronize());
  }
  for (int i = 0; i < repeats; ++i) {
    CUDA(cudaEventRecord(events[i]));
    launch(i);
  }
  CUDA(cudaEventRecord(events[repeats]));
  CUDA(cudaDeviceSynchronize());
  vector<float> times(repeats);
  for (int i = 0; i < repeats; ++i) CUDA(cudaEventElapsedTime(&times[i], events[i], events[i + 1]));
  for (auto& event : events) cudaEventDestroy(event);
  std::sort(times.begin(), times.end());
  return times[repeats / 2];
}

// Times a scene: one block for each tile and head; as many blocks as multiprocessors; with tiles cut over blocks, alone
// and with what brings them together.
static void time_scene(const Scene& scene, bool split, vector<std::string>& table) {
  const int copies = scene.pages > 300 ? 2 : 4;
  Device device(scene, 5, copies);
  const int rows = TILE_ROWS / scene.group;
  const double flops = 4.0 * scene.dim * visible_pairs(scene) * device.heads;
  const int repeats = 24;
  const auto report = [&](const char* how, float ms) {
    char line[200];
    std::snprintf(line, sizeof line, "%-22s d%-3d %-18s %9.1f us %7.1f TFLOP/s", scene.name.c_str(), scene.dim, how,
                  ms * 1e3, flops / ms / 1e9);
    table.push_back(line);
  };
  {
    Buffer<Tile> tiles(cut(scene, rows, 0, 1));
    report("block an item", median_ms([&](int i) { device.launch(tiles, i % copies); }, repeats));
    report("persistent",
           median_ms([&](int i) { device.launch(tiles, i % copies, device.multiprocessors); }, repeats));
  }
  if (!split) return;
  const vector<Tile> cut_tiles = cut_balanced(scene, rows, device.multiprocessors);
  vector<Tile> firsts;
  int partials = 0;
  for (const Tile& tile : cut_tiles) {
    if (tile.partial < 0) continue;
    ++partials;
    if (tile.reserved > 0) firsts.push_back(tile);
  }
  if (firsts.empty()) return;
  Buffer<Tile> tiles(cut_tiles), firsts_on_device(firsts);
  const size_t partial_rows = size_t(partials) * scene.kv_heads * 128;
  Buffer<float> partial_out(partial_rows * scene.dim);
  Buffer<float2> partial_sums(partial_rows);
  device.args.partial_out = partial_out.data;
  device.args.partial_sums = partial_sums.data;
  report("balanced", median_ms([&](int i) { device.launch(tiles, i % copies, device.multiprocessors); }, repeats));
  report("balanced, combined", median_ms(
                                   [&](int i) {
                                     device.launch(tiles, i % copies, device.multiprocessors);
                                     combine<<<dim3(unsigned(firsts.size()), scene.kv_heads, 128), scene.dim>>>(
                                         device.args, firsts_on_device.data, scene.dim);
                                   },
                                   repeats));
}

// 8 documents of 1024 with `repaired` of their rows, and 64 fresh ones.
static Scene repair_scene(int dim, int repaired) {
  Scene scene = scene_of("", dim, 8, 4, 0);
  scene.name = "repair " + std::to_string(repaired + 64) + " of 8192";
  Random random(3);
  vector<int> all(8192);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  vector<char> hidden(8192);
  for (int i = 0; i < repaired; ++i) hidden[all[i]] = 1;
  scene.begin_sequence();
  for (int d = 0; d < 8; ++d)
    scene.add_run(d * 1024, 1024, std::max(0, d * 1024 - 1), [&](int i) { return hidden[d * 1024 + i] != 0; });
  vector<int> overlay;
  for (int p = 0; p < 8192; ++p)
    if (hidden[p]) overlay.push_back(p);
  for (int i = 0; i < 64; ++i) overlay.push_back(8192 + i);
  for (int p : overlay) scene.add_row(p);
  scene.add_listed(overlay);
  return scene;
}

static void time_all() {
  vector<std::string> table;
  for (int dim : {128, 64}) {
    Scene prefill = scene_of("causal 8192", dim, 8, 4, 0);
    add_prefill(prefill, 8192, 0);
    time_scene(prefill, false, table);
    if (dim == 128) {
      Scene longer = scene_of("causal 32768", dim, 8, 4, 0);
      add_prefill(longer, 32768, 0);
      time_scene(longer, false, table);
    }
    time_scene(repair_scene(dim, 820), true, table);
    time_scene(repair_scene(dim, 0), true, table);
    if (dim == 128) {
      Random random(11);
      Scene many = scene_of("repair 200 x 20", dim, 8, 4, 0);
      add_blended(many, random, 0, vector<Document>(200, Document{20, .1}), 64, false, 0);
      time_scene(many, true, table);
      Scene batch = scene_of("32 of causal 1024", dim, 8, 4, 0);
      for (int i = 0; i < 32; ++i) add_prefill(batch, 1024, 0);
      time_scene(batch, false, table);
    }
  }
  std::printf("\n");
  for (const std::string& line : table) std::printf("%s\n", line.c_str());
}

// A few launches for a profiler.
static void profile() {
  for (int slots : {8192, 32768}) {
    Scene scene = scene_of("", 128, 8, 4, 0);
    add_prefill(scene, slots, 0);
    Device device(scene, 5);
    Buffer<Tile> tiles(cut(scene, 32, 0, 1));
    for (int i = 0; i < 2; ++i) device.launch(tiles, 0, i ? 0 : device.multiprocessors);
    CUDA(cudaDeviceSynchronize());
  }
  const Scene repair = repair_scene(128, 820);
  Device device(repair, 5);
  Buffer<Tile> tiles(cut(device.scene, 32, 0, 1));
  for (int i = 0; i < 2; ++i) device.launch(tiles, 0, i ? 0 : device.multiprocessors);
  CUDA(cudaDeviceSynchronize());
}

int main(int count, char** words) {
  bool good = true;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "check") good &= check_all();
    if (word == "small") good &= check_small();
    if (word == "time") time_all();
    if (word == "profile") profile();
  }
  return good ? 0 : 1;
}
