// Spaces of a bucket's optimizer state under a plan, and the pieces in which it is moved and
// updated.
#pragma once

#include <vector>

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

struct OptimizerOffload {
  bool offloaded = false;  // the state is offloaded; false: all of it is on the device
  bool stream = false;     // the device updates copies; false: the host's processors update
  bool delayed = false;    // the update reads the gradients of the step before
  Space moments = Space::kDevice;
  // Space of the parameters that the host updates, if the device has a copy; kDevice: no copy.
  Space master = Space::kDevice;
};

// Offload of one bucket. With offload_fraction, the buckets that a backward completes first are
// offloaded, up to that share of all elements: nothing hides the copies of the last ones. Ren et
// al. 2021 (ZeRO-Offload); Lian et al. 2024 (SuperOffload).
OptimizerOffload OffloadOf(const LowerContext& context, int bucket);

// Space of a bucket's parameters.
Space ParameterSpace(const Plan& plan);

// Space of the accumulated gradients.
Space GradientSpace(const Plan& plan);

// Pieces of this rank's shard of a bucket, of at most bucket_bytes. Each begins at a multiple of
// 4096 bytes of the shard, so that a disk can read it alone. Empty if the shard holds no
// parameters.
std::vector<ShardRange> StatePiecesOf(const LowerContext& context, int bucket);
// The same piece number `piece` alone. O(1).
ShardRange StatePieceOf(const LowerContext& context, int bucket, int piece);

}  // namespace foretrain
