// Tells which tensors a pass of a block uses and which of its slots share bytes.
#pragma once

#include <utility>
#include <vector>

#include "sim/program/ir/op.h"

namespace foretrain {

// A sorted set of (role, index) pairs.
class SlotNames {
 public:
  using Name = std::pair<SlotRole, int>;

  SlotNames() = default;
  explicit SlotNames(std::vector<Name> names);

  bool contains(const Name& name) const;
  void Add(const SlotNames& others);
  auto begin() const { return names_.begin(); }
  auto end() const { return names_.end(); }

 private:
  std::vector<Name> names_;  // ascending
};

// (role, index) of the slots that the block's ops touch, directly or through a view. Declared slots
// that no op uses are not included.
SlotNames TouchedSlots(const Block& block);

// The slot that owns the bytes: `slot` itself, or the one it is a view of.
std::int16_t TensorOf(const Block& block, std::int16_t slot);

// Overlap: the slots share a byte on some tensor-parallel rank. Contains: all bytes of `part` are
// in `whole` on every rank. kNoSlot has no bytes.
bool Overlap(const Block& block, std::int16_t a, std::int16_t b);
bool Contains(const Block& block, std::int16_t whole, std::int16_t part);

}  // namespace foretrain
