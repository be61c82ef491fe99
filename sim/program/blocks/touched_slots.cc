#include "sim/program/blocks/touched_slots.h"

namespace foretrain {

SlotNames TouchedSlots(const Block& block) {
  SlotNames touched;
  for (const Op& op : block.ops) {
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      const TensorSlot& named = block.slots[static_cast<std::size_t>(operand.slot)];
      const TensorSlot& slot =
          named.base == kNoSlot ? named : block.slots[static_cast<std::size_t>(named.base)];
      touched.emplace(slot.role, slot.index);
    }
  }
  return touched;
}

}  // namespace foretrain
