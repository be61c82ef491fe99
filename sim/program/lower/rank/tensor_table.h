// Maps each tensor of a rank to its current buffer, by name. So a strategy that makes or moves a
// tensor and one that reads it need not know each other. Follows issue order.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/program/schedules/ring.h"

namespace foretrain {

enum class TensorKind : std::uint8_t {
  kActivation,             // block that makes it, micro-batch
  kInputGradient,          // block whose input it is the gradient of, micro-batch
  kSaved,                  // block, micro-batch, index of the saved tensor
  kCarried,                // block, micro-batch, pass and slot: between the pieces of a pass
  kIds,                    // micro-batch
  kTargets,                // micro-batch
  kForwardParameters,      // copy for a use: block, micro-batch, bucket
  kBackwardParameters,     // same for the backward and its recomputation
  kForwardParametersRead,  // the two copies above in pinned memory, read from NVMe
  kBackwardParametersRead,
  kForwardShard,  // this rank's shard on the device, which the gather reads
  kBackwardShard,
  kOlderParameters,   // if steps overlap: micro-batch that uses them, bucket
  kWholeGradients,    // of one micro-batch, until they are reduced: micro-batch, bucket
  kReducedGradients,  // reduce-scattered and about to leave the device: micro-batch, bucket
  kArrivedGradients,  // offloaded and about to be added: micro-batch, bucket
  kAway,              // offloaded saved tensor: block, micro-batch, index
  kStatePiece,        // part of optimizer state on its way: part, piece, bucket
  kNormMade,          // computed on the host from offloaded gradients
  kNotFiniteMade,
  kNormOffloaded,  // copies for updates on the host
  kNotFiniteOffloaded,
  kSkippedOffloaded,
  kLossScaleOffloaded,
  kLossHere,  // sum of this rank
  kLoss,      // sum over ranks
  kNormHere,
  kNorm,
  kNotFiniteHere,   // count in this rank's gradients
  kNotFinite,       // count over all ranks
  kSkipped,         // skipped steps so far
  kLossScale,       // current loss scale
  kLossScaleSince,  // good steps since its last change
  kLoads,           // tokens per expert: block, index of the layer in it
  // With post-validation: sums over the stages before (In), and with this stage added (Then).
  kNormIn,
  kNormThen,
  kNotFiniteIn,
  kNotFiniteThen,
  kMomentumShard,  // what Muon orthogonalizes, of this rank's shard: bucket
  kMomentumWhole,  // and of the whole bucket
  // Adafactor's: bucket.
  kFactorSums,      // of rows, of columns and of parameters' squares
  kFactorMeans,     // of the moments of rows, by tensor
  kFactorSizes,     // squares of the update, by tensor
  kDocumentStarts,  // first block of the chunk that reads them, micro-batch
};

struct TensorName {
  TensorKind kind = TensorKind::kActivation;
  int block = 0;        // [0, 2^13)
  int micro_batch = 0;  // [0, 2^18)
  int index = 0;        // [0, 2^16)
};

class TensorTable {
 public:
  // Buffer of the tensor; -1 if it has none.
  int Find(const TensorName& name) const;
  // Buffer of a tensor that must exist (FT_CHECK).
  int At(const TensorName& name) const;
  // `name` must be new (FT_CHECK). Returns `buffer`.
  int Put(const TensorName& name, int buffer);
  // `name` must exist (FT_CHECK).
  void Drop(const TensorName& name);

  // From now on the tensor of every micro-batch has a place in `buffers`, as `ring` says. The
  // micro-batch of `name` is ignored; the rest must be new (FT_CHECK).
  void PutRing(const TensorName& name, const Ring& ring, std::vector<int> buffers);

 private:
  std::unordered_map<std::uint64_t, int> buffers_;
  std::unordered_map<std::uint64_t, std::pair<Ring, std::vector<int>>> rings_;
};

}  // namespace foretrain
