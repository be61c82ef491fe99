// A decoder layer, pre-norm:
//   norm1 -> qkv -> (rope) -> attention -> out -> [tp sum] -> + input -> norm2 -> up -> act -> down
//   -> [tp sum] -> +
// Tensor parallelism splits heads and the MLP's width: qkv and up by rows, out and down by columns
// (Shoeybi et al. 2019, s. 3); norms and residuals are whole on every rank.
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/context_attention.h"

namespace foretrain {
namespace {

enum Saved : int {
  kNorm1,
  kMean1,
  kRstd1,
  kQkv,
  kAttention,
  kLse,
  kResidual,
  kNorm2,
  kMean2,
  kRstd2,
  kUp,
  kActivated
};

// Widths of one tensor-parallel rank, and the slots that forward and backward both speak of.
struct Layer {
  BlockBuilder b;
  const BlockContext& context;
  ContextAttention shared;  // where the sequence is shared out
  std::int64_t rows, hidden, qkv_width, attention_width, up_width, ffn_width;
  int tp;
  bool rms;
  std::int16_t x = kNoSlot, norm1 = kNoSlot, mean1 = kNoSlot, rstd1 = kNoSlot, qkv = kNoSlot,
               attention = kNoSlot, lse = kNoSlot, residual = kNoSlot, norm2 = kNoSlot,
               mean2 = kNoSlot, rstd2 = kNoSlot, up = kNoSlot, activated = kNoSlot;

  Layer(const BlockContext& c, std::string name)
      : b(std::move(name)),
        context(c),
        shared(c, b),
        rows(c.Rows()),
        hidden(c.model.hidden),
        qkv_width(c.model.QkvWidth() / c.plan.tp),
        attention_width(c.model.heads * c.model.head_dim / c.plan.tp),
        up_width(c.model.MlpUpWidth() / c.plan.tp),
        ffn_width(c.model.ffn_hidden / c.plan.tp),
        tp(c.plan.tp),
        rms(c.model.norm == NormKind::kRmsNorm) {}

  bool SharesSequence() const { return context.plan.cp > 1; }

  // The tensors a backward reads: saved ones, or temporaries of a forward that keeps nothing.
  void MakeSaved(SlotRole role, Category category) {
    const std::int64_t mean = rms ? 0 : rows;
    const std::int64_t local_heads = context.model.heads / tp;
    x = b.Slot("x", rows * hidden, Category::kActivations, SlotRole::kInput);
    norm1 = b.Slot("norm1", rows * hidden, category, role, kNorm1);
    mean1 = b.Slot("mean1", mean, category, role, kMean1);
    rstd1 = b.Slot("rstd1", rows, category, role, kRstd1);
    if (SharesSequence()) {
      const auto saved = shared.MakeSaved(role, category, {kQkv, kAttention, kLse});
      qkv = saved.qkv, attention = saved.out, lse = saved.lse;
    } else {
      qkv = b.Slot("qkv", rows * qkv_width, category, role, kQkv);
      attention = b.Slot("attention", rows * attention_width, category, role, kAttention);
      lse = b.Slot("lse", rows * local_heads, category, role, kLse);
    }
    residual = b.Slot("residual", rows * hidden, category, role, kResidual);
    norm2 = b.Slot("norm2", rows * hidden, category, role, kNorm2);
    mean2 = b.Slot("mean2", mean, category, role, kMean2);
    rstd2 = b.Slot("rstd2", rows, category, role, kRstd2);
    up = b.Slot("up", rows * up_width, category, role, kUp);
    activated = b.Slot("activated", rows * ffn_width, category, role, kActivated);
  }

  std::int16_t Parameter(const char* name, LayerParameter index) {
    const auto list = ParametersOf(context.model, BlockKind::kLayer);
    return b.Slot(name, ElementsOf(list[static_cast<std::size_t>(index)], tp),
                  Category::kParameters, SlotRole::kParameter, index);
  }
  std::int16_t Gradient(const char* name, LayerParameter index) {
    const auto list = ParametersOf(context.model, BlockKind::kLayer);
    return b.Slot(name, ElementsOf(list[static_cast<std::size_t>(index)], tp), Category::kGradients,
                  SlotRole::kGradient, index);
  }

