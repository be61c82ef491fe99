// Layers of an encoder-decoder: the parts of the stream that a layer hands on (stream.h), biases of
// self-attention by distance, and cross-attention (Raffel et al. 2020, s. 2.1):
//
//   residual -> norm -> q ----------> attention -> out -> [tp sum] -> + residual
//   encoder's output -> [k | v] ---^
//
// The table of biases travels in the stream, so that all layers of a stack read it and add to its
// gradient, on any pipeline stage. Tensor-parallel ranks have the columns of their heads.
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

StreamPart RowsOfStack(const Stream& stream, StackKind stack) {
  return stack == StackKind::kEncoder ? stream.encoder : stream.decoder;
}
StreamPart TableOfStack(const Stream& stream, StackKind stack) {
  return stack == StackKind::kEncoder ? stream.encoder_table : stream.decoder_table;
}

std::int16_t ViewOf(BlockBuilder& b, const char* name, std::int16_t of, const StreamPart& part) {
  return b.View(name, of, part.first, part.elements);
}

void CopyOn(BlockBuilder& b, const char* name, std::int16_t from, std::int16_t to,
            std::int64_t elements) {
  Op& op = b.Add(OpKind::kCopyOn, name, {In(from), Out(to)});
  op.shape = {.elements = elements};
}

OpShape BiasShape(const BlockContext& context) {
  const ModelSpec& model = context.model;
  return {.rows = context.Sequence(),
          .inner = context.Sequence(),
          .heads = static_cast<std::int32_t>(model.heads / context.plan.tp),
          .buckets = static_cast<std::int32_t>(model.relative_buckets),
          .max_distance = static_cast<std::int32_t>(model.relative_max_distance)};
}

}  // namespace

std::int64_t Layer::MemoryRows() const {
  return context.plan.micro_batch * context.plan.EncoderSequence();
}

std::int64_t Layer::CrossKeyWidth() const {
  return 2 * context.model.KvHeadsOn(tp) * context.model.head_dim;
}

std::int16_t Layer::StackRows(const char* name, std::int16_t of) {
  if (!context.model.HasEncoder()) return of;
  return ViewOf(b, name, of, RowsOfStack(Stream(context.model, context.plan), context.stack));
}

std::int16_t Layer::Output() {
  handed_on = b.Slot("y", BoundaryElements(context.model, context.plan), Category::kActivations,
                     SlotRole::kOutput);
  return StackRows("y.rows", handed_on);
}

// An encoder's layer copies the decoder's rows and both tables, which are consecutive; a decoder's
// the tables and the encoder's rows. The first decoder layer replaces these rows by their norm.
// Comes last, so that the output takes no memory before.
void Layer::HandOn() {
  if (!context.model.HasEncoder()) return;
  const Stream parts(context.model, context.plan);
  StreamPart carried{parts.decoder_table.first, parts.Elements() - parts.decoder_table.first};
  if (context.stack == StackKind::kEncoder) carried = {0, parts.encoder.first};
  if (kind == BlockKind::kFirstDecoderLayer) {
    carried = {parts.decoder_table.first, parts.encoder.first - parts.decoder_table.first};
    CopyOn(b, "encoder.hand_on", cross.memory, ViewOf(b, "y.encoder", handed_on, parts.encoder),
           parts.encoder.elements);
  }
  CopyOn(b, "stream.hand_on", ViewOf(b, "x.carried", stream, carried),
         ViewOf(b, "y.carried", handed_on, carried), carried.elements);
}

void Layer::MakeCrossTensors(const TensorMaker& make) {
  const NumberFormat activation = b.formats().activations, exact = NumberFormat::kFp32;
  cross.normed = make(activation, "cross.normed", rows * hidden, kCrossNormed);
  cross.rstd = make(exact, "cross.rstd", rows, kCrossRstd);
  cross.query = make(activation, "cross.query", rows * QueryWidth(), kCrossQuery);
  cross.keys = make(activation, "cross.keys", MemoryRows() * CrossKeyWidth(), kCrossKeys);
  cross.attention = make(activation, "cross.attention", rows * attention_width, kCrossAttention);
  cross.lse = make(exact, "cross.lse", rows * (context.model.heads / tp), kCrossLse);
  cross.residual = make(activation, "cross.residual", rows * hidden, kCrossResidual);
  if (kind == BlockKind::kFirstDecoderLayer) {
    cross.memory = make(activation, "memory", MemoryRows() * hidden, kMemory);
    cross.memory_rstd = make(exact, "memory.rstd", MemoryRows(), kMemoryRstd);
    return;
  }
  cross.memory = ViewOf(b, "memory", stream, Stream(context.model, context.plan).encoder);
}

