// Attention core of a layer: flash attention, which keeps scores on the chip; standard attention,
// which stores scores and their softmax; or parts of a sequence split over ranks. An encoder's is
// one part of all queries and keys.
#include "sim/program/blocks/layer/dropout_sites.h"
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

bool WritesScores(const Plan& plan) { return plan.attention == AttentionAlgorithm::kStandard; }

}  // namespace

// Made on first use: blocks without attention need none.
std::int16_t Layer::DocumentStarts() {
  if (context.plan.documents && document_starts == kNoSlot) {
    document_starts =
        b.Slot("document_starts", rows, Category::kStaging, SlotRole::kDocumentStarts);
  }
  return document_starts;
}

// Standard attention stores a matrix [sequence, sequence] for each head: 2 a s^2 b bytes in 16
// bits, and with dropout 3 a s^2 b more (Korthikanti et al. 2022, s. 4.1).
void Layer::MakeScoreTensors(const TensorMaker& make) {
  if (!WritesScores(context.plan)) return;
  const std::int64_t all = rows * (context.model.heads / tp) * KeysOfCore();
  const std::int64_t dropped = context.plan.attention_dropout > 0 ? all : 0;
  const NumberFormat activation = b.formats().activations;
  scores = {make(activation, "scores.weights", all, kScoreWeights),
            make(NumberFormat::kMask, "scores.mask", dropped, kScoreMask),
            make(activation, "scores.dropped", dropped, kScoreDropped)};
}

// Computes scores, softmax and dropout, then `out`; if `out` is kNoSlot it ends at the weights.
void Layer::StandardCore(std::int16_t out) {
  const std::int64_t all = rows * (context.model.heads / tp) * KeysOfCore();
  const std::int16_t raw = b.Temporary("scores", all);
  const std::int16_t documents = DocumentStarts();
  const auto made = [](std::int16_t slot) { return slot == kNoSlot ? In(slot) : Out(slot); };
  Op& op = b.Add(
      OpKind::kStandardAttentionForward, out == kNoSlot ? "attention.weights" : "attention.core",
      {In(qkv), Out(raw), Out(scores.weights), made(scores.mask), made(scores.dropped), made(out)});
  b.AlsoReads(documents);
  SetCore(op);
  op.shape.inner = out == kNoSlot ? 0 : op.shape.sequence;
}

void Layer::SetCore(Op& op) const {
  SetScores(context.model, op);
  op.dropout = static_cast<float>(context.plan.attention_dropout);
  op.dropout_site = kAttentionSite;
  op.shape = CoreShape();
}

// The kernel of one part, which covers all queries and all keys: its mask compares positions, so
// queries that stand after all keys see every one. A decoder's queries see earlier keys.
void Layer::SetBidirectional(Op& op) const {
  op.bidirectional = context.stack != StackKind::kDecoder;
  op.shape.cp = 1;
  op.shape.inner = op.shape.rows;
}

// Sinks and the cast for the output projection follow any kind of core.
void Layer::AttentionCore() {
  if (SharesSequence()) {
    shared.EndAtDocuments(DocumentStarts());
    shared.Forward();
  } else if (WritesScores(context.plan)) {
    StandardCore(attention);
  } else if (context.model.HasEncoder()) {
    Biases();
    Op& op = b.Add(OpKind::kAttentionPartForward, "attention.core",
                   {In(qkv), In(qkv), Out(attention), Out(lse), In(kNoSlot), In(biases)});
    SetCore(op);
    SetBidirectional(op);
  } else if (!context.model.causal) {
    Op& op = b.Add(OpKind::kAttentionPartForward, "attention.core",
                   {In(qkv), In(qkv), Out(attention), Out(lse)});
    SetCore(op);
    SetBidirectional(op);
  } else {
    const std::int16_t documents = DocumentStarts();
    Op& op =
        b.Add(OpKind::kAttentionForward, "attention.core", {In(qkv), Out(attention), Out(lse)});
    b.AlsoReads(documents);
    SetCore(op);
  }
  Sinks();
  if (quantizes) b.Cast("attention.core.cast", attention, attention_input, attention_width);
}

// Flash attention's backward needs out and lse, so it reruns as a whole. Standard attention's reads
// the weights and what dropout made of them, but not the output.
void Layer::AttentionCoreAgain(LayerTensors have) {
  if (!WritesScores(context.plan)) {
    if (!Holds(have, kAttention)) AttentionCore();
    return;
  }
  if (!Holds(have, kScoreWeights)) StandardCore(kNoSlot);
}

void Layer::AttentionCoreGradient(std::int16_t d_attention, std::int16_t d_qkv) {
  const char* const name = "attention.core.grad";
  if (WritesScores(context.plan)) {
    const std::int64_t all = rows * (context.model.heads / tp) * KeysOfCore();
    const std::int16_t d_scores = b.Temporary("d_scores", all);
    b.Add(OpKind::kStandardAttentionBackward, name,
          {In(qkv), In(scores.weights), In(scores.mask), In(scores.dropped), In(d_attention),
           Out(d_scores), Out(d_qkv)});
  } else if (context.model.HasEncoder()) {
    Biases();
    const std::int64_t distances = 2 * context.Sequence() - 1;
    d_biases =
        b.TemporaryIn(NumberFormat::kFp32, "d_biases", distances * (context.model.heads / tp));
    b.Add(OpKind::kAttentionPartBackward, name,
          {In(qkv), In(qkv), In(attention), In(lse), In(d_attention), Out(d_qkv), Out(d_qkv),
           In(kNoSlot), In(biases), Out(d_biases)});
  } else if (!context.model.causal) {
    b.Add(OpKind::kAttentionPartBackward, name,
          {In(qkv), In(qkv), In(attention), In(lse), In(d_attention), Out(d_qkv), Out(d_qkv)});
  } else {
    const std::int16_t documents = DocumentStarts();
    b.Add(OpKind::kAttentionBackward, name,
          {In(qkv), In(attention), In(lse), In(d_attention), Out(d_qkv)});
    b.AlsoReads(documents);
  }
  SetCore(b.Last());
  if (!context.model.causal || context.model.HasEncoder()) SetBidirectional(b.Last());
}

}  // namespace foretrain
