// Work of the tests' libraries (cuBLASLt, cuDNN, NCCL). Linked with the tests' CUDA runtime it is
// done by the stream; without a runtime it is done at once.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

extern "C" __attribute__((weak)) int cudaFakeGive(void* stream, void (*function)(void*),
                                                  void* argument);
// Whether libraries refuse all products, so that the plugin's own kernels compute them.
extern "C" __attribute__((weak)) bool cudaFakeLibrariesRefuse();

namespace foretrain {

// Returns false if the stream does not take it.
inline bool GiveToStream(void* stream, std::function<void()> work) {
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
  return cudaFakeGive(stream, run, &all->back()) == 0;
}

}  // namespace foretrain
