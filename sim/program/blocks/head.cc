// Final norm, logits and cross-entropy, whole on every tensor-parallel rank. The loss is the mean
// over the tokens of the global batch, so its gradients add up over micro-batches and ranks.
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {
namespace {

enum Saved : int { kNorm, kMean, kRstd, kLogits, kLse };

struct Head {
  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, hidden, vocab;
  bool rms;
  float loss_scale;
  std::int16_t x, norm, mean, rstd, logits, lse, targets;

  Head(const BlockContext& c, std::string name)
      : b(std::move(name)),
        context(c),
        rows(c.Rows()),
        hidden(c.model.hidden),
        vocab(c.model.vocab),
        rms(c.model.norm == NormKind::kRmsNorm),
        loss_scale(
            static_cast<float>(1.0 / static_cast<double>(c.plan.global_batch * c.plan.sequence))) {
    x = b.Slot("x", rows * hidden, Category::kActivations, SlotRole::kInput);
    norm = b.Slot("norm", rows * hidden, Category::kActivations, SlotRole::kSaved, kNorm);
    mean = b.Slot("mean", rms ? 0 : rows, Category::kActivations, SlotRole::kSaved, kMean);
    rstd = b.Slot("rstd", rows, Category::kActivations, SlotRole::kSaved, kRstd);
    logits = b.Slot("logits", rows * vocab, Category::kLogits, SlotRole::kSaved, kLogits);
    lse = b.Slot("lse", rows, Category::kLogits, SlotRole::kSaved, kLse);
    targets = b.Slot("targets", rows, Category::kStaging, SlotRole::kTargets);
  }

  std::int16_t Parameter(const char* name, HeadParameter index, SlotRole role) {
    const auto list = ParametersOf(context.model, BlockKind::kHead);
    const Category category =
        role == SlotRole::kGradient ? Category::kGradients : Category::kParameters;
    return b.Slot(name, ElementsOf(list[static_cast<std::size_t>(index)], 1), category, role,
                  index);
  }
};

}  // namespace

Block HeadForward(const BlockContext& context, bool first_micro_batch) {
  Head head(context, first_micro_batch ? "head.forward" : "head.forward.accumulate");
  BlockBuilder& b = head.b;
  const std::int16_t norm_weight =
      head.Parameter("norm.weight", kFinalNormWeight, SlotRole::kParameter);
  const std::int16_t norm_bias = head.Parameter("norm.bias", kFinalNormBias, SlotRole::kParameter);
  const std::int16_t weight = head.Parameter("weight", kHeadWeight, SlotRole::kParameter);
  const std::int16_t loss = b.Slot("loss", 1, Category::kWorkspace, SlotRole::kLoss);
  Op& norm = b.Add(
      OpKind::kNormForward, OpClass::kMemoryBound, "head.norm",
      {In(head.x), In(norm_weight), In(norm_bias), Out(head.norm), Out(head.mean), Out(head.rstd)});
  norm.rms = head.rms;
  norm.parameter = static_cast<float>(context.model.norm_epsilon);
  norm.shape = {.rows = head.rows, .cols = head.hidden};
  b.Linear("head.logits", head.norm, weight, kNoSlot, head.logits, head.rows, head.vocab,
           head.hidden);
  Op& loss_op = b.Add(OpKind::kCrossEntropyForward, OpClass::kMemoryBound, "head.loss",
                      {In(head.logits), In(head.targets), Out(head.lse),
                       first_micro_batch ? Out(loss) : InOut(loss)});
  loss_op.accumulate = !first_micro_batch;
  loss_op.scale = head.loss_scale;
  loss_op.shape = {.rows = head.rows, .vocab = head.vocab};
  return b.Take();
}

Block HeadBackward(const BlockContext& context, Pass half, bool accumulate) {
  Head head(context, accumulate ? "head.backward.accumulate" : "head.backward");
  BlockBuilder& b = head.b;
  const std::int16_t norm_weight =
      head.Parameter("norm.weight", kFinalNormWeight, SlotRole::kParameter);
  const std::int16_t weight = head.Parameter("weight", kHeadWeight, SlotRole::kParameter);
  const std::int16_t dx =
      b.Slot("dx", head.rows * head.hidden, Category::kWorkspace, SlotRole::kInputGradient);
  const std::int16_t d_norm = b.Temporary("d_norm", head.rows * head.hidden);
  const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };

  b.Half(Pass::kBackwardInput);
  Op& loss = b.Add(OpKind::kCrossEntropyBackward, OpClass::kMemoryBound, "head.loss.grad",
                   {InOut(head.logits), In(head.targets), In(head.lse)});
  loss.scale = head.loss_scale;
  if (context.plan.loss_scale > 0) loss.scale *= static_cast<float>(context.plan.loss_scale);
  loss.shape = {.rows = head.rows, .vocab = head.vocab};
  b.LinearInputGradient("head.logits.input_grad", head.logits, weight, d_norm, head.rows,
                        head.vocab, head.hidden);
  Op& norm = b.Add(OpKind::kNormBackwardInput, OpClass::kMemoryBound, "head.norm.input_grad",
                   {In(d_norm), In(head.x), In(norm_weight), In(head.mean), In(head.rstd),
                    In(kNoSlot), Out(dx)});
  norm.rms = head.rms;
  norm.shape = {.rows = head.rows, .cols = head.hidden};

  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("head.logits", head.logits, head.norm,
                         head.Parameter("d_weight", kHeadWeight, SlotRole::kGradient), kNoSlot,
                         head.rows, head.vocab, head.hidden, accumulate);
  const std::int16_t weight_grad =
      head.Parameter("d_norm.weight", kFinalNormWeight, SlotRole::kGradient);
  const std::int16_t bias_grad = head.Parameter("d_norm.bias", kFinalNormBias, SlotRole::kGradient);
  Op& norm_weight_op =
      b.Add(OpKind::kNormBackwardWeight, OpClass::kMemoryBound, "head.norm.weight_grad",
            {In(d_norm), In(head.x), In(head.mean), In(head.rstd), output(weight_grad),
             output(bias_grad)});
  norm_weight_op.rms = head.rms;
  norm_weight_op.accumulate = accumulate;
  norm_weight_op.shape = {.rows = head.rows, .cols = head.hidden};
  return b.Take(half);
}

}  // namespace foretrain
