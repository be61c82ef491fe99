// Head block: final norm, logits and cross-entropy. The head's weight is whole on every
// tensor-parallel rank or, with vocab_parallel, split by vocabulary (Shoeybi et al. 2019, s. 3).
// The loss is the mean over the tokens of the global batch, so gradients add up over micro-batches
// and ranks.
#include "sim/program/blocks/ends/head_ops.h"

#include <algorithm>

#include "base/checked.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

// One loss over some rows.
struct LossTensors {
  std::int16_t logits = kNoSlot, targets = kNoSlot, lse = kNoSlot;
};

// Columns of padding are no ids, so that the losses leave them out and their gradient is 0.
OpShape LossShape(const Head& head, std::int64_t some_rows) {
  const std::int64_t ids = head.context.model.vocab;
  return {.rows = some_rows, .vocab = head.vocab, .vocab_total = head.vocab == ids ? 0 : ids};
}

// The norm's output of all rows, all-gathered if each rank has its own.
std::int16_t WholeNorm(Head& head, const Head::Branch& branch, const std::string& name) {
  if (!head.split_rows) return branch.norm;
  const std::int16_t whole =
      head.b.Temporary("norm.whole" + branch.suffix, head.rows * head.hidden);
  head.b.TpAllGather(name + branch.suffix, branch.norm, whole, head.rows * head.hidden);
  return whole;
}

// Computes logits from norm [some_rows, hidden]. `suffix` ends the ops' names.
void Logits(Head& head, const std::string& suffix, std::int16_t some_norm, std::int16_t weight,
            std::int16_t logits, std::int64_t some_rows) {
  const std::int16_t bias = head.Parameter("bias", kHeadBias, SlotRole::kParameter);
  head.b.Linear("head.logits" + suffix, some_norm, weight, bias, logits, some_rows, head.vocab,
                head.hidden, /*adds=*/false, head.context.model.logit_scale);
  if (head.context.model.logit_softcap == 0) return;
  Op& op = head.b.Add(OpKind::kSoftcap, "head.softcap" + suffix, {InOut(logits)});
  op.Set(Attribute::kSoftcap, head.context.model.logit_softcap);
  op.shape = {.elements = some_rows * head.vocab};
}

void WholeLoss(Head& head, const std::string& suffix, const LossTensors& of, Operand to,
               std::int64_t some_rows, double share) {
  Op& op = head.b.Add(OpKind::kCrossEntropyForward, "head.loss" + suffix,
                      {In(of.logits), In(of.targets), Out(of.lse), to});
  op.Set(Attribute::kLossShare, head.loss_scale * static_cast<float>(share));
  op.accumulate = to.access == Access::kReadWrite;
  op.shape = LossShape(head, some_rows);
}

// Cross-entropy over a split vocabulary with three all-reduces of one number a row. They give the
// maximum, the sum of exponentials, and the target's logit, which one rank has and the others give
// as 0. The logits stay split.
void SplitLoss(Head& head, const std::string& suffix, const LossTensors& of, Operand loss,
               std::int64_t some_rows, double share) {
  const auto scalars = [&](const char* name) {
    return head.b.TemporaryIn(NumberFormat::kFp32, name + suffix, some_rows, Category::kLogits);
  };
  const std::int16_t max = scalars("max"), sum = scalars("sum"), picked = scalars("picked");
  const OpShape shape = LossShape(head, some_rows);
  head.b.Add(OpKind::kVocabMax, "head.loss.max" + suffix, {In(of.logits), Out(max)}).shape = shape;
  head.b.TpAllReduce("head.loss.max.reduce" + suffix, max, some_rows).maximum = true;
  head.b
      .Add(OpKind::kVocabSums, "head.loss.sums" + suffix,
           {In(of.logits), In(of.targets), In(max), Out(sum), Out(picked)})
      .shape = shape;
  head.b.TpAllReduce("head.loss.picked.sum" + suffix, picked, some_rows);
  head.b.TpAllReduce("head.loss.exponentials.sum" + suffix, sum, some_rows);
  Op& op = head.b.Add(OpKind::kVocabLoss, "head.loss" + suffix,
                      {In(of.targets), In(max), In(sum), In(picked), Out(of.lse), loss});
  op.Set(Attribute::kLossShare, head.loss_scale * static_cast<float>(share));
  op.accumulate = loss.access == Access::kReadWrite;
  op.shape = shape;
}

