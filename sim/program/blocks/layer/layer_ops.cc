// Ops that forward and backward of a layer share, and the tensors that each kind of recomputation
// keeps. Longer than 400 lines: all of them work on the tensors of one Layer.
#include "sim/program/blocks/layer/layer_ops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

constexpr LayerTensors kAllTensors =
    ((LayerTensors{1} << kLayerTensorCount) - 1) & ~Only(kTurnedKey);
constexpr LayerTensors kMlpTensors =
    Only(kUp) | Only(kActivated) | Only(kUpInner) | Only(kDownInner);
constexpr LayerTensors kSharedTensors =
    Only(kUp) | Only(kActivated) | Only(kSharedOut) | Only(kSharedScores);

// Tensors that a module drops in a layer of this kind. Standard attention's backward reads its
// weights but not its output, which the output projection keeps.
LayerTensors TensorsOf(RecomputeModule module, const Plan& plan, BlockKind kind) {
  const bool dense = kind != BlockKind::kExpertLayer;
  switch (module) {
    case RecomputeModule::kCoreAttention:
      return plan.attention == AttentionAlgorithm::kStandard
                 ? Only(kScoreWeights) | Only(kScoreMask) | Only(kScoreDropped)
                 : Only(kAttention) | Only(kLse) | Only(kAttentionInput) | Only(kCrossAttention) |
                       Only(kCrossLse);
    case RecomputeModule::kNorm:
      return Only(kNorm1) | Only(kNorm2) | Only(kQueryNormed) | Only(kKeyNormed) |
             Only(kCrossNormed);
    case RecomputeModule::kActivation:
      return Only(kActivated);
    case RecomputeModule::kMlp:
      // The down projection's inner tensor is small, and tiles alone cannot keep it.
      if (!dense) return 0;
      return plan.mlp_tiles > 1 ? kMlpTensors : kMlpTensors & ~Only(kDownInner);
    case RecomputeModule::kQkv:
      return Only(kQkv) | Only(kQkvInner) | Only(kQkKept) | Only(kQkRstd);
    case RecomputeModule::kLatentUp:
      return Only(kQkv);
    case RecomputeModule::kExpertActivation:
      return Only(kExpertActivated);
    case RecomputeModule::kExperts:
      if (dense) return 0;
      return Only(kDispatched) | Only(kExpertUp) | Only(kExpertActivated) | Only(kExpertOut) |
             kSharedTensors;
    case RecomputeModule::kSharedExperts:
      return dense ? 0 : kSharedTensors;
  }
  FT_CHECK(false);
  return 0;
}

// Drops attention's output if nothing reads it: the output projection reads a cast of it, standard
// attention's backward does not need it, and there is no adapter.
LayerTensors WithoutUnread(const Plan& plan, LayerTensors tensors) {
  const bool unread = plan.attention == AttentionAlgorithm::kStandard && plan.QuantizesProducts() &&
                      !TrainsAdapters(plan);
  return unread ? tensors & ~Only(kAttention) : tensors;
}

}  // namespace

// Selective recomputation keeps all tensors but those of the plan's modules.
LayerTensors KeptTensors(const Plan& plan, RecomputeKind recompute, BlockKind kind) {
  if (recompute == RecomputeKind::kFull) return 0;
  LayerTensors kept = WithoutUnread(plan, kAllTensors);
  if (recompute == RecomputeKind::kNone) return kept;
  const RecomputeModules modules = ModulesOf(plan);
  for (unsigned i = 0; modules >> i != 0; ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if ((modules & BitOf(module)) != 0) kept &= ~TensorsOf(module, plan, kind);
  }
  const bool turned = (modules & BitOf(RecomputeModule::kLatentUp)) != 0;
  return turned ? kept | Only(kTurnedKey) : kept;
}

// With tiles the backward rebuilds the MLP's inner tensors tile by tile.
LayerTensors RebuiltTensors(const Plan& plan) {
  const LayerTensors all = WithoutUnread(plan, kAllTensors);
  return plan.mlp_tiles > 1 ? all & ~kMlpTensors : all;
}

