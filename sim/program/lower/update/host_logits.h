// Generation: logits that the host reads after the step.
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Adds a copy of the logits to pinned memory behind the step of a rank that has the head.
void LowerHostLogits(const LowerContext& context, Skeleton& skeleton);

// Makes that copy state of the emitted rank, so that it outlives the step.
void KeepHostLogits(RankProgram& rank);

}  // namespace foretrain
