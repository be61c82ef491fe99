#include "sim/program/lower/model/slot_uses.h"

#include "base/result.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/transfers/boundaries.h"
#include "sim/program/lower/transfers/parameter_copies.h"
#include "sim/program/lower/update/overlap.h"

namespace foretrain {
namespace {

constexpr int kSlotsOfABlock = 4096;  // upper bound: keeps indices of passes apart

void BindRange(const ParameterRange& range, TensorUse& use) {
  use.offset = BytesIn(use.format, range.offset);
  use.bytes = BytesIn(use.format, range.elements);
}

// A parameter lies in the copy that a strategy makes for this use, or in its bucket. Only the rank
// knows which older parameters exist, so `state` is set as the fallback.
TensorUse ParameterUse(const LowerContext& context, const InstructionKey& key,
                       const ParameterRange& range) {
  const Plan& plan = context.plan;
  const Bucket& bucket = context.BucketAt(range.bucket);
  const bool gathers = GathersParameters(plan, bucket);
  TensorUse use;
  if (gathers || ParameterSpace(plan) != Space::kDevice) {
    use = Uses(ParameterCopy(context, key, range.bucket));
    use.format = gathers ? GatheredFormat(plan, bucket) : bucket.weights;
    use.whole = BytesIn(use.format, bucket.elements);
    use.category = Category::kCommunication;
  } else {
    use = WholeState(&Bucket::parameters, range.bucket);
    use.format = bucket.weights;
    const bool newest = plan.UpdatesEachMicroBatch() && key.pass == Pass::kForward;
    if (plan.StepsOverlap() && !newest) use.name = OlderName(key.micro_batch, range.bucket);
  }
  BindRange(range, use);
  return use;
}

// If gradients are reduced per micro-batch, the first pass that adds to a bucket makes its whole
// gradients.
TensorUse GradientUse(const LowerContext& context, const InstructionKey& key,
                      const ParameterRange& range) {
  const Bucket& bucket = context.BucketAt(range.bucket);
  TensorUse use = WholeState(&Bucket::gradients, range.bucket);
  if (IsWholeForOne(context.plan, bucket)) {
    use = Makes(WholeGradientsName(key.micro_batch, range.bucket),
                WholeGradientsShape(context, range.bucket));
    use.life = Life::kShared;
  }
  use.format = bucket.sums;
  BindRange(range, use);
  return use;
}

// A tensor that this pass makes; `shared`: an earlier piece of the pass may have made it.
TensorUse Made(const TensorName& name, const TensorSlot& slot, bool shared) {
  TensorUse use = Makes(name, {slot.bytes, slot.category, slot.format});
  if (shared) use.life = Life::kShared;
  return use;
}

}  // namespace

// Names follow from role, block and micro-batch alone. So a strategy that moves a tensor needs to
// change only the tensor table, and blocks keep their slots.
TensorUse UseOfSlot(const LowerContext& context, const InstructionKey& key,
                    const TensorSlot& slot) {
  const int block = key.block, mb = key.micro_batch;
  const bool later_piece = key.part > 0;
  switch (slot.role) {
    case SlotRole::kTemporary:
      return Borrows({slot.bytes, slot.category, slot.format});
    case SlotRole::kCarried: {
      const int index = static_cast<int>(key.pass) * kSlotsOfABlock + slot.index;
      return Made({TensorKind::kCarried, block, mb, index}, slot, /*shared=*/true);
    }
    case SlotRole::kInput:
      return Uses({TensorKind::kActivation, block - 1, mb});
    case SlotRole::kOutput:
      return Made({TensorKind::kActivation, block, mb}, slot, later_piece);
    case SlotRole::kOutputGradient:
      return Uses({TensorKind::kInputGradient, block + 1, mb});
    case SlotRole::kInputGradient:
      return Made({TensorKind::kInputGradient, block, mb}, slot, later_piece);
    case SlotRole::kSaved: {
      // Forward and recomputation make saved tensors, and a backward reads them. Its input half
      // makes those with an index from kFirstHeld on, for its weight half.
      const TensorName name{TensorKind::kSaved, block, mb, slot.index};
      const bool makes =
          key.pass == Pass::kForward || key.pass == Pass::kRecompute || slot.index >= kFirstHeld;
      return makes ? Made(name, slot, /*shared=*/true) : Uses(name);
    }
    case SlotRole::kParameter:
      return ParameterUse(context, key, context.RangeOf(block, slot.index));
    case SlotRole::kGradient:
      return GradientUse(context, key, context.RangeOf(block, slot.index));
    case SlotRole::kIds:
      return Uses({TensorKind::kIds, 0, mb});
    case SlotRole::kTargets:
      return Uses({TensorKind::kTargets, 0, mb});
    case SlotRole::kDocumentStarts:
      return Uses(DocumentStartsName(context.stage, block, mb));
    case SlotRole::kLoss:
      return Uses(TensorKind::kLossHere);
    case SlotRole::kLossScale:
      return Uses(TensorKind::kLossScale);
    case SlotRole::kLoads:
      return Uses({TensorKind::kLoads, block, 0, slot.index});
    case SlotRole::kOther:
      break;
  }
  FT_CHECK(false && "a model block binds no other tensors");
  return {};
}

}  // namespace foretrain
