#include "sim/program/ir/op.h"

#include <cstddef>

#include "base/enum_names.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kGroupKindCount> kGroupNames = {
    "none",      "tp",   "kv_copies", "cp",    "dp",    "shard", "replica", "ep",
    "expert_dp", "ends", "dp_pp",     "tp_pp", "world", "next",  "prev",
};
static_assert(static_cast<int>(GroupKind::kPrev) + 1 == kGroupKindCount);

}  // namespace

std::span<const Operand> OperandsOf(const Block& block, const Op& op) {
  const std::int64_t end = std::int64_t{op.first_operand} + op.operand_count;
  FT_CHECK(op.first_operand >= 0 && op.operand_count >= 0 &&
           end <= static_cast<std::int64_t>(block.operands.size()));
  return {block.operands.data() + op.first_operand, static_cast<std::size_t>(op.operand_count)};
}

// A format is a slot's property; an op carries a copy so that its cost and its kernel can be looked
// up without the block. Opaque ops may have more operands than the array holds, because nothing
// looks at their formats.
OperandFormats FormatsOf(const Block& block, const Op& op) {
  OperandFormats formats{};
  const std::span<const Operand> operands = OperandsOf(block, op);
  FT_CHECK(operands.size() <= kMaxOperands || op.kind == OpKind::kOpaque);
  for (std::size_t i = 0; i < operands.size() && i < kMaxOperands; ++i) {
    if (operands[i].slot == kNoSlot) continue;
    formats[i] = block.slots[static_cast<std::size_t>(operands[i].slot)].format;
  }
  return formats;
}

std::string_view Name(GroupKind group) { return NameIn(kGroupNames, group); }

}  // namespace foretrain
