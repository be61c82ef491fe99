// Dropout of the attention and MLP branches, with saved masks of one byte an element (Korthikanti
// et al. 2022, s. 4.1). Rows are this rank's own, in full width.
#include "sim/program/blocks/layer/dropout_sites.h"
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {

void Layer::MakeDropoutTensors(const TensorMaker& make) {
  if (context.plan.dropout == 0) return;
  const std::int64_t all = own_rows * hidden;
  if (!IsParallel()) branch_mask1 = make(NumberFormat::kMask, "branch1.mask", all, kBranchMask1);
  branch_mask2 = make(NumberFormat::kMask, "branch2.mask", all, kBranchMask2);
}

// The shape lets the kernel find each row's position in its sample, from which it draws the random
// numbers.
Op& Layer::AddDropout(OpKind op_kind, const std::string& name,
                      std::initializer_list<Operand> operands, std::int16_t mask) {
  Op& op = b.Add(op_kind, name, operands);
  op.dropout = static_cast<float>(context.plan.dropout);
  op.dropout_site = mask == branch_mask1 ? kBranch1Site : kBranch2Site;
  op.own_rows = split_rows;
  op.shape = {.rows = own_rows,
              .cols = hidden,
              .batch = context.plan.micro_batch,
              .sequence = context.plan.LocalSequence(),
              .cp = SharesSequence() ? context.plan.cp : 0};
  return op;
}

// Without dropout a plain sum; with it, one kernel for bias, dropout and residual.
void Layer::AddBranch(const char* name, std::int16_t through, std::int16_t branch,
                      std::int16_t bias, std::int16_t out, std::int16_t mask) {
  if (mask == kNoSlot) {
    Op& op = b.Add(OpKind::kAdd, name, {In(through), In(branch), In(bias), Out(out)});
    op.shape = {.rows = own_rows, .cols = hidden};
    return;
  }
  AddDropout(OpKind::kDropout, name, {In(branch), In(bias), In(through), Out(out), Out(mask)}, mask)
      .accumulate = true;
}

// Full recomputation skips the MLP's output, so its mask is drawn again alone, from the same random
// numbers.
void Layer::MlpMaskAgain() {
  if (branch_mask2 == kNoSlot) return;
  AddDropout(OpKind::kDropoutMask, "mlp.dropout.again", {Out(branch_mask2)}, branch_mask2);
}

std::int16_t Layer::BranchGradient(const char* name, std::int16_t d_out, std::int16_t mask) {
  if (mask == kNoSlot) return d_out;
  const std::int16_t d_branch = b.Temporary(std::string("d_") + name, own_rows * hidden);
  AddDropout(OpKind::kDropoutBackward, std::string(name) + ".grad",
             {In(d_out), In(mask), Out(d_branch)}, mask);
  return d_branch;
}

}  // namespace foretrain
