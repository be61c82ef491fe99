// Programs made wrong on purpose, and what Verify says of them.
#pragma once

#include <cstddef>
#include <string>

#include "sim/program/opaque.h"
#include "sim/program/program.h"

namespace foretrain {

inline constexpr SlotTimes kUnit{1, 1, 1};

// The message that Verify refuses with, or "accepted".
std::string Refusal(const Program& program, int run_ahead_ops = kRunAheadOps);
// The same once the program is linked.
std::string LinkedRefusal(Program& program);

// A pipeline of opaque ops of one second.
Program Pipeline(ScheduleKind schedule = ScheduleKind::k1f1b, int p = 2, int m = 4);

// Number of the instruction in the rank's step.
std::size_t Find(const RankProgram& rank, InstructionKind kind, Pass pass, int mb);
void Erase(RankProgram& rank, std::size_t instruction);
// Takes out the one edge that EdgeText shows as `text`.
void EraseEdge(RankProgram& rank, const std::string& text);

}  // namespace foretrain
