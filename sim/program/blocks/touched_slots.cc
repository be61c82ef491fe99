#include "sim/program/blocks/touched_slots.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace foretrain {
namespace {

const TensorSlot& At(const Block& block, std::int16_t slot) {
  return block.slots[static_cast<std::size_t>(slot)];
}

}  // namespace

// A sorted vector instead of a set: lookups are binary searches, and unions are linear.
SlotNames::SlotNames(std::vector<Name> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
}

bool SlotNames::contains(const Name& name) const {
  return std::binary_search(names_.begin(), names_.end(), name);
}

void SlotNames::Add(const SlotNames& others) {
  std::vector<Name> all;
  std::set_union(begin(), end(), others.begin(), others.end(), std::back_inserter(all));
  names_ = std::move(all);
}

// A view counts as its tensor, because lowering binds tensors.
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
  std::vector<SlotNames::Name> touched;
  for (std::size_t s = 0; s < block.slots.size(); ++s) {
    if (is_touched[s]) touched.emplace_back(block.slots[s].role, block.slots[s].index);
  }
  return SlotNames(std::move(touched));
}

std::int16_t TensorOf(const Block& block, std::int16_t slot) {
  const std::int16_t base = At(block, slot).base;
  return base == kNoSlot ? slot : base;
}

// With different rank offsets the ranges shift against each other from rank to rank, so overlap is
// assumed.
bool Overlap(const Block& block, std::int16_t a, std::int16_t b) {
  if (a == kNoSlot || b == kNoSlot || TensorOf(block, a) != TensorOf(block, b)) return false;
  const TensorSlot &one = At(block, a), &other = At(block, b);
  if (one.rank_offset != other.rank_offset) return true;
  return one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
}

bool Contains(const Block& block, std::int16_t whole, std::int16_t part) {
  if (!Overlap(block, whole, part)) return false;
  const TensorSlot &all = At(block, whole), &some = At(block, part);
  return all.rank_offset == some.rank_offset && all.offset <= some.offset &&
         some.offset + some.bytes <= all.offset + all.bytes;
}

}  // namespace foretrain
