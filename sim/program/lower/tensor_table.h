// Where each tensor of a rank lies at the moment, by what it is: how a strategy that makes or moves
// a tensor and one that reads it find each other. Follows issue order.
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
  kForwardParameters,      // block and micro-batch that a copy is for, index of the bucket
  kBackwardParameters,     // likewise; recomputation reads the backward's
  kForwardParametersRead,  // as these two, read from a disk
  kBackwardParametersRead,
  kForwardShard,  // as those, this rank's shard on the device, for the gather
  kBackwardShard,
  kWholeGradients,    // of sharded ones: micro-batch, index of the bucket
  kReducedGradients,  // of what leaves the device: micro-batch, index of the bucket
  kArrivedGradients,  // the same where it is to be added, off the device
  kAway,              // of a saved tensor, off the device: block, micro-batch, index
  kStatePiece,        // of a part of a bucket on its way: which part, number of the piece, bucket
  kNormMade,          // by the host's processors, of gradients that lie there,
  kNotFiniteMade,
  kNormAway,       // for the host's processors: the squared norm,
  kNotFiniteAway,  // the two that tell which steps are skipped
  kSkippedAway,
  kLossScaleAway,
  kLossHere,  // this rank's sum
  kLoss,
  kNormHere,
  kNorm,
  kNotFiniteHere,  // numbers in this rank's gradients
  kNotFinite,
  kSkipped,    // steps so far
  kLossScale,  // what the loss's scale has become, and good steps since
  kLossScaleSince,
  kLoads,  // of experts: block, index of the layer in it
  // of norm and numbers that are not finite, where updates are validated afterwards: of the stages
  // before, and of these and this one
  kNormIn,
  kNormThen,
  kNotFiniteIn,
  kNotFiniteThen,
};

struct TensorName {
  TensorKind kind = TensorKind::kActivation;
  int block = 0;        // [0, 2^13)
  int micro_batch = 0;  // [0, 2^18)
  int index = 0;        // [0, 2^16)
};

class TensorTable {
 public:
  // Buffer of the tensor; -1: there is none.
  int Find(const TensorName& name) const;
  // Buffer of a tensor that must be there (FT_CHECK).
  int At(const TensorName& name) const;
  // `name` must be new (FT_CHECK). Returns `buffer`.
  int Put(const TensorName& name, int buffer);
  // `name` must be there (FT_CHECK).
  void Drop(const TensorName& name);

  // The tensor of every micro-batch is there from now on: in one of `buffers`, the places of
  // `ring`. `name` must be new but for its micro-batch, which does not count (FT_CHECK).
  void PutRing(const TensorName& name, const Ring& ring, std::vector<int> buffers);

 private:
  std::unordered_map<std::uint64_t, int> buffers_;
  std::unordered_map<std::uint64_t, std::pair<Ring, std::vector<int>>> rings_;
};

}  // namespace foretrain
