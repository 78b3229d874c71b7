// Everything between the matrix products that is not attention. Each row's bits depend on that row alone: sums run
// in one order, whatever shares the launch.
#include "numbers.cuh"
#include "parts.cuh"

namespace {

constexpr int NORM_THREADS = 256;

// The sum over a block of NORM_THREADS, in one fixed order, in every thread.
__device__ float block_sum(float x) {
  __shared__ float sums[NORM_THREADS / 32];
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < NORM_THREADS / 32; ++warp) total += sums[warp];
  return total;
}

}  // namespace

// hidden[row, :] = embedding[tokens[row], :]. A block a row.
extern "C" __global__ void embed(float* hidden, const bf16* embedding, const uint32_t* tokens, int width) {
  const uint2* from = reinterpret_cast<const uint2*>(embedding + size_t(tokens[blockIdx.x]) * width);
  float4* to = reinterpret_cast<float4*>(hidden + size_t(blockIdx.x) * width);
  for (int i = threadIdx.x; i < width / 4; i += blockDim.x) {
    uint2 x = from[i];
    to[i] = make_float4(low(x.x), high(x.x), low(x.y), high(x.y));
  }
}

// out = x / sqrt(mean(x²) + epsilon) · weight. A block of NORM_THREADS a row; `from` picks the rows of x, or is null.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    rms_norm(bf16* out, const float* x, const float* weight, const uint32_t* from, float epsilon, int width) {
  size_t row = from ? from[blockIdx.x] : blockIdx.x;
  const float4* in = reinterpret_cast<const float4*>(x + row * width);
  const float4* scale = reinterpret_cast<const float4*>(weight);
  float squares = 0;
  for (int i = threadIdx.x; i < width / 4; i += NORM_THREADS) {
    float4 v = in[i];
    squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
  }
  float inverse = rsqrtf(block_sum(squares) / width + epsilon);
  uint2* to = reinterpret_cast<uint2*>(out + size_t(blockIdx.x) * width);
  for (int i = threadIdx.x; i < width / 4; i += NORM_THREADS) {
    float4 v = in[i], w = scale[i];
    to[i] = make_uint2(pack(v.x * inverse * w.x, v.y * inverse * w.y), pack(v.z * inverse * w.z, v.w * inverse * w.w));
  }
}

// Rows `from` of x, [rows, width] in 4-byte elements. A block a row.
extern "C" __global__ void gather(uint32_t* out, const uint32_t* x, const uint32_t* from, int width) {
  const uint32_t* row = x + size_t(from[blockIdx.x]) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[size_t(blockIdx.x) * width + i] = row[i];
}

// silu(gate) · up: gate_up [rows, gate | up, inner] -> out [rows, inner]. Grid (rows, chunks of a row).
extern "C" __global__ void silu_mul(bf16* out, const bf16* gate_up, int inner) {
  const uint4* gate = reinterpret_cast<const uint4*>(gate_up + size_t(blockIdx.x) * 2 * inner);
  const uint4* up = gate + inner / 8;
  uint4* to = reinterpret_cast<uint4*>(out + size_t(blockIdx.x) * inner);
  int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= inner / 8) return;
  uint4 g = gate[i], u = up[i];
  auto both = [](uint32_t g, uint32_t u) {
    auto one = [](float g, float u) { return __fdividef(g, 1.0f + __expf(-g)) * u; };
    return pack(one(low(g), low(u)), one(high(g), high(u)));
  };
  to[i] = make_uint4(both(g.x, u.x), both(g.y, u.y), both(g.z, u.z), both(g.w, u.w));
}

// RMS norm of every head of queries and keys, in place: qkv [rows, query heads | key heads | value heads, dim].
// A warp a head; grid (rows, heads + kv_heads).
extern "C" __global__ void head_norms(bf16* qkv, const float* query_weight, const float* key_weight, float epsilon,
                                      int heads, int kv_heads, int dim) {
  int head = blockIdx.y;
  const float* weight = head < heads ? query_weight : key_weight;
  bf16* x = qkv + (size_t(blockIdx.x) * (heads + 2 * kv_heads) + head) * dim;
  float squares = 0;
  for (int i = threadIdx.x; i < dim; i += 32) squares += __bfloat162float(x[i]) * __bfloat162float(x[i]);
  float inverse = rsqrtf(warp_sum(squares) / dim + epsilon);
  for (int i = threadIdx.x; i < dim; i += 32) x[i] = __float2bfloat16_rn(__bfloat162float(x[i]) * inverse * weight[i]);
}

