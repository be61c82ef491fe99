// Checks the arguments of a CUDA kernel entry and words its refusal. Leaves out what lies in device
// memory: kernels skip ids and places that are out of range.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cuda/queue.h"

namespace foretrain {

// Collects the first thing that is wrong with a call's arguments, as a sentence in the queue.
class CudaCheck {
 public:
  CudaCheck(FtQueue* queue, const char* kernel);

  // A tensor's dtype: fp32, bf16 or fp16.
  CudaCheck& Float(const char* name, FtDtype dtype);
  CudaCheck& Size(const char* name, std::int64_t value) { return AtLeast(name, value, 0); }
  CudaCheck& AtLeast(const char* name, std::int64_t value, std::int64_t least);
  CudaCheck& AtMost(const char* name, std::int64_t value, std::int64_t most);

  // A tensor of rows * cols elements: null only where it is empty. Sizes must have been checked
  // before.
  CudaCheck& Tensor(const char* name, const void* pointer, std::int64_t rows,
                    std::int64_t cols = 1);

  // Of the queue's workspace; null where it has less.
  std::byte* Workspace(std::int64_t bytes);

  [[gnu::format(printf, 3, 4)]] CudaCheck& Refuse(FtStatus status, const char* format, ...);

  // What the entry returns, behind its launches.
  FtStatus Launched() { return ok() ? LaunchStatus(queue_, kernel_) : status_; }

  bool ok() const { return status_ == FT_OK; }
  FtStatus status() const { return status_; }

 private:
  FtQueue* queue_;
  const char* kernel_;
  FtStatus status_ = FT_OK;
};

}  // namespace foretrain
