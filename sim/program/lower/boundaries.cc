#include "sim/program/lower/boundaries.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

std::int64_t BoundaryElements(const LowerContext& context) {
  return foretrain::BoundaryElements(context.model, context.plan);
}

std::int64_t BoundaryBytes(const LowerContext& context) {
  return BytesIn(ActivationFormat(context.plan), BoundaryElements(context));
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

// Which tensors the load of `key` fills: those that the chunk of its block needs.
struct Loaded {
  bool ids = false;
  bool targets = false;
};
Loaded LoadedBy(const Stage& stage, const InstructionKey& key) {
  const Chunk& chunk = stage.ChunkOf(key.block);
  return {chunk.first_block == 0, chunk.last_block == stage.layers + 1};
}

void EmitLoad(RankBuilder& rank, const InstructionKey& key) {
  const auto [ids, targets] = LoadedBy(rank.Context().stage, key);
  const std::int64_t rows = rank.Context().Rows();
  const std::string name = std::string("load") + (ids ? ".ids" : "") + (targets ? ".targets" : "");
  const int block =
      rank.FindBlock(name, [&, i = ids, t = targets] { return LoadBatchBlock(rows, i, t); });
  std::vector<Binding> bindings;
  const auto load = [&](TensorKind kind) {
    bindings.push_back(
        rank.Whole(rank.Make({kind, 0, key.micro_batch}, rows * kFloatBytes, Category::kStaging)));
  };
  if (ids) load(TensorKind::kIds);
  if (targets) load(TensorKind::kTargets);
  rank.Add(key, block, bindings);
}

StepMemory LoadMemory(const LowerContext& context, const InstructionKey& key) {
  const auto [ids, targets] = LoadedBy(context.stage, key);
  const bool in_ring = ids && IsInFlight(context, {TensorKind::kIds});
  const int tensors = (ids && !in_ring ? 1 : 0) + (targets ? 1 : 0);
  return MakesBytes(Category::kStaging, context.Rows() * kFloatBytes * tensors);
}

template <bool down>
void EmitSend(RankBuilder& rank, const InstructionKey& key) {
  const int block = rank.FindBlock(down ? "send.next" : "send.previous", [&] {
    return SendBlock(BoundaryElements(rank.Context()), down, ActivationFormat(rank.Context().plan));
  });
  rank.Add(key, block, {rank.Whole(rank.Tensors().At(BoundaryName(key)))});
}

StepMemory SendMemory(const LowerContext& context, const InstructionKey& key) {
  return FreesBytes(BoundaryCategory(key), BoundaryBytes(context));
}

template <bool down>
void EmitRecv(RankBuilder& rank, const InstructionKey& key) {
  const std::int64_t elements = BoundaryElements(rank.Context());
  const Category category = BoundaryCategory(key);
  const std::string name = std::string(down ? "recv.previous" : "recv.next") +
                           (category == Category::kActivations ? "" : ".gradient");
  const NumberFormat format = ActivationFormat(rank.Context().plan);
  const int block =
      rank.FindBlock(name, [&] { return RecvBlock(elements, down, category, format); });
  rank.Add(
      key, block,
      {rank.Whole(rank.Make(BoundaryName(key), BoundaryBytes(rank.Context()), category, format))});
}

StepMemory RecvMemory(const LowerContext& context, const InstructionKey& key) {
  if (IsInFlight(context, BoundaryName(key))) return {};
  return MakesBytes(BoundaryCategory(key), BoundaryBytes(context));
}

constexpr StepRule kLoad{EmitLoad, LoadMemory};
constexpr StepRule kSendDown{EmitSend<true>, SendMemory};
constexpr StepRule kSendUp{EmitSend<false>, SendMemory};
constexpr StepRule kRecvDown{EmitRecv<true>, RecvMemory};
constexpr StepRule kRecvUp{EmitRecv<false>, RecvMemory};

}  // namespace

SkeletonStep LoadStep(const Stage& stage, const Chunk& chunk, int micro_batch) {
  const int block = chunk.first_block == 0 ? 0 : stage.layers + 1;
  return {{InstructionKind::kLoadBatch, Pass::kForward, block, micro_batch, 0}, &kLoad};
}

SkeletonStep SendStep(Pass pass, int block, int micro_batch, bool down) {
  return {{InstructionKind::kSend, pass, block, micro_batch, 0}, down ? &kSendDown : &kSendUp};
}

SkeletonStep RecvStep(Pass pass, int block, int micro_batch, bool down) {
  return {{InstructionKind::kRecv, pass, block, micro_batch, 0}, down ? &kRecvDown : &kRecvUp};
}

}  // namespace foretrain
