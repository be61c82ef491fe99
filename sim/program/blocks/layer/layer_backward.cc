// Backward of a decoder layer (layer.cc). Each weight gradient follows the op that computes its
// output gradient, so that a tensor-parallel sum overlaps with it. Tensors that the forward did not
// keep are recomputed at their first use. With sequence parallelism the inputs of qkv and up, saved
// on own rows, are gathered again, overlapped with the input gradient's GEMM: four collectives
// forward, six backward (Korthikanti et al. 2022, s. 4.2.2). Longer than 400 lines: one order of
// ops.
#include <algorithm>
#include <utility>

#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

struct Backward {
  Layer& layer;
  BlockBuilder& b;
  LayerTensors have;  // tensors saved or rebuilt before this pass
  bool accumulate;

  bool Lacks(LayerTensor tensor) const { return !Holds(have, tensor); }
  void Input() { b.Half(Pass::kBackwardInput); }
  void Weight() { b.Half(Pass::kBackwardWeight); }

  void NormInputGradient(const char* name, std::int16_t dy, std::int16_t in, std::int16_t weight,
                         std::int16_t mean, std::int16_t rstd, std::int16_t through,
                         std::int16_t dx) {
    Input();
    Op& op = b.Add(OpKind::kNormBackwardInput, name,
                   {In(dy), In(in), In(weight), In(mean), In(rstd), In(through), Out(dx)});
    op.rms = layer.rms;
    op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
  }

  // The input gradient of what no norm precedes: both gradients of the residual stream add up.
  void AddGradients(const char* name, std::int16_t dy, std::int16_t through, std::int16_t dx) {
    Input();
    Op& op = b.Add(OpKind::kAdd, name, {In(dy), In(through), In(kNoSlot), Out(dx)});
    op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
  }

  void NormWeightGradient(const char* name, std::int16_t dy, std::int16_t in, std::int16_t mean,
                          std::int16_t rstd, std::int16_t weight_grad, std::int16_t bias_grad) {
    if (weight_grad == kNoSlot) return;
    Weight();
    const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
    Op& op = b.Add(OpKind::kNormBackwardWeight, name,
                   {In(dy), In(in), In(mean), In(rstd), output(weight_grad), output(bias_grad)});
    op.rms = layer.rms;
    op.accumulate = accumulate;
    op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
  }

  // Gradient of a branch, given that of the residual sum `d_sum`. Both are equal unless dropout or
  // a post-norm lies between them.
  std::int16_t OfBranch(const Layer::PostNorm& post, std::int16_t d_sum);
  void HeadNorms(std::int16_t d_qkv);
  // dy of all rows. Parallel branches both read it, so it is gathered once and remembered.
  std::int16_t WholeGradient(const char* name, std::int16_t own) {
    if (!layer.IsParallel()) return layer.Gathered(name, own);
    if (whole_dy == kNoSlot) whole_dy = layer.Gathered("output_grad.gather", own);
    return whole_dy;
  }

  // norm1 or norm2 of all rows, for a weight gradient or for a product that is computed again. The
  // norm is recomputed in the input half, because gathered parameters exist only there. So is the
  // gather if the input half reads it.
  std::int16_t Norm1Again();
  std::int16_t Norm2Again();
  // First `count` rows of an adapter's inner gradient; kNoSlot without adapters.
  std::int16_t OfAdapter(std::int16_t d_inner, std::int64_t count) {
    return d_inner == kNoSlot ? kNoSlot : layer.RowsOf(d_inner, {0, count}, layer.lora_rank);
  }
  void ActivationGradient(const std::string& suffix, std::int16_t up, std::int64_t count);
  void MlpTile(std::int64_t tile, std::int16_t dy, std::int16_t all_dy, std::int16_t d_norm2);
  std::int16_t Mlp(std::int16_t dy);
  std::int16_t Norm2(std::int16_t dy, std::int16_t d_norm2);
  void QkvWeight(std::int16_t d_qkv, std::int16_t whole_norm1);
  void QkvAgain();
  std::int16_t AttentionCore(std::int16_t d_branch);
  void Norm1(std::int16_t d_norm1, std::int16_t through, std::int16_t dx);
  void Attention(std::int16_t d_branch, std::int16_t through, std::int16_t d_norm1_part,
                 std::int16_t dx);

