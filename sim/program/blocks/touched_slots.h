// Which tensors a pass of a block works on, and which of its slots share bytes.
#pragma once

#include <utility>
#include <vector>

#include "sim/program/op.h"

namespace foretrain {

// Roles and indices, each once.
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

// (role, index) of the slots that an op of the block touches, itself or through a view. A slot
// may be declared and not be among them.
SlotNames TouchedSlots(const Block& block);

// The slot whose tensor a slot is, or is a view of.
std::int16_t TensorOf(const Block& block, std::int16_t slot);

// Whether two slots have a byte in common, on some tensor-parallel rank; whether all bytes of
// `part` are among those of `whole`, on every rank. kNoSlot has none.
bool Overlap(const Block& block, std::int16_t a, std::int16_t b);
bool Contains(const Block& block, std::int16_t whole, std::int16_t part);

}  // namespace foretrain
