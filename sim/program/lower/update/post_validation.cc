// Post-validation (Qi et al. 2023, s. 4): updates wait for no sum over the pipeline.
//
//   1. A rank receives the sums of squared norms and infinities of the stages before it.
//   2. It adds its own, sends them on, and updates by the sums that are known so far.
//   3. The last rank knows the full sums. They come back rank by rank.
//   4. Each rank amends its update if the full sums would have scaled or skipped it otherwise.
//
// Partial sums never exceed the full ones, so updates stand unless the step is clipped or skipped.
// A rank's next forward waits for its amendment, so no pass uses parameters that a plain update
// would not have made.
#include "sim/program/lower/update/post_validation.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/rank/scalars.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// A number that stages add up, by its place in the keys of its instructions.
struct Scalar {
  int number = 0;
  TensorKind here = TensorKind::kNormHere;  // of the rank, after StageSum of its stage
  TensorKind in = TensorKind::kNormIn;      // of the stages before
  TensorKind then = TensorKind::kNormThen;  // of the stages before and this one
  TensorKind all = TensorKind::kNorm;       // of all stages
};
constexpr Scalar kNorm{};
constexpr Scalar kNotFinite{1, TensorKind::kNotFiniteHere, TensorKind::kNotFiniteIn,
                            TensorKind::kNotFiniteThen, TensorKind::kNotFinite};
const Scalar& ScalarOf(const InstructionKey& key) { return key.part % 2 == 0 ? kNorm : kNotFinite; }

std::vector<Scalar> ScalarsOf(const Plan& plan) {
  std::vector<Scalar> scalars;
  if (plan.clip_norm > 0) scalars.push_back(kNorm);
  if (plan.loss_scale > 0) scalars.push_back(kNotFinite);
  return scalars;
}

// key.part is the scalar's number plus one of these, by kind of instruction.
constexpr int kOverTp = 4, kOverDp = 6;  // sums within a stage; parts of scalars.h are smaller
constexpr int kDown = 0, kUp = 2;        // transfers
constexpr int kSum = 4;                  // parts of norm, count and skip are smaller

bool IsFirst(const LowerContext& context) { return context.at.pp == 0; }
bool IsLast(const LowerContext& context) { return context.at.pp == context.plan.pp - 1; }

template <GroupKind group>
StepDescription StageSum(const LowerContext&, const InstructionKey& key) {
  return Collective({OpKind::kAllReduce, "reduce.stage", Queue::kReduce, group, /*elements=*/1},
                    {Uses(ScalarOf(key).here)});
}

template <bool down>
StepDescription Send(const LowerContext&, const InstructionKey& key) {
  const Scalar& scalar = ScalarOf(key);
  return {down ? "send.known" : "send.all",
          [] { return SendBlock(/*elements=*/1, down); },
          {Uses(down ? scalar.then : scalar.all)}};
}

template <bool down>
StepDescription Recv(const LowerContext&, const InstructionKey& key) {
  const Scalar& scalar = ScalarOf(key);
  return {down ? "recv.known" : "recv.all",
          [] { return RecvBlock(/*elements=*/1, down, Category::kWorkspace); },
          {Uses(down ? scalar.in : scalar.all)}};
}

Block AddKnownBlock() {
  BlockBuilder b("add.known");
  const auto slot = [&](const char* name, int index) {
    return b.Slot(name, 1, Category::kWorkspace, SlotRole::kOther, index);
  };
  const std::int16_t before = slot("before", 0), here = slot("here", 1), sum = slot("sum", 2);
  b.Add(OpKind::kAdd, OpClass::kMemoryBound, "add",
        {In(before), In(here), {kNoSlot, Access::kRead}, Out(sum)})
      .shape = {.rows = 1, .cols = 1};
  return b.Take();
}

StepDescription AddKnown(const LowerContext&, const InstructionKey& key) {
  const Scalar& scalar = ScalarOf(key);
  return {"add.known", AddKnownBlock, {Uses(scalar.in), Uses(scalar.here), Uses(scalar.then)}};
}

constexpr StepRule kTpSum{StageSum<GroupKind::kTp>};
constexpr StepRule kDpSum{StageSum<GroupKind::kDp>};
constexpr StepRule kSendDown{Send<true>};
constexpr StepRule kRecvDown{Recv<true>};
constexpr StepRule kSendUp{Send<false>};
constexpr StepRule kRecvUp{Recv<false>};
constexpr StepRule kAddKnown{AddKnown};

InstructionKey KeyOf(InstructionKind kind, const Scalar& scalar, int part) {
  return UpdateKey(kind, part + scalar.number);
}

}  // namespace

void MakePostValidationState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  if (!context.plan.post_validation) return;
  for (const Scalar& scalar : ScalarsOf(context.plan)) {
    TensorTable& tensors = rank.Tensors();
    if (!IsFirst(context)) {
      tensors.Put({scalar.in}, rank.NewState(kFloatBytes, Category::kWorkspace));
    }
    // The first stage knows only its own sum and the last one the full sum, so these share buffers.
    int then = tensors.At({IsFirst(context) ? scalar.here : scalar.all});
    if (!IsFirst(context) && !IsLast(context)) {
      then = rank.NewState(kFloatBytes, Category::kWorkspace);
    }
    tensors.Put({scalar.then}, then);
  }
}

// Sums within the stage first, so that each transfer carries one number per scalar.
void LowerPostValidation(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  if (!plan.post_validation) return;
  const auto add = [&](InstructionKind kind, const Scalar& scalar, int part, const StepRule& rule) {
    skeleton.push_back({KeyOf(kind, scalar, part), &rule});
  };
  for (const Scalar& scalar : ScalarsOf(plan)) {
    // With shards or experts, data-parallel ranks have counted different gradients.
    const bool over_dp = ShardingOf(plan).optimizer || plan.ep > 1 || scalar.number == 1;
    if (plan.tp > 1) add(InstructionKind::kScalarReduce, scalar, kOverTp, kTpSum);
    if (plan.DataParallel() > 1 && over_dp) {
      add(InstructionKind::kScalarReduce, scalar, kOverDp, kDpSum);
    }
    if (!IsFirst(context)) {
      add(InstructionKind::kRecv, scalar, kDown, kRecvDown);
      add(InstructionKind::kNorm, scalar, kSum, kAddKnown);
    }
    if (!IsLast(context)) add(InstructionKind::kSend, scalar, kDown, kSendDown);
  }
}

// The way back: from the last rank to the first, after the updates.
Skeleton ValidationSteps(const LowerContext& context) {
  Skeleton steps;
  for (const Scalar& scalar : ScalarsOf(context.plan)) {
    if (!IsLast(context)) {
      steps.push_back({KeyOf(InstructionKind::kRecv, scalar, kUp), &kRecvUp});
    }
    if (!IsFirst(context)) {
      steps.push_back({KeyOf(InstructionKind::kSend, scalar, kUp), &kSendUp});
    }
  }
  return steps;
}

bool MayAmend(const LowerContext& context) {
  return context.plan.post_validation && !IsLast(context);
}

}  // namespace foretrain