  void Norm(const char* name, std::int16_t in, std::int16_t weight, std::int16_t bias,
            std::int16_t out, std::int16_t mean, std::int16_t rstd) {
    Op& op = b.Add(OpKind::kNormForward, OpClass::kMemoryBound, name,
                   {In(in), In(weight), In(bias), Out(out), Out(mean), Out(rstd)});
    op.rms = rms;
    op.parameter = static_cast<float>(context.model.norm_epsilon);
    op.shape = {.rows = rows, .cols = hidden};
  }

  OpShape AttentionShape() const {
    return {.rows = rows,
            .batch = context.plan.micro_batch,
            .sequence = context.plan.LocalSequence(),
            .heads = static_cast<std::int32_t>(context.model.heads / tp),
            .kv_heads = static_cast<std::int32_t>(context.model.kv_heads / tp),
            .head_dim = static_cast<std::int32_t>(context.model.head_dim),
            .cp = SharesSequence() ? context.plan.cp : 0};
  }

  void Rope(const char* name, std::int16_t tensor, bool inverse) {
    if (context.model.positions != PositionKind::kRope) return;
    Op& op = b.Add(OpKind::kRope, OpClass::kMemoryBound, name, {InOut(tensor)});
    op.inverse = inverse;
    op.parameter = static_cast<float>(context.model.rope_theta);
    op.shape = AttentionShape();
  }

  // out = a + b + bias: the bias of a row-parallel linear is added once, after the sum over ranks.
  void Residual(const char* name, std::int16_t a, std::int16_t branch, std::int16_t bias,
                std::int16_t out) {
    Op& op =
        b.Add(OpKind::kAdd, OpClass::kMemoryBound, name, {In(a), In(branch), In(bias), Out(out)});
    op.shape = {.rows = rows, .cols = hidden};
  }

  // From x to the activated MLP: everything that is saved.
  void ForwardToActivated() {
    const std::int16_t norm1_weight = Parameter("norm1.weight", kNorm1Weight);
    const std::int16_t norm1_bias = Parameter("norm1.bias", kNorm1Bias);
    const std::int16_t qkv_weight = Parameter("qkv.weight", kQkvWeight);
    const std::int16_t qkv_bias = Parameter("qkv.bias", kQkvBias);
    const std::int16_t out_weight = Parameter("out.weight", kOutWeight);
    const std::int16_t out_bias = Parameter("out.bias", kOutBias);
    const std::int16_t norm2_weight = Parameter("norm2.weight", kNorm2Weight);
    const std::int16_t norm2_bias = Parameter("norm2.bias", kNorm2Bias);
    const std::int16_t up_weight = Parameter("up.weight", kUpWeight);
    const std::int16_t up_bias = Parameter("up.bias", kUpBias);
    const std::int16_t projected = b.Temporary("projected", rows * hidden);

    Norm("norm1", x, norm1_weight, norm1_bias, norm1, mean1, rstd1);
    const std::int16_t projection = SharesSequence() ? shared.ForwardQkv() : qkv;
    b.Linear("attention.qkv", norm1, qkv_weight, qkv_bias, projection, rows, qkv_width, hidden);
    Rope("attention.rope", projection, /*inverse=*/false);
    if (SharesSequence()) {
      shared.Forward(projection);
    } else {
      Op& op = b.Add(OpKind::kAttentionForward, OpClass::kAttention, "attention.core",
                     {In(qkv), Out(attention), Out(lse)});
      op.shape = AttentionShape();
    }
    RowParallel("attention.out", attention, out_weight, out_bias, projected, attention_width);
    Residual("attention.residual", x, projected, tp > 1 ? out_bias : kNoSlot, residual);
    Norm("norm2", residual, norm2_weight, norm2_bias, norm2, mean2, rstd2);
    b.Linear("mlp.up", norm2, up_weight, up_bias, up, rows, up_width, hidden);
    Activation();
  }

  void RowParallel(const std::string& name, std::int16_t in, std::int16_t weight, std::int16_t bias,
                   std::int16_t out, std::int64_t width) {
    b.Linear(name, in, weight, tp > 1 ? kNoSlot : bias, out, rows, hidden, width);
    if (tp > 1) b.TpAllReduce(name + ".sum", out, rows * hidden);
  }

  void Activation() {
    const bool swiglu = context.model.mlp == MlpKind::kSwiglu;
    Op& op = b.Add(swiglu ? OpKind::kSwigluForward : OpKind::kGeluForward, OpClass::kMemoryBound,
                   swiglu ? "mlp.swiglu" : "mlp.gelu", {In(up), Out(activated)});
    op.shape = {.rows = rows, .cols = ffn_width};
  }

