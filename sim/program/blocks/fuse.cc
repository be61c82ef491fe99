#include "sim/program/blocks/fuse.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "sim/program/blocks/touched_slots.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

// The norm must read exactly the sum, over the same rows and columns. Both ops are memory-bound:
// fused, the sum is written once and not read back.
bool AreFused(const Block& block, const Op& add, const Op& norm) {
  if (add.kind != OpKind::kAdd || norm.kind != OpKind::kNormForward) return false;
  return OperandOf(block, add, "out").slot == OperandOf(block, norm, "x").slot &&
         add.shape == norm.shape;
}

// Operands in the order of kAddNormForward. The sum stays an output, because the next residual and
// the backward read it.
Op Fused(Block& block, const Op& add, const Op& norm) {
  const std::array operands = {OperandOf(block, add, "a"),     OperandOf(block, add, "b"),
                               OperandOf(block, add, "bias"),  OperandOf(block, norm, "weight"),
                               OperandOf(block, norm, "bias"), OperandOf(block, add, "out"),
                               OperandOf(block, norm, "y"),    OperandOf(block, norm, "mean"),
                               OperandOf(block, norm, "rstd")};
  Op op = norm;
  op.kind = OpKind::kAddNormForward;
  op.name = add.name + "+" + norm.name;
  op.covers = {add.name, norm.name};
  op.first_operand = static_cast<std::int32_t>(block.operands.size());
  op.operand_count = static_cast<std::int32_t>(operands.size());
  block.operands.insert(block.operands.end(), operands.begin(), operands.end());
  op.formats = FormatsOf(block, op);
  return op;
}

// Only adjacent ops are fused, so that no data dependence can be broken. One pass over the ops.
void FuseNorms(Block& block) {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const bool pair = i + 1 < block.ops.size() && AreFused(block, block.ops[i], block.ops[i + 1]);
    ops.push_back(pair ? Fused(block, block.ops[i], block.ops[i + 1]) : block.ops[i]);
    if (pair) ++i;
  }
  block.ops = std::move(ops);
}

constexpr std::int64_t kFewestBits = 16;

// Both slots name exactly the same bytes.
bool AreSame(const Block& block, std::int16_t a, std::int16_t b) {
  return Contains(block, a, b) && Contains(block, b, a);
}

bool MayFollow(OpKind kind) {
  return kind == OpKind::kGeluForward || kind == OpKind::kGeluBackward || kind == OpKind::kBiasGrad;
}

// Positions in the block of a GEMM and of the op to fuse with it.
struct Pair {
  std::size_t product, then;
};

// Fuses in place. For each candidate op Run tries the nearest earlier GEMM first. The search is
// quadratic in the ops of a block, and runs once a template.
class Joiner {
 public:
  explicit Joiner(Block& block) : block_(block) {}

  void Run() {
    for (std::size_t then = 0; then < block_.ops.size();) {
      std::optional<Op> joined;
      std::size_t product = MayFollow(block_.ops[then].kind) ? then : 0;
      while (!joined && product-- > 0) joined = Join({product, then});
      if (!joined) {
        ++then;
        continue;
      }
      block_.ops[product] = *std::move(joined);
      block_.ops.erase(block_.ops.begin() + static_cast<std::ptrdiff_t>(then));
    }
  }

 private:
  std::int16_t SlotOf(std::size_t op, OperandName operand) const {
    return OperandOf(block_, block_.ops[op], operand).slot;
  }
  NumberFormat FormatOf(std::int16_t slot) const {
    return block_.slots[static_cast<std::size_t>(slot)].format;
  }

