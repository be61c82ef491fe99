// Executes CUDA kernels on the host, for tests (tests/plugins/simt/simt.h). Kernel sources are
// compiled as C++ with this header instead of <cuda_runtime.h>. With AddressSanitizer this finds
// accesses past global and shared memory. Tile products and asynchronous copies are in
// host_tensor_core.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "tests/plugins/simt/simt.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace foretrain::shim {

// Order in which the threads of a block run.
using simt::Order;
inline Order order = Order::kForward;

// Number of launches that ended with a fault, such as threads that left while others waited at a
// barrier; tests expect 0.
inline int failures = 0;

// Runs `body` in every thread of the grid.
void Launch(dim3 grid, dim3 block, std::size_t dynamic_bytes, const char* kernel,
            const std::function<void()>& body);

// Publishes `value` and reads that of lane `source`.
template <class T>
T Shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  simt::Thread& t = simt::Current();
  if (mask != ~0U) simt::Fail(t, simt::Fault::kTrap, "a shuffle of a part of a warp");
  simt::LaneWords words{};
  std::memcpy(words.data(), &value, sizeof value);
  const simt::Exchange lanes(t, simt::WarpInstruction::kShuffle, words);
  std::memcpy(&value, lanes[source % simt::kLanes].data(), sizeof value);
  return value;
}

}  // namespace foretrain::shim

#define threadIdx (::foretrain::simt::Current().index)
#define blockIdx (::foretrain::simt::Current().block->index)
#define blockDim (::foretrain::simt::Current().block->size)
#define gridDim (::foretrain::simt::Current().block->grid)

inline void __syncthreads() { foretrain::simt::BlockBarrier(foretrain::simt::Current()); }
inline void __syncwarp(unsigned mask = ~0U) {
  foretrain::simt::WarpBarrier(foretrain::simt::Current(), mask);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  const unsigned lane = foretrain::simt::Current().lane();
  return foretrain::shim::Shuffle(mask, value, lane ^ static_cast<unsigned>(bits));
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return foretrain::shim::Shuffle(mask, value, static_cast<unsigned>(source));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance) {
  const int lane = static_cast<int>(foretrain::simt::Current().lane());
  const int source = lane >= distance ? lane - distance : lane;
  return foretrain::shim::Shuffle(mask, value, static_cast<unsigned>(source));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using namespace foretrain;
  simt::Thread& t = simt::Current();
  if (mask != ~0U) simt::Fail(t, simt::Fault::kTrap, "a ballot of a part of a warp");
  const simt::Exchange lanes(t, simt::WarpInstruction::kBallot, {predicate != 0 ? 1U : 0U});
  unsigned bits = 0;
  for (unsigned lane = 0; lane < lanes.size(); ++lane) bits |= lanes[lane][0] << lane;
  return bits;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
// Byte i of the result is the one of eight that bits [4 i, 4 i + 3) of `choice` name.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned choice) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> (choice >> 4 * i & 7U) * 8 & 0xffU) << 8 * i;
  }
  return result;
}
inline float cospif(float x) { return static_cast<float>(std::cos(M_PI * static_cast<double>(x))); }
inline float sinpif(float x) { return static_cast<float>(std::sin(M_PI * static_cast<double>(x))); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}

#define FT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, ...)                                 \
  (static_cast<void>(stream), ::foretrain::shim::Launch((grid), (block), (dynamic_bytes), #kernel, \
                                                        [=] { kernel(__VA_ARGS__); }))
#define FT_DYN_SHARED(T, name) \
  T* name = reinterpret_cast<T*>(::foretrain::simt::Current().block->shared)
