// The moving averages of a training in place of its parameters, while an evaluation runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/executor/executor.h"

namespace foretrain {

// Needs host memory for the averages of the whole model, and for the parameters of all ranks here.
class AveragesInUse {
 public:
  // Writes the averages into the parameters of all ranks and keeps what was there. All ranks of the
  // program run in `training`, which keeps averages (Plan::average_decay). Only between runs.
  // Errors: kIo.
  static Result<AveragesInUse> Make(Executor& training);

  // Brings the parameters back, bit by bit. Errors: kIo.
  Result<void> Restore();

 private:
  struct Kept {
    int place = 0;  // of the rank in the executor
    Binding buffer;
    std::vector<std::byte> bytes;
  };
  explicit AveragesInUse(Executor& training) : training_(&training) {}
  Result<void> Keep(int place, std::int32_t buffer);

  Executor* training_;
  std::vector<Kept> kept_;
};

}  // namespace foretrain
