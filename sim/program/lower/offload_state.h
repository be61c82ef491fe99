// Where a bucket's optimizer state lies under a plan, and in which pieces it is moved and updated.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/lower/skeleton.h"

namespace foretrain {

// All on the device: nothing is away. `stream`: the device updates, on copies; else the host's
// processors do. `delayed`: with the gradients of the step before.
struct OptimizerOffload {
  bool away = false;
  bool stream = false;
  bool delayed = false;
  Space moments = Space::kDevice;
  // Of the parameters that the host updates, where those of the device are a copy; kDevice: there
  // are none.
  Space master = Space::kDevice;
};

// Of one bucket: with offload_fraction the ones that a backward completes first are away, up to
// that share of all elements, because nothing hides the copies of the last ones. Ren et al. 2021
// (ZeRO-Offload); Lian et al. 2024 (SuperOffload).
OptimizerOffload OffloadOf(const LowerContext& context, int bucket);

// Where a bucket's parameters lie.
Space ParameterSpace(const Plan& plan);

// Where what micro-batches add up to lies.
Space GradientSpace(const Plan& plan);

// A part of this rank's shard of a bucket: elements [begin, end) of the bucket.
struct StatePiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// Parts of at most bucket_bytes, each beginning at a multiple of 4096 bytes of the shard, so that
// a disk can read it alone. None where the shard holds no parameters.
std::vector<StatePiece> StatePiecesOf(const LowerContext& context, int bucket);

}  // namespace foretrain