// Factor of the gradient. A fixed loss scale is multiplied in here; a dynamic one is read from its
// slot when the op runs.
float GradientShare(const Head& head, double share) {
  const float unscaled = head.gradient_scale * static_cast<float>(share);
  const auto times = static_cast<float>(head.context.plan.loss_scale);
  return times > 0 ? unscaled * times : unscaled;
}

// Loss and gradient in one op. `terms` is scratch of a number a row.
void LossWithGradient(Head& head, const std::string& suffix, const LossTensors& of, Operand to,
                      std::int64_t some_rows, double share) {
  Op& op = head.b.Add(OpKind::kCrossEntropy, "head.loss+head.loss.grad" + suffix,
                      {InOut(of.logits), In(of.targets), Out(of.lse), to, In(head.LossScale())});
  op.covers = {"head.loss" + suffix, "head.loss.grad" + suffix};
  op.Set(Attribute::kLossShare, head.loss_scale * static_cast<float>(share));
  op.Set(Attribute::kGradientShare, GradientShare(head, share));
  op.Set(Attribute::kSoftcap, head.context.model.logit_softcap);
  op.accumulate = to.access == Access::kReadWrite;
  op.shape = LossShape(head, some_rows);
}

// Writes or adds the loss of `some_rows` rows. Makes the gradient too if the plan fuses them; else
// saves the log-sum-exp, from which LossGradient makes the softmax.
void Loss(Head& head, const std::string& suffix, const LossTensors& of, std::int16_t loss,
          std::int64_t some_rows, bool adds, double share) {
  const Operand to = adds ? InOut(loss) : Out(loss);
  if (head.fuses_loss) {
    LossWithGradient(head, suffix, of, to, some_rows, share);
  } else if (head.split_vocab) {
    SplitLoss(head, suffix, of, to, some_rows, share);
  } else {
    WholeLoss(head, suffix, of, to, some_rows, share);
  }
  if (head.context.model.z_loss == 0) return;
  Op& z =
      head.b.Add(OpKind::kZLoss, "head.z_loss" + suffix, {In(of.lse), In(of.targets), InOut(loss)});
  z.Set(Attribute::kLossShare, head.loss_scale * static_cast<float>(share));
  z.Set(Attribute::kZWeight, head.context.model.z_loss);
  z.shape = LossShape(head, some_rows);
}

// The gradient overwrites the logits in place, unless Loss has made it.
void LossGradient(Head& head, const std::string& suffix, const LossTensors& of,
                  std::int64_t some_rows, double share) {
  if (head.fuses_loss) return;
  Op& op = head.b.Add(OpKind::kCrossEntropyBackward, "head.loss.grad" + suffix,
                      {InOut(of.logits), In(of.targets), In(of.lse), In(head.LossScale())});
  op.Set(Attribute::kLossShare, GradientShare(head, share));
  op.Set(Attribute::kSoftcap, head.context.model.logit_softcap);
  op.shape = LossShape(head, some_rows);
  if (head.context.model.z_loss == 0) return;
  const float part = op.Get(Attribute::kLossShare);
  Op& z = head.b.Add(OpKind::kZLossBackward, "head.z_loss.grad" + suffix,
                     {InOut(of.logits), In(of.targets), In(of.lse), In(head.LossScale())});
  z.Set(Attribute::kLossShare, part);
  z.Set(Attribute::kZWeight, head.context.model.z_loss);
  z.shape = LossShape(head, some_rows);
}

// Targets of a sample: all its tokens, or those of the decoder.
std::int64_t SampleTargets(const BlockContext& context) {
  return context.model.HasEncoder() ? context.plan.DecoderSequence() : context.plan.sequence;
}

}  // namespace

