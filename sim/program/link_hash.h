// The identity of a linked program.
#pragma once

#include <cstdint>

#include "sim/program/program.h"

namespace foretrain {

// Hash of instructions, blocks, bindings, groups and layout: equal for a forecast and its run.
// Covers the ranks with dp == 0 and tp == 0, so that a program compiled for representatives alone
// and one of all ranks have the same; blocks count by content, not by number. O(program).
std::uint64_t HashOf(const Program& program);

}  // namespace foretrain