// Rounding down at both ends makes the pieces adjoin and their sizes differ by at most one.
RowRange PieceOf(std::int64_t rows, std::int64_t pieces, std::int64_t piece) {
  const std::int64_t first = rows * piece / pieces;
  return {first, rows * (piece + 1) / pieces - first};
}

// Widths are those of one tensor-parallel rank. In an expert layer, up and ffn are the shared
// experts'.
Layer::Layer(const BlockContext& c, std::string name, BlockKind of_kind)
    : b(std::move(name), LayerFormats(c.plan)),
      context(c),
      shared(c, b),
      rows(c.Rows()),
      own_rows(c.OwnRows()),
      hidden(c.model.hidden),
      qkv_width(c.model.QkvWidthOn(c.plan.tp)),
      attention_width(c.model.AttentionWidth() / c.plan.tp),
      up_width(c.model.MlpUpWidth() / c.plan.tp),
      ffn_width(c.model.ffn_hidden / c.plan.tp),
      tp(c.plan.tp),
      rms(c.model.norm == NormKind::kRmsNorm),
      split_rows(c.plan.sequence_parallel),
      quantizes(c.plan.QuantizesProducts()),
      kind(of_kind),
      experts(c),
      lora_rank(TrainsAdapters(c.plan) ? c.plan.lora_rank : 0) {
  inner.fill(kNoSlot);
  if (kind != BlockKind::kExpertLayer) return;
  up_width = c.model.SharedUpWidth() / c.plan.tp;
  ffn_width = c.model.shared_ffn_hidden / c.plan.tp;
  const int split = c.plan.ExpertsSpanTp() ? 1 : c.plan.tp;
  experts.up_width = c.model.ExpertUpWidth() / split;
  experts.ffn_width = c.model.expert_ffn_hidden / split;
}

// All passes declare their slots here. A saved tensor is known by its LayerTensor, so forward and
// backward agree on it.
void Layer::MakeTensors(LayerTensors saved, Category category, Category otherwise) {
  whole_mlp = MlpTiles() == 1 || Holds(saved, kUp);
  const TensorMaker make = [&](NumberFormat format, const char* name, std::int64_t elements,
                               LayerTensor index) {
    return Holds(saved, index) ? b.SlotIn(format, name, elements, category, SlotRole::kSaved, index)
                               : b.SlotIn(format, name, elements, otherwise, SlotRole::kTemporary);
  };
  MakeAttentionTensors(make, otherwise);
  if (SharesSequence()) {
    shared.Bind({qkv, attention, lse},
                Holds(saved, kAttention) ? std::optional(category) : std::nullopt, otherwise);
  }
  MakeResidualTensors(make, otherwise);
  MakeLatentTensors(make);
  if (Holds(saved, kTurnedKey)) {
    turned_key = make(b.formats().activations, "turned_key.own",
                      own_rows * context.model.rope_head_dim, kTurnedKey);
  }
  MakeMlpTensors(make);
  if (kind == BlockKind::kExpertLayer) MakeExpertTensors(make);
  if (IsDecoderLayer(kind)) MakeCrossTensors(make);
}

// Input, norm1, and attention up to its output.
void Layer::MakeAttentionTensors(const TensorMaker& make, Category otherwise) {
  const NumberFormat activation = b.formats().activations, exact = NumberFormat::kFp32;
  stream = b.Slot("x", BoundaryElements(context.model, context.plan), Category::kActivations,
                  SlotRole::kInput);
  x = StackRows("x.rows", stream);
  const bool normed = context.model.pre_norms;
  norm1_wide = b.Slot("norm1.wide", quantizes && normed ? own_rows * hidden : 0, otherwise,
                      SlotRole::kTemporary);
  norm1 = normed || quantizes ? make(OfProducts(), "norm1", own_rows * hidden, kNorm1) : x;
  mean1 = make(exact, "mean1", rms || !normed ? 0 : own_rows, kMean1);
  rstd1 = make(exact, "rstd1", normed ? own_rows : 0, kRstd1);
  qkv = make(activation, "qkv", rows * qkv_width, kQkv);
  attention = make(activation, "attention", rows * attention_width, kAttention);
  attention_input =
      !quantizes ? attention
                 : make(OfProducts(), "attention.input", rows * attention_width, kAttentionInput);
  const bool has_lse = context.plan.attention == AttentionAlgorithm::kFlash;
  lse = make(exact, "lse", has_lse ? rows * (context.model.heads / tp) : 0, kLse);
  MakeScoreTensors(make);
  MakeDropoutTensors(make);
}