// Rotates keys at their rows' positions and puts keys and values into their slots. Grid (rows, kv_heads); dim / 2
// threads. Values that are no finite numbers become 0: a slot that is not visible is still multiplied by 0.
extern "C" __global__ void store_kv(bf16* pool, const bf16* qkv, const float2* angles, const int32_t* positions,
                                    const uint32_t* slots, int heads, int kv_heads, int interleaved) {
  int half = blockDim.x, dim = 2 * half, pair = threadIdx.x, head = blockIdx.y, row = blockIdx.x;
  const bf16* from = qkv + size_t(row) * (heads + 2 * kv_heads) * dim;
  const bf16* key = from + (heads + head) * dim;
  const bf16* value = from + (heads + kv_heads + head) * dim;
  uint32_t slot = slots[row];
  bf16* keys = pool + ((size_t(slot / PAGE) * 2 * kv_heads + head) * PAGE + slot % PAGE) * dim;
  bf16* values = keys + size_t(kv_heads) * PAGE * dim;

  int2 at = pair_at(pair, dim, interleaved);
  float a = __bfloat162float(key[at.x]), b = __bfloat162float(key[at.y]);
  turn(a, b, angles[size_t(positions[row]) * half + pair]);
  keys[at.x] = __float2bfloat16_rn(a);
  keys[at.y] = __float2bfloat16_rn(b);
  uint32_t two = reinterpret_cast<const uint32_t*>(value)[pair];
  if (!isfinite(low(two))) two &= 0xffff0000u;
  if (!isfinite(high(two))) two &= 0x0000ffffu;
  reinterpret_cast<uint32_t*>(values)[pair] = two;
}

// Squared distance over all heads between a row's key, rotated at `rotated_at`, and the key in a slot. A block of
// NORM_THREADS a comparison.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    key_distance(float* distances, const bf16* qkv, const bf16* pool, const float2* angles, const uint32_t* rows,
                 const uint32_t* slots, const int32_t* rotated_at, int heads, int kv_heads, int dim, int interleaved) {
  int half = dim / 2;
  const bf16* keys = qkv + (size_t(rows[blockIdx.x]) * (heads + 2 * kv_heads) + heads) * dim;
  uint32_t slot = slots[blockIdx.x];
  float sum = 0;
  for (int i = threadIdx.x; i < kv_heads * half; i += NORM_THREADS) {
    int head = i / half, pair = i % half;
    int2 at = pair_at(pair, dim, interleaved);
    const bf16* key = keys + head * dim;
    const bf16* held = pool + ((size_t(slot / PAGE) * 2 * kv_heads + head) * PAGE + slot % PAGE) * dim;
    float a = __bfloat162float(key[at.x]), b = __bfloat162float(key[at.y]);
    turn(a, b, angles[size_t(rotated_at[blockIdx.x]) * half + pair]);
    float da = __bfloat162float(__float2bfloat16_rn(a)) - __bfloat162float(held[at.x]);
    float db = __bfloat162float(__float2bfloat16_rn(b)) - __bfloat162float(held[at.y]);
    sum += da * da + db * db;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) distances[blockIdx.x] = sum;
}

// Uniform random numbers of a standard deviation: the splitmix64 generator (Steele, Lea, Flood 2014) at seed + index.
extern "C" __global__ void fill(bf16* values, uint64_t len, uint64_t seed, float deviation) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < len; i += uint64_t(gridDim.x) * blockDim.x) {
    uint64_t z = (seed + i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    float uniform = float(z >> 40) * 0x1p-23f - 1.0f;
    values[i] = __float2bfloat16_rn(uniform * 1.7320508f * deviation);
  }
}