Head::Head(const BlockContext& c, std::string name)
    : b(std::move(name), WideFormats(c.plan)),
      context(c),
      rows(c.Rows()),
      own_rows(c.OwnRows()),
      hidden(c.model.hidden),
      vocab(VocabRows(c.model, c.plan)),
      rms(c.model.norm == NormKind::kRmsNorm),
      split_vocab(c.plan.vocab_parallel),
      split_rows(c.plan.sequence_parallel),
      fuses_loss(FusesLoss(c.model, c.plan)),
      loss_scale(
          static_cast<float>(1.0 / static_cast<double>(c.plan.global_batch * SampleTargets(c)))),
      gradient_scale(static_cast<float>(
          1.0 / static_cast<double>(c.plan.SamplesOfUpdate() * SampleTargets(c)))) {
  next.x = StackRows("x.decoder", b.Slot("x", BoundaryElements(c.model, c.plan),
                                         Category::kActivations, SlotRole::kInput));
  next.mean = SavedExact("mean", rms ? 0 : own_rows, kHeadMean);
  next.rstd = SavedExact("rstd", own_rows, kHeadRstd);
  MakeTransform();
}

// kNoSlot if the model has no such parameter, or for the gradient of a frozen one.
std::int16_t Head::Parameter(const char* name, int index, SlotRole role) {
  const auto list = ParametersOf(context.model, context.plan, BlockKind::kHead);
  if (static_cast<std::size_t>(index) >= list.size()) return kNoSlot;
  const bool gradient = role == SlotRole::kGradient;
  const BlockParameter& parameter = list[static_cast<std::size_t>(index)];
  if (gradient && parameter.frozen) return kNoSlot;
  return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                  ElementsOf(parameter, context.plan.tp),
                  gradient ? Category::kGradients : Category::kParameters, role, index);
}

void Head::NormForward(const Branch& branch) {
  const std::int16_t weight = Parameter("norm.weight", branch.norm_weight, SlotRole::kParameter);
  const std::int16_t bias = Parameter("norm.bias", branch.norm_bias, SlotRole::kParameter);
  Op& op = b.Add(
      OpKind::kNormForward, "head.norm" + branch.suffix,
      {In(branch.x), In(weight), In(bias), Out(branch.norm), Out(branch.mean), Out(branch.rstd)});
  op.rms = rms;
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.shape = {.rows = own_rows, .cols = hidden};
}

std::int16_t Head::LossScale() {
  if (!context.plan.HasDynamicScale()) return kNoSlot;
  if (scale == kNoSlot) scale = b.Slot("loss_scale", 1, Category::kWorkspace, SlotRole::kLossScale);
  return scale;
}

// The logits are often the largest tensor of a step and are kept whole; loss_chunks > 1 avoids
// that.
void Head::WholeForward(const Branch& branch, std::int16_t weight, std::int16_t loss,
                        bool adds_loss) {
  const std::int16_t logits = SavedLogits(branch), lse = RowsOfLoss(branch);
  Logits(*this, branch.suffix, WholeNorm(*this, branch, "head.norm.gather"), weight, logits, rows);
  Loss(*this, branch.suffix, {logits, branch.targets, lse}, loss, rows, adds_loss, branch.share);
}