// Head norms, the residual stream and norm2; post-norms if the model has them.
void Layer::MakeResidualTensors(const TensorMaker& make, Category otherwise) {
  const NumberFormat activation = b.formats().activations, exact = NumberFormat::kFp32;
  const std::int64_t mean = rms ? 0 : own_rows;
  const std::int64_t heads = context.model.heads / tp + context.model.KvHeadsOn(tp);
  const std::int64_t norms = context.model.qk_norm_whole ? 2 : heads;
  qk_kept = make(activation, "qk.kept", NormsHeads() ? rows * heads * context.model.head_dim : 0,
                 kQkKept);
  qk_rstd = make(exact, "qk.rstd", NormsHeads() ? rows * norms : 0, kQkRstd);
  if (!IsParallel()) residual = make(activation, "residual", own_rows * hidden, kResidual);
  if (HasOneNorm()) {
    norm2 = norm1;
  } else {
    const bool narrows = quantizes && kind == BlockKind::kLayer, normed = context.model.pre_norms;
    norm2_wide = b.Slot("norm2.wide", narrows && normed ? own_rows * hidden : 0, otherwise,
                        SlotRole::kTemporary);
    norm2 = !normed && !narrows
                ? residual
                : make(narrows ? OfProducts() : activation, "norm2", own_rows * hidden, kNorm2);
    mean2 = make(exact, "mean2", normed ? mean : 0, kMean2);
    rstd2 = make(exact, "rstd2", normed ? own_rows : 0, kRstd2);
  }
  if (!context.model.post_norms) return;
  const std::int64_t all = own_rows * hidden;
  post1 = {make(activation, "branch1", all, kBranch1), make(exact, "post1.mean", mean, kPostMean1),
           make(exact, "post1.rstd", own_rows, kPostRstd1)};
  post2 = {make(activation, "branch2", all, kBranch2), make(exact, "post2.mean", mean, kPostMean2),
           make(exact, "post2.rstd", own_rows, kPostRstd2)};
}

// Inner tensors of the MLP, of all rows or of the longest tile, and those of the adapters.
void Layer::MakeMlpTensors(const TensorMaker& make) {
  const NumberFormat activation = b.formats().activations;
  std::int64_t mlp_rows = whole_mlp ? rows : 0;
  for (std::int64_t t = 0; !whole_mlp && t < MlpTiles(); ++t) {
    mlp_rows = std::max(mlp_rows, MlpTile(t).count);
  }
  up = make(activation, "up", mlp_rows * up_width, kUp);
  activated = make(OfProducts(), "activated", mlp_rows * ffn_width, kActivated);
  if (whole_mlp && MlpTiles() > 1 && kind == BlockKind::kLayer) {
    std::vector<std::int64_t> firsts;
    for (std::int64_t t = 0; t < MlpTiles(); ++t) firsts.push_back(MlpTile(t).first * ffn_width);
    b.CutAt(activated, std::move(firsts));
  }
  inner[kQkvLinear] = make(activation, "qkv.inner", rows * lora_rank, kQkvInner);
  inner[kOutLinear] = make(activation, "out.inner", rows * lora_rank, kOutInner);
  inner[kUpLinear] = make(activation, "up.inner", mlp_rows * lora_rank, kUpInner);
  inner[kDownLinear] = make(activation, "down.inner", mlp_rows * lora_rank, kDownInner);
}

// Gradients have the format in which micro-batches are summed; frozen parameters have none.
std::int16_t Layer::ParameterSlot(const char* name, LayerParameter index, Category category,
                                  SlotRole role) {
  if (parameters.empty()) parameters = ParametersOf(context.model, context.plan, kind);
  const BlockParameter& parameter = parameters[static_cast<std::size_t>(index)];
  const bool gradient = role == SlotRole::kGradient;
  if (gradient && parameter.frozen) return kNoSlot;
  if (parameter.quantized) {
    return b.PackedSlot(name, PackedTensorsOf(parameter, tp), category, role, index);
  }
  return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                  ElementsOf(parameter, tp), category, role, index);
}

