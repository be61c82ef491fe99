// Checks the arguments of a kernel entry and words its refusal.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

// Collects the first thing that is wrong with a call's arguments, as a sentence in the queue's
// text.
class Check {
 public:
  // Refuses every dtype but FT_F32. Both outlive the check.
  Check(FtQueue* queue, const char* kernel, FtDtype dtype);

  // `value` must be a size.
  Check& Size(const char* name, std::int64_t value);
  Check& AtLeast(const char* name, std::int64_t value, std::int64_t least);
  Check& HeadDim(std::int64_t value);

  // A tensor of rows * cols elements: null only where it is empty. Sizes must have been checked
  // before.
  Check& Tensor(const char* name, const void* pointer, std::int64_t rows, std::int64_t cols = 1);

  // Row indices of a table of `vocab` rows; from `least` on.
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