  void NormInputGradient(const char* name, std::int16_t dy, std::int16_t in, std::int16_t weight,
                         std::int16_t mean, std::int16_t rstd, std::int16_t through,
                         std::int16_t dx) {
    Op& op = b.Add(OpKind::kNormBackwardInput, OpClass::kMemoryBound, name,
                   {In(dy), In(in), In(weight), In(mean), In(rstd), In(through), Out(dx)});
    op.rms = rms;
    op.shape = {.rows = rows, .cols = hidden};
  }

  void NormWeightGradient(const char* name, std::int16_t dy, std::int16_t in, std::int16_t mean,
                          std::int16_t rstd, std::int16_t weight_grad, std::int16_t bias_grad,
                          bool accumulate) {
    const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
    Op& op = b.Add(OpKind::kNormBackwardWeight, OpClass::kMemoryBound, name,
                   {In(dy), In(in), In(mean), In(rstd), output(weight_grad), output(bias_grad)});
    op.rms = rms;
    op.accumulate = accumulate;
    op.shape = {.rows = rows, .cols = hidden};
  }

  // dy -> d(residual): the MLP. Each weight gradient follows the op that makes its output gradient,
  // so that a tensor-parallel sum runs beside it.
  std::int16_t MlpBackward(std::int16_t dy, bool accumulate) {
    const std::int16_t norm2_weight = Parameter("norm2.weight", kNorm2Weight);
    const std::int16_t up_weight = Parameter("up.weight", kUpWeight);
    const std::int16_t down_weight = Parameter("down.weight", kDownWeight);
    const std::int16_t d_activated = b.Temporary("d_activated", rows * ffn_width);
    const bool swiglu = context.model.mlp == MlpKind::kSwiglu;
    const std::int16_t d_up = b.Temporary("d_up", rows * up_width);
    const std::int16_t d_norm2 = b.Temporary("d_norm2", rows * hidden);
    const std::int16_t d_residual = b.Temporary("d_residual", rows * hidden);

    b.Half(Pass::kBackwardInput);
    b.LinearInputGradient("mlp.down.input_grad", dy, down_weight, d_activated, rows, hidden,
                          ffn_width);
    b.Half(Pass::kBackwardWeight);
    b.LinearWeightGradient("mlp.down", dy, activated, Gradient("d_down.weight", kDownWeight),
                           Gradient("d_down.bias", kDownBias), rows, hidden, ffn_width, accumulate);
    b.Half(Pass::kBackwardInput);
    Op& op =
        b.Add(swiglu ? OpKind::kSwigluBackward : OpKind::kGeluBackward, OpClass::kMemoryBound,
              swiglu ? "mlp.swiglu.grad" : "mlp.gelu.grad", {In(up), In(d_activated), Out(d_up)});
    op.shape = {.rows = rows, .cols = ffn_width};
    b.LinearInputGradient("mlp.up.input_grad", d_up, up_weight, d_norm2, rows, up_width, hidden);
    if (tp > 1) b.TpAllReduce("mlp.up.input_grad.sum", d_norm2, rows * hidden);
    b.Half(Pass::kBackwardWeight);
    b.LinearWeightGradient("mlp.up", d_up, norm2, Gradient("d_up.weight", kUpWeight),
                           Gradient("d_up.bias", kUpBias), rows, up_width, hidden, accumulate);
    b.Half(Pass::kBackwardInput);
    NormInputGradient("norm2.input_grad", d_norm2, residual, norm2_weight, mean2, rstd2, dy,
                      d_residual);
    b.Half(Pass::kBackwardWeight);
    NormWeightGradient("norm2.weight_grad", d_norm2, residual, mean2, rstd2,
                       Gradient("d_norm2.weight", kNorm2Weight),
                       Gradient("d_norm2.bias", kNorm2Bias), accumulate);
    return d_residual;
  }

