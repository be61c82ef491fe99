// A decoder layer, pre-norm:
//   norm1 -> qkv -> (rope) -> attention -> out -> [tp sum] -> + input -> norm2 -> up -> act -> down
//   -> [tp sum] -> +
// Tensor parallelism splits heads and the MLP's width: qkv and up by rows, out and down by columns
// (Shoeybi et al. 2019, s. 3); norms and residuals are whole on every rank. With sequence
// parallelism they are split by rows: a sum becomes a reduce-scatter, and qkv and up read what an
// all-gather puts together (Korthikanti et al. 2022, s. 4.2.2).
#include "sim/program/blocks/layer_ops.h"

namespace foretrain {
namespace {

// out = a + b + bias: the bias of a row-parallel linear is added once, after the sum over ranks.
void Residual(Layer& layer, const char* name, std::int16_t a, std::int16_t branch,
              std::int16_t bias, std::int16_t out) {
  Op& op = layer.b.Add(OpKind::kAdd, OpClass::kMemoryBound, name,
                       {In(a), In(branch), In(layer.tp > 1 ? bias : kNoSlot), Out(out)});
  op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
}

// From x to the residual behind attention.
void Attention(Layer& layer) {
  layer.Norm1();
  layer.Qkv(layer.Gathered("norm1.gather", layer.norm1));
  layer.AttentionCore();
  const std::int16_t out_weight = layer.Parameter("out.weight", kOutWeight);
  const std::int16_t out_bias = layer.Parameter("out.bias", kOutBias);
  const std::int16_t branch = layer.Sum({"attention.out", true, layer.attention_input, out_weight,
                                         layer.tp > 1 ? kNoSlot : out_bias, layer.attention_width,
                                         kOutLinear, layer.inner[kOutLinear]});
  Residual(layer, "attention.residual", layer.x, branch, out_bias, layer.residual);
}

// norm2 -> y. A tile is a part of the rows.
void Mlp(Layer& layer, std::int16_t y) {
  BlockBuilder& b = layer.b;
  layer.Norm2();
  const std::int16_t in = layer.Gathered("norm2.gather", layer.norm2);
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
  const bool in_pieces = layer.split_rows && layer.context.plan.tp_tiles > 1;
  const std::int16_t out =
      in_pieces ? kNoSlot : b.Temporary("mlp.down.out", layer.rows * layer.hidden);
  for (std::int64_t t = 0; t < layer.MlpTiles(); ++t) {
    const RowRange tile = layer.MlpTile(t);
    const std::string suffix = layer.TileSuffix(t);
    const std::int16_t up = layer.TileOf(layer.up, t, layer.up_width);
    layer.MlpUp(suffix, layer.RowsOf(in, tile, layer.hidden), layer.InnerTile(kUpLinear, t), up,
                tile.count);
    const std::int16_t activated = layer.TileOf(layer.activated, t, layer.ffn_width);
    layer.Activation(suffix, up, activated, tile.count);
    down.name = "mlp.down" + suffix;
    down.in = activated;
    down.inner = layer.InnerTile(kDownLinear, t);
    if (!in_pieces) layer.SumRows(down, tile, out);
  }
  down.name = "mlp.down";
  const std::int16_t branch = in_pieces ? layer.Sum(down) : layer.Scattered(down, out);
  Residual(layer, "mlp.residual", layer.residual, branch, down_bias, y);
}

}  // namespace

Block LayerForward(const BlockContext& context, const BlockRequest& request) {
  Layer layer(context, NameOf(request), request.kind);
  layer.MakeTensors(KeptTensors(context.plan, request.recompute), Category::kActivations,
                    Category::kWorkspace);
  Attention(layer);
  const std::int16_t y =
      layer.b.Slot("y", layer.own_rows * layer.hidden, Category::kActivations, SlotRole::kOutput);
  if (request.kind == BlockKind::kExpertLayer) {
    ExpertsForward(layer, y);
  } else {
    Mlp(layer, y);
  }
  return layer.b.Take();
}

Block LayerRecompute(const BlockContext& context, const BlockRequest& request) {
  const bool has_experts = request.kind == BlockKind::kExpertLayer;
  Layer layer(context, has_experts ? "expert_layer.recompute" : "layer.recompute", request.kind);
  layer.MakeTensors(RebuiltTensors(context.plan), Category::kRecompute, Category::kWorkspace);
  Attention(layer);
  if (has_experts) {
    ExpertsAgain(layer);
    return layer.b.Take();
  }
  layer.Norm2();
  if (!layer.whole_mlp) return layer.b.Take();
  const std::int16_t in = layer.Gathered("norm2.gather", layer.norm2);
  layer.MlpUp("", in, layer.inner[kUpLinear], layer.up, layer.rows);
  layer.Activation("", layer.up, layer.activated, layer.rows);
  layer.AdapterInner(kDownLinear, "mlp.down", layer.activated, layer.inner[kDownLinear],
                     layer.rows);
  return layer.b.Take();
}

}  // namespace foretrain
