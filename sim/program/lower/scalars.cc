#include "sim/program/lower/scalars.h"

namespace foretrain {
namespace {

constexpr std::int64_t kScalarBytes = 4;

}  // namespace

void MakeScalarPair(RankBuilder& rank, TensorKind here, TensorKind sum, bool reduced) {
  const int part = rank.NewState(kScalarBytes, Category::kWorkspace);
  rank.Tensors().Put({here}, part);
  rank.Tensors().Put({sum}, reduced ? rank.NewState(kScalarBytes, Category::kWorkspace) : part);
}

void MakeScalarAway(RankBuilder& rank, TensorKind kind) {
  rank.Tensors().Put({kind}, rank.NewState(kScalarBytes, Category::kWorkspace, Space::kPinned));
}

void EmitScalarSum(RankBuilder& rank, const InstructionKey& key, const char* name, GroupKind group,
                   TensorKind here, TensorKind sum) {
  const int block = rank.FindCollective({OpKind::kAllReduce, name, Queue::kReduce, group,
                                         /*elements=*/1, /*shards=*/1, /*in_place=*/false});
  rank.Add(key, block,
           {rank.Whole(rank.Tensors().At({here})), rank.Whole(rank.Tensors().At({sum}))});
}

}  // namespace foretrain
