// Writes small programs by hand, one op an instruction, for tests of the executor.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

class ProgramBuilder {
 public:
  // `ranks` ranks, all of them in one group of every kind but the neighbours.
  explicit ProgramBuilder(int ranks);

  // A buffer of the rank of `floats` fp32 elements; its number.
  std::int32_t Buffer(int rank, std::int64_t floats, bool persistent = false,
                      Category category = Category::kActivations);

  // An operand: an access to floats [begin, begin + size) of a buffer; to all of it if size is 0.
  struct Tensor {
    std::int32_t buffer = -1;
    Access access = Access::kRead;
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  // Appends an op on `queue` to the rank's step; what the caller sets on the result (shape, group,
  // duration) stays. The reference holds until the next call.
  Op& Add(int rank, OpKind kind, Queue queue, std::initializer_list<Tensor> tensors,
          const std::string& name = "");
  // The op sleeps.
  Op& Opaque(int rank, Queue queue, double seconds, std::initializer_list<Tensor> tensors = {},
             const std::string& name = "");
  // A collective of the whole group in place, on fp32 [elements].
  Op& AllReduce(int rank, Queue queue, std::int32_t buffer, std::int64_t elements,
                const std::string& name = "");
  // The host reads a loss.
  Op& ReadLoss(int rank, std::int32_t buffer);

  // The last op of the rank waits for all of an earlier one, by its place in the step.
  void After(int rank, std::int32_t earlier);

  // Linked; the builder is empty after.
  std::shared_ptr<const Program> Take();

 private:
  Program program_;
};

}  // namespace foretrain
