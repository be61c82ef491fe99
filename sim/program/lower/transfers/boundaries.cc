#include "sim/program/lower/transfers/boundaries.h"

#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/rank/step_description.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

// The boundary tensor of a pass: an activation, or the gradient of one.
TensorName NameOf(const InstructionKey& key) {
  const bool forward = key.pass == Pass::kForward;
  return {forward ? TensorKind::kActivation : TensorKind::kInputGradient, key.block,
          key.micro_batch};
}
TensorShape ShapeOf(const LowerContext& context, const InstructionKey& key) {
  return BoundaryShape(context.model, context.plan, key.pass);
}

// Tensors that the load of `key` fills: those that the chunk of its block needs.
struct Loaded {
  bool ids = false;
  bool targets = false;
  bool document_starts = false;
};
Loaded LoadedBy(const Plan& plan, const Stage& stage, const Chunk& chunk) {
  return {chunk.first_block == 0, chunk.last_block == stage.layers + 1, plan.documents};
}

// A rank loads ids for the embedding, targets for the head and document starts for attention. One
// instruction loads all that a chunk needs.
StepDescription Load(const LowerContext& context, const InstructionKey& key) {
  const auto [ids, targets, starts] =
      LoadedBy(context.plan, context.stage, context.stage.ChunkOf(key.block));
  const std::int64_t rows = context.Rows();
  std::vector<TensorUse> uses;
  const auto load = [&](const TensorName& name) {
    uses.push_back(Makes(name, BatchShape(context.plan)));
  };
  if (ids) load({TensorKind::kIds, 0, key.micro_batch});
  if (targets) load({TensorKind::kTargets, 0, key.micro_batch});
  if (starts) load(DocumentStartsName(context.stage, key.block, key.micro_batch));
  return {std::string("load") + (ids ? ".ids" : "") + (targets ? ".targets" : "") +
              (starts ? ".document_starts" : ""),
          [rows, i = ids, t = targets, d = starts] { return LoadBatchBlock(rows, i, t, d); },
          std::move(uses)};
}

// A send frees the tensor: no other instruction of the rank reads it.
template <bool down>
StepDescription Send(const LowerContext& context, const InstructionKey& key) {
  const TensorShape shape = ShapeOf(context, key);
  const std::int64_t elements = ElementsIn(shape.format, shape.bytes);
  return {down ? "send.next" : "send.previous",
          [elements, format = shape.format] { return SendBlock(elements, down, format); },
          {Frees(NameOf(key), shape)}};
}

template <bool down>
StepDescription Recv(const LowerContext& context, const InstructionKey& key) {
  const TensorShape shape = ShapeOf(context, key);
  const std::int64_t elements = ElementsIn(shape.format, shape.bytes);
  const bool gradient = shape.category != Category::kActivations;
  return {std::string(down ? "recv.previous" : "recv.next") + (gradient ? ".gradient" : ""),
          [elements, shape] { return RecvBlock(elements, down, shape.category, shape.format); },
          {Makes(NameOf(key), shape)}};
}

constexpr StepRule kLoad{Load};
constexpr StepRule kSendDown{Send<true>};
constexpr StepRule kSendUp{Send<false>};
constexpr StepRule kRecvDown{Recv<true>};
constexpr StepRule kRecvUp{Recv<false>};

}  // namespace

// The one formula for boundary tensors: instructions, memory and the search all read it.
TensorShape BoundaryShape(const ModelSpec& model, const Plan& plan, Pass pass) {
  const NumberFormat format = ActivationFormat(plan);
  return {BytesIn(format, BoundaryElements(model, plan)),
          pass == Pass::kForward ? Category::kActivations : Category::kWorkspace, format};
}

TensorShape BatchShape(const Plan& plan) {
  return {plan.micro_batch * plan.LocalSequence() * kFloatBytes, Category::kStaging};
}

TensorName DocumentStartsName(const Stage& stage, int block, int micro_batch) {
  return {TensorKind::kDocumentStarts, stage.ChunkOf(block).first_block, micro_batch};
}

bool LoadsBatch(const Plan& plan, const Stage& stage, const Chunk& chunk) {
  const auto [ids, targets, starts] = LoadedBy(plan, stage, chunk);
  return ids || targets || starts;
}

SkeletonStep LoadStep(const Stage& stage, const Chunk& chunk, int micro_batch) {
  const bool last = chunk.first_block > 0 && chunk.last_block == stage.layers + 1;
  const int block = last ? chunk.last_block : chunk.first_block;
  return {{InstructionKind::kLoadBatch, Pass::kForward, block, micro_batch, 0}, &kLoad};
}

SkeletonStep SendStep(Pass pass, int block, int micro_batch, bool down) {
  return {{InstructionKind::kSend, pass, block, micro_batch, 0}, down ? &kSendDown : &kSendUp};
}

SkeletonStep RecvStep(Pass pass, int block, int micro_batch, bool down) {
  return {{InstructionKind::kRecv, pass, block, micro_batch, 0}, down ? &kRecvDown : &kRecvUp};
}

}  // namespace foretrain
