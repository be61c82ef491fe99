// Final norm, logits and cross-entropy: whole on every tensor-parallel rank or, with
// vocab_parallel, with the vocabulary split (Shoeybi et al. 2019, s. 3). The loss is the mean over
// the tokens of the global batch, so its gradients add up over micro-batches and ranks.
#include <algorithm>

#include "base/checked.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

enum Saved : int { kNorm, kMean, kRstd, kLogits, kLse, kNormGradient };

struct Head {
  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, own_rows, hidden, vocab;
  bool rms, split_vocab, split_rows;
  float loss_scale, gradient_scale;
  std::int16_t x, norm = kNoSlot, mean, rstd, targets;

  Head(const BlockContext& c, std::string name)
      : b(std::move(name), WideFormats(c.plan)),
        context(c),
        rows(c.Rows()),
        own_rows(c.OwnRows()),
        hidden(c.model.hidden),
        vocab(VocabRows(c.model, c.plan)),
        rms(c.model.norm == NormKind::kRmsNorm),
        split_vocab(c.plan.vocab_parallel),
        split_rows(c.plan.sequence_parallel),
        loss_scale(
            static_cast<float>(1.0 / static_cast<double>(c.plan.global_batch * c.plan.sequence))),
        gradient_scale(static_cast<float>(1.0 / static_cast<double>(c.plan.TokensOfUpdate()))) {
    x = b.Slot("x", own_rows * hidden, Category::kActivations, SlotRole::kInput);
    mean = b.SlotIn(NumberFormat::kFp32, "mean", rms ? 0 : own_rows, Category::kActivations,
                    SlotRole::kSaved, kMean);
    rstd = b.SlotIn(NumberFormat::kFp32, "rstd", own_rows, Category::kActivations, SlotRole::kSaved,
                    kRstd);
  }

