#include "sim/program/blocks/fuse.h"

#include <utility>
#include <vector>

#include "sim/program/blocks/epilogues.h"

namespace foretrain {
namespace {

bool AreFused(const Block& block, const Op& add, const Op& norm) {
  if (add.kind != OpKind::kAdd || norm.kind != OpKind::kNormForward) return false;
  return OperandsOf(block, add)[3].slot == OperandsOf(block, norm)[0].slot &&
         add.shape == norm.shape;
}

// Operands: a, b, bias of the sum; weight, bias of the norm; the sum; y, mean, rstd of the norm.
Op Fused(Block& block, const Op& add, const Op& norm) {
  std::vector<Operand> operands;
  for (const int i : {0, 1, 2}) operands.push_back(OperandsOf(block, add)[i]);
  for (const int i : {1, 2}) operands.push_back(OperandsOf(block, norm)[i]);
  operands.push_back(OperandsOf(block, add)[3]);
  for (const int i : {3, 4, 5}) operands.push_back(OperandsOf(block, norm)[i]);
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