// The final norm of the encoder, in the first decoder layer.
void Layer::MakeMemory() {
  if (kind != BlockKind::kFirstDecoderLayer) return;
  const std::int16_t in =
      ViewOf(b, "x.encoder", stream, Stream(context.model, context.plan).encoder);
  Op& op = b.Add(OpKind::kNormForward, "encoder.norm",
                 {In(in), In(Parameter("encoder.norm.weight", kEncoderNormWeight)), In(kNoSlot),
                  Out(cross.memory), Out(kNoSlot), Out(cross.memory_rstd)});
  op.rms = rms;
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.shape = {.rows = MemoryRows(), .cols = hidden};
}

// Made on first use in a pass, from the table that came with the input.
void Layer::Biases() {
  if (biases != kNoSlot) return;
  const OpShape shape = BiasShape(context);
  biases =
      b.TemporaryIn(NumberFormat::kFp32, "biases", shape.heads * (shape.rows + shape.inner - 1));
  const std::int16_t table =
      ViewOf(b, "table", stream, TableOfStack(Stream(context.model, context.plan), context.stack));
  Op& op = b.Add(OpKind::kRelativeBias, "attention.biases", {In(table), Out(biases)});
  op.bidirectional = context.stack == StackKind::kEncoder;
  op.shape = shape;
}

OpShape Layer::CrossShape() const {
  OpShape shape = AttentionShape();
  shape.cp = 1;
  shape.inner = MemoryRows();
  return shape;
}

void Layer::CrossCore() {
  Op& op = b.Add(OpKind::kAttentionPartForward, "cross.core",
                 {In(cross.query), In(cross.keys), Out(cross.attention), Out(cross.lse)});
  SetScores(context.model, op);
  op.bidirectional = true;
  op.shape = CrossShape();
}

void Layer::CrossAttention() {
  MakeMemory();
  Norm("cross.norm", Parameter("cross.norm.weight", kCrossNormWeight), kNoSlot,
       {residual, kNoSlot, cross.normed, kNoSlot, cross.rstd});
  b.Linear("cross.q", cross.normed, Parameter("cross.q.weight", kCrossQueryWeight), kNoSlot,
           cross.query, rows, QueryWidth(), hidden);
  b.Linear("cross.kv", cross.memory, Parameter("cross.kv.weight", kCrossKeysWeight), kNoSlot,
           cross.keys, MemoryRows(), CrossKeyWidth(), hidden);
  CrossCore();
  const std::int16_t weight = Parameter("cross.out.weight", kCrossOutWeight);
  SummedGemm out{"cross.out",     true,       cross.attention, weight, kNoSlot,
                 attention_width, kOutLinear, kNoSlot};
  AddBranch("cross.residual", residual, Sum(out), kNoSlot, cross.residual, kNoSlot);
}