  // Slots shared by the MLP's tiles.
  std::int16_t down_weight = kNoSlot, d_activated = kNoSlot, d_up = kNoSlot, norm2 = kNoSlot;
  std::int16_t d_down_weight = kNoSlot, d_down_bias = kNoSlot, d_up_weight = kNoSlot,
               d_up_bias = kNoSlot;
  SummedGemm up_input = {};
  std::int16_t d_up_inner = kNoSlot, d_down_inner = kNoSlot;  // of one tile
  std::int16_t d_qkv_inner = kNoSlot;
  std::int16_t whole_dy = kNoSlot;
};

std::int16_t Backward::Norm1Again() {
  if (layer.whole_norm1 != kNoSlot) return layer.whole_norm1;
  Input();
  if (Lacks(kNorm1)) layer.Norm1();
  const bool early = Lacks(kQkv) || (layer.HasOneNorm() && Lacks(kUp));
  if (!early) Weight();
  layer.whole_norm1 = layer.Gathered("norm1.regather", layer.norm1);
  return layer.whole_norm1;
}

std::int16_t Backward::OfBranch(const Layer::PostNorm& post, std::int16_t d_sum) {
  const bool first = &post == &layer.post1;
  Input();
  d_sum = layer.BranchGradient(first ? "attention.dropout" : "mlp.dropout", d_sum,
                               first ? layer.branch_mask1 : layer.branch_mask2);
  if (!layer.context.model.post_norms) return d_sum;
  const std::string name = first ? "attention.post_norm" : "mlp.post_norm";
  const std::int16_t weight = first ? layer.Parameter("post1.weight", kPostNorm1Weight)
                                    : layer.Parameter("post2.weight", kPostNorm2Weight);
  const std::int16_t d_branch = b.Temporary("d_" + name, layer.own_rows * layer.hidden);
  NormInputGradient((name + ".input_grad").c_str(), d_sum, post.branch, weight, post.mean,
                    post.rstd, kNoSlot, d_branch);
  const std::int16_t d_weight = first ? layer.Gradient("d_post1.weight", kPostNorm1Weight)
                                      : layer.Gradient("d_post2.weight", kPostNorm2Weight);
  const std::int16_t d_bias = first ? layer.Gradient("d_post1.bias", kPostNorm1Bias)
                                    : layer.Gradient("d_post2.bias", kPostNorm2Bias);
  NormWeightGradient((name + ".weight_grad").c_str(), d_sum, post.branch, post.mean, post.rstd,
                     d_weight, d_bias);
  return d_branch;
}

std::int16_t Backward::Norm2Again() {
  if (layer.HasOneNorm()) return Norm1Again();
  Input();
  if (Lacks(kNorm2)) layer.Norm2();
  if (!Lacks(kUp)) Weight();
  return layer.Gathered("norm2.regather", layer.norm2);
}

// d_activated -> d_up of one tile.
void Backward::ActivationGradient(const std::string& suffix, std::int16_t up, std::int64_t count) {
  const bool swiglu = layer.context.model.IsGated();
  Input();
  Op& op = b.Add(swiglu ? OpKind::kSwigluBackward : OpKind::kGeluBackward,
                 (swiglu ? "mlp.swiglu.grad" : "mlp.gelu.grad") + suffix,
                 {In(up), In(layer.RowsOf(d_activated, {0, count}, layer.ffn_width)),
                  Out(layer.RowsOf(d_up, {0, count}, layer.up_width))});
  op.activation = ActivationOf(layer.context.model.mlp);
  op.shape = {.rows = count, .cols = layer.ffn_width};
}

