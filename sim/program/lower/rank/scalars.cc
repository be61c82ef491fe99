#include "sim/program/lower/rank/scalars.h"

#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

constexpr std::int64_t kScalarBytes = 4;

}  // namespace

// A rank that adds nothing up binds both names to one buffer, which saves the copy.
void MakeScalarPair(RankBuilder& rank, TensorKind here, TensorKind sum, bool reduced) {
  const int part = rank.NewState(kScalarBytes, Category::kWorkspace);
  rank.Tensors().Put({here}, part);
  rank.Tensors().Put({sum}, reduced ? rank.NewState(kScalarBytes, Category::kWorkspace) : part);
}

void MakeOffloadedScalar(RankBuilder& rank, TensorKind kind) {
  rank.Tensors().Put({kind}, rank.NewState(kScalarBytes, Category::kWorkspace, Space::kPinned));
}

void AddLossScale(const Plan& plan, std::vector<TensorUse>& uses) {
  if (plan.HasDynamicScale()) uses.push_back(Uses(TensorKind::kLossScale));
}

// Not in place, so that the next step can write `here` while `sum` is still read.
StepDescription ScalarSum(const char* name, GroupKind group, TensorKind here, TensorKind sum) {
  return Collective({OpKind::kAllReduce, name, Queue::kReduce, group, /*elements=*/1, /*shards=*/1,
                     /*in_place=*/false},
                    {Uses(here), Uses(sum)});
}

}  // namespace foretrain
