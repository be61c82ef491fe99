// Token table plus, where positions are learned, the position table. The token table is whole on
// every tensor-parallel rank or, with vocab_parallel, split by rows: a row of the output is then
// made whole by the one rank that has its id, so that the sum over ranks changes no bit.
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

struct Embedding {
  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, own_rows, hidden;
  bool split_vocab, split_rows;

  Embedding(const BlockContext& c, std::string name)
      : b(std::move(name), WideFormats(c.plan)),
        context(c),
        rows(c.Rows()),
        own_rows(c.OwnRows()),
        hidden(c.model.hidden),
        split_vocab(c.plan.vocab_parallel),
        split_rows(c.plan.sequence_parallel) {}

  std::int16_t Parameter(const char* name, EmbeddingParameter index, SlotRole role) {
    const auto list = ParametersOf(context.model, context.plan, BlockKind::kEmbedding);
    const BlockParameter& parameter = list[static_cast<std::size_t>(index)];
    const bool gradient = role == SlotRole::kGradient;
    return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                    ElementsOf(parameter, context.plan.tp),
                    gradient ? Category::kGradients : Category::kParameters, role, index);
  }

  // Positions that this rank has none of get no gradient.
  void ZeroPositions(std::int16_t positions) {
    Op& zero =
        b.Add(OpKind::kFill, OpClass::kMemoryBound, "embedding.positions.zero", {Out(positions)});
    zero.shape = {.elements = context.model.max_sequence * context.model.hidden};
  }

  OpShape Shape(std::int64_t op_rows) const {
    return {.rows = op_rows,
            .cols = hidden,
            .sequence = context.plan.LocalSequence(),
            .vocab = VocabRows(context.model, context.plan),
            .vocab_total = split_vocab ? context.model.vocab : 0,
            .cp = context.plan.cp > 1 ? context.plan.cp : 0};
  }
};

}  // namespace

Block EmbeddingForward(const BlockContext& context) {
  Embedding e(context, "embedding.forward");
  BlockBuilder& b = e.b;
  const std::int16_t ids = b.Slot("ids", e.rows, Category::kStaging, SlotRole::kIds);
  const std::int16_t table = e.Parameter("tokens", kTokenTable, SlotRole::kParameter);
  const std::int16_t positions = e.Parameter("positions", kPositionTable, SlotRole::kParameter);
  const std::int16_t y =
      b.Slot("y", e.own_rows * e.hidden, Category::kActivations, SlotRole::kOutput);
  const bool scatters = e.split_vocab && e.split_rows;
  const bool own_rows = e.split_rows && !e.split_vocab;  // the rows of this rank and no others
  const std::int16_t from = own_rows ? b.View("ids.own", ids, 0, e.own_rows, e.own_rows) : ids;
  const std::int16_t to = scatters ? b.Temporary("partial", e.rows * e.hidden) : y;
  Op& op = b.Add(OpKind::kEmbeddingForward, OpClass::kMemoryBound, "embedding",
                 {In(from), In(table), In(positions), Out(to)});
  op.own_rows = own_rows;
  op.shape = e.Shape(own_rows ? e.own_rows : e.rows);
  if (scatters) {
    b.TpReduceScatter("embedding.sum", to, y, e.rows * e.hidden);
  } else if (e.split_vocab) {
    b.TpAllReduce("embedding.sum", y, e.rows * e.hidden);
  }
  return b.Take();
}

// With a shared table the head of the same micro-batch has already written the gradient. Both
// tables need the gradients of all rows.
Block EmbeddingBackward(const BlockContext& context, const BlockRequest& request) {
  const bool accumulate = request.accumulate;
  Embedding e(context, accumulate ? "embedding.backward.accumulate" : "embedding.backward");
  BlockBuilder& b = e.b;
  if (TrainsAdapters(context.plan)) return b.Take(request.pass);
  const bool add = accumulate || context.shared_table;
  const std::int16_t ids = b.Slot("ids", e.rows, Category::kStaging, SlotRole::kIds);
  std::int16_t dy =
      b.Slot("dy", e.own_rows * e.hidden, Category::kWorkspace, SlotRole::kOutputGradient);
  const std::int16_t table = e.Parameter("d_tokens", kTokenTable, SlotRole::kGradient);
  const std::int16_t positions = e.Parameter("d_positions", kPositionTable, SlotRole::kGradient);
  b.Half(Pass::kBackwardWeight);
  if (e.split_rows) {
    const std::int16_t whole = b.Temporary("dy.whole", e.rows * e.hidden);
    b.TpAllGather("embedding.output_grad.gather", dy, whole, e.rows * e.hidden);
    dy = whole;
  }
  // Shared out, a sequence leaves each rank two pieces of the position table to add to.
  const bool shared = context.plan.cp > 1 && positions != kNoSlot;
  if (shared && !accumulate) e.ZeroPositions(positions);
  Op& op = b.Add(
      OpKind::kEmbeddingBackward, OpClass::kMemoryBound, "embedding.tokens.grad",
      {In(ids), In(dy), add ? InOut(table) : Out(table), InOut(shared ? positions : kNoSlot)});
  op.accumulate = add;
  op.shape = e.Shape(e.rows);
  if (positions != kNoSlot && !shared) {
    const bool partial = context.plan.sequence < context.model.max_sequence;
    if (!accumulate && partial) e.ZeroPositions(positions);
    // dy[batch, sequence * hidden] summed over the batch; positions past the sequence get none.
    Op& sum = b.Add(OpKind::kBiasGrad, OpClass::kMemoryBound, "embedding.positions.grad",
                    {In(dy), accumulate || partial ? InOut(positions) : Out(positions)});
    sum.accumulate = accumulate;
    sum.shape = {.rows = context.plan.micro_batch,
                 .cols = context.plan.sequence * context.model.hidden};
  }
  return b.Take(request.pass);
}

}  // namespace foretrain
