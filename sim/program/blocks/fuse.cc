#include "sim/program/blocks/fuse.h"

#include <array>
#include <utility>
#include <vector>

#include "sim/program/blocks/epilogues.h"
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

}  // namespace

void Fuse(Block& block, FusionKind fusion) {
  if (fusion == FusionKind::kNorms || fusion == FusionKind::kAll) FuseNorms(block);
  if (fusion == FusionKind::kEpilogues || fusion == FusionKind::kAll) FuseEpilogues(block);
}

}  // namespace foretrain
