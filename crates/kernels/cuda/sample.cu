// Chooses tokens from logits, so that logits stay on the device.
//
// All masses are integers: a token's weight is exp((logit - greatest) / temperature) in multiples of 2^-40. Sums of
// integers do not depend on their order, so a draw is the same however threads take turns.
//
// One block a row. Tokens that top-k and top-p leave are those above a cutoff, found eight bits of the ordered logit at
// a time, and of those at the cutoff the first. The draw goes through what is left in the order of token ids.
#include "numbers.cuh"

struct Draw {
  // 1 / temperature; 0 takes the greatest logit.
  float inverse;
  // 0: all.
  int32_t top_k;
  float top_p;
  int32_t reserved;
  // From 0 to below 1: where among the masses the draw falls.
  double at;
};

namespace {

constexpr int THREADS = 1024;
constexpr int WARPS = THREADS / 32;

using Mass = unsigned long long;

// Order of floats as order of integers; NaN below everything.
__device__ __forceinline__ uint32_t key_of(float x) {
  if (isnan(x)) return 0;
  uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float float_of(uint32_t key) { return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key); }

// Tokens above the cutoff, and of those at it the first `ties`.
struct Cutoff {
  uint32_t key;
  uint32_t ties;
};

struct Row {
  const float* logits;
  int vocab;
  float greatest;
  float factor;

  __device__ __forceinline__ Mass mass(uint32_t key) const {
    float x = float_of(key);
    return key == 0 || x == -INFINITY ? 0 : __float2ull_rn(exp2f((x - greatest) * factor) * 1099511627776.0f);
  }

  // Calls `visit(token, key)` for every token.
  template <typename Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    for (int i = threadIdx.x; i < vocab; i += THREADS) visit(i, key_of(logits[i]));
  }
};

// Sums of what tokens weigh, by eight bits of their keys. Keys of logits begin with one of a few patterns, so that many
// threads meet at one bin: lanes take turns over copies, and sums are kept in parts of 14 bits, as processors add 32 bits
// in shared memory at once but not 64. Even a million tokens do not overflow a part.
constexpr int COPIES = 8;
constexpr int PARTS = 3;
constexpr int PART_BITS = 14;
__shared__ uint32_t bins[PARTS][COPIES][256];
__shared__ Mass totals[256];
__shared__ uint32_t chosen_bin;
__shared__ Mass passed;

__device__ __forceinline__ void clear_bins() {
  uint32_t* all = &bins[0][0][0];
  for (int i = threadIdx.x; i < PARTS * COPIES * 256; i += THREADS) all[i] = 0;
}

// A mass is below 2^41: the last part takes what is left of it.
__device__ __forceinline__ void add_to_bin(int bin, Mass mass) {
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    uint32_t piece = uint32_t(mass >> (PART_BITS * part));
    if (part + 1 < PARTS) piece &= (1u << PART_BITS) - 1;
    if (piece) atomicAdd(&bins[part][threadIdx.x % COPIES][bin], piece);
  }
}

__device__ __forceinline__ void total_bins() {
  for (int bin = threadIdx.x; bin < 256; bin += THREADS) {
    Mass total = 0;
    for (int part = 0; part < PARTS; ++part)
      for (int copy = 0; copy < COPIES; ++copy) total += Mass(bins[part][copy][bin]) << (PART_BITS * part);
    totals[bin] = total;
  }
}

// One warp: the greatest bin at which the sum over bins from the greatest down reaches `wanted`, `above` included, and
// what comes before it. The last bin takes what rounding may have left over.
__device__ void choose_bin(Mass above, Mass wanted) {
  constexpr int EACH = 256 / 32;
  int lane = threadIdx.x;
  Mass own[EACH], mine = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i) mine += own[i] = totals[255 - (EACH * lane + i)];
  Mass sum = mine;
  for (int step = 1; step < 32; step *= 2) {
    Mass other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  uint32_t reached = __ballot_sync(0xffffffffu, above + sum >= wanted);
  if (lane != (reached ? __ffs(reached) - 1 : 31)) return;
  Mass before = above + sum - mine;
  int i = 0;
#pragma unroll
  for (int next = 0; next < EACH - 1; ++next) {
    if (i == next && before + own[next] < wanted) before += own[next], ++i;
  }
  chosen_bin = 255 - (EACH * lane + i), passed = before;
}

