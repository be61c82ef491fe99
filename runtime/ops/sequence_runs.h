// SequenceRuns, the sequence positions of the rows in a rank's tensors under context parallelism.
// Kernels hold pointers into it, so it must outlive the program's run.
#pragma once

#include <cstdint>
#include <vector>

#include "base/device_api.h"
#include "sim/program/ir/op.h"

namespace foretrain {

class SequenceRuns {
 public:
  // `shape`: of an op with cp > 0, with `batch` samples of `sequence` tokens on this rank.
  explicit SequenceRuns(const OpShape& shape);

  // Runs of the first sample's rows on `rank`: two.
  const FtRun* OfRank(int rank) const { return of_rank_.data() + std::ptrdiff_t{2} * rank; }
  static constexpr std::int64_t kOfRank = 2;

  // Runs of the first sample's rows in a tensor of all ranks' shares, one after the other: 2 * cp.
  const FtRun* OfAll() const { return of_all_.data(); }
  std::int64_t all_count() const { return static_cast<std::int64_t>(of_all_.size()); }

  // The same rows at positions after the sequence's end: queries there see all keys (encoders).
  const FtRun* AfterOfRank(int rank) const {
    return after_of_rank_.data() + std::ptrdiff_t{2} * rank;
  }
  const FtRun* AfterOfAll() const { return after_of_all_.data(); }

 private:
  std::vector<FtRun> of_rank_, of_all_, after_of_rank_, after_of_all_;
};

}  // namespace foretrain
