// XID and ECC errors of one GPU, as NVML's events report them.
#pragma once

#include <memory>
#include <vector>

#include "profiler/nvml.h"

namespace foretrain {

// One thread at a time.
class GpuEvents {
 public:
  // Null if the driver or the GPU has no such events. Events from before this call are not
  // reported. `nvml` must outlive the result.
  static std::unique_ptr<GpuEvents> Open(const Nvml& nvml, NvmlDevice* gpu);
  ~GpuEvents();
  GpuEvents(const GpuEvents&) = delete;
  GpuEvents& operator=(const GpuEvents&) = delete;

  struct Taken {
    std::vector<int> xids{};    // NVIDIA's numbers, in order
    bool memory_error = false;  // an ECC error: the GPU's counts have changed
  };
  // The events since the previous call. Does not wait.
  Taken Take() const;

 private:
  struct Functions;
  explicit GpuEvents(std::unique_ptr<Functions> functions);

  const std::unique_ptr<Functions> functions_;
  void* set_ = nullptr;  // of the library
};

}  // namespace foretrain
