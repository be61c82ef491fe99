// Adds waits to a linked program, as systems with blocking communication have them. They are a
// property of the forecast software, not of the plan. O(ops + edges).
#pragma once

#include "sim/program/ir/program.h"

namespace foretrain {

// A pass begins once everything sent before it has arrived, as in systems that wait for transfers
// between two passes [Megatron-LM p2p_communication; DeepSpeed PipelineEngine]. Applies to GPipe,
// 1F1B and interleaved 1F1B. Other schedules, which send during their passes, stay unchanged.
void WaitForSends(Program& program);

// Compute after a tensor-parallel collective of the same instruction begins once the collective has
// ended, even without reading its result, as in systems that run both on one stream [Megatron-LM
// before 2022, mpu/mappings.py]. Changes no order of issue.
void WaitForTensorSums(Program& program);

}  // namespace foretrain