  bool Writes(std::size_t op, std::int16_t slot) const {
    const auto operands = OperandsOf(block_, block_.ops[op]);
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.access != Access::kRead && Overlap(block_, operand.slot, slot);
    });
  }
  bool Touches(std::size_t op, std::int16_t slot) const {
    const auto operands = OperandsOf(block_, block_.ops[op]);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) { return Overlap(block_, operand.slot, slot); });
  }

  // True if the second op may run at the GEMM's position. It may read the GEMM's output `result`
  // (kNoSlot: it reads none). Any other conflict with an op between them, or with the GEMM itself,
  // forbids the move.
  bool MayMoveUp(const Pair& pair, std::int16_t result) const {
    for (const Operand& operand : OperandsOf(block_, block_.ops[pair.then])) {
      const bool of_product = result != kNoSlot && AreSame(block_, operand.slot, result);
      const bool writes = operand.access != Access::kRead;
      if (of_product && writes) return false;
      for (std::size_t between = pair.product; between < pair.then; ++between) {
        if (of_product && between == pair.product) continue;
        const bool meets = writes ? Touches(between, operand.slot) : Writes(between, operand.slot);
        if (meets) return false;
      }
    }
    return true;
  }

  // True if another op, or a later pass, reads the GEMM's output `result`. Reads after a full
  // overwrite do not count: they see a new value in a reused slot.
  bool IsReadByOthers(const Pair& pair, std::int16_t result) const {
    const std::int16_t tensor = TensorOf(block_, result);
    if (block_.slots[static_cast<std::size_t>(tensor)].role != SlotRole::kTemporary) return true;
    std::vector<std::int16_t> overwritten;
    for (std::size_t op = pair.product + 1; op < block_.ops.size(); ++op) {
      if (op == pair.then) continue;
      const auto operands = OperandsOf(block_, block_.ops[op]);
      for (const Operand& operand : operands) {
        if (operand.access == Access::kWrite || !Overlap(block_, operand.slot, result)) continue;
        const bool is_new =
            std::any_of(overwritten.begin(), overwritten.end(),
                        [&](std::int16_t whole) { return Contains(block_, whole, operand.slot); });
        if (!is_new) return true;
      }
      for (const Operand& operand : operands) {
        if (operand.access == Access::kWrite) overwritten.push_back(operand.slot);
      }
    }
    return false;
  }

  // The fused op: the GEMM with `result` as its c and, if present, `second` as the operand after
  // it.
  Op Joined(const Pair& pair, OpKind kind, Operand result, Operand second) {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    std::vector<Operand> operands = {OperandOf(block_, product, "a"),
                                     OperandOf(block_, product, "b"),
                                     OperandOf(block_, product, "bias"), result};
    if (second.slot != kNoSlot) operands.push_back(second);
    Op op = product;
    op.kind = kind;
    op.activation = then.activation;
    op.name = product.name + "+" + then.name;
    op.covers = {product.name, then.name};
    op.first_operand = static_cast<std::int32_t>(block_.operands.size());
    op.operand_count = static_cast<std::int32_t>(operands.size());
    block_.operands.insert(block_.operands.end(), operands.begin(), operands.end());
    op.formats = FormatsOf(block_, op);
    return op;
  }

  std::optional<Op> Join(const Pair& pair) {
    const Op& product = block_.ops[pair.product];
    if (product.kind != OpKind::kGemm || LayoutOf(product.format).bits < kFewestBits) return {};
    switch (block_.ops[pair.then].kind) {
      case OpKind::kGeluForward:
        return WithActivation(pair);
      case OpKind::kGeluBackward:
        return WithSlope(pair);
      case OpKind::kBiasGrad:
        return WithBiasGradient(pair);
      default:
        return {};
    }
  }

  // True if `read` is the GEMM's whole output, element by element. An accumulating GEMM is
  // excluded: its epilogue would see the sum, and the old values would be lost.
  bool IsResult(const Pair& pair, std::int16_t read) const {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    return !product.accumulate && then.shape.members == 0 &&
           product.shape.rows == then.shape.rows && product.shape.cols == then.shape.cols &&
           AreSame(block_, SlotOf(pair.product, "c"), read);
  }

  // out = f(c). If c is still needed (the backward reads it), the epilogue stores both.
  std::optional<Op> WithActivation(const Pair& pair) {
    const std::int16_t y = SlotOf(pair.then, "x"), out = SlotOf(pair.then, "y");
    if (!IsResult(pair, y) || FormatOf(y) != FormatOf(out) || !MayMoveUp(pair, y)) return {};
    const bool keeps = IsReadByOthers(pair, y);
    const OpKind kind = keeps ? OpKind::kGemmActivationKept : OpKind::kGemmActivation;
    return Joined(pair, kind, {out, Access::kWrite}, {keeps ? y : kNoSlot, Access::kWrite});
  }

  // dx = c * f'(x). c must have no other reader, because the fused op does not store it.
  std::optional<Op> WithSlope(const Pair& pair) {
    const std::int16_t x = SlotOf(pair.then, "x"), dy = SlotOf(pair.then, "dy"),
                       dx = SlotOf(pair.then, "dx");
    if (!IsResult(pair, dy) || FormatOf(dy) != FormatOf(dx) || FormatOf(x) != FormatOf(dx) ||
        SlotOf(pair.product, "bias") != kNoSlot || !MayMoveUp(pair, dy) ||
        IsReadByOthers(pair, dy)) {
      return {};
    }
    return Joined(pair, OpKind::kGemmActivationBackward, {dx, Access::kWrite}, {x, Access::kRead});
  }

  // The weight gradient's GEMM already reads dy, so its epilogue also sums dy's columns. The shapes
  // must show that both ops reduce over the same rows, and both must add or both overwrite.
  std::optional<Op> WithBiasGradient(const Pair& pair) {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    const bool alike = product.trans_a && product.accumulate == then.accumulate &&
                       product.shape.rows == then.shape.cols &&
                       product.shape.inner == then.shape.rows &&
                       AreSame(block_, SlotOf(pair.product, "a"), SlotOf(pair.then, "dy")) &&
                       SlotOf(pair.product, "bias") == kNoSlot;
    if (!alike || !MayMoveUp(pair, kNoSlot)) return {};
    return Joined(pair, OpKind::kGemmBiasGrad, OperandOf(block_, product, "c"),
                  OperandOf(block_, then, "grad"));
  }

  Block& block_;
};

}  // namespace

void Fuse(Block& block, FusionKind fusion) {
  if (fusion == FusionKind::kNorms || fusion == FusionKind::kAll) FuseNorms(block);
  if (fusion == FusionKind::kEpilogues || fusion == FusionKind::kAll) Joiner(block).Run();
}

}  // namespace foretrain
