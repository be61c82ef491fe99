// Calls, work and graph nodes of the tests' CUDA runtime, as it tells its observer about them
// (tests/plugins/cuda/observer.h). Without an observer nothing is told.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/plugins/cuda/observer.h"

namespace foretrain::cudart {

// PTX does not tell how many registers a kernel has, so all have this many.
inline constexpr unsigned kRegisters = 40;

// A piece of work, and its description for the observer.
struct Work {
  std::function<void()> run;
  FakeWork shown{};
};

// Scope of a call that the observer is told about.
class ObservedCall {
 public:
  ObservedCall(FakeCall call, void* stream);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

  // The call that the calling thread is in.
  static FakeOrigin Current();

 private:
  const FakeCall call_;
};

// Does the work, then tells the observer about it.
void Do(const Work& work, FakeOrigin origin, FakePlace place);

struct Node {
  Work work;
  std::uint64_t number = 0;  // unique in the process
};
// A node of a graph with a number of its own. `original`: the node that it copies, or 0.
Node MakeNode(Work work, std::uint64_t original = 0);

}  // namespace foretrain::cudart