// One tile: up again if it was not saved, then down's input gradient, its weight gradient, the
// activation's gradient and up's input gradient. Weight gradients add over tiles.
void Backward::MlpTile(std::int64_t tile, std::int16_t dy, std::int16_t all_dy,
                       std::int16_t d_norm2) {
  const RowRange rows = layer.MlpTile(tile);
  const std::string suffix = layer.TileSuffix(tile);
  const std::int64_t hidden = layer.hidden;
  const std::int16_t up = layer.TileOf(layer.up, tile, layer.up_width);
  const std::int16_t activated = layer.TileOf(layer.activated, tile, layer.ffn_width);
  const std::int16_t tile_dy = layer.RowsOf(all_dy, rows, hidden);
  const std::int16_t tile_d_up = layer.RowsOf(d_up, {0, rows.count}, layer.up_width);
  const bool adds = accumulate || tile > 0;
  Input();
  if (Lacks(kUp)) {
    layer.MlpUp(suffix + ".again", layer.RowsOf(norm2, rows, hidden),
                layer.InnerTile(kUpLinear, tile), up, rows.count);
  }
  const std::int16_t tile_d_activated = layer.RowsOf(d_activated, {0, rows.count}, layer.ffn_width);
  const std::int16_t tile_d_inner = OfAdapter(d_down_inner, rows.count);
  b.LinearInputGradient("mlp.down.input_grad" + suffix, tile_dy, down_weight, tile_d_activated,
                        rows.count, hidden, layer.ffn_width);
  layer.AdapterInputGradient(kDownLinear, "mlp.down.input_grad" + suffix, tile_dy, tile_d_inner,
                             tile_d_activated, rows.count);
  Weight();
  if (Lacks(kActivated)) layer.Activation(suffix + ".again", up, activated, rows.count);
  const std::int16_t inner = layer.InnerTile(kDownLinear, tile);
  if (Lacks(kDownInner)) {
    layer.AdapterInner(kDownLinear, "mlp.down" + suffix + ".again", activated, inner, rows.count);
  }
  layer.AdapterWeightGradient(kDownLinear, "mlp.down" + suffix,
                              {tile_dy, activated, inner, tile_d_inner}, rows.count, adds);
  b.LinearWeightGradient("mlp.down" + suffix, tile_dy, activated, d_down_weight, kNoSlot,
                         rows.count, hidden, layer.ffn_width, adds);
  if (tile == 0) {
    b.BiasGradient("mlp.down", dy, d_down_bias, layer.own_rows, hidden, accumulate);
  }
  ActivationGradient(suffix, up, rows.count);
  if (norm2 == kNoSlot) norm2 = Norm2Again();
  Input();
  up_input.name = "mlp.up.input_grad" + suffix;
  up_input.in = tile_d_up;
  up_input.inner = OfAdapter(d_up_inner, rows.count);
  if (d_norm2 != kNoSlot) layer.SumRows(up_input, rows, d_norm2);
}

// From dy to the gradient of norm2's output on this rank's rows. With one norm it stays this rank's
// partial sum, of all rows, because attention adds to it before the collective. Tiles bound d_up
// and d_activated to one tile's rows.
std::int16_t Backward::Mlp(std::int16_t dy) {
  const std::int16_t up_weight = layer.Parameter("up.weight", kUpWeight);
  down_weight = layer.Parameter("down.weight", kDownWeight);
  std::int64_t tile_rows = 0;
  for (std::int64_t t = 0; t < layer.MlpTiles(); ++t) {
    tile_rows = std::max(tile_rows, layer.MlpTile(t).count);
  }
  d_activated = b.Temporary("d_activated", tile_rows * layer.ffn_width);
  d_up = b.Temporary("d_up", tile_rows * layer.up_width);
  d_down_weight = layer.Gradient("d_down.weight", kDownWeight);
  d_down_bias = layer.Gradient("d_down.bias", kDownBias);
  d_up_weight = layer.Gradient("d_up.weight", kUpWeight);
  d_up_bias = layer.Gradient("d_up.bias", kUpBias);
  up_input = {"mlp.up.input_grad", false, d_up, up_weight, kNoSlot, layer.up_width, kUpLinear};
  up_input.sums = !layer.HasOneNorm();
  d_up_inner = layer.InnerGradient(kUpLinear, tile_rows);
  d_down_inner = layer.InnerGradient(kDownLinear, tile_rows);

  Input();
  const std::int16_t all_dy = WholeGradient("mlp.down.output_grad.gather", dy);
  // With tp_tiles the sum goes in pieces, each straight to its rows, so no whole d_norm2 is needed.
  const bool in_pieces = layer.split_rows && layer.context.plan.tp_tiles > 1;
  std::int16_t d_norm2 = in_pieces ? kNoSlot : b.Temporary("d_norm2", layer.rows * layer.hidden);
  if (Lacks(kUp)) norm2 = Norm2Again();
  for (std::int64_t t = 0; t < layer.MlpTiles(); ++t) {
    MlpTile(t, dy, all_dy, d_norm2);
    if (in_pieces) d_norm2 = layer.Sum(up_input);
    if (!in_pieces && up_input.sums && t + 1 == layer.MlpTiles()) {
      up_input.name = "mlp.up.input_grad";
      d_norm2 = layer.Scattered(up_input, d_norm2);
    }
    const RowRange rows = layer.MlpTile(t);
    Weight();
    b.LinearWeightGradient("mlp.up" + layer.TileSuffix(t),
                           layer.RowsOf(d_up, {0, rows.count}, layer.up_width),
                           layer.RowsOf(norm2, rows, layer.hidden), d_up_weight, d_up_bias,
                           rows.count, layer.up_width, layer.hidden, accumulate || t > 0);
    layer.AdapterWeightGradient(
        kUpLinear, "mlp.up" + layer.TileSuffix(t),
        {layer.RowsOf(d_up, {0, rows.count}, layer.up_width),
         layer.RowsOf(norm2, rows, layer.hidden), layer.InnerTile(kUpLinear, t), up_input.inner},
        rows.count, accumulate || t > 0);
  }
  return d_norm2;
}

