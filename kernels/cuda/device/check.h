// CudaCheck checks the arguments of a CUDA kernel entry and words its refusal. It does not read
// device memory: kernels skip ids and positions that are out of range.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/arguments/describe.h"
#include "kernels/cuda/device/queue.h"

namespace foretrain {

// Adds limits of this device and the status of launches to the checks of every device.
class CudaCheck final : public ArgumentReader {
 public:
  // Also makes the queue's device current.
  CudaCheck(FtQueue* queue, FtKernel kernel);
  // The same, and checks the arguments.
  template <class Arguments>
  CudaCheck(FtQueue* queue, FtKernel kernel, const Arguments& g) : CudaCheck(queue, kernel) {
    Read(g);
  }

  // Checks the arguments by their description.
  template <class Arguments>
  void Read(const Arguments& g) {
    Arguments copy = g;
    Describe(*this, copy);
  }

  FtQueue* queue() const { return queue_; }
  void* stream() const { return StreamOf(queue_); }

  // The queue's workspace, allocated on first use. Refuses and returns null if `bytes` exceed it.
  std::byte* Workspace(std::int64_t bytes);

  // Status that the entry returns after its launches: the first error, or that of the launches.
  FtStatus Launched() { return ok() ? LaunchStatus(queue_, NameOf(kernel())) : status_; }

 private:
  FtQueue* queue_;
};

// Entry that checks its arguments, then launches its kernels.
template <auto entry, auto launch>
FtStatus CheckAndLaunch(FtQueue* queue, const typename EntryOf<entry>::Arguments* g) {
  CudaCheck check(queue, EntryOf<entry>::kKernel, *g);
  if (check.ok()) launch(check, *g);
  return check.Launched();
}

// Sets the entry that launches by `launch(check, arguments)`.
template <auto entry, auto launch>
void SetCuda(FtDeviceApi& api) {
  api.*entry = &CheckAndLaunch<entry, launch>;
}

}  // namespace foretrain
