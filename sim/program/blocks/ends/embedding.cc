// Embedding block: rows of the token table, scaled if the model says so, plus learned positions and
// token types, then a norm in some models. The token table is whole on every tensor-parallel rank
// or, with vocab_parallel, split by rows. Then only the rank that has an id writes its row, the
// others write 0, and the sum over ranks changes no bit.
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/layer/dropout_sites.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

enum Saved : int { kEmbedded, kMean, kRstd, kDropoutMask };

struct Embedding {
  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, own_rows, hidden;

  Embedding(const BlockContext& c, std::string name)
      : b(std::move(name), WideFormats(c.plan)),
        context(c),
        rows(c.Rows()),
        own_rows(c.OwnRows()),
        hidden(c.model.hidden) {}

  std::int16_t Parameter(const char* name, EmbeddingParameter index, SlotRole role) {
    const auto list = ParametersOf(context.model, context.plan, BlockKind::kEmbedding);
    const BlockParameter& parameter = list[static_cast<std::size_t>(index)];
    const bool gradient = role == SlotRole::kGradient;
    return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                    ElementsOf(parameter, context.plan.tp),
                    gradient ? Category::kGradients : Category::kParameters, role, index);
  }

  // Zeroes the gradient of the position table: positions without a token here get none.
  void ZeroPositions(std::int16_t positions) {
    Op& zero = b.Add(OpKind::kFill, "embedding.positions.zero", {Out(positions)});
    zero.shape = {.elements = context.model.PositionRows() * context.model.hidden};
  }

  // Where the documents of the tokens begin, if positions count from there.
  std::int16_t DocumentStarts(std::int16_t positions) {
    if (positions == kNoSlot || !context.plan.documents) return kNoSlot;
    return b.Slot("document_starts", rows, Category::kStaging, SlotRole::kDocumentStarts);
  }

  // The rows of the position table that tokens use; some models (OPT) leave rows before them
  // unused.
  std::int16_t UsedPositions(std::int16_t positions) {
    const ModelSpec& model = context.model;
    if (positions == kNoSlot || model.unused_positions == 0) return positions;
    return b.View("positions.used", positions, model.unused_positions * hidden,
                  model.max_sequence * hidden);
  }

  // Saved tensors of the norm: its input, mean and rstd; none if the model has no such norm.
  void MakeNorm() {
    if (!context.model.embedding_norm) return;
    const bool rms = context.model.norm == NormKind::kRmsNorm;
    embedded =
        b.Slot("embedded", own_rows * hidden, Category::kActivations, SlotRole::kSaved, kEmbedded);
    mean = b.SlotIn(NumberFormat::kFp32, "mean", rms ? 0 : own_rows, Category::kActivations,
                    SlotRole::kSaved, kMean);
    rstd = b.SlotIn(NumberFormat::kFp32, "rstd", own_rows, Category::kActivations, SlotRole::kSaved,
                    kRstd);
  }
  // The saved mask of the output's dropout, unless no backward reads it.
  void MakeMask() {
    if (context.plan.dropout == 0 || TrainsAdapters(context.plan)) return;
    mask = b.SlotIn(NumberFormat::kMask, "dropout.mask", own_rows * hidden, Category::kActivations,
                    SlotRole::kSaved, kDropoutMask);
  }
  void Dropout(std::int16_t y);
  std::int16_t DropoutGradient(std::int16_t dy);
  void DescribeDropout(Op& op) const;
  std::int16_t mask = kNoSlot;

  // Adds the vector of the tokens' type to `y`, and the gradient of its table. All tokens have type
  // 0, as in pre-training on one segment; no-op without types.
  void AddTypes(std::int16_t y);
  void TypesGradient(std::int16_t dy, bool accumulate);
  std::int16_t ZeroIds();
  OpShape TypesShape() const;

  void Norm(std::int16_t y);
  std::int16_t NormGradient(std::int16_t dy, bool accumulate);

  std::int16_t embedded = kNoSlot, mean = kNoSlot, rstd = kNoSlot;
};