// Gradient of the residual: norm2's input gradient plus dy, which passes unchanged. If the residual
// starts after the norm, dy joins the gradient of the norm's output instead.
std::int16_t Backward::Norm2(std::int16_t dy, std::int16_t d_norm2) {
  const std::int16_t d_residual = b.Temporary("d_residual", layer.own_rows * layer.hidden);
  if (!layer.context.model.pre_norms) {
    AddGradients("mlp.residual.grad", d_norm2, dy, d_residual);
    return d_residual;
  }
  if (layer.AddsToNorms()) {
    AddGradients("mlp.residual.grad", d_norm2, dy, d_norm2);
    dy = kNoSlot;
  }
  const std::int16_t norm2_weight = layer.Parameter("norm2.weight", kNorm2Weight);
  NormInputGradient("norm2.input_grad", d_norm2, layer.Norm2Input(), norm2_weight, layer.mean2,
                    layer.rstd2, dy, d_residual);
  const std::int16_t d_weight = layer.Gradient("d_norm2.weight", kNorm2Weight);
  NormWeightGradient("norm2.weight_grad", d_norm2, layer.Norm2Input(), layer.mean2, layer.rstd2,
                     d_weight, layer.Gradient("d_norm2.bias", kNorm2Bias));
  return d_residual;
}

void Backward::QkvWeight(std::int16_t d_qkv, std::int16_t whole_norm1) {
  Weight();
  const std::int16_t d_weight = layer.Gradient("d_qkv.weight", kQkvWeight);
  b.LinearWeightGradient("attention.qkv", d_qkv, whole_norm1, d_weight,
                         layer.Gradient("d_qkv.bias", kQkvBias), layer.rows, layer.qkv_width,
                         layer.hidden, accumulate);
  layer.AdapterWeightGradient(kQkvLinear, "attention.qkv",
                              {d_qkv, whole_norm1, layer.inner[kQkvLinear], d_qkv_inner},
                              layer.rows, accumulate);
}

// Turns the gradient after the head norms into the one before them, in place. The weight gradient
// needs the gradient of the norms' outputs, which the input half keeps in `kept` if the weight is
// trained.
void Backward::HeadNorms(std::int16_t d_qkv) {
  const ModelSpec& model = layer.context.model;
  if (!layer.NormsHeads()) return;
  const std::int16_t q_weight = layer.Parameter("q_norm.weight", kQNormWeight);
  const std::int16_t k_weight = layer.Parameter("k_norm.weight", kKNormWeight);
  const std::int16_t d_q_weight = layer.Gradient("d_q_norm.weight", kQNormWeight);
  const std::int16_t d_k_weight = layer.Gradient("d_k_norm.weight", kKNormWeight);
  const bool trained = d_q_weight != kNoSlot;
  const std::int64_t heads = model.heads / layer.tp + model.KvHeadsOn(layer.tp);
  const std::int16_t kept =
      trained ? b.Temporary("d_qk.normed", layer.rows * heads * model.head_dim) : kNoSlot;
  OpShape shape = layer.AttentionShape();
  shape.window = 0;
  shape.cp = 0;
  Input();
  Op& of_input = b.Add(
      OpKind::kHeadNormBackwardInput, "attention.qk_norm.input_grad",
      {InOut(d_qkv), In(layer.qk_kept), In(layer.qk_rstd), In(q_weight), In(k_weight), Out(kept)});
  of_input.whole = model.qk_norm_whole;
  of_input.shape = shape;
  if (!trained) return;
  Weight();
  const auto output = [&](std::int16_t slot) { return accumulate ? InOut(slot) : Out(slot); };
  Op& op = b.Add(
      OpKind::kHeadNormBackwardWeight, "attention.qk_norm.weight_grad",
      {In(kept), In(layer.qk_kept), In(layer.qk_rstd), output(d_q_weight), output(d_k_weight)});
  op.whole = model.qk_norm_whole;
  op.accumulate = accumulate;
  op.shape = shape;
  Input();
}