// Weight gradients follow the products whose output gradients they share. The gradient of the
// encoder's output, partial on tensor-parallel ranks, is summed and added to that of later layers.
std::int16_t Layer::CrossGradient(LayerTensors have, bool accumulate, std::int16_t d_sum,
                                  std::int16_t dy, std::int16_t dx) {
  const auto add = [&](const char* name, std::int16_t a, std::int16_t c, std::int16_t to) {
    Op& op = b.Add(OpKind::kAdd, name, {In(a), In(c), In(kNoSlot), Out(to)});
    op.shape = {.rows = MemoryRows(), .cols = hidden};
  };
  const auto norm_gradients = [&](const std::string& name, std::int16_t d_normed, std::int16_t in,
                                  std::int16_t rstd, LayerParameter index, std::int16_t through,
                                  std::int16_t to, std::int64_t count) {
    b.Half(Pass::kBackwardInput);
    const std::int16_t weight = Parameter((name + ".weight").c_str(), index);
    Op& op = b.Add(OpKind::kNormBackwardInput, name + ".input_grad",
                   {In(d_normed), In(in), In(weight), In(kNoSlot), In(rstd), In(through), Out(to)});
    op.rms = rms;
    op.shape = {.rows = count, .cols = hidden};
    b.Half(Pass::kBackwardWeight);
    const std::int16_t grad = Gradient(("d_" + name + ".weight").c_str(), index);
    Op& of_weight = b.Add(OpKind::kNormBackwardWeight, name + ".weight_grad",
                          {In(d_normed), In(in), In(kNoSlot), In(rstd),
                           accumulate ? InOut(grad) : Out(grad), Out(kNoSlot)});
    of_weight.rms = rms;
    of_weight.accumulate = accumulate;
    of_weight.shape = {.rows = count, .cols = hidden};
  };
  const Stream parts(context.model, context.plan);
  const std::int64_t keys = MemoryRows(), key_width = CrossKeyWidth();
  const std::int16_t d_attention = b.Temporary("d_cross.attention", rows * attention_width);
  const std::int16_t d_query = b.Temporary("d_cross.query", rows * QueryWidth());
  const std::int16_t d_keys = b.Temporary("d_cross.keys", keys * key_width);
  b.Half(Pass::kBackwardInput);
  if (!Holds(have, kCrossNormed)) {
    Norm("cross.norm", Parameter("cross.norm.weight", kCrossNormWeight), kNoSlot,
         {residual, kNoSlot, cross.normed, kNoSlot, cross.rstd});
  }
  if (!Holds(have, kCrossAttention)) CrossCore();
  b.LinearInputGradient("cross.out.input_grad", d_sum,
                        Parameter("cross.out.weight", kCrossOutWeight), d_attention, rows, hidden,
                        attention_width);
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("cross.out", d_sum, cross.attention,
                         Gradient("d_cross.out.weight", kCrossOutWeight), kNoSlot, rows, hidden,
                         attention_width, accumulate);
  b.Half(Pass::kBackwardInput);
  Op& core = b.Add(OpKind::kAttentionPartBackward, "cross.core.grad",
                   {In(cross.query), In(cross.keys), In(cross.attention), In(cross.lse),
                    In(d_attention), Out(d_query), Out(d_keys)});
  SetScores(context.model, core);
  core.bidirectional = true;
  core.shape = CrossShape();

  const std::int16_t d_memory = b.Temporary("d_memory", keys * hidden);
  b.LinearInputGradient("cross.kv.input_grad", d_keys,
                        Parameter("cross.kv.weight", kCrossKeysWeight), d_memory, keys, key_width,
                        hidden);
  if (tp > 1) b.TpAllReduce("cross.kv.input_grad.sum", d_memory, keys * hidden);
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("cross.kv", d_keys, cross.memory,
                         Gradient("d_cross.kv.weight", kCrossKeysWeight), kNoSlot, keys, key_width,
                         hidden, accumulate);
  b.Half(Pass::kBackwardInput);
  const std::int16_t dy_encoder = ViewOf(b, "dy.encoder", dy, parts.encoder);
  const std::int16_t dx_encoder = ViewOf(b, "dx.encoder", dx, parts.encoder);
  if (kind == BlockKind::kFirstDecoderLayer) {
    const std::int16_t d_normed = b.Temporary("d_encoder.normed", keys * hidden);
    add("cross.memory.grad", dy_encoder, d_memory, d_normed);
    norm_gradients("encoder.norm", d_normed, ViewOf(b, "x.encoder", stream, parts.encoder),
                   cross.memory_rstd, kEncoderNormWeight, kNoSlot, dx_encoder, keys);
  } else {
    add("cross.memory.grad", dy_encoder, d_memory, dx_encoder);
  }

  b.Half(Pass::kBackwardInput);
  const std::int16_t query_weight = Parameter("cross.q.weight", kCrossQueryWeight);
  const std::int16_t d_normed = Sum({"cross.q.input_grad", false, d_query, query_weight, kNoSlot,
                                     QueryWidth(), kQkvLinear, kNoSlot});
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("cross.q", d_query, cross.normed,
                         Gradient("d_cross.q.weight", kCrossQueryWeight), kNoSlot, rows,
                         QueryWidth(), hidden, accumulate);
  const std::int16_t d_residual = b.Temporary("d_cross.residual", rows * hidden);
  norm_gradients("cross.norm", d_normed, residual, cross.rstd, kCrossNormWeight, d_sum, d_residual,
                 rows);
  b.Half(Pass::kBackwardInput);
  return d_residual;
}

void Layer::TableGradients(std::int16_t dy, std::int16_t dx) {
  const Stream parts(context.model, context.plan);
  const StreamPart table = TableOfStack(parts, context.stack);
  b.Half(Pass::kBackwardInput);
  Op& op = b.Add(
      OpKind::kRelativeBiasBackward, "attention.biases.grad",
      {In(ViewOf(b, "dy.table", dy, table)), In(d_biases), Out(ViewOf(b, "dx.table", dx, table))});
  op.bidirectional = context.stack == StackKind::kEncoder;
  op.shape = BiasShape(context);
  StreamPart carried = parts.encoder_table;
  if (context.stack == StackKind::kEncoder) carried = {0, parts.decoder_table.End()};
  CopyOn(b, "stream.hand_on.grad", ViewOf(b, "dy.carried", dy, carried),
         ViewOf(b, "dx.carried", dx, carried), carried.elements);
}

}  // namespace foretrain
