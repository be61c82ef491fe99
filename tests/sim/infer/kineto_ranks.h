// A simulated step as PyTorch's profiler would write it: one text a rank, with kernels and their
// launches, NCCL's records of process groups, and ranges for the passes.
#pragma once

#include <string>
#include <vector>

#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

// Text of each rank of `program`, all of which are compiled.
//
//   timeline  of a simulation
//   step      the step to write
std::vector<std::string> KinetoRanks(const Program& program, const Timeline& timeline, int step);

}  // namespace foretrain
