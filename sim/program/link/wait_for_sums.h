// Makes compute wait for tensor-parallel collectives, as in systems that run both on one stream.
// This is a property of the forecast software, not of the plan.
#pragma once

#include "sim/program/ir/program.h"

namespace foretrain {

// Adds edges to each rank of a linked program. Compute after a tensor-parallel collective of the
// same instruction begins once the collective has ended, even without reading its result
// [Megatron-LM before 2022, mpu/mappings.py]. Changes no order of issue. O(ops + edges).
void WaitForTensorSums(Program& program);

}  // namespace foretrain