std::int16_t Layer::RowsOf(std::int16_t tensor, RowRange range, std::int64_t width) {
  if (range.count == rows) return tensor;
  return b.View("rows." + std::to_string(range.first), tensor, range.first * width,
                range.count * width);
}

std::int16_t Layer::TileOf(std::int16_t tensor, std::int64_t tile, std::int64_t width) {
  const RowRange range = MlpTile(tile);
  return RowsOf(tensor, whole_mlp ? range : RowRange{0, range.count}, width);
}

// If only GEMMs of 8 bits read the output, it is cast at once and only the codes are saved.
void Layer::Norm(const char* name, std::int16_t weight, std::int16_t bias, const NormTensors& of) {
  const std::int16_t to = of.wide == kNoSlot ? of.out : of.wide;
  Op& op = b.Add(OpKind::kNormForward, name,
                 {In(of.in), In(weight), In(bias), Out(to), Out(of.mean), Out(of.rstd)});
  op.rms = rms;
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.shape = {.rows = own_rows, .cols = hidden};
  if (of.wide != kNoSlot) CastRows(name, of.wide, of.out);
}

void Layer::CastRows(const std::string& name, std::int16_t in, std::int16_t out) {
  // Split rows are gathered as codes, so all ranks must share one scale.
  split_rows ? b.CastTogether(name + ".cast", in, out, hidden)
             : b.Cast(name + ".cast", in, out, hidden);
}

void Layer::Norm1() {
  if (!context.model.pre_norms) {
    if (norm1 != x) CastRows("norm1", x, norm1);
    return;
  }
  const std::int16_t weight = Parameter("norm1.weight", kNorm1Weight);
  Norm("norm1", weight, Parameter("norm1.bias", kNorm1Bias), {x, norm1_wide, norm1, mean1, rstd1});
}

void Layer::Norm2() {
  if (!context.model.pre_norms) {
    if (norm2 != residual) CastRows("norm2", residual, norm2);
    return;
  }
  const std::int16_t weight = Parameter("norm2.weight", kNorm2Weight);
  Norm("norm2", weight, Parameter("norm2.bias", kNorm2Bias),
       {Norm2Input(), norm2_wide, norm2, mean2, rstd2});
}

std::int16_t Layer::NormOfBranch(const PostNorm& post, std::int16_t branch) {
  if (!context.model.post_norms) return branch;
  const bool first = post.branch == post1.branch;
  const char* const name = first ? "attention.post_norm" : "mlp.post_norm";
  const std::int16_t out = b.Temporary(std::string(name) + ".out", own_rows * hidden);
  const std::int16_t weight = first ? Parameter("post1.weight", kPostNorm1Weight)
                                    : Parameter("post2.weight", kPostNorm2Weight);
  const std::int16_t bias =
      first ? Parameter("post1.bias", kPostNorm1Bias) : Parameter("post2.bias", kPostNorm2Bias);
  Norm(name, weight, bias, {branch, kNoSlot, out, post.mean, post.rstd});
  return out;
}

OpShape Layer::AttentionShape() const {
  return {.rows = rows,
          .batch = context.plan.micro_batch,
          .sequence = context.Sequence(),
          .heads = static_cast<std::int32_t>(context.model.heads / tp),
          .kv_heads = static_cast<std::int32_t>(context.model.KvHeadsOn(tp)),
          .head_dim = static_cast<std::int32_t>(context.model.head_dim),
          .value_dim = static_cast<std::int32_t>(context.model.value_head_dim),
          .alibi_heads = static_cast<std::int32_t>(
              context.model.positions == PositionKind::kAlibi ? context.model.heads : 0),
          .cp = SharesSequence() ? context.plan.cp : 0,
          .window = context.window};
}

OpShape Layer::CoreShape() const {
  OpShape shape = AttentionShape();
  if (context.chunk == 0) return shape;
  shape.batch *= shape.sequence / context.chunk;
  shape.sequence = context.chunk;
  return shape;
}

