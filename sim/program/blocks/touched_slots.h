// Which tensors a pass of a block works on.
#pragma once

#include <set>
#include <utility>

#include "sim/program/op.h"

namespace foretrain {

using SlotNames = std::set<std::pair<SlotRole, int>>;

// (role, index) of the slots that an op of the block touches, itself or through a view. A slot
// may be declared and not be among them.
SlotNames TouchedSlots(const Block& block);

}  // namespace foretrain
