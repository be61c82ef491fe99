// The core of a layer's attention: flash attention, which keeps scores on the chip, standard
// attention, which writes scores and their softmax out, or parts of a shared-out sequence.
#include "sim/program/blocks/dropout_sites.h"
#include "sim/program/blocks/layer_ops.h"

namespace foretrain {
namespace {

bool WritesScores(const Plan& plan) { return plan.attention == AttentionAlgorithm::kStandard; }

}  // namespace

// Of each head a matrix [sequence, sequence]: 2 a s^2 b bytes in 16 bits, and with dropout 3 a s^2
// b more (Korthikanti et al. 2022, s. 4.1).
void Layer::MakeScoreTensors(const TensorMaker& make) {
  if (!WritesScores(context.plan)) return;
  const std::int64_t all = rows * (context.model.heads / tp) * context.plan.sequence;
  const std::int64_t dropped = context.plan.attention_dropout > 0 ? all : 0;
  const NumberFormat activation = b.formats().activations;
  scores = {make(activation, "scores.weights", all, kScoreWeights),
            make(NumberFormat::kMask, "scores.mask", dropped, kScoreMask),
            make(activation, "scores.dropped", dropped, kScoreDropped)};
}

// Up to `out`, or where there is none up to the weights.
void Layer::StandardCore(std::int16_t out) {
  const std::int64_t all = rows * (context.model.heads / tp) * context.plan.sequence;
  const std::int16_t raw = b.Temporary("scores", all);
  const auto made = [](std::int16_t slot) { return slot == kNoSlot ? In(slot) : Out(slot); };
  Op& op = b.Add(
      OpKind::kStandardAttentionForward, OpClass::kAttention,
      out == kNoSlot ? "attention.weights" : "attention.core",
      {In(qkv), Out(raw), Out(scores.weights), made(scores.mask), made(scores.dropped), made(out)});
  SetScores(context.model, op);
  op.dropout = static_cast<float>(context.plan.attention_dropout);
  op.dropout_site = kAttentionSite;
  op.shape = AttentionShape();
  op.shape.inner = out == kNoSlot ? 0 : op.shape.sequence;
}

void Layer::AttentionCore() {
  if (SharesSequence()) {
    shared.Forward();
  } else if (WritesScores(context.plan)) {
    StandardCore(attention);
  } else {
    Op& op = b.Add(OpKind::kAttentionForward, OpClass::kAttention, "attention.core",
                   {In(qkv), Out(attention), Out(lse)});
    SetScores(context.model, op);
    op.dropout = static_cast<float>(context.plan.attention_dropout);
    op.dropout_site = kAttentionSite;
    op.shape = AttentionShape();
  }
  Sinks();
  if (quantizes) b.Cast("attention.core.cast", attention, attention_input, attention_width);
}

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
    const std::int64_t all = rows * (context.model.heads / tp) * context.plan.sequence;
    const std::int16_t d_scores = b.Temporary("d_scores", all);
    b.Add(OpKind::kStandardAttentionBackward, OpClass::kAttention, name,
          {In(qkv), In(scores.weights), In(scores.mask), In(scores.dropped), In(d_attention),
           Out(d_scores), Out(d_qkv)});
  } else {
    b.Add(OpKind::kAttentionBackward, OpClass::kAttention, name,
          {In(qkv), In(attention), In(lse), In(d_attention), Out(d_qkv)});
  }
  Op& op = b.Last();
  SetScores(context.model, op);
  op.dropout = static_cast<float>(context.plan.attention_dropout);
  op.dropout_site = kAttentionSite;
  op.shape = AttentionShape();
}

}  // namespace foretrain
