// The tests' CUDA runtime tells one observer, the tests' CUPTI, about calls of the host and work of
// the devices. Work is observed as CUPTI would: with the call that started it, or the node of a
// graph.
#pragma once

#include <cstdint>

namespace foretrain {

enum class FakeCall {
  kLaunchKernel,         // cudaLaunchKernel and the driver's call in it
  kLaunchLibraryKernel,  // cuLaunchKernelEx, as libraries call it
  kLaunchGraph,
  kCopy,
  kFill,
  kWaitForEvent,   // of a stream
  kWaitForStream,  // of the host
  kAskEvent        // no work and no wait
};

enum class FakeWorkKind { kNone, kKernel, kCopy, kPeerCopy, kFill };

// Description of a piece of work. Fields without meaning for its kind are 0.
struct FakeWork {
  FakeWorkKind kind = FakeWorkKind::kNone;
  const char* name = nullptr;  // a kernel's, mangled; lives until the process ends
  unsigned grid[3] = {}, block[3] = {};
  unsigned registers = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
  std::uint64_t bytes = 0;
};

// The call that started work. Kinds of work that were not recorded at the call never are.
struct FakeOrigin {
  std::uint32_t correlation = 0;
  std::uint32_t kinds = 0;  // bit k: work of FakeWorkKind k is recorded
};

struct FakePlace {
  int device = 0, stream = 0;  // numbers
  std::uint64_t node = 0;      // of a graph; 0: none
};

struct FakeCudaObserver {
  // A call with this stream begins on the calling thread, and ends there.
  FakeOrigin (*begin)(FakeCall call, void* stream) = nullptr;
  void (*end)(FakeCall call, FakeOrigin origin) = nullptr;
  // Work has ended. Times are of `now`.
  void (*worked)(const FakeWork& work, FakeOrigin origin, FakePlace place, std::int64_t start_ns,
                 std::int64_t end_ns) = nullptr;
  std::int64_t (*now)() = nullptr;
  // The calling thread made a graph's node; `original` is the node that it copies, or 0.
  void (*made_node)(std::uint64_t node, std::uint64_t original) = nullptr;
};

}  // namespace foretrain

// Exported by the tests' CUDA runtime. The observer stays until the process ends.
extern "C" __attribute__((weak)) void cudaFakeObserve(const foretrain::FakeCudaObserver* observer);
// Whether the settings ask this call of `function` to fail. Each question counts as a call.
extern "C" __attribute__((weak)) bool cudaFakeFails(const char* function);