// Under context parallelism rope runs before the exchange, while each rank still has its own
// positions. A backward that rebuilds qkv may have gathered norm1 before.
void Layer::Qkv() {
  const std::int16_t out = SharesSequence() ? shared.Projection() : qkv;
  if (context.model.IsLatent()) {
    LatentQkv(out);
    if (SharesSequence()) shared.Exchange(out);
    return;
  }
  if (whole_norm1 == kNoSlot) whole_norm1 = Gathered("norm1.gather", norm1);
  const std::int16_t in = whole_norm1;
  const std::int16_t weight = Parameter("qkv.weight", kQkvWeight);
  const std::int16_t bias = Parameter("qkv.bias", kQkvBias);
  b.Linear("attention.qkv", in, weight, bias, out, rows, qkv_width, hidden);
  AdapterForward(kQkvLinear, "attention.qkv", in, inner[kQkvLinear], out, rows);
  HeadNorms(out);
  Rope("attention.rope", out, /*inverse=*/false);
  if (SharesSequence()) shared.Exchange(out);
}

// In place, before rope. qk_kept holds the heads before their norm, which the backward needs.
void Layer::HeadNorms(std::int16_t qkv_of_rows) {
  if (!NormsHeads()) return;
  const std::int16_t q_weight = Parameter("q_norm.weight", kQNormWeight);
  const std::int16_t k_weight = Parameter("k_norm.weight", kKNormWeight);
  Op& op = b.Add(OpKind::kHeadNormForward, "attention.qk_norm",
                 {InOut(qkv_of_rows), In(q_weight), In(k_weight), Out(qk_kept), Out(qk_rstd)});
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.whole = context.model.qk_norm_whole;
  op.shape = AttentionShape();
  op.shape.window = 0;
  op.shape.cp = 0;
}

void Layer::MlpUp(const std::string& suffix, std::int16_t in, std::int16_t inner_out,
                  std::int16_t out, std::int64_t count) {
  const std::int16_t weight = Parameter("up.weight", kUpWeight);
  b.Linear("mlp.up" + suffix, in, weight, Parameter("up.bias", kUpBias), out, count, up_width,
           hidden);
  AdapterForward(kUpLinear, "mlp.up" + suffix, in, inner_out, out, count);
}

// SwiGLU reads gate and up as one tensor of twice the width; GELU reads up alone.
void Layer::Activation(const std::string& suffix, std::int16_t in, std::int16_t out,
                       std::int64_t count) {
  const bool swiglu = context.model.IsGated();
  const std::string name = (swiglu ? "mlp.swiglu" : "mlp.gelu") + suffix;
  const std::int16_t to =
      quantizes ? b.Temporary("activated.wide" + suffix, count * ffn_width) : out;
  Op& op = b.Add(swiglu ? OpKind::kSwigluForward : OpKind::kGeluForward, name, {In(in), Out(to)});
  op.activation = ActivationOf(context.model.mlp);
  op.shape = {.rows = count, .cols = ffn_width};
  if (quantizes) b.Cast(name + ".cast", to, out, ffn_width);
}

std::int16_t Layer::Gathered(const std::string& name, std::int16_t own) {
  return split_rows ? b.TpGathered(name, own, rows * hidden) : own;
}

void Layer::Product(const SummedGemm& gemm, const std::string& suffix, RowRange range, RowRange all,
                    std::int16_t out) {
  if (gemm.parallel != nullptr) {
    OneProduct(*gemm.parallel, gemm.parallel->name + suffix, all, out, /*adds=*/false);
  }
  OneProduct(gemm, gemm.name + suffix, range, out,
             gemm.parallel != nullptr || gemm.onto != kNoSlot);
}

// The adapter's GEMMs come before the sum over ranks, so that one collective covers both.
void Layer::OneProduct(const SummedGemm& gemm, const std::string& name, RowRange range,
                       std::int16_t out, bool adds) {
  const std::int16_t in = RowsOf(gemm.in, range, gemm.width);
  const std::int16_t of_adapter =
      gemm.inner == kNoSlot ? kNoSlot : RowsOf(gemm.inner, range, lora_rank);
  if (gemm.forward) {
    b.Linear(name, in, gemm.weight, gemm.bias, out, range.count, hidden, gemm.width, adds);
    AdapterForward(gemm.linear, name, in, of_adapter, out, range.count);
  } else {
    b.LinearInputGradient(name, in, gemm.weight, out, range.count, gemm.width, hidden, adds);
    AdapterInputGradient(gemm.linear, name, in, of_adapter, out, range.count);
  }
}