  std::int16_t Parameter(const char* name, HeadParameter index, SlotRole role) {
    const auto list = ParametersOf(context.model, context.plan, BlockKind::kHead);
    const bool gradient = role == SlotRole::kGradient;
    if (gradient && list[static_cast<std::size_t>(index)].frozen) return kNoSlot;
    const BlockParameter& parameter = list[static_cast<std::size_t>(index)];
    return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                    ElementsOf(parameter, context.plan.tp),
                    gradient ? Category::kGradients : Category::kParameters, role, index);
  }

  // Logits and what the loss makes of them are fp32 whatever the products compute in.
  std::int16_t SavedOfLoss(const char* name, std::int64_t elements, Saved index) {
    return b.SlotIn(NumberFormat::kFp32, name, elements, Category::kLogits, SlotRole::kSaved,
                    index);
  }

  void MakeTargets() { targets = b.Slot("targets", rows, Category::kStaging, SlotRole::kTargets); }

  OpShape LossShape(std::int64_t some_rows) const {
    return {
        .rows = some_rows, .vocab = vocab, .vocab_total = split_vocab ? context.model.vocab : 0};
  }

  void NormForward() {
    const std::int16_t weight = Parameter("norm.weight", kFinalNormWeight, SlotRole::kParameter);
    const std::int16_t bias = Parameter("norm.bias", kFinalNormBias, SlotRole::kParameter);
    Op& op = b.Add(OpKind::kNormForward, OpClass::kMemoryBound, "head.norm",
                   {In(x), In(weight), In(bias), Out(norm), Out(mean), Out(rstd)});
    op.rms = rms;
    op.parameter = static_cast<float>(context.model.norm_epsilon);
    op.shape = {.rows = own_rows, .cols = hidden};
  }

  // The norm's output of all rows.
  std::int16_t WholeNorm(const char* name) {
    if (!split_rows) return norm;
    const std::int16_t whole = b.Temporary("norm.whole", rows * hidden);
    b.TpAllGather(name, norm, whole, rows * hidden);
    return whole;
  }

  // Adds the loss of `some_rows` rows and leaves their lse. `suffix`: of the ops' names.
  // norm [some_rows, hidden] -> logits.
  void Logits(const std::string& suffix, std::int16_t some_norm, std::int16_t weight,
              std::int16_t logits, std::int64_t some_rows) {
    const std::int16_t bias = Parameter("bias", kHeadBias, SlotRole::kParameter);
    b.Linear("head.logits" + suffix, some_norm, weight, bias, logits, some_rows, vocab, hidden);
    if (context.model.logit_softcap == 0) return;
    Op& op =
        b.Add(OpKind::kSoftcap, OpClass::kMemoryBound, "head.softcap" + suffix, {InOut(logits)});
    op.parameter = static_cast<float>(context.model.logit_softcap);
    op.shape = {.elements = some_rows * vocab};
  }

  void Loss(const std::string& suffix, std::int16_t logits, std::int16_t some_targets,
            std::int16_t lse, std::int16_t loss, std::int64_t some_rows, bool adds) {
    const Operand to = adds ? InOut(loss) : Out(loss);
    if (split_vocab) {
      SplitLoss(suffix, logits, some_targets, lse, to, some_rows);
    } else {
      Op& op = b.Add(OpKind::kCrossEntropyForward, OpClass::kMemoryBound, "head.loss" + suffix,
                     {In(logits), In(some_targets), Out(lse), to});
      op.scale = loss_scale;
      op.accumulate = adds;
      op.shape = LossShape(some_rows);
    }
  }

  // Three messages of a number a row: the maximum, then the sum of exponentials and the target's
  // logit, which one rank has and the others give as 0.
  void SplitLoss(const std::string& suffix, std::int16_t logits, std::int16_t some_targets,
                 std::int16_t lse, Operand loss, std::int64_t some_rows) {
    const auto scalars = [&](const char* name) {
      return b.TemporaryIn(NumberFormat::kFp32, name + suffix, some_rows, Category::kLogits);
    };
    const std::int16_t max = scalars("max"), sum = scalars("sum"), picked = scalars("picked");
    const OpShape shape = LossShape(some_rows);
    b.Add(OpKind::kVocabMax, OpClass::kMemoryBound, "head.loss.max" + suffix,
          {In(logits), Out(max)})
        .shape = shape;
    b.TpAllReduce("head.loss.max.reduce" + suffix, max, some_rows).maximum = true;
    b.Add(OpKind::kVocabSums, OpClass::kMemoryBound, "head.loss.sums" + suffix,
          {In(logits), In(some_targets), In(max), Out(sum), Out(picked)})
        .shape = shape;
    b.TpAllReduce("head.loss.picked.sum" + suffix, picked, some_rows);
    b.TpAllReduce("head.loss.exponentials.sum" + suffix, sum, some_rows);
    Op& op = b.Add(OpKind::kVocabLoss, OpClass::kMemoryBound, "head.loss" + suffix,
                   {In(some_targets), In(max), In(sum), In(picked), Out(lse), loss});
    op.scale = loss_scale;
    op.accumulate = loss.access == Access::kReadWrite;
    op.shape = shape;
  }

  void LossGradient(const std::string& suffix, std::int16_t logits, std::int16_t some_targets,
                    std::int16_t lse, std::int64_t some_rows) {
    Op& op = b.Add(OpKind::kCrossEntropyBackward, OpClass::kMemoryBound, "head.loss.grad" + suffix,
                   {InOut(logits), In(some_targets), In(lse)});
    op.scale = gradient_scale;
    if (context.plan.loss_scale > 0) op.scale *= static_cast<float>(context.plan.loss_scale);
    op.parameter = static_cast<float>(context.model.logit_softcap);
    op.shape = LossShape(some_rows);
  }

  void WholeForward(std::int16_t weight, std::int16_t loss, bool adds_loss);
  void ChunkedForward(std::int16_t weight, std::int16_t loss, const BlockRequest& request);
  std::int16_t LogitsBackward(std::int16_t weight, bool accumulate);
  void NormBackward(std::int16_t d_norm, bool accumulate);
};

// All logits at once, kept for the backward.
void Head::WholeForward(std::int16_t weight, std::int16_t loss, bool adds_loss) {
  const std::int16_t logits = SavedOfLoss("logits", rows * vocab, kLogits);
  const std::int16_t lse = SavedOfLoss("lse", rows, kLse);
  Logits("", WholeNorm("head.norm.gather"), weight, logits, rows);
  Loss("", logits, targets, lse, loss, rows, adds_loss);
}