  // d(residual) -> dx: attention. Without tensor parallelism dx comes before the weight gradients
  // that nothing waits for, so that it leaves early; with it they run beside the sum.
  void AttentionBackward(std::int16_t d_residual, std::int16_t dx, bool accumulate) {
    const std::int16_t norm1_weight = Parameter("norm1.weight", kNorm1Weight);
    const std::int16_t qkv_weight = Parameter("qkv.weight", kQkvWeight);
    const std::int16_t out_weight = Parameter("out.weight", kOutWeight);
    const std::int16_t d_attention = b.Temporary("d_attention", rows * attention_width);
    const std::int16_t d_qkv = b.Temporary("d_qkv", rows * qkv_width);
    const std::int16_t d_norm1 = b.Temporary("d_norm1", rows * hidden);
    const auto out_weight_gradient = [&] {
      b.Half(Pass::kBackwardWeight);
      b.LinearWeightGradient("attention.out", d_residual, attention,
                             Gradient("d_out.weight", kOutWeight), Gradient("d_out.bias", kOutBias),
                             rows, hidden, attention_width, accumulate);
      b.Half(Pass::kBackwardInput);
    };
    const auto qkv_weight_gradient = [&] {
      b.Half(Pass::kBackwardWeight);
      b.LinearWeightGradient("attention.qkv", d_qkv, norm1, Gradient("d_qkv.weight", kQkvWeight),
                             Gradient("d_qkv.bias", kQkvBias), rows, qkv_width, hidden, accumulate);
      b.Half(Pass::kBackwardInput);
    };

    b.Half(Pass::kBackwardInput);
    if (SharesSequence()) shared.Prepare();
    b.LinearInputGradient("attention.out.input_grad", d_residual, out_weight, d_attention, rows,
                          hidden, attention_width);
    if (SharesSequence()) {
      shared.Core(d_attention, d_qkv);
      out_weight_gradient();
      shared.Finish(d_qkv);
    } else {
      out_weight_gradient();
      Op& op = b.Add(OpKind::kAttentionBackward, OpClass::kAttention, "attention.core.grad",
                     {In(qkv), In(attention), In(lse), In(d_attention), Out(d_qkv)});
      op.shape = AttentionShape();
    }
    Rope("attention.rope.grad", d_qkv, /*inverse=*/true);
    b.LinearInputGradient("attention.qkv.input_grad", d_qkv, qkv_weight, d_norm1, rows, qkv_width,
                          hidden);
    if (tp > 1) {
      b.TpAllReduce("attention.qkv.input_grad.sum", d_norm1, rows * hidden);
      qkv_weight_gradient();
    }
    NormInputGradient("norm1.input_grad", d_norm1, x, norm1_weight, mean1, rstd1, d_residual, dx);
    if (tp == 1) qkv_weight_gradient();
    b.Half(Pass::kBackwardWeight);
    NormWeightGradient("norm1.weight_grad", d_norm1, x, mean1, rstd1,
                       Gradient("d_norm1.weight", kNorm1Weight),
                       Gradient("d_norm1.bias", kNorm1Bias), accumulate);
  }
};

}  // namespace

Block LayerForward(const BlockContext& context, bool keep) {
  Layer layer(context, keep ? "layer.forward" : "layer.forward.drop");
  layer.MakeSaved(keep ? SlotRole::kSaved : SlotRole::kTemporary,
                  keep ? Category::kActivations : Category::kWorkspace);
  layer.ForwardToActivated();
  const std::int16_t down_weight = layer.Parameter("down.weight", kDownWeight);
  const std::int16_t down_bias = layer.Parameter("down.bias", kDownBias);
  const std::int16_t y =
      layer.b.Slot("y", layer.rows * layer.hidden, Category::kActivations, SlotRole::kOutput);
  const std::int16_t branch = layer.b.Temporary("mlp", layer.rows * layer.hidden);
  layer.RowParallel("mlp.down", layer.activated, down_weight, down_bias, branch, layer.ffn_width);
  layer.Residual("mlp.residual", layer.residual, branch, layer.tp > 1 ? down_bias : kNoSlot, y);
  return layer.b.Take();
}

Block LayerRecompute(const BlockContext& context) {
  Layer layer(context, "layer.recompute");
  layer.MakeSaved(SlotRole::kSaved, Category::kRecompute);
  layer.ForwardToActivated();
  return layer.b.Take();
}

Block LayerBackward(const BlockContext& context, Pass half, bool accumulate) {
  Layer layer(context, accumulate ? "layer.backward.accumulate" : "layer.backward");
  layer.MakeSaved(SlotRole::kSaved, Category::kActivations);
  const std::int16_t dy = layer.b.Slot("dy", layer.rows * layer.hidden, Category::kWorkspace,
                                       SlotRole::kOutputGradient);
  const std::int16_t dx =
      layer.b.Slot("dx", layer.rows * layer.hidden, Category::kWorkspace, SlotRole::kInputGradient);
  const std::int16_t d_residual = layer.MlpBackward(dy, accumulate);
  layer.AttentionBackward(d_residual, dx, accumulate);
  return layer.b.Take(half);
}

}  // namespace foretrain
