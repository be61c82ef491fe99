// Descriptions of steps that several strategies share: collectives, and copies between spaces.
#pragma once

#include <span>
#include <vector>

#include "sim/program/lower/rank/step_description.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {

StepDescription Collective(const CollectiveSpec& spec, std::vector<TensorUse> uses);

// A tensor and its target, with equal bytes, in the format of `from`. Both must state their bytes.
struct Move {
  TensorUse from;
  TensorUse to;
};
struct Route {
  Space from = Space::kDevice;
  Space to = Space::kDevice;
};

// Copies of one or more tensors over one route. `state`: see Op.
StepDescription Copies(const char* name, Route route, bool state, std::span<const Move> moves);

}  // namespace foretrain