// A chunk's logits become their own gradient and are gone. What is left is the gradient of the
// norm's output: of this rank's rows, or of all where no sum would make it so.
void Head::ChunkedForward(std::int16_t weight, std::int16_t loss, const BlockRequest& request) {
  const bool scatters = split_rows && split_vocab;
  const std::int64_t each = CeilDiv(rows, context.plan.loss_chunks);
  const std::int16_t all = WholeNorm("head.norm.gather");
  const std::int16_t logits =
      b.TemporaryIn(NumberFormat::kFp32, "logits", each * vocab, Category::kLogits);
  const std::int16_t lse = b.TemporaryIn(NumberFormat::kFp32, "lse", each, Category::kLogits);
  const std::int16_t saved = b.Slot("d_norm", (scatters ? own_rows : rows) * hidden,
                                    Category::kWorkspace, SlotRole::kSaved, kNormGradient);
  const std::int16_t d_norm = scatters ? b.Temporary("d_norm.partial", rows * hidden) : saved;
  const std::int16_t d_weight = Parameter("d_weight", kHeadWeight, SlotRole::kGradient);
  const std::int16_t d_bias = Parameter("d_bias", kHeadBias, SlotRole::kGradient);
  for (std::int64_t begin = 0, c = 0; begin < rows; begin += each, ++c) {
    const std::int64_t count = std::min(each, rows - begin);
    const std::string suffix = "." + std::to_string(c);
    const auto part = [&](const char* name, std::int16_t of, std::int64_t width) {
      return b.View(name + suffix, of, begin * width, count * width);
    };
    const auto first = [&](const char* name, std::int16_t of, std::int64_t width) {
      return b.View(name + suffix, of, 0, count * width);
    };
    const std::int16_t here = part("norm", all, hidden);
    const std::int16_t some_logits = first("logits", logits, vocab);
    const std::int16_t some_lse = first("lse", lse, 1);
    const std::int16_t some_targets = part("targets", targets, 1);
    const std::int16_t d_here = part("d_norm", d_norm, hidden);
    Logits(suffix, here, weight, some_logits, count);
    Loss(suffix, some_logits, some_targets, some_lse, loss, count, request.adds_loss || c > 0);
    LossGradient(suffix, some_logits, some_targets, some_lse, count);
    const std::int16_t d_logits =
        b.ForProduct("head.loss.grad" + suffix, some_logits, Category::kLogits);
    b.LinearInputGradient("head.logits.input_grad" + suffix, d_logits, weight, d_here, count, vocab,
                          hidden);
    if (split_vocab && !scatters) {
      b.TpAllReduce("head.logits.input_grad.sum" + suffix, d_here, count * hidden);
    }
    b.LinearWeightGradient("head.logits" + suffix, d_logits, here, d_weight, d_bias, count, vocab,
                           hidden, request.accumulate || c > 0);
  }
  if (scatters) b.TpReduceScatter("head.logits.input_grad.sum", d_norm, saved, rows * hidden);
}

// The gradient of the norm's output on this rank's rows; a sum over ranks runs beside the weight
// gradient.
std::int16_t Head::LogitsBackward(std::int16_t weight, bool accumulate) {
  const std::int16_t logits = SavedOfLoss("logits", rows * vocab, kLogits);
  const std::int16_t lse = SavedOfLoss("lse", rows, kLse);
  MakeTargets();
  std::int16_t d_norm = b.Temporary("d_norm", (split_vocab ? rows : own_rows) * hidden);
  b.Half(Pass::kBackwardInput);
  LossGradient("", logits, targets, lse, rows);
  const std::int16_t d_logits = b.ForProduct("head.loss.grad", logits, Category::kLogits);
  const bool trained = !TrainsAdapters(context.plan);
  b.Half(Pass::kBackwardWeight);
  const std::int16_t all = trained ? WholeNorm("head.norm.regather") : kNoSlot;
  b.Half(Pass::kBackwardInput);
  if (split_rows && !split_vocab) {
    const std::int16_t own = b.View("logits.own", d_logits, 0, own_rows * vocab, own_rows * vocab);
    b.LinearInputGradient("head.logits.input_grad", own, weight, d_norm, own_rows, vocab, hidden);
  } else {
    b.LinearInputGradient("head.logits.input_grad", d_logits, weight, d_norm, rows, vocab, hidden);
  }
  if (split_vocab && split_rows) {
    const std::int16_t own = b.Temporary("d_norm.own", own_rows * hidden);
    b.TpReduceScatter("head.logits.input_grad.sum", d_norm, own, rows * hidden);
    d_norm = own;
  } else if (split_vocab) {
    b.TpAllReduce("head.logits.input_grad.sum", d_norm, rows * hidden);
  }
  b.Half(Pass::kBackwardWeight);
  const auto weight_gradient = [&] {
    b.LinearWeightGradient(
        "head.logits", d_logits, all, Parameter("d_weight", kHeadWeight, SlotRole::kGradient),
        Parameter("d_bias", kHeadBias, SlotRole::kGradient), rows, vocab, hidden, accumulate);
  };
  // Without a sum dx leaves first.
  if (split_vocab) weight_gradient();
  NormBackward(d_norm, accumulate);
  if (!split_vocab) weight_gradient();
  return d_norm;
}

