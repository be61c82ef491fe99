// Tensors that an op reads and writes, who wrote them, and what the op waits for. The compiled
// program tells, so this covers runs whose model and plan are stored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/program/ir/program.h"
#include "ui/run_view.h"

namespace foretrain::ui {

struct OpTensor {
  std::string name{};  // "qkv, activations"
  std::int64_t bytes = 0;
  std::string other{};  // "from mlp.norm of forward layer 3 mb 0", "to ..."
};

struct OpTensors {
  std::vector<OpTensor> inputs{};
  std::vector<OpTensor> outputs{};
  std::vector<std::string> waits_for{};  // ops of other queues that must end before it
};

class ProgramOps {
 public:
  explicit ProgramOps(Program program) : program_(std::move(program)) {}

  // Compiles the program of `setting` for one rank of each class. Takes up to seconds. Errors:
  // those of Compile.
  static Result<std::shared_ptr<const ProgramOps>> Make(const RunSetting& setting);

  // The tensors of an op of `rank`, or of a whole instruction: then those that come from before it
  // and go beyond it. `nullopt` if the program has no such op. O(ops of the rank).
  std::optional<OpTensors> Of(int rank, OpId op) const;

 private:
  Program program_;
};

}  // namespace foretrain::ui
