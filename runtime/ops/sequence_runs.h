// Which positions of its sequence each row of a rank's tensors holds, where context-parallel ranks
// share out a sequence. What kernels read of it must lie where it does while the program runs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/device_api.h"
#include "sim/program/op.h"

namespace foretrain {

class SequenceRuns {
 public:
  // `shape`: of an op with cp > 0; batch samples of `sequence` tokens here.
  explicit SequenceRuns(const OpShape& shape);

  // Rows of the first sample on `rank`, two runs.
  const FtRun* OfRank(int rank) const { return of_rank_.data() + std::ptrdiff_t{2} * rank; }
  static constexpr std::int64_t kOfRank = 2;

  // Rows of the first sample where all ranks' shares lie one behind the other: 2 * cp runs.
  const FtRun* OfAll() const { return of_all_.data(); }
  std::int64_t all_count() const { return static_cast<std::int64_t>(of_all_.size()); }

 private:
  std::vector<FtRun> of_rank_, of_all_;
};

}  // namespace foretrain