// The key at which what `amount` gives to tokens from the greatest down reaches `wanted`, and what comes before that key.
// Only tokens that `among` lets through count.
template <typename Among, typename Amount>
__device__ uint32_t reach(const Row& row, Mass wanted, Mass& before, Among among, Amount amount) {
  uint32_t prefix = 0;
  Mass above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    clear_bins();
    __syncthreads();
    row.each([&](int token, uint32_t key) {
      bool here = shift == 24 || key >> (shift + 8) == prefix >> (shift + 8);
      if (here && among(token, key)) add_to_bin(key >> shift & 255, amount(key));
    });
    __syncthreads();
    total_bins();
    __syncthreads();
    if (threadIdx.x < 32) choose_bin(above, wanted);
    __syncthreads();
    prefix |= chosen_bin << shift;
    above = passed;
    __syncthreads();
  }
  before = above;
  return prefix;
}

__device__ Mass block_sum(Mass x) {
  __shared__ Mass sums[WARPS];
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  Mass total = 0;
  for (int warp = 0; warp < WARPS; ++warp) total += sums[warp];
  return total;
}

// The greatest logit's key and its first token.
__device__ void greatest(const Row& row, uint32_t& key, uint32_t& token) {
  key = 0, token = UINT32_MAX;
  auto take = [&](uint32_t k, uint32_t t) {
    if (t != UINT32_MAX && (token == UINT32_MAX || k > key || (k == key && t < token))) key = k, token = t;
  };
  row.each([&](int t, uint32_t k) { take(k, t); });
  __shared__ uint32_t keys[WARPS], tokens[WARPS];
  auto across = [&]() {
    for (int step = 16; step > 0; step /= 2)
      take(__shfl_xor_sync(0xffffffffu, key, step), __shfl_xor_sync(0xffffffffu, token, step));
  };
  across();
  if (threadIdx.x % 32 == 0) keys[threadIdx.x / 32] = key, tokens[threadIdx.x / 32] = token;
  __syncthreads();
  for (int warp = 0; warp < WARPS; ++warp) take(keys[warp], tokens[warp]);
}

// Narrows the cutoff to the `k` greatest.
__device__ Cutoff of_top_k(const Row& row, int k) {
  Mass before;
  auto all = [](int, uint32_t) { return true; };
  auto one = [](uint32_t) { return Mass(1); };
  uint32_t key = reach(row, k, before, all, one);
  return {key, uint32_t(k - before)};
}

// Which of the tokens at a key are the first `ties`: a token's rank among them needs those before it, so a warp counts in
// the order of ids.
struct Range {
  int begin, end;
};

// Groups of 32 tokens whose logits a warp reads at once.
constexpr int AHEAD = 8;

// Calls `visit(token, key)` for a warp's tokens in the order of ids, 32 at a time; behind the end with keys of 0. `visit`
// says when to stop, the same for all lanes.
template <typename Visit>
__device__ void walk(const Row& row, Range range, Visit visit) {
  int lane = threadIdx.x % 32;
  for (int base = range.begin; base < range.end; base += 32 * AHEAD) {
    uint32_t keys[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      int i = base + 32 * j + lane;
      keys[j] = i < range.end ? key_of(row.logits[i]) : 0;
    }
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      if (base + 32 * j < range.end && visit(base + 32 * j + lane, keys[j])) return;
    }
  }
}

__device__ __forceinline__ Range warp_range(int vocab) {
  int each = (vocab + WARPS - 1) / WARPS, warp = threadIdx.x / 32;
  return {min(vocab, warp * each), min(vocab, (warp + 1) * each)};
}

// Ties at the cutoff in the warps before this one; 0 where it leaves all of them.
__device__ uint32_t ties_before(const Row& row, Cutoff cutoff) {
  if (cutoff.ties == UINT32_MAX) return 0;
  uint32_t key = cutoff.key;
  __shared__ uint32_t counts[WARPS];
  Range range = warp_range(row.vocab);
  uint32_t count = 0;
  walk(row, range, [&](int i, uint32_t k) {
    count += __popc(__ballot_sync(0xffffffffu, i < range.end && k == key));
    return false;
  });
  __syncthreads();
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = count;
  __syncthreads();
  uint32_t before = 0;
  for (int warp = 0; warp < int(threadIdx.x / 32); ++warp) before += counts[warp];
  return before;
}

