// bf16 pairs, warp sums, and exact conversions.
#pragma once
#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Two floats, each rounded once; `a` in the low half.
__device__ __forceinline__ uint32_t pack(float a, float b) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
  return pair;
}

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The sum of all lanes, in one fixed order, in every lane.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Turns the pair (a, b) by an angle given as (cos, sin).
__device__ __forceinline__ void turn(float& a, float& b, float2 angle) {
  float x = a * angle.x - b * angle.y;
  b = a * angle.y + b * angle.x;
  a = x;
}

// Where the members of pair `i` of a head stand.
__device__ __forceinline__ int2 pair_at(int i, int dim, bool interleaved) {
  return interleaved ? make_int2(2 * i, 2 * i + 1) : make_int2(i, i + dim / 2);
}
