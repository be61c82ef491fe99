// Work of the tests' libraries (cuBLASLt, cuDNN, NCCL). Linked with the tests' CUDA runtime it is
// done by the stream; without a runtime it is done at once.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

extern "C" __attribute__((weak)) int cudaFakeGive(void* stream, const char* name,
                                                  void (*function)(void*), void* argument);
// Whether libraries refuse all products, so that the plugin's own kernels compute them.
extern "C" __attribute__((weak)) bool cudaFakeLibrariesRefuse();
// Whether NCCL gives each call to the stream in a thread of its own.
extern "C" __attribute__((weak)) bool cudaFakeNcclThreads();

namespace foretrain {

// Returns false if the stream does not take it. `name`: of the library's kernel; lives until the
// process ends.
inline bool GiveToStream(void* stream, const char* name, std::function<void()> work) {
  if (cudaFakeGive == nullptr) {
    work();
    return true;
  }
  // Kept until the process ends, because a graph may do it again.
  static auto* const all = new std::deque<std::function<void()>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(work));
  const auto run = [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); };
  return cudaFakeGive(stream, name, run, &all->back()) == 0;
}

}  // namespace foretrain
