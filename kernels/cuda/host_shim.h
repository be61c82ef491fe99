// Executes CUDA kernels on the host, for tests: kernel sources are compiled as C++ with this header
// in place of <cuda_runtime.h>. One fiber a CUDA thread; the blocks of a launch run one after the
// other in the calling thread. x86-64 alone (the switch of fibers is assembly).
//
// It finds missing barriers (a fiber runs until it meets one, in three orders of threads), barriers
// that not all threads of a block or not all lanes of a mask reach, copies that are read before
// they were waited for, and with AddressSanitizer accesses past global and shared memory. Products
// of tiles and asynchronous copies: host_tensor_core.h. It leaves out true concurrency, memory
// ordering, and clusters.
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

// Saves the callee-saved registers on the old stack and takes those of the new one.
extern "C" void foretrain_shim_switch(void** save_stack, void* load_stack);

namespace foretrain::shim {

// In which threads of a block take their turns.
enum class Order { kForward, kReverse, kRandom };
inline Order order = Order::kForward;

// Launches so far in which some threads left while others waited at a barrier; tests expect 0.
inline int failures = 0;

enum class Wait : std::uint8_t { kNone, kBlock, kWarp, kDone };

// Of host_tensor_core.h: what lanes do together, what each hands to the others, and copies that are
// under way.
enum class Instruction : std::uint8_t { kNone, kLoad, kLoadTransposed, kMultiply };
using LaneWords = std::array<std::uint32_t, 6>;
struct AsyncCopy {
  void* to;
  const void* from;  // null: zeros
  std::size_t bytes;
  unsigned group;
};

struct Fiber {
  void* stack_pointer = nullptr;
  uint3 thread{};
  unsigned number = 0;  // in the block
  Wait wait = Wait::kNone;
  unsigned mask = 0;
  unsigned turn = 0;
  LaneWords words[2] = {};  // of this turn and of the one before
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
  std::vector<std::uint64_t> slots;  // what lanes hand to each other
  const std::function<void()>* body = nullptr;
};
inline Block* running = nullptr;  // guarded by the mutex of Launch

inline void Yield(Wait wait, unsigned mask = 0) {
  Fiber* const me = running->current;
  me->wait = wait;
  me->mask = mask;
  foretrain_shim_switch(&me->stack_pointer, running->scheduler);
}

// Publishes `value`, waits for the lanes of `mask`, and reads that of lane `source`.
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

// Runs `body` in every thread of the grid. A deadlock of barriers ends the process.
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
