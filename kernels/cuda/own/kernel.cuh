// Basis of every CUDA kernel file. It has launches, which tests also run on the host, 16- and
// 32-bit values and accesses of eight elements. Reductions run over a warp or a block.
//
// Kernel files launch only by FT_LAUNCH and name dynamic shared memory only by FT_DYN_SHARED.
// Kernels with several template arguments go in parentheses.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "base/numeric/number_formats.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/queue.h"

#ifdef FT_HOST_SHIM  // a header of the tests, which execute kernels on the host
#include FT_HOST_SHIM
#else
#include <cuda_runtime.h>
#define FT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, ...)    \
  (kernel<<<(grid), (block), static_cast<std::size_t>(dynamic_bytes), \
            static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__))
#define FT_DYN_SHARED(T, name)                                \
  extern __shared__ __align__(16) unsigned char ft_dynamic[]; \
  T* name = reinterpret_cast<T*>(ft_dynamic)
#endif

#define FT_DEVICE __device__ __forceinline__

namespace foretrain {

constexpr int kWarp = 32;
constexpr int kBlock = 256;  // default number of threads in a block
constexpr int kOctet = 8;    // elements that a thread reads at once: 16 bytes of 16-bit values
constexpr unsigned kAllLanes = ~0U;
constexpr float kLog2E = 1.4426950409F;

// ---- numbers

struct Bf16 {
  static constexpr bool kIsBf16 = true;
  std::uint16_t bits;
};
struct Fp16 {
  static constexpr bool kIsBf16 = false;
  std::uint16_t bits;
};

FT_DEVICE float Widen(float x) { return x; }
FT_DEVICE float Widen(Bf16 x) { return FloatOfBf16(x.bits); }
FT_DEVICE float Widen(Fp16 x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return FloatOfFp16(x.bits);
#endif
}

// Rounds to nearest, ties to even.
template <class T>
FT_DEVICE T Narrow(float x) {
  return x;
}
template <>
FT_DEVICE Bf16 Narrow<Bf16>(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
#else
  return {Bf16OfFloat(x)};
#endif
}
template <>
FT_DEVICE Fp16 Narrow<Fp16>(float x) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
#else
  return {Fp16OfFloat(x)};
#endif
}

// x after storing it as T.
template <class T>
FT_DEVICE float Rounded(float x) {
  return Widen(Narrow<T>(x));
}

// ---- one element of a tensor whose dtype is known at run time. Used for parameters and their
// gradients, which are small compared with activations.

FT_DEVICE float LoadAny(const void* at, FtDtype dtype, std::int64_t i) {
  if (dtype == FT_BF16) return Widen(static_cast<const Bf16*>(at)[i]);
  if (dtype == FT_F16) return Widen(static_cast<const Fp16*>(at)[i]);
  return static_cast<const float*>(at)[i];
}
FT_DEVICE void StoreAny(void* at, FtDtype dtype, std::int64_t i, float x) {
  if (dtype == FT_BF16) {
    static_cast<Bf16*>(at)[i] = Narrow<Bf16>(x);
  } else if (dtype == FT_F16) {
    static_cast<Fp16*>(at)[i] = Narrow<Fp16>(x);
  } else {
    static_cast<float*>(at)[i] = x;
  }
}

// scale * 2^state[0], the current loss scale; `state` may be NULL.
FT_DEVICE float ScaledBy(float scale, const float* state) {
  return state == nullptr ? scale : ldexpf(scale, static_cast<int>(state[0]));
}

// ---- eight elements, of which `left` exist
// They are read in 16-byte words if aligned and complete, otherwise one by one.

FT_DEVICE bool IsAligned(const void* at) {
  return (reinterpret_cast<std::uintptr_t>(at) & 15U) == 0;
}

template <class T>
struct alignas(16) Octet {
  T x[kOctet];
};

template <class T>
FT_DEVICE void CopyWords(const T* from, T* to) {
  const auto* const in = reinterpret_cast<const uint4*>(from);
  auto* const out = reinterpret_cast<uint4*>(to);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Octet<T>) / 16); ++i) out[i] = in[i];
}