// All-reduce in tp_tiles pieces: the sum of one piece overlaps with the GEMM of the next.
void Layer::SumRows(const SummedGemm& gemm, RowRange range, std::int16_t out) {
  const bool sums = tp > 1 && !split_rows && gemm.sums;
  const std::int64_t pieces = sums ? context.plan.tp_tiles : 1;
  for (std::int64_t p = 0; p < pieces; ++p) {
    const RowRange from = PieceOf(range.count, pieces, p);
    if (from.count == 0) continue;
    const RowRange piece{range.first + from.first, from.count};
    const std::string suffix = pieces > 1 ? "." + std::to_string(p) : "";
    const std::int16_t to = RowsOf(out, piece, hidden);
    Product(gemm, suffix, from, piece, to);
    if (sums) {
      b.TpAllReduce(gemm.name + ".sum" + suffix, to, piece.count * hidden);
    }
  }
}

// Reduce-scatter with sequence parallelism, else an all-reduce in place; nothing with tp 1.
std::int16_t Layer::Summed(const std::string& name, std::int16_t whole) {
  if (split_rows) return Scattered({.name = name}, whole);
  if (tp > 1) b.TpAllReduce(name + ".sum", whole, rows * hidden);
  return whole;
}

// One reduce-scatter of all rows; nothing if rows are not split.
std::int16_t Layer::Scattered(const SummedGemm& gemm, std::int16_t out) {
  if (!split_rows) return out;
  const std::int16_t own =
      gemm.to != kNoSlot ? gemm.to : b.Temporary(gemm.name + ".own", own_rows * hidden);
  b.TpReduceScatter(gemm.name + ".sum", out, own, rows * hidden);
  return own;
}

// Reduce-scatter in pieces. A piece holds the same part of every rank's own rows, one rank after
// the other. Its reduce-scatter then leaves consecutive rows on each rank. Costs tp small GEMMs a
// piece.
std::int16_t Layer::ScatteredPieces(const SummedGemm& gemm) {
  const std::int64_t pieces = context.plan.tp_tiles;
  const std::int16_t own =
      gemm.to != kNoSlot ? gemm.to : b.Temporary(gemm.name + ".own", own_rows * hidden);
  for (std::int64_t p = 0; p < pieces; ++p) {
    const RowRange part = PieceOf(own_rows, pieces, p);
    if (part.count == 0) continue;
    const std::string suffix = "." + std::to_string(p);
    const std::int16_t piece = b.Temporary(gemm.name + suffix, tp * part.count * hidden);
    for (std::int64_t rank = 0; rank < tp; ++rank) {
      const RowRange from{rank * own_rows + part.first, part.count};
      Product(gemm, suffix + "." + std::to_string(rank), from, from,
              b.View("rows", piece, rank * part.count * hidden, part.count * hidden));
    }
    const std::int16_t to = b.View("rows", own, part.first * hidden, part.count * hidden);
    b.TpReduceScatter(gemm.name + ".sum" + suffix, piece, to, tp * part.count * hidden);
  }
  return own;
}

// The one place that decides how a partial GEMM output becomes a sum: in pieces, scattered, or
// all-reduced.
std::int16_t Layer::Sum(const SummedGemm& gemm) {
  if (split_rows && context.plan.tp_tiles > 1) return ScatteredPieces(gemm);
  const std::int16_t wanted = split_rows ? kNoSlot : gemm.to;
  const std::int16_t out = gemm.onto != kNoSlot ? gemm.onto
                           : wanted != kNoSlot  ? wanted
                                                : b.Temporary(gemm.name + ".out", rows * hidden);
  SumRows(gemm, {0, rows}, out);
  return Scattered(gemm, out);
}

}  // namespace foretrain
