// Forward and recomputation of a pre-norm decoder layer:
//
//   norm1 -> qkv -> (head norms) -> (rope) -> attention -> out -> [tp sum] -> (norm) -> + input
//   -> norm2 -> up -> act -> down -> [tp sum] -> (norm) -> +
//
// or, with parallel attention and MLP, on norms of the input, which may be one norm:
//
//   input + [tp sum](attention(norm1) + MLP(norm2))
//
// A decoder layer of an encoder-decoder has cross-attention between attention and norm2
// (stacks.cc). With residual_after_norm the sums add to norm1 and norm2 instead of to their inputs.
// A post-norm layer's last norm is then norm1 of the next layer, so blocks pass sums that are not
// normed yet.
//
// Tensor parallelism splits heads and the MLP's width: qkv and up by rows, out and down by columns
// (Shoeybi et al. 2019, s. 3). Norms and residuals are whole on every rank. Sequence parallelism
// splits those by rows: the sum becomes a reduce-scatter, and qkv and up read the result of an
// all-gather (Korthikanti et al. 2022, s. 4.2.2).
#include <utility>

#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

// out = a + branch + bias. The bias of a row-parallel linear is added once, after the sum over
// ranks; with tp 1 the GEMM has added it.
void Residual(Layer& layer, const char* name, std::int16_t a, std::int16_t branch,
              std::int16_t bias, std::int16_t out, std::int16_t mask) {
  layer.AddBranch(name, a, branch, layer.tp > 1 ? bias : kNoSlot, out, mask);
}

// From x up to attention's output projection, which is returned as a GEMM still to be summed over
// tp.
SummedGemm AttentionBranch(Layer& layer) {
  layer.Norm1();
  layer.Qkv();
  layer.AttentionCore();
  const std::int16_t out_weight = layer.Parameter("out.weight", kOutWeight);
  const std::int16_t out_bias = layer.Parameter("out.bias", kOutBias);
  return {"attention.out",
          true,
          layer.attention_input,
          out_weight,
          layer.tp > 1 ? kNoSlot : out_bias,
          layer.attention_width,
          kOutLinear,
          layer.inner[kOutLinear]};
}

// From x to the residual after attention.
void Attention(Layer& layer) {
  SummedGemm out = AttentionBranch(layer);
  out.to = layer.post1.branch;
  const std::int16_t branch = layer.NormOfBranch(layer.post1, layer.Sum(out));
  const std::int16_t through = layer.AddsToNorms() ? layer.norm1 : layer.x;
  Residual(layer, "attention.residual", through, branch, layer.Parameter("out.bias", kOutBias),
           layer.residual, layer.branch_mask1);
  if (IsDecoderLayer(layer.kind)) layer.CrossAttention();
}

// Parallel attention and MLP: the sum of both biases, added once after the one sum over ranks.
std::int16_t BothBiases(Layer& layer, std::int16_t out_bias, std::int16_t down_bias) {
  if (layer.tp == 1 || out_bias == kNoSlot || down_bias == kNoSlot) {
    return out_bias == kNoSlot ? down_bias : out_bias;
  }
  const std::int16_t both = layer.b.TemporaryIn(layer.b.FormatOf(out_bias), "biases", layer.hidden);
  Op& op =
      layer.b.Add(OpKind::kAdd, "biases", {In(out_bias), In(down_bias), In(kNoSlot), Out(both)});
  op.shape = {.rows = 1, .cols = layer.hidden};
  return both;
}

// The MLP's input of all rows: norm2's output, or norm1's if the layer has one norm.
std::int16_t MlpInput(Layer& layer) {
  if (layer.HasOneNorm()) return layer.whole_norm1;
  layer.Norm2();
  return layer.Gathered("norm2.gather", layer.norm2);
}

