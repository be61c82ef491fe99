#include "runtime/ops/sequence_runs.h"

#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {

// Two runs of sequence / 2 rows for each rank, at the positions of its two chunks. Runs of one
// sample suffice: kernels repeat them for each sample.
SequenceRuns::SequenceRuns(const OpShape& shape) {
  const std::int64_t chunk = shape.sequence / 2;
  // Gathered tensors hold one rank's rows, sample by sample, then the next rank's.
  const std::int64_t share_rows = shape.batch * shape.sequence;
  for (int rank = 0; rank < shape.cp; ++rank) {
    std::int64_t row = 0;
    for (const std::int64_t position : ChunkPositions(shape.sequence * shape.cp, shape.cp, rank)) {
      of_rank_.push_back({row, position, chunk});
      of_all_.push_back({share_rows * rank + row, position, chunk});
      row += chunk;
    }
  }
}

}  // namespace foretrain
