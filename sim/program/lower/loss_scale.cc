#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/scalars.h"

namespace foretrain {
namespace {

// Parts of the keys of the two instructions.
constexpr int kCount = 1;
constexpr int kSkip = 2;

bool IsReduced(const Plan& plan) { return plan.World() > 1; }

// This rank's gradients as it updates them.
void EmitCount(RankBuilder& rank, const InstructionKey& key) {
  std::vector<Binding> bindings;
  std::vector<std::int64_t> elements;
  std::string name = "count_not_finite";
  for (const Bucket& bucket : rank.Rank().buckets) {
    const ShardRange shard = ShardOf(bucket);
    if (bucket.frozen || shard.begin == shard.end) continue;
    bindings.push_back(GradientRangeOf(rank, bucket, shard.begin, shard.end));
    elements.push_back(shard.end - shard.begin);
    name += "." + std::to_string(elements.back());
  }
  const int block = rank.FindBlock(name, [&] { return CountNotFiniteBlock(elements); });
  bindings.push_back(rank.Whole(rank.Tensors().At({TensorKind::kNotFiniteHere})));
  rank.Add(key, block, bindings);
}

void EmitCountSum(RankBuilder& rank, const InstructionKey& key) {
  EmitScalarSum(rank, key, "reduce.not_finite", GroupKind::kWorld, TensorKind::kNotFiniteHere,
                TensorKind::kNotFinite);
}

void EmitSkip(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock("count_skipped", CountSkippedBlock);
  rank.Add(key, block,
           {rank.Whole(rank.Tensors().At({TensorKind::kNotFinite})),
            rank.Whole(rank.Tensors().At({TensorKind::kSkipped}))});
}

constexpr StepRule kCountRule{EmitCount};
constexpr StepRule kCountSum{EmitCountSum};
constexpr StepRule kSkipRule{EmitSkip};

}  // namespace

void MakeLossScaleState(RankBuilder& rank) {
  const Plan& plan = rank.Context().plan;
  if (plan.loss_scale <= 0) return;
  MakeScalarPair(rank, TensorKind::kNotFiniteHere, TensorKind::kNotFinite, IsReduced(plan));
  rank.Tensors().Put({TensorKind::kSkipped}, rank.NewState(4, Category::kWorkspace));
}

void LowerLossScale(const LowerContext& context, Skeleton& skeleton) {
  if (context.plan.loss_scale <= 0) return;
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kCount), &kCountRule});
  if (IsReduced(context.plan)) {
    skeleton.push_back({UpdateKey(InstructionKind::kScalarReduce, kNotFiniteScalar), &kCountSum});
  }
  skeleton.push_back({UpdateKey(InstructionKind::kNorm, kSkip), &kSkipRule});
}

}  // namespace foretrain
