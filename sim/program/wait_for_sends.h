// Makes the stages of a program wait for each other as systems with blocking transfers do. Leaves
// out what a plan decides: this is a habit of the software that is forecast.
#pragma once

#include "sim/program/program.h"

namespace foretrain {

// Adds edges to each rank of a linked program: a pass begins when what was sent before it has
// arrived, as where transfers are waited for between two passes [Megatron-LM p2p_communication;
// DeepSpeed PipelineEngine]. Of GPipe, 1F1B and interleaved 1F1B; programs of other schedules, which are made
// to send beside their passes, stay as they are. O(ops + edges).
void WaitForSends(Program& program);

}  // namespace foretrain
