// Runs one function for each rank in its own thread, on one clock.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/run/run_clock.h"

namespace foretrain {

inline void RunRanks(RunClock& clock, int ranks, const std::function<void(int)>& body) {
  clock.AddThread();  // for this thread, until all exist
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    clock.AddThread();
    threads.emplace_back([&, rank] {
      body(rank);
      clock.RemoveThread();
    });
  }
  clock.RemoveThread();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace foretrain
