// CudaCheck checks the arguments of a CUDA kernel entry and words its refusal. It does not read
// device memory: kernels skip ids and positions that are out of range.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cuda/device/queue.h"

namespace foretrain {

// Keeps the first error in a call's arguments, as text in the queue.
class CudaCheck {
 public:
  CudaCheck(FtQueue* queue, const char* kernel);

  // Refuses a tensor's dtype other than fp32, bf16 and fp16.
  CudaCheck& Float(const char* name, FtDtype dtype);
  CudaCheck& Size(const char* name, std::int64_t value) { return AtLeast(name, value, 0); }
  CudaCheck& AtLeast(const char* name, std::int64_t value, std::int64_t least);
  CudaCheck& AtMost(const char* name, std::int64_t value, std::int64_t most);

  // Refuses a null tensor of rows * cols > 0 elements. The sizes must have been checked before.
  CudaCheck& Tensor(const char* name, const void* pointer, std::int64_t rows,
                    std::int64_t cols = 1);

  // The queue's workspace; refuses and returns null if it has fewer than `bytes`.
  std::byte* Workspace(std::int64_t bytes);

  [[gnu::format(printf, 3, 4)]] CudaCheck& Refuse(FtStatus status, const char* format, ...);

  // Status that the entry returns after its launches: the first error, or that of the launches.
  FtStatus Launched() { return ok() ? LaunchStatus(queue_, kernel_) : status_; }

  bool ok() const { return status_ == FT_OK; }
  FtStatus status() const { return status_; }

 private:
  FtQueue* queue_;
  const char* kernel_;
  FtStatus status_ = FT_OK;
};

}  // namespace foretrain
