#include "sim/program/blocks/epilogues.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "sim/program/blocks/touched_slots.h"

namespace foretrain {
namespace {

constexpr std::size_t kLeft = 0, kBias = 2, kResult = 3;  // operands of a GEMM
constexpr std::int64_t kFewestBits = 16;

bool AreSame(const Block& block, std::int16_t a, std::int16_t b) {
  return Contains(block, a, b) && Contains(block, b, a);
}

bool MayFollow(OpKind kind) {
  return kind == OpKind::kGeluForward || kind == OpKind::kGeluBackward || kind == OpKind::kBiasGrad;
}

// A product and an op behind it, by their numbers in the block.
struct Pair {
  std::size_t product, then;
};

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
  std::int16_t SlotOf(std::size_t op, std::size_t operand) const {
    const auto operands = OperandsOf(block_, block_.ops[op]);
    return operand < operands.size() ? operands[operand].slot : kNoSlot;
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

  // Whether the second op may run where the product does, but for what it reads of the product:
  // `result`, kNoSlot where nothing.
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

  // Whether anybody but the second op reads what the product leaves in `result`.
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

  // Operands: those of the product, of which `result` is the last, and `beside` if there is one.
  Op Joined(const Pair& pair, OpKind kind, Operand result, Operand beside) {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    const auto of_product = OperandsOf(block_, product);
    std::vector<Operand> operands(of_product.begin(), of_product.begin() + kResult);
    operands.push_back(result);
    if (beside.slot != kNoSlot) operands.push_back(beside);
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

  // Whether `read` is what the product overwrites, number by number.
  bool IsResult(const Pair& pair, std::int16_t read) const {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    return !product.accumulate && then.shape.members == 0 &&
           product.shape.rows == then.shape.rows && product.shape.cols == then.shape.cols &&
           AreSame(block_, SlotOf(pair.product, kResult), read);
  }

  std::optional<Op> WithActivation(const Pair& pair) {
    const std::int16_t y = SlotOf(pair.then, 0), out = SlotOf(pair.then, 1);
    if (!IsResult(pair, y) || FormatOf(y) != FormatOf(out) || !MayMoveUp(pair, y)) return {};
    const bool keeps = IsReadByOthers(pair, y);
    const OpKind kind = keeps ? OpKind::kGemmActivationKept : OpKind::kGemmActivation;
    return Joined(pair, kind, {out, Access::kWrite}, {keeps ? y : kNoSlot, Access::kWrite});
  }

  std::optional<Op> WithSlope(const Pair& pair) {
    const std::int16_t x = SlotOf(pair.then, 0), dy = SlotOf(pair.then, 1),
                       dx = SlotOf(pair.then, 2);
    if (!IsResult(pair, dy) || FormatOf(dy) != FormatOf(dx) || FormatOf(x) != FormatOf(dx) ||
        SlotOf(pair.product, kBias) != kNoSlot || !MayMoveUp(pair, dy) ||
        IsReadByOthers(pair, dy)) {
      return {};
    }
    return Joined(pair, OpKind::kGemmActivationBackward, {dx, Access::kWrite}, {x, Access::kRead});
  }

  std::optional<Op> WithBiasGradient(const Pair& pair) {
    const Op &product = block_.ops[pair.product], &then = block_.ops[pair.then];
    const bool alike = product.trans_a && product.accumulate == then.accumulate &&
                       product.shape.rows == then.shape.cols &&
                       product.shape.inner == then.shape.rows &&
                       AreSame(block_, SlotOf(pair.product, kLeft), SlotOf(pair.then, 0)) &&
                       SlotOf(pair.product, kBias) == kNoSlot;
    if (!alike || !MayMoveUp(pair, kNoSlot)) return {};
    const Operand result = OperandsOf(block_, product)[kResult];
    return Joined(pair, OpKind::kGemmBiasGrad, result, OperandsOf(block_, then)[1]);
  }

  Block& block_;
};

}  // namespace

void FuseEpilogues(Block& block) { Joiner(block).Run(); }

}  // namespace foretrain
