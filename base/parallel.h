// The number of threads to use, and a loop whose iterations are independent, on several of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace foretrain {

// All cores of this machine; at least 1, as the system may not know their number.
inline int HardwareThreads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// Starts a thread, unless the system's or a container's limit of threads is reached; then false.
template <class Work>
bool TryThread(std::vector<std::jthread>& threads, const Work& work) {
  try {
    threads.emplace_back(work);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// Calls work(i) once for each i in [0, count), on up to `threads` threads including the caller's.
// If no more threads can be started, fewer share the work. If `work` throws, no new iteration
// starts. The first exception is rethrown here after all threads have ended.
template <class Work>
void ForEachInParallel(std::size_t count, int threads, const Work& work) {
  const auto helpers =
      std::min(count, static_cast<std::size_t>(std::max(1, threads))) - (count > 0 ? 1 : 0);
  if (helpers == 0) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written only by the thread that sets `failed`
  const auto take = [&] {
    try {
      for (std::size_t i = next++; i < count && !failed; i = next++) work(i);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  // Each thread takes the next free index. The block's end joins the threads, so `error` is
  // complete when it is read.
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 0; i < helpers && TryThread(others, take); ++i) {
    }
    take();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace foretrain