// qkv from its kept inputs, in the input half, which alone has gathered parameters.
void Backward::QkvAgain() {
  if (!Lacks(kQkv)) return;
  Input();
  if (layer.context.model.IsLatent()) {
    layer.LatentUpAgain(have);
    return;
  }
  Norm1Again();
  layer.Qkv();
}

// From the gradient of the attention branch to that of qkv. The output projection's weight gradient
// and the sinks come between, where context-parallel communication is under way.
std::int16_t Backward::AttentionCore(std::int16_t d_residual) {
  const std::int16_t out_weight = layer.Parameter("out.weight", kOutWeight);
  const std::int16_t d_attention = b.Temporary("d_attention", layer.rows * layer.attention_width);
  const std::int16_t d_qkv = b.Temporary("d_qkv", layer.rows * layer.qkv_width);
  QkvAgain();
  Input();
  if (layer.SharesSequence()) layer.shared.Prepare();
  const std::int16_t whole = WholeGradient("attention.out.output_grad.gather", d_residual);
  b.LinearInputGradient("attention.out.input_grad", whole, out_weight, d_attention, layer.rows,
                        layer.hidden, layer.attention_width);
  const std::int16_t d_inner = layer.InnerGradient(kOutLinear, layer.rows);
  layer.AdapterInputGradient(kOutLinear, "attention.out.input_grad", whole, d_inner, d_attention,
                             layer.rows);
  layer.AttentionCoreAgain(have);
  if (layer.SharesSequence()) {
    layer.shared.EndAtDocuments(layer.DocumentStarts());
    layer.shared.Backward(d_attention, d_qkv);
  }
  Weight();
  b.LinearWeightGradient("attention.out", whole, layer.attention_input,
                         layer.Gradient("d_out.weight", kOutWeight), kNoSlot, layer.rows,
                         layer.hidden, layer.attention_width, accumulate);
  layer.AdapterWeightGradient(kOutLinear, "attention.out",
                              {whole, layer.attention, layer.inner[kOutLinear], d_inner},
                              layer.rows, accumulate);
  b.BiasGradient("attention.out", d_residual, layer.Gradient("d_out.bias", kOutBias),
                 layer.own_rows, layer.hidden, accumulate);
  layer.SinkGradient(d_attention, accumulate);
  Input();
  if (layer.SharesSequence()) {
    layer.shared.Finish(d_qkv);
  } else {
    layer.AttentionCoreGradient(d_attention, d_qkv);
  }
  if (layer.context.model.IsLatent()) return d_qkv;
  layer.Rope("attention.rope.grad", d_qkv, /*inverse=*/true);
  HeadNorms(d_qkv);
  return d_qkv;
}

// From the gradient of norm1's output to dx, plus `through`.
void Backward::Norm1(std::int16_t d_norm1, std::int16_t through, std::int16_t dx) {
  if (!layer.context.model.pre_norms) {
    AddGradients("attention.residual.grad", d_norm1, through, dx);
    return;
  }
  if (layer.AddsToNorms()) {
    AddGradients("attention.residual.grad", d_norm1, through, d_norm1);
    through = kNoSlot;
  }
  const std::int16_t weight = layer.Parameter("norm1.weight", kNorm1Weight);
  NormInputGradient("norm1.input_grad", d_norm1, layer.x, weight, layer.mean1, layer.rstd1, through,
                    dx);
  const std::int16_t d_weight = layer.Gradient("d_norm1.weight", kNorm1Weight);
  NormWeightGradient("norm1.weight_grad", d_norm1, layer.x, layer.mean1, layer.rstd1, d_weight,
                     layer.Gradient("d_norm1.bias", kNorm1Bias));
}

