// Executes CUDA kernels on the host, for tests. Kernel sources are compiled as C++ with this header
// instead of <cuda_runtime.h>. Each CUDA thread is a fiber; the blocks of a launch run one after
// the other in the calling thread. x86-64 only, because the fiber switch is assembly.
//
// It finds missing barriers: a fiber runs until it meets one, in three orders of threads. It finds
// barriers that not all threads of a block or lanes of a mask reach, and copies that are read
// before the wait. With AddressSanitizer it finds accesses past global and shared memory. Tile
// products and asynchronous copies are in host_tensor_core.h. It leaves out true concurrency,
// memory ordering and clusters.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static

struct uint3 {
  unsigned x, y, z;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

// Saves the callee-saved registers on the old stack and restores those of the new one.
extern "C" void foretrain_shim_switch(void** save_stack, void* load_stack);

namespace foretrain::shim {

// Order in which the threads of a block run.
enum class Order { kForward, kReverse, kRandom };
inline Order order = Order::kForward;

// Number of launches in which some threads left while others waited at a barrier; tests expect 0.
inline int failures = 0;

enum class Wait : std::uint8_t { kNone, kBlock, kWarp, kDone };

// State of host_tensor_core.h: warp instructions, the words that lanes exchange, and pending
// copies.
enum class Instruction : std::uint8_t { kNone, kLoad, kLoadTransposed, kMultiply };
using LaneWords = std::array<std::uint32_t, 6>;
struct AsyncCopy {
  void* to;
  const void* from;  // NULL: zeros
  std::size_t bytes;
  unsigned group;
};

struct Fiber {
  void* stack_pointer = nullptr;
  uint3 thread{};
  unsigned number = 0;  // within the block
  Wait wait = Wait::kNone;
  unsigned mask = 0;
  unsigned turn = 0;
  LaneWords words[2] = {};  // words of this turn and the previous one
  Instruction instruction[2] = {};
  std::vector<AsyncCopy> copies;
  unsigned groups = 0;
};
struct Block {
  std::vector<Fiber> fibers;
  void* scheduler = nullptr;
  Fiber* current = nullptr;
  dim3 grid, block;
  uint3 index{};
  std::vector<char> dynamic;
  std::vector<std::uint64_t> slots;  // values that lanes exchange
  const std::function<void()>* body = nullptr;
};
inline Block* running = nullptr;  // guarded by the mutex of Launch

// Gives control back to the scheduler until the wait is over.
inline void Yield(Wait wait, unsigned mask = 0) {
  Fiber* const me = running->current;
  me->wait = wait;
  me->mask = mask;
  foretrain_shim_switch(&me->stack_pointer, running->scheduler);
}

// Publishes `value`, waits for the lanes of `mask`, and reads the value of lane `source`. A second
// wait keeps the slots until all lanes have read.
template <class T>
T Exchange(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8);
  Fiber* const me = running->current;
  const unsigned warp = me->number & ~31U;
  std::uint64_t raw = 0;
  std::memcpy(&raw, &value, sizeof value);
  running->slots[me->number] = raw;
  Yield(Wait::kWarp, mask);
  const unsigned lane = static_cast<unsigned>(source & 31);
  T result = value;
  if (warp + lane < running->fibers.size() && (mask >> lane & 1U) != 0) {
    std::memcpy(&result, &running->slots[warp + lane], sizeof result);
  }
  Yield(Wait::kWarp, mask);
  return result;
}

// Runs `body` in every thread of the grid. A deadlock at barriers ends the process.
void Launch(dim3 grid, dim3 block, std::size_t dynamic_bytes, const std::function<void()>& body);

}  // namespace foretrain::shim

#define threadIdx (::foretrain::shim::running->current->thread)
#define blockIdx (::foretrain::shim::running->index)
#define blockDim (::foretrain::shim::running->block)
#define gridDim (::foretrain::shim::running->grid)

inline void __syncthreads() { foretrain::shim::Yield(foretrain::shim::Wait::kBlock); }
inline void __syncwarp(unsigned mask = ~0U) {
  foretrain::shim::Yield(foretrain::shim::Wait::kWarp, mask);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  const int lane = static_cast<int>(foretrain::shim::running->current->number & 31U);
  return foretrain::shim::Exchange(mask, value, lane ^ bits);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return foretrain::shim::Exchange(mask, value, source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using foretrain::shim::running;
  const unsigned me = running->current->number, warp = me & ~31U;
  running->slots[me] = predicate != 0 ? 1U : 0U;
  foretrain::shim::Yield(foretrain::shim::Wait::kWarp, mask);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32 && warp + lane < running->fibers.size(); ++lane) {
    if ((mask >> lane & 1U) != 0 && running->slots[warp + lane] != 0) bits |= 1U << lane;
  }
  foretrain::shim::Yield(foretrain::shim::Wait::kWarp, mask);
  return bits;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}

#define FT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, ...) \
  (static_cast<void>(stream),                                      \
   ::foretrain::shim::Launch((grid), (block), (dynamic_bytes), [=] { kernel(__VA_ARGS__); }))
#define FT_DYN_SHARED(T, name) \
  T* name = reinterpret_cast<T*>(::foretrain::shim::running->dynamic.data())
