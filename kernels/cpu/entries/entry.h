// Makes an entry of the device table from a kernel that computes in fp32 on valid arguments.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/device_api.h"
#include "kernels/arguments/describe.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_queue.h"
#include "kernels/cpu/wide_copies.h"

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

// Calls a kernel of one of three forms: a member of VectorKernels, with or without scratch memory;
// a function of the arguments; or one that may also refuse them and use the queue.
template <auto kernel, class Arguments>
void Compute(Check& check, const Arguments& g) {
  FtQueue* const queue = check.queue();
  if constexpr (std::is_invocable_v<decltype(kernel), Check&, const Arguments&>) {
    kernel(check, g);
  } else if constexpr (std::is_invocable_v<decltype(kernel), const Arguments&>) {
    kernel(g);
  } else if constexpr (requires { (queue->kernels->*kernel)(g); }) {
    (queue->kernels->*kernel)(g);
  } else {
    (queue->kernels->*kernel)(g, queue->scratch.get());
  }
}

// Checks the arguments, then runs the kernel on fp32 copies of short tensors. Outputs are stored
// only on success.
template <auto entry, auto kernel>
FtStatus Run(FtQueue* queue, const typename EntryOf<entry>::Arguments* arguments) {
  auto g = *arguments;
  Check check(queue, EntryOf<entry>::kKernel);
  Describe(check, g);
  if (!check.ok()) return check.status();
  WideCopies copies(queue, EntryOf<entry>::kKernel);
  Describe(copies, g);
  if (!copies.ok()) return copies.status();
  copies.UseFp32();
  Compute<kernel>(check, g);
  if (check.ok()) copies.Store();
  return check.status();
}

template <auto entry, auto kernel>
void Set(FtDeviceApi& api) {
  api.*entry = &Run<entry, kernel>;
}

}  // namespace foretrain
