// Checks the arguments of a kernel entry and words its refusal.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

// Keeps the first error in a call's arguments, as text in the queue.
class Check {
 public:
  // Refuses every dtype but FT_F32. Both outlive the check.
  Check(FtQueue* queue, const char* kernel, FtDtype dtype);

  // Refuses a negative `value`.
  Check& Size(const char* name, std::int64_t value);
  Check& AtLeast(const char* name, std::int64_t value, std::int64_t least);
  Check& HeadDim(std::int64_t value);

  // Refuses a null tensor of rows * cols > 0 elements. The sizes must have been checked before.
  Check& Tensor(const char* name, const void* pointer, std::int64_t rows, std::int64_t cols = 1);

  // Refuses ids outside [least, vocab), the rows of a table.
  Check& Ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab, int least = 0);

  [[gnu::format(printf, 3, 4)]] Check& Refuse(FtStatus status, const char* format, ...);

  bool ok() const { return status_ == FT_OK; }
  FtStatus status() const { return status_; }

 private:
  FtQueue* queue_;
  const char* kernel_;
  FtStatus status_ = FT_OK;
};

}  // namespace foretrain
