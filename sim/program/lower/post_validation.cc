// Post-validation (Qi et al. 2023, s. 4): the update waits for no sum over the pipeline.
//
//   the stage's squared norm and number of infinities -> added to those of the stages before, which
//   come from the previous rank -> sent to the next rank; the update goes by what is known so far
//   the last rank knows all; it comes back rank by rank, and each amends its update where all would
//   have scaled or skipped it otherwise
//
// What is known so far is at most all, so that most updates stand: those of steps that are not
// clipped or skipped. A rank's next forward waits for its amendment, so no pass uses parameters
// that a plain update would not have made.
#include "sim/program/lower/post_validation.h"

#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/scalars.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

// A number that stages add up, by its place in the keys of its instructions.
struct Scalar {
  int number = 0;
  TensorKind here = TensorKind::kNormHere;  // of the rank, then of its stage
  TensorKind in = TensorKind::kNormIn;      // of the stages before
  TensorKind then = TensorKind::kNormThen;  // of these and this one
  TensorKind all = TensorKind::kNorm;
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

// Parts of keys: the scalar's number and, of the kind,
constexpr int kOverTp = 4, kOverDp = 6;  // sums within a stage, behind those of scalars.h
constexpr int kDown = 0, kUp = 2;        // transfers
constexpr int kSum = 4;                  // behind the norm, the count and the skip

bool IsFirst(const LowerContext& context) { return context.at.pp == 0; }
bool IsLast(const LowerContext& context) { return context.at.pp == context.plan.pp - 1; }

Binding At(RankBuilder& rank, TensorKind kind) { return rank.Whole(rank.Tensors().At({kind})); }

template <GroupKind group>
void EmitStageSum(RankBuilder& rank, const InstructionKey& key) {
  CollectiveSpec spec{OpKind::kAllReduce, "reduce.stage", Queue::kReduce, group, /*elements=*/1};
  rank.Add(key, rank.FindCollective(spec), {At(rank, ScalarOf(key).here)});
}

template <bool down>
void EmitSend(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock(down ? "send.known" : "send.all",
                                   [] { return SendBlock(/*elements=*/1, down); });
  const Scalar& scalar = ScalarOf(key);
  rank.Add(key, block, {At(rank, down ? scalar.then : scalar.all)});
}

template <bool down>
void EmitRecv(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock(down ? "recv.known" : "recv.all", [] {
    return RecvBlock(/*elements=*/1, down, Category::kWorkspace);
  });
  const Scalar& scalar = ScalarOf(key);
  rank.Add(key, block, {At(rank, down ? scalar.in : scalar.all)});
}

void EmitSum(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock("add.known", [] {
    BlockBuilder b("add.known");
    const auto slot = [&](const char* name, int index) {
      return b.Slot(name, 1, Category::kWorkspace, SlotRole::kOther, index);
    };
    const std::int16_t before = slot("before", 0), here = slot("here", 1), sum = slot("sum", 2);
    b.Add(OpKind::kAdd, OpClass::kMemoryBound, "add",
          {In(before), In(here), {kNoSlot, Access::kRead}, Out(sum)})
        .shape = {.rows = 1, .cols = 1};
    return b.Take();
  });
  const Scalar& scalar = ScalarOf(key);
  rank.Add(key, block, {At(rank, scalar.in), At(rank, scalar.here), At(rank, scalar.then)});
}

constexpr StepRule kTpSum{EmitStageSum<GroupKind::kTp>};
constexpr StepRule kDpSum{EmitStageSum<GroupKind::kDp>};
constexpr StepRule kSendDown{EmitSend<true>};
constexpr StepRule kRecvDown{EmitRecv<true>};
constexpr StepRule kSendUp{EmitSend<false>};
constexpr StepRule kRecvUp{EmitRecv<false>};
constexpr StepRule kAddKnown{EmitSum};

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
    // The first stage knows of itself alone, the last of all.
    int then = tensors.At({IsFirst(context) ? scalar.here : scalar.all});
    if (!IsFirst(context) && !IsLast(context)) {
      then = rank.NewState(kFloatBytes, Category::kWorkspace);
    }
    tensors.Put({scalar.then}, then);
  }
}

void LowerPostValidation(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  if (!plan.post_validation) return;
  const auto add = [&](InstructionKind kind, const Scalar& scalar, int part, const StepRule& rule) {
    skeleton.push_back({KeyOf(kind, scalar, part), &rule});
  };
  for (const Scalar& scalar : ScalarsOf(plan)) {
    // Data-parallel ranks have counted different gradients where they hold shards or experts.
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
