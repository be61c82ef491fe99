// Programs made wrong on purpose, and the messages of Verify.
#pragma once

#include <cstddef>
#include <string>

#include "sim/program/ir/program.h"
#include "tests/support/opaque.h"

namespace foretrain {

inline constexpr SlotTimes kUnit{1, 1, 1};

// Verify's error message, or "accepted".
std::string Refusal(const Program& program, int run_ahead_ops = kRunAheadOps);
// The same after linking the program.
std::string LinkedRefusal(Program& program);

// A pipeline of opaque ops of one second.
Program Pipeline(ScheduleKind schedule = ScheduleKind::k1f1b, int p = 2, int m = 4);

// Index of the instruction in the rank's step.
std::size_t Find(const RankProgram& rank, InstructionKind kind, Pass pass, int mb);
void Erase(RankProgram& rank, std::size_t instruction);
// Removes the one edge that EdgeText shows as `text`.
void EraseEdge(RankProgram& rank, const std::string& text);

}  // namespace foretrain
