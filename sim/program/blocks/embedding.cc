// Token table plus, where positions are learned, the position table. Whole on every tensor-parallel
// rank.
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {
namespace {

std::int16_t ParameterSlot(BlockBuilder& b, const BlockContext& context, const char* name,
                           EmbeddingParameter index, SlotRole role) {
  const auto list = ParametersOf(context.model, BlockKind::kEmbedding);
  const Category category =
      role == SlotRole::kGradient ? Category::kGradients : Category::kParameters;
  return b.Slot(name, ElementsOf(list[static_cast<std::size_t>(index)], 1), category, role, index);
}

// Ranks that share out each sequence, as an op's shape names them.
std::int32_t SharesOf(const BlockContext& context) {
  return context.plan.cp > 1 ? context.plan.cp : 0;
}

// Positions that this rank has none of get no gradient.
void ZeroPositions(BlockBuilder& b, const BlockContext& context, std::int16_t positions) {
  Op& zero =
      b.Add(OpKind::kFill, OpClass::kMemoryBound, "embedding.positions.zero", {Out(positions)});
  zero.shape = {.elements = context.model.max_sequence * context.model.hidden};
}

}  // namespace

Block EmbeddingForward(const BlockContext& context) {
  BlockBuilder b("embedding.forward");
  const std::int64_t rows = context.Rows();
  const std::int16_t ids = b.Slot("ids", rows, Category::kStaging, SlotRole::kIds);
  const std::int16_t table = ParameterSlot(b, context, "tokens", kTokenTable, SlotRole::kParameter);
  const std::int16_t positions =
      ParameterSlot(b, context, "positions", kPositionTable, SlotRole::kParameter);
  const std::int16_t y =
      b.Slot("y", rows * context.model.hidden, Category::kActivations, SlotRole::kOutput);
  Op& op = b.Add(OpKind::kEmbeddingForward, OpClass::kMemoryBound, "embedding",
                 {In(ids), In(table), In(positions), Out(y)});
  op.shape = {.rows = rows,
              .cols = context.model.hidden,
              .sequence = context.plan.LocalSequence(),
              .vocab = context.model.vocab,
              .cp = SharesOf(context)};
  return b.Take();
}

// With a shared table the head's backward of the same micro-batch has already written the gradient.
Block EmbeddingBackward(const BlockContext& context, Pass half, bool accumulate) {
  BlockBuilder b(accumulate ? "embedding.backward.accumulate" : "embedding.backward");
  const std::int64_t rows = context.Rows();
  const bool add = accumulate || context.shared_table;
  const std::int16_t ids = b.Slot("ids", rows, Category::kStaging, SlotRole::kIds);
  const std::int16_t dy =
      b.Slot("dy", rows * context.model.hidden, Category::kWorkspace, SlotRole::kOutputGradient);
  const std::int16_t table =
      ParameterSlot(b, context, "d_tokens", kTokenTable, SlotRole::kGradient);
  const std::int16_t positions =
      ParameterSlot(b, context, "d_positions", kPositionTable, SlotRole::kGradient);
  b.Half(Pass::kBackwardWeight);
  // Shared out, a sequence leaves each rank two pieces of the position table to add to.
  const bool shared = context.plan.cp > 1 && positions != kNoSlot;
  if (shared && !accumulate) ZeroPositions(b, context, positions);
  Op& op = b.Add(
      OpKind::kEmbeddingBackward, OpClass::kMemoryBound, "embedding.tokens.grad",
      {In(ids), In(dy), add ? InOut(table) : Out(table), InOut(shared ? positions : kNoSlot)});
  op.accumulate = add;
  op.shape = {.rows = rows,
              .cols = context.model.hidden,
              .sequence = context.plan.LocalSequence(),
              .vocab = context.model.vocab,
              .cp = SharesOf(context)};
  if (positions != kNoSlot && !shared) {
    const bool partial = context.plan.sequence < context.model.max_sequence;
    if (!accumulate && partial) ZeroPositions(b, context, positions);
    // dy[batch, sequence * hidden] summed over the batch; positions past the sequence get none.
    Op& sum = b.Add(OpKind::kBiasGrad, OpClass::kMemoryBound, "embedding.positions.grad",
                    {In(dy), accumulate || partial ? InOut(positions) : Out(positions)});
    sum.accumulate = accumulate;
    sum.shape = {.rows = context.plan.micro_batch,
                 .cols = context.plan.sequence * context.model.hidden};
  }
  return b.Take(half);
}

}  // namespace foretrain