// vocab_total tells the kernel that ids outside this rank's share belong to other ranks.
OpShape TokensShape(const BlockContext& context, std::int64_t rows) {
  return {.rows = rows,
          .cols = context.model.hidden,
          .sequence = context.Sequence(),
          .vocab = VocabRows(context.model, context.plan),
          .vocab_total = context.plan.vocab_parallel ? context.model.vocab : 0,
          .cp = context.plan.cp > 1 ? context.plan.cp : 0};
}

float TableScale(const BlockContext& context) {
  return static_cast<float>(context.model.embedding_scale);
}

void Embedding::DescribeDropout(Op& op) const {
  op.dropout = static_cast<float>(context.plan.dropout);
  op.dropout_site = kEmbeddingSite;
  op.own_rows = context.plan.sequence_parallel;
  op.shape = {.rows = own_rows,
              .cols = hidden,
              .batch = context.plan.micro_batch,
              .sequence = context.plan.LocalSequence(),
              .cp = context.plan.cp > 1 ? context.plan.cp : 0};
}

// Applies dropout to `y` in place.
void Embedding::Dropout(std::int16_t y) {
  if (context.plan.dropout == 0) return;
  Op& op = b.Add(OpKind::kDropout, "embedding.dropout",
                 {In(y), In(kNoSlot), In(kNoSlot), Out(y), mask == kNoSlot ? In(mask) : Out(mask)});
  DescribeDropout(op);
}

std::int16_t Embedding::DropoutGradient(std::int16_t dy) {
  if (mask == kNoSlot) return dy;
  const std::int16_t d_out = b.Temporary("d_dropout", own_rows * hidden);
  Op& op =
      b.Add(OpKind::kDropoutBackward, "embedding.dropout.grad", {In(dy), In(mask), Out(d_out)});
  DescribeDropout(op);
  return d_out;
}

// Ids of type 0: the bits of 0.0F.
std::int16_t Embedding::ZeroIds() {
  const std::int16_t ids = b.TemporaryIn(NumberFormat::kFp32, "types", own_rows);
  Op& op = b.Add(OpKind::kFill, "embedding.types.zero", {Out(ids)});
  op.shape = {.elements = own_rows};
  return ids;
}

OpShape Embedding::TypesShape() const {
  return {.rows = own_rows,
          .cols = hidden,
          .sequence = context.plan.LocalSequence(),
          .vocab = context.model.token_types};
}

void Embedding::AddTypes(std::int16_t y) {
  const std::int16_t table = Parameter("token_types", kTokenTypes, SlotRole::kParameter);
  if (table == kNoSlot) return;
  const std::int16_t vectors = b.Temporary("types.vectors", own_rows * hidden);
  const std::int16_t ids = ZeroIds();
  Op& look_up = b.Add(OpKind::kEmbeddingForward, "embedding.types",
                      {In(ids), In(table), In(kNoSlot), Out(vectors)});
  look_up.Set(Attribute::kTableScale, 1);
  look_up.shape = TypesShape();
  Op& add = b.Add(OpKind::kAdd, "embedding.types.add", {In(y), In(vectors), In(kNoSlot), Out(y)});
  add.shape = {.rows = own_rows, .cols = hidden};
}

void Embedding::TypesGradient(std::int16_t dy, bool accumulate) {
  const std::int16_t table = Parameter("d_token_types", kTokenTypes, SlotRole::kGradient);
  if (table == kNoSlot) return;
  const std::int16_t ids = ZeroIds();
  Op& op = b.Add(OpKind::kEmbeddingBackward, "embedding.types.grad",
                 {In(ids), In(dy), accumulate ? InOut(table) : Out(table), InOut(kNoSlot)});
  op.accumulate = accumulate;
  op.Set(Attribute::kTableScale, 1);
  op.shape = TypesShape();
}