void Head::NormBackward(std::int16_t d_norm, bool accumulate) {
  const std::int16_t norm_weight = Parameter("norm.weight", kFinalNormWeight, SlotRole::kParameter);
  const std::int16_t dx =
      b.Slot("dx", own_rows * hidden, Category::kWorkspace, SlotRole::kInputGradient);
  const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
  b.Half(Pass::kBackwardInput);
  Op& norm_op =
      b.Add(OpKind::kNormBackwardInput, OpClass::kMemoryBound, "head.norm.input_grad",
            {In(d_norm), In(x), In(norm_weight), In(mean), In(rstd), In(kNoSlot), Out(dx)});
  norm_op.rms = rms;
  norm_op.shape = {.rows = own_rows, .cols = hidden};
  b.Half(Pass::kBackwardWeight);
  const std::int16_t weight_grad =
      Parameter("d_norm.weight", kFinalNormWeight, SlotRole::kGradient);
  if (weight_grad == kNoSlot) return;
  const std::int16_t bias_grad = Parameter("d_norm.bias", kFinalNormBias, SlotRole::kGradient);
  Op& op = b.Add(OpKind::kNormBackwardWeight, OpClass::kMemoryBound, "head.norm.weight_grad",
                 {In(d_norm), In(x), In(mean), In(rstd), output(weight_grad), output(bias_grad)});
  op.rms = rms;
  op.accumulate = accumulate;
  op.shape = {.rows = own_rows, .cols = hidden};
}

}  // namespace

Block HeadForward(const BlockContext& context, const BlockRequest& request) {
  Head head(context, NameOf(request));
  BlockBuilder& b = head.b;
  const bool chunked = HeadForwardMakesGradients(context.plan);
  const bool saved = !chunked && !TrainsAdapters(context.plan);  // for the weight's gradient
  head.norm = b.Slot("norm", head.own_rows * head.hidden, Category::kActivations,
                     saved ? SlotRole::kSaved : SlotRole::kTemporary, kNorm);
  head.MakeTargets();
  head.NormForward();
  const std::int16_t weight = head.Parameter("weight", kHeadWeight, SlotRole::kParameter);
  const std::int16_t loss = b.Slot("loss", 1, Category::kWorkspace, SlotRole::kLoss);
  if (chunked) {
    head.ChunkedForward(weight, loss, request);
  } else {
    head.WholeForward(weight, loss, request.adds_loss);
  }
  return b.Take();
}

Block HeadBackward(const BlockContext& context, const BlockRequest& request) {
  Head head(context, request.accumulate ? "head.backward.accumulate" : "head.backward");
  BlockBuilder& b = head.b;
  if (HeadForwardMakesGradients(context.plan)) {
    const bool whole = head.split_rows && !head.split_vocab;
    std::int16_t d_norm = b.Slot("d_norm", (whole ? head.rows : head.own_rows) * head.hidden,
                                 Category::kWorkspace, SlotRole::kSaved, kNormGradient);
    const std::int64_t own = head.own_rows * head.hidden;
    if (whole) d_norm = b.View("d_norm.own", d_norm, 0, own, own);
    head.NormBackward(d_norm, request.accumulate);
  } else {
    if (!TrainsAdapters(context.plan)) {
      head.norm = b.Slot("norm", head.own_rows * head.hidden, Category::kActivations,
                         SlotRole::kSaved, kNorm);
    }
    head.LogitsBackward(head.Parameter("weight", kHeadWeight, SlotRole::kParameter),
                        request.accumulate);
  }
  return b.Take(request.pass);
}

}  // namespace foretrain
