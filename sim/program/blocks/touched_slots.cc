#include "sim/program/blocks/touched_slots.h"

#include <vector>

namespace foretrain {

SlotNames TouchedSlots(const Block& block) {
  std::vector<bool> is_touched(block.slots.size(), false);
  for (const Op& op : block.ops) {
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      const auto slot = static_cast<std::size_t>(operand.slot);
      const std::int16_t base = block.slots[slot].base;
      is_touched[base == kNoSlot ? slot : static_cast<std::size_t>(base)] = true;
    }
  }
  SlotNames touched;
  for (std::size_t s = 0; s < block.slots.size(); ++s) {
    if (is_touched[s]) touched.emplace(block.slots[s].role, block.slots[s].index);
  }
  return touched;
}

}  // namespace foretrain