// The MLP from norm2 to y, in mlp_tiles tiles of rows. `parallel`: attention's output GEMM if it
// shares the MLP's sum, else null. If y is kNoSlot, it ends at the MLP branch. Unless the sum goes
// in tp_tiles pieces, each tile's GEMM writes its rows of one output.
void Mlp(Layer& layer, SummedGemm* parallel, std::int16_t y) {
  BlockBuilder& b = layer.b;
  const std::int16_t in = MlpInput(layer);
  const std::int16_t down_weight = layer.Parameter("down.weight", kDownWeight);
  const std::int16_t down_bias = layer.Parameter("down.bias", kDownBias);
  SummedGemm down{"mlp.down",
                  true,
                  layer.activated,
                  down_weight,
                  layer.tp > 1 ? kNoSlot : down_bias,
                  layer.ffn_width,
                  kDownLinear,
                  layer.inner[kDownLinear]};
  down.parallel = parallel;
  down.to = layer.post2.branch;
  const bool in_pieces = layer.split_rows && layer.context.plan.tp_tiles > 1;
  const bool straight = down.to != kNoSlot && !layer.split_rows;
  const std::int16_t out = in_pieces  ? kNoSlot
                           : straight ? down.to
                                      : b.Temporary("mlp.down.out", layer.rows * layer.hidden);
  for (std::int64_t t = 0; t < layer.MlpTiles(); ++t) {
    const RowRange tile = layer.MlpTile(t);
    const std::string suffix = layer.TileSuffix(t);
    const std::int16_t up = layer.TileOf(layer.up, t, layer.up_width);
    layer.MlpUp(suffix, layer.RowsOf(in, tile, layer.hidden), layer.InnerTile(kUpLinear, t), up,
                tile.count);
    const std::int16_t activated = layer.TileOf(layer.activated, t, layer.ffn_width);
    layer.Activation(suffix, up, activated, tile.count);
    down.name = "mlp.down" + suffix;
    if (parallel != nullptr) parallel->name = "attention.out" + suffix;
    down.in = activated;
    down.inner = layer.InnerTile(kDownLinear, t);
    if (!in_pieces) layer.SumRows(down, tile, out);
  }
  down.name = "mlp.down";
  if (parallel != nullptr) parallel->name = "attention.out";
  const std::int16_t sum = in_pieces ? layer.Sum(down) : layer.Scattered(down, out);
  const std::int16_t branch = layer.NormOfBranch(layer.post2, sum);
  if (y == kNoSlot) return;
  if (parallel == nullptr) {
    const std::int16_t through = layer.AddsToNorms() ? layer.norm2 : layer.AfterAttention();
    Residual(layer, "mlp.residual", through, branch, down_bias, y, layer.branch_mask2);
    return;
  }
  const std::int16_t out_bias = layer.Parameter("out.bias", kOutBias);
  Residual(layer, "residual", layer.x, branch, BothBiases(layer, out_bias, down_bias), y,
           layer.branch_mask2);
}

// Recomputes what a backward reads, up to the input of the MLP.
void AttentionAgain(Layer& layer) {
  if (!layer.IsParallel()) return Attention(layer);
  layer.Norm1();
  layer.Qkv();
  layer.AttentionCore();
  // The output's adapter is recomputed for its inner tensor only.
  layer.AdapterInner(kOutLinear, "attention.out", layer.attention_input, layer.inner[kOutLinear],
                     layer.rows);
}

}  // namespace

// Tensors that this kind of recomputation keeps become saved slots, the others temporaries. The ops
// are the same.
BlockBuilder WriteLayerForward(const BlockContext& context, const BlockRequest& request) {
  Layer layer(context, NameOf(request), request.kind);
  layer.MakeTensors(KeptTensors(context.plan, request.recompute, request.kind),
                    Category::kActivations, Category::kWorkspace);
  if (layer.IsParallel()) {
    SummedGemm parallel = AttentionBranch(layer);
    Mlp(layer, &parallel, layer.Output());
    return std::move(layer.b);
  }
  Attention(layer);
  if (request.kind == BlockKind::kExpertLayer) {
    ExpertsForward(layer, layer.Output());
  } else {
    Mlp(layer, nullptr, layer.Output());
    layer.HandOn();
  }
  return std::move(layer.b);
}

// Full recomputation: from the saved input up to the last tensor that the backward reads. The MLP's
// last GEMM and the final sum are left out, because no gradient needs their output.
BlockBuilder WriteLayerRecompute(const BlockContext& context, const BlockRequest& request) {
  const bool has_experts = request.kind == BlockKind::kExpertLayer;
  Layer layer(context, NameOf({.kind = request.kind, .pass = Pass::kRecompute}), request.kind);
  layer.MakeTensors(RebuiltTensors(context.plan), Category::kRecompute, Category::kWorkspace);
  AttentionAgain(layer);
  layer.MlpMaskAgain();
  if (has_experts) {
    ExpertsAgain(layer);
    return std::move(layer.b);
  }
  // The post-norm's backward reads the MLP's output, so all of the MLP runs again.
  if (layer.context.model.post_norms) {
    Mlp(layer, nullptr, kNoSlot);
    return std::move(layer.b);
  }
  if (!layer.whole_mlp) {
    if (!layer.HasOneNorm()) layer.Norm2();
    return std::move(layer.b);
  }
  const std::int16_t in = MlpInput(layer);
  layer.MlpUp("", in, layer.inner[kUpLinear], layer.up, layer.rows);
  layer.Activation("", layer.up, layer.activated, layer.rows);
  layer.AdapterInner(kDownLinear, "mlp.down", layer.activated, layer.inner[kDownLinear],
                     layer.rows);
  return std::move(layer.b);
}

Block LayerForward(const BlockContext& context, const BlockRequest& request) {
  return WriteLayerForward(context, request).Take();
}

Block LayerRecompute(const BlockContext& context, const BlockRequest& request) {
  return WriteLayerRecompute(context, request).Take();
}

}  // namespace foretrain
