#include "sim/program/blocks/pieces.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"
#include "sim/program/blocks/touched_slots.h"

namespace foretrain {
namespace {

std::size_t Index(int i) { return static_cast<std::size_t>(i); }

// First and last piece that touches a slot, itself or through a view; -1 if none does.
struct Span {
  int first = -1;
  int last = -1;

  void Add(int piece) {
    if (first < 0) first = piece;
    last = piece;
  }
};

int EndOf(const Block& block, const std::vector<int>& begins, int piece) {
  const std::size_t next = Index(piece) + 1;
  return next < begins.size() ? begins[next] : static_cast<int>(block.ops.size());
}

// Calls `touch` with each slot that an op of the piece uses and with the tensor that the slot is a
// view of.
template <class Touch>
void ForEachTouch(const Block& block, const std::vector<int>& begins, int piece,
                  const Touch& touch) {
  for (int op = begins[Index(piece)]; op < EndOf(block, begins, piece); ++op) {
    for (const Operand& operand : OperandsOf(block, block.ops[Index(op)])) {
      if (operand.slot == kNoSlot) continue;
      touch(operand.slot);
      touch(TensorOf(block, operand.slot));
    }
  }
}

}  // namespace

// One pass over the ops. `moving` collects the outputs of communication issued in this piece; the
// first op that touches one of them must wait, so the next piece begins there and everything issued
// before counts as done.
std::vector<int> PieceBegins(const Block& block) {
  std::vector<int> begins = {0};
  std::vector<std::int16_t> moving;  // outputs of this piece's communication
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (IsCommunication(op.kind)) {
      for (const Operand& operand : OperandsOf(block, op)) {
        // Reading a collective's input needs no wait.
        if (operand.slot != kNoSlot && operand.access != Access::kRead)
          moving.push_back(operand.slot);
      }
      continue;
    }
    const auto waits = [&](const Operand& operand) {
      return operand.slot != kNoSlot &&
             std::any_of(moving.begin(), moving.end(),
                         [&](std::int16_t slot) { return Overlap(block, slot, operand.slot); });
    };
    const auto operands = OperandsOf(block, op);
    if (std::any_of(operands.begin(), operands.end(), waits)) {
      begins.push_back(static_cast<int>(i));
      moving.clear();
    }
  }
  return begins;
}

// A temporary used by one piece stays local to it; one that several use must survive between them.
// O(ops) for each piece.
BlockPiece CutPiece(const Block& block, int piece) {
  const std::vector<int> begins = PieceBegins(block);
  FT_CHECK(piece >= 0 && Index(piece) < begins.size());
  std::vector<Span> spans(block.slots.size());
  for (int p = 0; p < static_cast<int>(begins.size()); ++p) {
    ForEachTouch(block, begins, p, [&](std::int16_t slot) { spans[Index(slot)].Add(p); });
  }
  std::vector<bool> touched(block.slots.size());
  ForEachTouch(block, begins, piece, [&](std::int16_t slot) { touched[Index(slot)] = true; });
  BlockPiece out;
  out.block.name = block.name + ".piece" + std::to_string(piece);
  std::vector<std::int16_t> renumbered(block.slots.size(), kNoSlot);
  for (std::size_t s = 0; s < block.slots.size(); ++s) {
    if (!touched[s]) continue;
    TensorSlot slot = block.slots[s];
    if (slot.base != kNoSlot) {
      slot.base = renumbered[Index(slot.base)];
    } else if (slot.role == SlotRole::kTemporary && spans[s].first != spans[s].last) {
      slot.role = SlotRole::kCarried;
      slot.index = static_cast<std::int32_t>(s);
    }
    renumbered[s] = static_cast<std::int16_t>(out.block.slots.size());
    out.block.slots.push_back(std::move(slot));
    out.uses.push_back({spans[s].first<piece, spans[s].last> piece});
  }
  for (int number = begins[Index(piece)]; number < EndOf(block, begins, piece); ++number) {
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
