#include "sim/program/lower/boundaries.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/rank_builder.h"

namespace foretrain {
namespace {

std::int64_t BoundaryElements(const LowerContext& context) {
  return foretrain::BoundaryElements(context.model, context.plan);
}

// What a boundary tensor of this pass is, and what it counts as.
TensorName BoundaryName(const InstructionKey& key) {
  const bool forward = key.pass == Pass::kForward;
  return {forward ? TensorKind::kActivation : TensorKind::kInputGradient, key.block,
          key.micro_batch};
}
Category BoundaryCategory(const InstructionKey& key) {
  return key.pass == Pass::kForward ? Category::kActivations : Category::kWorkspace;
}

void EmitLoad(RankBuilder& rank, const InstructionKey& key) {
  const Stage& stage = rank.Context().stage;
  const std::int64_t rows = rank.Context().Rows();
  const std::string name =
      std::string("load") + (stage.First() ? ".ids" : "") + (stage.Last() ? ".targets" : "");
  const int block =
      rank.FindBlock(name, [&] { return LoadBatchBlock(rows, stage.First(), stage.Last()); });
  std::vector<Binding> bindings;
  const auto load = [&](TensorKind kind) {
    const int buffer = rank.NewBuffer(rows * kFloatBytes, Category::kStaging);
    bindings.push_back(rank.Whole(rank.Tensors().Put({kind, 0, key.micro_batch}, buffer)));
  };
  if (stage.First()) load(TensorKind::kIds);
  if (stage.Last()) load(TensorKind::kTargets);
  rank.Add(key, block, bindings);
}

StepMemory LoadMemory(const LowerContext& context, const InstructionKey& /*key*/) {
  const int tensors = (context.stage.First() ? 1 : 0) + (context.stage.Last() ? 1 : 0);
  return MakesBytes(Category::kStaging, context.Rows() * kFloatBytes * tensors);
}

void EmitSend(RankBuilder& rank, const InstructionKey& key) {
  const bool forward = key.pass == Pass::kForward;
  const int block = rank.FindBlock(forward ? "send.next" : "send.previous", [&] {
    return SendBlock(BoundaryElements(rank.Context()), forward);
  });
  rank.Add(key, block, {rank.Whole(rank.Tensors().At(BoundaryName(key)))});
}

StepMemory SendMemory(const LowerContext& context, const InstructionKey& key) {
  return FreesBytes(BoundaryCategory(key), BoundaryElements(context) * kFloatBytes);
}

void EmitRecv(RankBuilder& rank, const InstructionKey& key) {
  const bool forward = key.pass == Pass::kForward;
  const std::int64_t elements = BoundaryElements(rank.Context());
  const int block = rank.FindBlock(forward ? "recv.previous" : "recv.next", [&] {
    return RecvBlock(elements, forward, BoundaryCategory(key));
  });
  const int buffer = rank.NewBuffer(elements * kFloatBytes, BoundaryCategory(key));
  rank.Add(key, block, {rank.Whole(rank.Tensors().Put(BoundaryName(key), buffer))});
}

StepMemory RecvMemory(const LowerContext& context, const InstructionKey& key) {
  return MakesBytes(BoundaryCategory(key), BoundaryElements(context) * kFloatBytes);
}

constexpr StepRule kLoad{EmitLoad, LoadMemory};
constexpr StepRule kSend{EmitSend, SendMemory};
constexpr StepRule kRecv{EmitRecv, RecvMemory};

}  // namespace

SkeletonStep LoadStep(const Stage& stage, int micro_batch) {
  const int block = stage.First() ? 0 : stage.layers + 1;
  return {{InstructionKind::kLoadBatch, Pass::kForward, block, micro_batch, 0}, &kLoad};
}

SkeletonStep SendStep(Pass pass, int block, int micro_batch) {
  return {{InstructionKind::kSend, pass, block, micro_batch, 0}, &kSend};
}

SkeletonStep RecvStep(Pass pass, int block, int micro_batch) {
  return {{InstructionKind::kRecv, pass, block, micro_batch, 0}, &kRecv};
}

}  // namespace foretrain