// From d_branch, the gradient of the attention branch, to dx, plus `through`. With tp > 1 the
// weight gradient overlaps with the sum. With tp 1 dx is computed before it, so that dx leaves
// sooner. d_norm1_part: the MLP's part of norm1's gradient if the layer has one norm, else kNoSlot.
void Backward::Attention(std::int16_t d_branch, std::int16_t through, std::int16_t d_norm1_part,
                         std::int16_t dx) {
  const std::int16_t d_qkv = AttentionCore(d_branch);
  if (layer.context.model.IsLatent()) {
    LatentBackwardOf(layer, have, accumulate, d_qkv,
                     [&](std::int16_t d_norm1) { Norm1(d_norm1, through, dx); });
    return;
  }
  const std::int16_t qkv_weight = layer.Parameter("qkv.weight", kQkvWeight);
  const bool sums = layer.tp > 1;
  const std::int16_t whole_norm1 = sums ? Norm1Again() : kNoSlot;
  Input();
  d_qkv_inner = layer.InnerGradient(kQkvLinear, layer.rows);
  SummedGemm input{"attention.qkv.input_grad",
                   false,
                   d_qkv,
                   qkv_weight,
                   kNoSlot,
                   layer.qkv_width,
                   kQkvLinear,
                   d_qkv_inner};
  input.onto = d_norm1_part;
  const std::int16_t d_norm1 = layer.Sum(input);
  if (sums) QkvWeight(d_qkv, whole_norm1);
  Norm1(d_norm1, through, dx);
  if (!sums) QkvWeight(d_qkv, Norm1Again());
}

}  // namespace

// The branches run in reverse. dy passes the residual past each branch, so it is both a branch's
// output gradient and an addend of the norm's input gradient.
BlockBuilder WriteLayerBackward(const BlockContext& context, const BlockRequest& request) {
  Layer layer(context, NameOf(request), request.kind);
  const bool full = request.recompute == RecomputeKind::kFull;
  const LayerTensors have = full ? RebuiltTensors(context.plan)
                                 : KeptTensors(context.plan, request.recompute, request.kind);
  layer.MakeTensors(have, Category::kActivations, Category::kRecompute);
  const std::int64_t boundary = BoundaryElements(context.model, context.plan);
  const std::int16_t all_dy =
      layer.b.Slot("dy", boundary, Category::kWorkspace, SlotRole::kOutputGradient);
  const std::int16_t all_dx =
      layer.b.Slot("dx", boundary, Category::kWorkspace, SlotRole::kInputGradient);
  const std::int16_t dy = layer.StackRows("dy.rows", all_dy);
  const std::int16_t dx = layer.StackRows("dx.rows", all_dx);
  Backward backward{layer, layer.b, have, request.accumulate};
  if (request.kind == BlockKind::kExpertLayer) {
    const std::int16_t d_branch = backward.OfBranch(layer.post2, dy);
    const std::int16_t d_norm2 = ExpertsBackward(layer, have, request, d_branch);
    const std::int16_t d_residual = backward.Norm2(dy, d_norm2);
    backward.Attention(backward.OfBranch(layer.post1, d_residual), d_residual, kNoSlot, dx);
    return std::move(layer.b);
  }
  const std::int16_t d_mlp = backward.OfBranch(layer.post2, dy);
  const std::int16_t d_norm2 = backward.Mlp(d_mlp);
  if (layer.HasOneNorm()) {
    backward.Attention(d_mlp, dy, d_norm2, dx);
    return std::move(layer.b);
  }
  std::int16_t d_residual = backward.Norm2(dy, d_norm2);
  if (IsDecoderLayer(request.kind)) {
    d_residual = layer.CrossGradient(have, request.accumulate, d_residual, all_dy, all_dx);
  }
  const std::int16_t d_branch =
      layer.IsParallel() ? d_mlp : backward.OfBranch(layer.post1, d_residual);
  backward.Attention(d_branch, d_residual, kNoSlot, dx);
  if (context.model.HasEncoder()) layer.TableGradients(all_dy, all_dx);
  return std::move(layer.b);
}

Block LayerBackward(const BlockContext& context, const BlockRequest& request) {
  return WriteLayerBackward(context, request).Take(request.pass);
}

}  // namespace foretrain