template <class T>
FT_DEVICE void LoadOctet(const T* at, std::int64_t left, float (&x)[kOctet]) {
  if (left >= kOctet && IsAligned(at)) {
    Octet<T> words;
    CopyWords(at, words.x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] = Widen(words.x[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = i < left ? Widen(at[i]) : 0.0F;
}

template <class T>
FT_DEVICE void StoreOctet(T* at, std::int64_t left, const float (&x)[kOctet]) {
  if (left >= kOctet && IsAligned(at)) {
    Octet<T> words;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) words.x[i] = Narrow<T>(x[i]);
    CopyWords(words.x, at);
    return;
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i < left) at[i] = Narrow<T>(x[i]);
  }
}

FT_DEVICE void LoadAnyOctet(const void* at, FtDtype dtype, std::int64_t first, std::int64_t left,
                            float (&x)[kOctet]) {
  if (dtype == FT_BF16) {
    LoadOctet(static_cast<const Bf16*>(at) + first, left, x);
  } else if (dtype == FT_F16) {
    LoadOctet(static_cast<const Fp16*>(at) + first, left, x);
  } else {
    LoadOctet(static_cast<const float*>(at) + first, left, x);
  }
}
FT_DEVICE void StoreAnyOctet(void* at, FtDtype dtype, std::int64_t first, std::int64_t left,
                             const float (&x)[kOctet]) {
  if (dtype == FT_BF16) {
    StoreOctet(static_cast<Bf16*>(at) + first, left, x);
  } else if (dtype == FT_F16) {
    StoreOctet(static_cast<Fp16*>(at) + first, left, x);
  } else {
    StoreOctet(static_cast<float*>(at) + first, left, x);
  }
}

// ---- reductions over threads: every thread receives the result, with the same order of terms in
// every run

struct Sum {
  template <class T>
  FT_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
// Maximum; NaN if either is NaN.
struct Most {
  FT_DEVICE float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// Butterfly over the lanes: after five steps every lane holds the result.
template <class T, class Join>
FT_DEVICE T JoinWarp(T x, Join join) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, x, bits);
    x = join(x, other);
  }
  return x;
}

FT_DEVICE int LaneOf() { return static_cast<int>(threadIdx.x) % kWarp; }

// Sum of the values of this lane and those before it.
FT_DEVICE std::int64_t SumUpTo(std::int64_t x) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int64_t before = __shfl_up_sync(kAllLanes, x, distance);
    if (LaneOf() >= distance) x += before;
  }
  return x;
}

// Reduction over a block of whole warps in one dimension. `none` is the neutral element. All
// threads must call it. Calls of one kernel with the same T and Join need different slots, whose
// shared memory differs: an earlier call's result may still be read.
template <int kSlot = 0, class T, class Join>
FT_DEVICE T JoinBlock(T x, T none, Join join) {
  __shared__ T of_warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  x = JoinWarp(x, join);
  if (warps == 1) return x;
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return JoinWarp(lane < warps ? of_warps[lane] : none, join);
}
template <int kSlot = 0>
FT_DEVICE float SumBlock(float x) {
  return JoinBlock<kSlot>(x, 0.0F, Sum{});
}

// ---- launches

inline unsigned Blocks(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  constexpr std::int64_t kMost = 0x7fffffff;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

// Threads for a row of `cols` elements: whole warps, one octet per thread, at most 1,024.
inline unsigned RowThreads(std::int64_t cols) {
  const std::int64_t warps = (cols + kOctet * kWarp - 1) / (kOctet * kWarp);
  return static_cast<unsigned>(kWarp * (warps < 1 ? 1 : warps > 32 ? 32 : warps));
}

// Calls use(T{}) with the C++ type of a checked dtype.
template <class Use>
void WithType(FtDtype dtype, const Use& use) {
  if (dtype == FT_BF16) {
    use(Bf16{});
  } else if (dtype == FT_F16) {
    use(Fp16{});
  } else {
    use(float{});
  }
}

}  // namespace foretrain
