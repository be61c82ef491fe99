#include "runtime/ops/sequence_runs.h"

#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {

// Two runs of sequence / 2 rows for each rank, at the positions of its two chunks. Runs of one
// sample suffice: kernels repeat them for each sample.
SequenceRuns::SequenceRuns(const OpShape& shape) {
  const std::int64_t chunk = shape.sequence / 2;
  // Gathered tensors hold one rank's rows, sample by sample, then the next rank's.
  const std::int64_t share_rows = shape.batch * shape.sequence;
  const std::int64_t whole = shape.sequence * shape.cp;
  for (int rank = 0; rank < shape.cp; ++rank) {
    const auto positions = ChunkPositions(whole, shape.cp, rank);
    // A sequence that is not split may have an odd number of tokens: the second run is longer then.
    const FtRun first{0, positions[0], chunk};
    const FtRun second{chunk, positions[1], shape.sequence - chunk};
    for (FtRun run : {first, second}) {
      of_rank_.push_back(run);
      run.row += share_rows * rank;
      of_all_.push_back(run);
    }
  }
  const auto after = [&](std::vector<FtRun> runs) {
    for (FtRun& run : runs) run.position += whole;
    return runs;
  };
  after_of_rank_ = after(of_rank_);
  after_of_all_ = after(of_all_);
}

}  // namespace foretrain