void Embedding::Norm(std::int16_t y) {
  if (embedded == kNoSlot) return;
  Op& op =
      b.Add(OpKind::kNormForward, "embedding.norm",
            {In(embedded), In(Parameter("norm.weight", kEmbeddingNormWeight, SlotRole::kParameter)),
             In(Parameter("norm.bias", kEmbeddingNormBias, SlotRole::kParameter)), Out(y),
             Out(mean), Out(rstd)});
  op.rms = context.model.norm == NormKind::kRmsNorm;
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.shape = {.rows = own_rows, .cols = hidden};
}

// Returns the gradient of the norm's input, given that of its output.
std::int16_t Embedding::NormGradient(std::int16_t dy, bool accumulate) {
  if (embedded == kNoSlot) return dy;
  const bool rms = context.model.norm == NormKind::kRmsNorm;
  const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
  const std::int16_t weight = Parameter("norm.weight", kEmbeddingNormWeight, SlotRole::kParameter);
  const std::int16_t d_weight =
      Parameter("d_norm.weight", kEmbeddingNormWeight, SlotRole::kGradient);
  const std::int16_t d_bias = Parameter("d_norm.bias", kEmbeddingNormBias, SlotRole::kGradient);
  Op& of_weight =
      b.Add(OpKind::kNormBackwardWeight, "embedding.norm.weight_grad",
            {In(dy), In(embedded), In(mean), In(rstd), output(d_weight), output(d_bias)});
  of_weight.rms = rms;
  of_weight.accumulate = accumulate;
  of_weight.shape = {.rows = own_rows, .cols = hidden};
  const std::int16_t d_embedded = b.Temporary("d_embedded", own_rows * hidden);
  Op& of_input =
      b.Add(OpKind::kNormBackwardInput, "embedding.norm.input_grad",
            {In(dy), In(embedded), In(weight), In(mean), In(rstd), In(kNoSlot), Out(d_embedded)});
  of_input.rms = rms;
  of_input.shape = {.rows = own_rows, .cols = hidden};
  return d_embedded;
}

}  // namespace

// Four layouts. Split vocabulary: every rank looks up all rows, then a reduce-scatter (split rows)
// or an all-reduce sums the partial rows. Whole table: each rank looks up the rows it needs, and
// nothing is summed.
void TokensForward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                   const TokenTensors& of) {
  const std::int64_t rows = context.Rows(), own = context.OwnRows(), hidden = context.model.hidden;
  const bool split_vocab = context.plan.vocab_parallel;
  const bool split_rows = context.plan.sequence_parallel;
  const bool scatters = split_vocab && split_rows;
  const bool own_rows = split_rows && !split_vocab;  // the rows of this rank and no others
  const std::int16_t from = own_rows ? b.View(name + ".ids.own", of.ids, 0, own, own) : of.ids;
  const std::int16_t to = scatters ? b.Temporary(name + ".partial", rows * hidden) : of.vectors;
  Op& op =
      b.Add(OpKind::kEmbeddingForward, name, {In(from), In(of.table), In(of.positions), Out(to)});
  b.AlsoReads(of.document_starts);
  op.own_rows = own_rows;
  op.Set(Attribute::kTableScale, TableScale(context));
  op.shape = TokensShape(context, own_rows ? own : rows);
  if (scatters) {
    b.TpReduceScatter(name + ".sum", to, of.vectors, rows * hidden);
  } else if (split_vocab) {
    b.TpAllReduce(name + ".sum", of.vectors, rows * hidden);
  }
}

// Every rank's share of the table needs the gradients of all rows, so split rows are all-gathered
// first.
std::int16_t TokensBackward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                            const TokenTensors& of, bool adds) {
  const std::int64_t rows = context.Rows(), hidden = context.model.hidden;
  std::int16_t dy = of.vectors;
  if (context.plan.sequence_parallel) {
    dy = b.Temporary(name + ".dy.whole", rows * hidden);
    b.TpAllGather(name + ".output_grad.gather", of.vectors, dy, rows * hidden);
  }
  Op& op = b.Add(OpKind::kEmbeddingBackward, name + ".tokens.grad",
                 {In(of.ids), In(dy), adds ? InOut(of.table) : Out(of.table), InOut(of.positions)});
  b.AlsoReads(of.document_starts);
  op.accumulate = adds;
  op.Set(Attribute::kTableScale, TableScale(context));
  op.shape = TokensShape(context, rows);
  return dy;
}

