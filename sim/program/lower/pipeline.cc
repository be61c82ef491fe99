#include "sim/program/lower/boundaries.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/model_block.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

void Forward(const Stage& stage, int mb, Skeleton& out) {
  if (stage.First() || stage.Last()) out.push_back(LoadStep(stage, mb));
  if (!stage.First()) out.push_back(RecvStep(Pass::kForward, stage.first_block - 1, mb));
  for (int block = stage.first_block; block <= stage.last_block; ++block) {
    out.push_back(BlockStep(Pass::kForward, block, mb));
  }
  if (!stage.Last()) out.push_back(SendStep(Pass::kForward, stage.last_block, mb));
}

// kBackward or kBackwardInput. The embedding has no input half.
void Backward(const Stage& stage, Pass pass, int mb, Skeleton& out) {
  if (!stage.Last()) out.push_back(RecvStep(Pass::kBackward, stage.last_block + 1, mb));
  for (int block = stage.last_block; block >= stage.first_block; --block) {
    if (block == 0 && pass == Pass::kBackwardInput) continue;
    out.push_back(BlockStep(pass, block, mb));
  }
  if (!stage.First()) out.push_back(SendStep(Pass::kBackward, stage.first_block, mb));
}

void BackwardWeight(const Stage& stage, int mb, Skeleton& out) {
  for (int block = stage.last_block; block >= stage.first_block; --block) {
    out.push_back(BlockStep(Pass::kBackwardWeight, block, mb));
  }
}

}  // namespace

void LowerPipeline(const LowerContext& context, Skeleton& skeleton) {
  const int micro_batches = static_cast<int>(context.plan.MicroBatches());
  for (const Slot& slot :
       MakeSlots(context.plan.schedule, {context.plan.pp, micro_batches}, context.pp)) {
    if (slot.pass == Pass::kForward) {
      Forward(context.stage, slot.micro_batch, skeleton);
    } else if (slot.pass == Pass::kBackwardWeight) {
      BackwardWeight(context.stage, slot.micro_batch, skeleton);
    } else {
      Backward(context.stage, slot.pass, slot.micro_batch, skeleton);
    }
  }
}

}  // namespace foretrain
