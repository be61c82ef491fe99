// Makes the stages of a program wait for each other as systems with blocking transfers do. This is
// a property of the forecast software, not of the plan.
#pragma once

#include "sim/program/ir/program.h"

namespace foretrain {

// Adds edges to each rank of a linked program: a pass begins once everything sent before it has
// arrived, as in systems that wait for transfers between two passes [Megatron-LM p2p_communication;
// DeepSpeed PipelineEngine]. Applies to GPipe, 1F1B and interleaved 1F1B. Other schedules, which
// send during their passes, stay unchanged. O(ops + edges).
void WaitForSends(Program& program);

}  // namespace foretrain
