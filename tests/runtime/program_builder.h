// Builds small programs by hand, one op for each instruction, for tests of the executor.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

class ProgramBuilder {
 public:
  // `ranks` ranks, all in one group of each kind except the neighbours.
  explicit ProgramBuilder(int ranks);

  // Adds a buffer of `floats` fp32 elements to the rank; returns its number.
  std::int32_t Buffer(int rank, std::int64_t floats, bool persistent = false,
                      Category category = Category::kActivations);

  // An operand: access to floats [begin, begin + size) of a buffer; size 0 means all of it.
  struct Tensor {
    std::int32_t buffer = -1;
    Access access = Access::kRead;
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  // Appends an op on `queue` to the rank's step. The caller sets shape, group and duration on the
  // result. The reference is valid until the next call.
  Op& Add(int rank, OpKind kind, Queue queue, std::initializer_list<Tensor> tensors,
          const std::string& name = "");
  // Adds an op that sleeps.
  Op& Opaque(int rank, Queue queue, double seconds, std::initializer_list<Tensor> tensors = {},
             const std::string& name = "");
  // Adds an in-place collective of the whole group on fp32 [elements].
  Op& AllReduce(int rank, Queue queue, std::int32_t buffer, std::int64_t elements,
                const std::string& name = "");
  // Adds a host read of a loss.
  Op& ReadLoss(int rank, std::int32_t buffer);

  // Makes the rank's last op wait for all of an earlier one, given by its index in the step.
  void After(int rank, std::int32_t earlier);

  // Returns the linked program; the builder is empty afterwards.
  std::shared_ptr<const Program> Take();

 private:
  Program program_;
};

}  // namespace foretrain
