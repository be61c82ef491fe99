#include "sim/program/lower/skeleton.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

void Forward(const Stage& stage, int mb, Skeleton& out) {
  if (stage.First() || stage.Last()) {
    out.push_back(
        {{InstructionKind::kLoadBatch, Pass::kForward, stage.First() ? 0 : stage.layers + 1, mb, 0},
         {}});
  }
  if (!stage.First()) {
    out.push_back({{InstructionKind::kRecv, Pass::kForward, stage.first_block - 1, mb, 0}, {}});
  }
  for (int block = stage.first_block; block <= stage.last_block; ++block) {
    out.push_back({BlockKey(Pass::kForward, block, mb), {}});
  }
  if (!stage.Last()) {
    out.push_back({{InstructionKind::kSend, Pass::kForward, stage.last_block, mb, 0}, {}});
  }
}

// kBackward or kBackwardInput. The embedding has no input half.
void Backward(const Stage& stage, Pass pass, int mb, Skeleton& out) {
  if (!stage.Last()) {
    out.push_back({{InstructionKind::kRecv, Pass::kBackward, stage.last_block + 1, mb, 0}, {}});
  }
  for (int block = stage.last_block; block >= stage.first_block; --block) {
    if (block == 0 && pass == Pass::kBackwardInput) continue;
    out.push_back({BlockKey(pass, block, mb), {}});
  }
  if (!stage.First()) {
    out.push_back({{InstructionKind::kSend, Pass::kBackward, stage.first_block, mb, 0}, {}});
  }
}

void BackwardWeight(const Stage& stage, int mb, Skeleton& out) {
  for (int block = stage.last_block; block >= stage.first_block; --block) {
    out.push_back({BlockKey(Pass::kBackwardWeight, block, mb), {}});
  }
}

}  // namespace

Skeleton LowerPipeline(const LowerContext& context) {
  Skeleton out;
  const int micro_batches = static_cast<int>(context.plan.MicroBatches());
  for (const Slot& slot :
       MakeSlots(context.plan.schedule, {context.plan.pp, micro_batches}, context.pp)) {
    if (slot.pass == Pass::kForward) {
      Forward(context.stage, slot.micro_batch, out);
    } else if (slot.pass == Pass::kBackwardWeight) {
      BackwardWeight(context.stage, slot.micro_batch, out);
    } else {
      Backward(context.stage, slot.pass, slot.micro_batch, out);
    }
  }
  return out;
}

}  // namespace foretrain
