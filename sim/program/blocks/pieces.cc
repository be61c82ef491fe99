#include "sim/program/blocks/pieces.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace foretrain {
namespace {

std::size_t Index(int i) { return static_cast<std::size_t>(i); }

// For each slot the first and the last piece that touches it; -1: none.
struct Span {
  int first = -1;
  int last = -1;
};
std::vector<Span> SpansOf(const Block& block, const std::vector<int>& begins) {
  std::vector<Span> spans(block.slots.size());
  for (std::size_t piece = 0; piece < begins.size(); ++piece) {
    const int end =
        piece + 1 < begins.size() ? begins[piece + 1] : static_cast<int>(block.ops.size());
    for (int op = begins[piece]; op < end; ++op) {
      for (const Operand& operand : OperandsOf(block, block.ops[Index(op)])) {
        if (operand.slot == kNoSlot) continue;
        Span& span = spans[Index(operand.slot)];
        if (span.first < 0) span.first = static_cast<int>(piece);
        span.last = static_cast<int>(piece);
      }
    }
  }
  return spans;
}

}  // namespace

std::vector<int> PieceBegins(const Block& block) {
  std::vector<int> begins = {0};
  std::vector<bool> moving(block.slots.size());  // a communication op of this piece touches it
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    bool waits = false;
    for (const Operand& operand : OperandsOf(block, op)) {
      waits = waits || (operand.slot != kNoSlot && moving[Index(operand.slot)]);
    }
    if (waits && !IsCommunication(op.kind)) {
      begins.push_back(static_cast<int>(i));
      moving.assign(moving.size(), false);
    }
    if (!IsCommunication(op.kind)) continue;
    for (const Operand& operand : OperandsOf(block, op)) {
      // Who reads what a collective only reads need not wait for it.
      if (operand.slot != kNoSlot && operand.access != Access::kRead)
        moving[Index(operand.slot)] = true;
    }
  }
  return begins;
}

BlockPiece CutPiece(const Block& block, int piece) {
  const std::vector<int> begins = PieceBegins(block);
  FT_CHECK(piece >= 0 && Index(piece) < begins.size());
  const std::vector<Span> spans = SpansOf(block, begins);
  BlockPiece out;
  out.block.name = block.name + ".piece" + std::to_string(piece);
  std::vector<std::int16_t> renumbered(block.slots.size(), kNoSlot);
  for (std::size_t s = 0; s < block.slots.size(); ++s) {
    const Span& span = spans[s];
    if (span.first < 0 || span.first > piece || span.last < piece) continue;
    TensorSlot slot = block.slots[s];
    if (slot.role == SlotRole::kTemporary && span.first != span.last) {
      slot.role = SlotRole::kCarried;
      slot.index = static_cast<std::int32_t>(s);
    }
    renumbered[s] = static_cast<std::int16_t>(out.block.slots.size());
    out.block.slots.push_back(std::move(slot));
    out.uses.push_back({span.first<piece, span.last> piece});
  }
  const int end = Index(piece) + 1 < begins.size() ? begins[Index(piece) + 1]
                                                   : static_cast<int>(block.ops.size());
  for (int number = begins[Index(piece)]; number < end; ++number) {
    Op op = block.ops[Index(number)];
    const auto operands = OperandsOf(block, op);
    op.first_operand = static_cast<std::int32_t>(out.block.operands.size());
    for (Operand operand : operands) {
      if (operand.slot != kNoSlot) operand.slot = renumbered[Index(operand.slot)];
      out.block.operands.push_back(operand);
    }
    out.block.ops.push_back(std::move(op));
  }
  return out;
}

}  // namespace foretrain
