// Checks the arguments of a kernel entry and words its refusal.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/arguments/reader.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

// Adds data that lie in host memory on this device to the checks of every device.
class Check final : public ArgumentReader {
 public:
  Check(FtQueue* queue, FtKernel kernel)
      : ArgumentReader({"cpu", "this device computes in fp32 (dtype 0)", queue->error,
                        sizeof queue->error, TakesShortTensors(kernel)},
                       kernel),
        queue_(queue) {}

  FtQueue* queue() const { return queue_; }

  // Refuses ids outside [least, vocab), the rows of a table. One pass over the ids for each call is
  // far cheaper than the rows that they select.
  void Ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab, int least = 0) {
    for (std::int64_t row = 0; ok() && row < rows; ++row) {
      if (ids[row] >= least && ids[row] < vocab) continue;
      Refuse(FT_FAILED, "row %lld has id %d, outside the vocabulary of %lld",
             static_cast<long long>(row), ids[row], static_cast<long long>(vocab));
    }
  }

  // Takes over the status of another entry, which has worded its refusal.
  void Adopt(FtStatus status) { status_ = status; }

 private:
  FtQueue* queue_;
};

}  // namespace foretrain