// Each chunk's logits turn into their gradient, are used for both GEMMs of the backward and are
// overwritten by the next chunk. Left over is the gradient of the norm's output: of this rank's
// rows, or of all rows if no collective scatters them. Memory: logits of rows / loss_chunks; cost:
// the same FLOPs.
void Head::ChunkedForward(std::int16_t weight, std::int16_t loss, const BlockRequest& request) {
  const bool scatters = split_rows && split_vocab;
  const std::int64_t each = CeilDiv(rows, context.plan.loss_chunks);
  const std::int16_t all = WholeNorm(*this, next, "head.norm.gather");
  const std::int16_t logits =
      b.TemporaryIn(LogitFormat(context.plan), "logits", each * vocab, Category::kLogits);
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
    const std::int16_t some_targets = part("targets", next.targets, 1);
    const std::int16_t d_here = part("d_norm", d_norm, hidden);
    Logits(*this, suffix, here, weight, some_logits, count);
    const LossTensors of{some_logits, some_targets, some_lse};
    Loss(*this, suffix, of, loss, count, request.adds_loss || c > 0, 1);
    LossGradient(*this, suffix, of, count, 1);
    const std::int16_t d_logits =
        b.ForProduct("head.loss.grad" + suffix, some_logits, Category::kLogits);
    b.LinearInputGradient("head.logits.input_grad" + suffix, d_logits, weight, d_here, count, vocab,
                          hidden, /*adds=*/false, context.model.logit_scale);
    if (split_vocab && !scatters) {
      b.TpAllReduce("head.logits.input_grad.sum" + suffix, d_here, count * hidden);
    }
    b.LinearWeightGradient("head.logits" + suffix, d_logits, here, d_weight, d_bias, count, vocab,
                           hidden, request.accumulate || c > 0, context.model.logit_scale);
  }
  if (scatters) b.TpReduceScatter("head.logits.input_grad.sum", d_norm, saved, rows * hidden);
}

// With a split vocabulary the input gradient is partial and summed over tp; the weight gradient is
// issued before its result is read, so the collective overlaps with it. Without a sum the input
// gradient goes first, because the previous stage waits for it.
void Head::LogitsBackward(const Branch& branch, std::int16_t weight, bool accumulate,
                          const std::function<void(std::int16_t)>& norm_backward) {
  const std::string& suffix = branch.suffix;
  const std::int16_t logits = SavedLogits(branch);
  const std::int16_t lse = fuses_loss ? kNoSlot : RowsOfLoss(branch);
  std::int16_t d_norm = b.Temporary("d_norm" + suffix, (split_vocab ? rows : own_rows) * hidden);
  b.Half(Pass::kBackwardInput);
  LossGradient(*this, suffix, {logits, branch.targets, lse}, rows, branch.share);
  const std::int16_t d_logits = b.ForProduct("head.loss.grad" + suffix, logits, Category::kLogits);
  const bool trained = !TrainsAdapters(context.plan);
  b.Half(Pass::kBackwardWeight);
  const std::int16_t all = trained ? WholeNorm(*this, branch, "head.norm.regather") : kNoSlot;
  b.Half(Pass::kBackwardInput);
  const std::string name = "head.logits.input_grad" + suffix;
  const double factor = context.model.logit_scale;
  if (split_rows && !split_vocab) {
    const std::int16_t own =
        b.View("logits.own" + suffix, d_logits, 0, own_rows * vocab, own_rows * vocab);
    b.LinearInputGradient(name, own, weight, d_norm, own_rows, vocab, hidden, /*adds=*/false,
                          factor);
  } else {
    b.LinearInputGradient(name, d_logits, weight, d_norm, rows, vocab, hidden, /*adds=*/false,
                          factor);
  }
  if (split_vocab && split_rows) {
    const std::int16_t own = b.Temporary("d_norm.own" + suffix, own_rows * hidden);
    b.TpReduceScatter("head.logits.input_grad.sum" + suffix, d_norm, own, rows * hidden);
    d_norm = own;
  } else if (split_vocab) {
    b.TpAllReduce("head.logits.input_grad.sum" + suffix, d_norm, rows * hidden);
  }
  b.Half(Pass::kBackwardWeight);
  const auto weight_gradient = [&] {
    b.LinearWeightGradient("head.logits" + suffix, d_logits, all,
                           Parameter("d_weight", kHeadWeight, SlotRole::kGradient),
                           Parameter("d_bias", kHeadBias, SlotRole::kGradient), rows, vocab, hidden,
                           accumulate || branch.after, factor);
  };
  if (split_vocab) weight_gradient();
  norm_backward(d_norm);
  b.Half(Pass::kBackwardWeight);
  if (!split_vocab) weight_gradient();
}

