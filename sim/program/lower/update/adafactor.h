// Adafactor: updates with a second moment of rows and columns (Shazeer and Stern 2018).
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// The step that updates a bucket of whole tensors, one op a tensor.
SkeletonStep AdafactorStep(const LowerContext& context, int bucket, int micro_batch);

}  // namespace foretrain