Block EmbeddingForward(const BlockContext& context) {
  if (context.model.HasEncoder()) return StreamEmbeddingForward(context);
  Embedding e(context, "embedding.forward");
  BlockBuilder& b = e.b;
  const std::int16_t ids = b.Slot("ids", e.rows, Category::kStaging, SlotRole::kIds);
  const std::int16_t table = e.Parameter("tokens", kTokenTable, SlotRole::kParameter);
  const std::int16_t positions = e.Parameter("positions", kPositionTable, SlotRole::kParameter);
  const std::int16_t out =
      b.Slot("y", e.own_rows * e.hidden, Category::kActivations, SlotRole::kOutput);
  e.MakeNorm();
  e.MakeMask();
  const std::int16_t y = e.embedded != kNoSlot ? e.embedded : out;
  TokensForward(b, context, "embedding",
                {ids, table, e.UsedPositions(positions), y, e.DocumentStarts(positions)});
  e.AddTypes(y);
  e.Norm(out);
  e.Dropout(out);
  return b.Take();
}

// With a shared table the head's backward of the same micro-batch has already written the table's
// gradient, so this one adds. The whole backward is a weight half: no earlier block waits for a
// gradient.
Block EmbeddingBackward(const BlockContext& context, const BlockRequest& request) {
  if (context.model.HasEncoder()) return StreamEmbeddingBackward(context, request);
  const bool accumulate = request.accumulate;
  Embedding e(context, accumulate ? "embedding.backward.accumulate" : "embedding.backward");
  BlockBuilder& b = e.b;
  if (TrainsAdapters(context.plan)) return b.Take(request.pass);
  const bool add = accumulate || context.shared_table;
  const std::int16_t ids = b.Slot("ids", e.rows, Category::kStaging, SlotRole::kIds);
  std::int16_t dy =
      b.Slot("dy", e.own_rows * e.hidden, Category::kWorkspace, SlotRole::kOutputGradient);
  const std::int16_t table = e.Parameter("d_tokens", kTokenTable, SlotRole::kGradient);
  const std::int16_t all_positions =
      e.Parameter("d_positions", kPositionTable, SlotRole::kGradient);
  e.MakeNorm();
  e.MakeMask();
  b.Half(Pass::kBackwardWeight);
  dy = e.DropoutGradient(dy);
  dy = e.NormGradient(dy, accumulate);
  e.TypesGradient(dy, accumulate);
  // Under context parallelism a rank has two pieces of the sequence, so it adds to two ranges of
  // the position table. Tokens of documents add to rows that follow from the data.
  const bool scatters = (context.plan.cp > 1 || context.plan.documents) && all_positions != kNoSlot;
  if (scatters && !accumulate) e.ZeroPositions(all_positions);
  const std::int16_t positions = e.UsedPositions(all_positions);
  dy = TokensBackward(
      b, context, "embedding",
      {ids, table, scatters ? positions : kNoSlot, dy, e.DocumentStarts(all_positions)}, add);
  if (positions != kNoSlot && !scatters) {
    const bool partial = context.plan.sequence < context.model.PositionRows();
    if (!accumulate && partial) e.ZeroPositions(all_positions);
    // dy[batch, sequence * hidden] summed over the batch; positions past the sequence get none.
    Op& sum = b.Add(OpKind::kBiasGrad, "embedding.positions.grad",
                    {In(dy), accumulate || partial ? InOut(positions) : Out(positions)});
    sum.accumulate = accumulate;
    sum.shape = {.rows = context.plan.micro_batch,
                 .cols = context.plan.sequence * context.model.hidden};
  }
  return b.Take(request.pass);
}

}  // namespace foretrain