void Head::NormBackward(const Branch& branch, std::int16_t d_norm, std::int16_t through,
                        std::int16_t dx, bool accumulate) {
  const std::string name = "head.norm" + branch.suffix;
  const std::int16_t weight = Parameter("norm.weight", branch.norm_weight, SlotRole::kParameter);
  const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
  b.Half(Pass::kBackwardInput);
  Op& norm_op = b.Add(OpKind::kNormBackwardInput, name + ".input_grad",
                      {In(d_norm), In(branch.x), In(weight), In(branch.mean), In(branch.rstd),
                       In(through), Out(dx)});
  norm_op.rms = rms;
  norm_op.shape = {.rows = own_rows, .cols = hidden};
  b.Half(Pass::kBackwardWeight);
  const std::int16_t weight_grad =
      Parameter("d_norm.weight", branch.norm_weight, SlotRole::kGradient);
  if (weight_grad == kNoSlot) return;
  const std::int16_t bias_grad = Parameter("d_norm.bias", branch.norm_bias, SlotRole::kGradient);
  Op& op = b.Add(OpKind::kNormBackwardWeight, name + ".weight_grad",
                 {In(d_norm), In(branch.x), In(branch.mean), In(branch.rstd), output(weight_grad),
                  output(bias_grad)});
  op.rms = rms;
  op.accumulate = accumulate;
  op.shape = {.rows = own_rows, .cols = hidden};
}

// The norm's output is saved only if the weight gradient reads it in the backward.
Block HeadForward(const BlockContext& context, const BlockRequest& request) {
  Head head(context, NameOf(request));
  BlockBuilder& b = head.b;
  const bool chunked = HeadForwardMakesGradients(context.plan);
  const bool saved = !chunked && !TrainsAdapters(context.plan);  // for the weight's gradient
  head.next.norm = b.Slot("norm", head.own_rows * head.hidden, Category::kActivations,
                          saved ? SlotRole::kSaved : SlotRole::kTemporary, kHeadNorm);
  head.MakeTargets();
  head.TransformForward();
  head.NormForward(head.next);
  const std::int16_t weight = head.Parameter("weight", kHeadWeight, SlotRole::kParameter);
  const std::int16_t loss = b.Slot("loss", 1, Category::kWorkspace, SlotRole::kLoss);
  if (chunked) {
    head.ChunkedForward(weight, loss, request);
  } else {
    head.WholeForward(head.next, weight, loss, request.adds_loss);
  }
  if (context.model.predict_ahead > 0) MtpForward(head, weight, loss);
  return b.Take();
}

// MTP layers come first: their gradient of the head's input is added by the norm's backward. A
// chunked forward has done all but the norm.
Block HeadBackward(const BlockContext& context, const BlockRequest& request) {
  Head head(context, request.accumulate ? "head.backward.accumulate" : "head.backward");
  BlockBuilder& b = head.b;
  if (HeadForwardMakesGradients(context.plan)) {
    const bool whole = head.split_rows && !head.split_vocab;
    std::int16_t d_norm = b.Slot("d_norm", (whole ? head.rows : head.own_rows) * head.hidden,
                                 Category::kWorkspace, SlotRole::kSaved, kNormGradient);
    const std::int64_t own = head.own_rows * head.hidden;
    if (whole) d_norm = b.View("d_norm.own", d_norm, 0, own, own);
    head.EndBackward(d_norm, kNoSlot, request.accumulate);
    return b.Take(request.pass);
  }
  if (!TrainsAdapters(context.plan)) {
    head.next.norm = b.Slot("norm", head.own_rows * head.hidden, Category::kActivations,
                            SlotRole::kSaved, kHeadNorm);
  }
  const std::int16_t weight = head.Parameter("weight", kHeadWeight, SlotRole::kParameter);
  head.MakeTargets();
  std::int16_t through = kNoSlot;
  if (context.model.predict_ahead > 0) {
    through = MtpBackward(head, weight, request);
    head.next.after = true;
  }
  head.LogitsBackward(head.next, weight, request.accumulate, [&](std::int16_t d_norm) {
    head.EndBackward(d_norm, through, request.accumulate);
  });
  return b.Take(request.pass);
}

}  // namespace foretrain
