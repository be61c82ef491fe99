// Computes the identity of a linked program.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"

namespace foretrain {

// Hash of instructions, blocks, bindings, groups and layout: equal for a forecast and its run.
// Covers only ranks with dp, cp and tp equal to 0: a program of representatives and one of all
// ranks have the same hash. Blocks count by content, not by number. O(program).
std::uint64_t HashOf(const Program& program);

}  // namespace foretrain