// Goes through a warp's tokens in the order of ids, with the mass of each that the cutoff leaves; `visit` says when to
// stop, the same for all lanes.
template <typename Visit>
__device__ void in_order(const Row& row, Cutoff cutoff, uint32_t ties, Visit visit) {
  Range range = warp_range(row.vocab);
  uint32_t lane = threadIdx.x % 32;
  walk(row, range, [&](int i, uint32_t key) {
    bool tie = i < range.end && key == cutoff.key;
    uint32_t ballot = __ballot_sync(0xffffffffu, tie);
    uint32_t rank = ties + __popc(ballot & ((1u << lane) - 1));
    ties += __popc(ballot);
    bool left = i < range.end && (key > cutoff.key || (tie && rank < cutoff.ties));
    return visit(i, left ? row.mass(key) : Mass(0));
  });
}

}  // namespace

// tokens[row], from logits [rows, vocab] and draws [rows]. Grid (rows), 1024 threads.
extern "C" __global__ void __launch_bounds__(THREADS) sample_token(uint32_t* tokens, const float* logits, const Draw* draws, int vocab) {
  Draw draw = draws[blockIdx.x];
  Row row = {logits + size_t(blockIdx.x) * vocab, vocab, 0, draw.inverse * 1.4426950408889634f};
  uint32_t best_key, best;
  greatest(row, best_key, best);
  row.greatest = float_of(best_key);
  bool flat = best == UINT32_MAX || best_key == 0 || isinf(row.greatest);
  if (draw.inverse == 0 || flat) {
    if (threadIdx.x == 0) tokens[blockIdx.x] = best == UINT32_MAX || best_key == 0 ? 0 : best;
    return;
  }

  Cutoff cutoff = {0, UINT32_MAX};
  if (draw.top_k > 0 && draw.top_k < vocab) cutoff = of_top_k(row, draw.top_k);
  if (draw.top_p < 1) {
    uint32_t ties = ties_before(row, cutoff);
    Mass kept = 0;
    in_order(row, cutoff, ties, [&](int, Mass mass) { return kept += mass, false; });
    kept = block_sum(kept);
    Mass wanted = max(Mass(1), Mass(double(draw.top_p) * double(kept)));
    Mass before;
    auto above = [&](int, uint32_t key) { return key >= cutoff.key; };
    uint32_t key = reach(row, wanted, before, above, [&](uint32_t key) { return row.mass(key); });
    Mass each = row.mass(key);
    uint32_t needed = each == 0 ? 1 : uint32_t(min(Mass(UINT32_MAX), (wanted - min(wanted, before) + each - 1) / each));
    uint32_t most = key == cutoff.key ? cutoff.ties : UINT32_MAX;
    cutoff = {key, max(1u, min(needed, most))};
  }

  __shared__ Mass warps[WARPS];
  uint32_t ties = ties_before(row, cutoff);
  Mass mine = 0;
  in_order(row, cutoff, ties, [&](int, Mass mass) { return mine += mass, false; });
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  Mass total = 0;
  for (int warp = 0; warp < WARPS; ++warp) total += warps[warp];
  Mass target = min(total - 1, Mass(draw.at * double(total))), before = 0;
  for (int warp = 0; warp < int(threadIdx.x / 32); ++warp) before += warps[warp];
  if (target < before || target >= before + mine) return;
  // Exactly one warp gets here.
  in_order(row, cutoff, ties, [&](int token, Mass mass) {
    Mass sum = mass;
    for (int step = 1; step < 32; step *= 2) {
      Mass other = __shfl_up_sync(0xffffffffu, sum, step);
      if (threadIdx.x % 32 >= step) sum += other;
    }
    bool here = target < before + sum;
    uint32_t ballot = __ballot_sync(0xffffffffu, here);
    if (ballot && int(threadIdx.x % 32) == __ffs(ballot) - 1) tokens[blockIdx.x] = token;
    before += __shfl_sync(0xffffffffu, sum, 31);
    return ballot != 0;
  });
}
