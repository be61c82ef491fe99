#include "sim/program/blocks/parameters.h"

#include <tuple>

#include "base/checked.h"

namespace foretrain {
namespace {

// Vectors (biases and norm weights) get no weight decay, matrices do.
BlockParameter Vector(std::string name, std::int64_t elements, SplitAxis split = SplitAxis::kNone) {
  return {{{std::move(name), 1, elements}}, split, /*decays=*/false};
}

BlockParameter Weight(std::string name, std::int64_t out, std::int64_t in, SplitAxis split) {
  return {{{std::move(name), out, in}}, split, /*decays=*/true};
}

// q, k and v as three parts. Biases are split along their columns: one entry for each output row of
// their weight. Keys and values name their heads, because tp ranks beyond that number hold copies.
std::vector<ModelTensor> QkvParts(const ModelSpec& m, bool bias) {
  const std::string suffix = bias ? ".bias" : ".weight";
  std::vector<ModelTensor> parts;
  for (const auto& [name, heads, out] :
       {std::tuple{"attention.q", std::int64_t{0}, m.heads * m.head_dim},
        {"attention.k", m.kv_heads, m.kv_heads * m.head_dim},
        {"attention.v", m.kv_heads, m.kv_heads * m.ValueDim()}}) {
    parts.push_back({name + suffix, bias ? 1 : out, bias ? out : m.hidden, heads});
  }
  return parts;
}

std::vector<ModelTensor> UpParts(const ModelSpec& m, bool bias) {
  const std::string suffix = bias ? ".bias" : ".weight";
  const std::int64_t rows = bias ? 1 : m.ffn_hidden;
  const std::int64_t cols = bias ? m.ffn_hidden : m.hidden;
  if (m.IsGated()) {
    return {{"mlp.gate" + suffix, rows, cols}, {"mlp.up" + suffix, rows, cols}};
  }
  return {{"mlp.up" + suffix, rows, cols}};
}

// Norms of the inputs of attention and MLP, which most models have.
void AddPreNorms(const ModelSpec& m, std::vector<BlockParameter>& list) {
  if (!m.pre_norms) return;
  list[kNorm1Weight] = Vector("norm1.weight", m.hidden);
  if (m.HasNormBias()) list[kNorm1Bias] = Vector("norm1.bias", m.hidden);
  if (m.order == LayerOrder::kParallelOneNorm) return;
  list[kNorm2Weight] = Vector("norm2.weight", m.hidden);
  if (m.HasNormBias()) list[kNorm2Bias] = Vector("norm2.bias", m.hidden);
}

// Norms that only some models have: of q and k heads (Qwen3), and of each branch before the
// residual (Gemma).
void AddMoreNorms(const ModelSpec& m, std::vector<BlockParameter>& list) {
  if (m.qk_norm) {
    const std::int64_t q = m.qk_norm_whole ? m.heads : 1, k = m.qk_norm_whole ? m.kv_heads : 1;
    list[kQNormWeight] = Vector("attention.q_norm.weight", q * m.head_dim);
    list[kKNormWeight] = Vector("attention.k_norm.weight", k * m.head_dim);
  }
  if (!m.post_norms) return;
  list[kPostNorm1Weight] = Vector("attention.post_norm.weight", m.hidden);
  list[kPostNorm2Weight] = Vector("mlp.post_norm.weight", m.hidden);
  if (!m.HasNormBias()) return;
  list[kPostNorm1Bias] = Vector("attention.post_norm.bias", m.hidden);
  list[kPostNorm2Bias] = Vector("mlp.post_norm.bias", m.hidden);
}

// Adds the projections of latent attention in place of qkv. Only the up projections are split over
// tp; the narrow down projections are whole on every rank.
void AddLatent(const ModelSpec& m, bool own_rows, std::vector<BlockParameter>& list) {
  const std::int64_t rank = m.key_value_rank;
  if (m.query_rank > 0) {
    list[kQueryDown] = Weight("attention.q_down.weight", m.query_rank, m.hidden, SplitAxis::kNone);
    list[kQueryNorm] = Vector("attention.q_down.norm.weight", m.query_rank);
  }
  list[kQueryUp] = Weight("attention.q_up.weight", m.heads * m.head_dim,
                          m.query_rank > 0 ? m.query_rank : m.hidden, SplitAxis::kRows);
  list[kKeyDown] =
      Weight("attention.kv_down.weight", rank + m.rope_head_dim, m.hidden, SplitAxis::kNone);
  list[kKeyNorm] = Vector("attention.kv_down.norm.weight", rank);
  list[kKeyUp] = Weight("attention.kv_up.weight", m.LatentKeyWidth(), rank, SplitAxis::kRows);
  for (const LayerParameter index : {kQueryDown, kQueryNorm, kKeyDown, kKeyNorm}) {
    list[index].own_rows = own_rows;
  }
}

// Column-parallel: qkv and up, split by rows. Row-parallel: out and down, split by columns (Shoeybi
// et al. 2019, s. 3).
std::vector<BlockParameter> LayerParameters(const ModelSpec& m, const Plan& plan) {
  std::vector<BlockParameter> list(kLayerParameterCount);
  AddPreNorms(m, list);
  if (m.IsLatent()) {
    AddLatent(m, plan.sequence_parallel, list);
  } else {
    list[kQkvWeight] = {QkvParts(m, false), SplitAxis::kRows, true};
  }
  if (m.attention_sinks) list[kSinks] = Vector("attention.sinks", m.heads, SplitAxis::kCols);
  list[kOutWeight] = Weight("attention.out.weight", m.hidden, m.AttentionWidth(), SplitAxis::kCols);
  list[kUpWeight] = {UpParts(m, false), SplitAxis::kRows, true};
  list[kDownWeight] = Weight("mlp.down.weight", m.hidden, m.ffn_hidden, SplitAxis::kCols);
  AddMoreNorms(m, list);
  if (m.attention_bias && !m.IsLatent())
    list[kQkvBias] = {QkvParts(m, true), SplitAxis::kCols, false};
  if (m.output_bias) list[kOutBias] = Vector("attention.out.bias", m.hidden);
  if (m.mlp_bias) {
    list[kUpBias] = {UpParts(m, true), SplitAxis::kCols, false};
    list[kDownBias] = Vector("mlp.down.bias", m.hidden);
  }
  return list;
}

// Cross-attention of a decoder layer, split over tp by heads as attention is.
void AddCrossAttention(const ModelSpec& m, BlockKind kind, std::vector<BlockParameter>& list) {
  const std::int64_t keys = m.kv_heads * m.head_dim;
  list[kCrossNormWeight] = Vector("cross.norm.weight", m.hidden);
  list[kCrossQueryWeight] =
      Weight("cross.q.weight", m.heads * m.head_dim, m.hidden, SplitAxis::kRows);
  list[kCrossKeysWeight] = {{{"cross.k.weight", keys, m.hidden, m.kv_heads},
                             {"cross.v.weight", keys, m.hidden, m.kv_heads}},
                            SplitAxis::kRows,
                            true};
  list[kCrossOutWeight] =
      Weight("cross.out.weight", m.hidden, m.heads * m.head_dim, SplitAxis::kCols);
  if (kind == BlockKind::kFirstDecoderLayer) {
    list[kEncoderNormWeight] = Vector("encoder.norm.weight", m.hidden);
  }
}

// Appends one expert's MLP to `up` and `down`. `prefix` begins the tensors' names, for example
// "experts.3."; `whole`: each expert lies on one tp rank, so that its weights are not split.
void AddExpert(const ModelSpec& m, const std::string& prefix, std::int64_t width, bool whole,
               BlockParameter& up, BlockParameter& down) {
  if (m.IsGated()) up.parts.push_back({prefix + "mlp.gate.weight", width, m.hidden});
  up.parts.push_back({prefix + "mlp.up.weight", width, m.hidden});
  down.parts.push_back({prefix + "mlp.down.weight", m.hidden, width});
  up.split = whole ? SplitAxis::kNone : SplitAxis::kRows;
  down.split = whole ? SplitAxis::kNone : SplitAxis::kCols;
  up.decays = down.decays = true;
}

// Appends one expert's biases. The down bias is whole on every tp rank; if experts are split, each
// rank adds 1 / tp of it before the sum.
void AddExpertBias(const ModelSpec& m, const std::string& prefix, bool whole, BlockParameter& up,
                   BlockParameter& down) {
  if (m.IsGated()) up.parts.push_back({prefix + "mlp.gate.bias", 1, m.expert_ffn_hidden});
  up.parts.push_back({prefix + "mlp.up.bias", 1, m.expert_ffn_hidden});
  down.parts.push_back({prefix + "mlp.down.bias", 1, m.hidden});
  up.split = whole ? SplitAxis::kNone : SplitAxis::kCols;
}

// Parameters of a layer whose MLP is a mixture of experts. up and down are those of the shared
// experts, if any.
std::vector<BlockParameter> ExpertLayerParameters(const ModelSpec& m, const Plan& plan,
                                                  int ep_rank) {
  std::vector<BlockParameter> list = LayerParameters(m, plan);
  for (const LayerParameter index : {kUpWeight, kUpBias, kDownWeight, kDownBias}) list[index] = {};
  if (m.shared_ffn_hidden > 0) {
    AddExpert(m, "shared.", m.shared_ffn_hidden, false, list[kUpWeight], list[kDownWeight]);
  }
  if (m.shared_gate) {
    // Each rank has a part of the scaled output, and so of the scores' gradients.
    list[kSharedGate] = Weight("shared.gate.weight", 1, m.hidden, SplitAxis::kNone);
    list[kSharedGate].own_rows = plan.tp > 1;
  }
  list[kRouterWeight] = Weight("router.weight", m.experts, m.hidden, SplitAxis::kNone);
  list[kRouterWeight].own_rows = plan.tp > 1;
  if (m.router_bias) {
    list[kRouterBias] = Vector("router.bias", m.experts);
    list[kRouterBias].own_rows = plan.tp > 1;
  }
  if (m.router == RouterKind::kSigmoid) {
    list[kChoiceBias] = Vector("router.choice.bias", m.experts);
    list[kChoiceBias].frozen = true;
  }
  const std::int64_t here = m.experts / plan.ep;
  for (std::int64_t e = ep_rank * here; e < (ep_rank + 1) * here; ++e) {
    const std::string prefix = "experts." + std::to_string(e) + ".";
    AddExpert(m, prefix, m.expert_ffn_hidden, plan.ExpertsSpanTp(), list[kExpertUpWeight],
              list[kExpertDownWeight]);
    if (m.expert_bias) {
      AddExpertBias(m, prefix, plan.ExpertsSpanTp(), list[kExpertUpBias], list[kExpertDownBias]);
    }
  }
  for (const LayerParameter index :
       {kExpertUpWeight, kExpertDownWeight, kExpertUpBias, kExpertDownBias}) {
    list[index].experts = plan.DealsExperts();
  }
  return list;
}

// LoRA's B [rows, rank] of each part of a weight: "attention.q.weight" gives
// "attention.q.lora_B.weight". It is split as the weight if that is column-parallel.
BlockParameter AdapterOutput(const BlockParameter& weight, std::int64_t rank) {
  constexpr std::string_view kWeight = "weight";
  BlockParameter b;
  for (const ModelTensor& part : weight.parts) {
    const std::string stem = part.name.substr(0, part.name.size() - kWeight.size());
    b.parts.push_back({stem + "lora_B.weight", part.rows, rank, part.heads});
  }
  b.split = weight.split == SplitAxis::kRows ? SplitAxis::kRows : SplitAxis::kNone;
  b.decays = true;
  return b;
}

// LoRA's A [rank, cols], one for all parts of a weight, split if the weight is row-parallel.
BlockParameter AdapterInput(const BlockParameter& weight, const char* name, std::int64_t rank) {
  BlockParameter a;
  a.parts = {{std::string(name) + ".lora_A.weight", rank, weight.parts.front().cols}};
  a.split = weight.split == SplitAxis::kCols ? SplitAxis::kCols : SplitAxis::kNone;
  a.decays = true;
  return a;
}

// The factor that is not split has a partial gradient on every tp rank, so own_rows asks for its
// all-reduce.
void AddAdapters(const ModelSpec& m, const Plan& plan, std::vector<BlockParameter>& list) {
  const std::pair<LayerParameter, const char*> linears[kAdaptedLinearCount] = {
      {kQkvWeight, "attention.qkv"},
      {kOutWeight, "attention.out"},
      {kUpWeight, m.IsGated() ? "mlp.gate_up" : "mlp.up"},
      {kDownWeight, "mlp.down"}};
  for (int i = 0; i < kAdaptedLinearCount; ++i) {
    const auto& [weight, name] = linears[i];
    BlockParameter& a = list[AdapterA(static_cast<AdaptedLinear>(i))];
    BlockParameter& b = list[AdapterB(static_cast<AdaptedLinear>(i))];
    a = AdapterInput(list[weight], name, plan.lora_rank);
    b = AdapterOutput(list[weight], plan.lora_rank);
    a.own_rows = plan.tp > 1 && a.split == SplitAxis::kNone;
    b.own_rows = plan.tp > 1 && b.split == SplitAxis::kNone;
  }
}

// Methods lora and qlora: freezes every parameter and adds trained adapters to the dense layers.
// With qlora the four adapted weights are stored in 4 bits.
std::vector<BlockParameter> WithAdapters(const ModelSpec& m, const Plan& plan, BlockKind kind,
                                         std::vector<BlockParameter> list) {
  if (!TrainsAdapters(plan)) return list;
  for (BlockParameter& parameter : list) {
    parameter.frozen = true;
    parameter.own_rows = false;
  }
  if (kind != BlockKind::kLayer) return list;
  for (const LayerParameter linear : {kQkvWeight, kOutWeight, kUpWeight, kDownWeight}) {
    list[linear].quantized = plan.QuantizesBase();
  }
  AddAdapters(m, plan, list);
  return list;
}

std::vector<BlockParameter> AllParametersOf(const ModelSpec& m, const Plan& plan, BlockKind kind,
                                            int ep_rank);

// Appends the parameters of MTP layer `depth` after the head's own and those of earlier MTP layers:
// two norms, the projection and a final norm, then a layer's list.
void AddMtp(const ModelSpec& m, const Plan& plan, int ep_rank, int depth,
            std::vector<BlockParameter>& list) {
  const std::string prefix = "ahead." + std::to_string(depth) + ".";
  const auto at = [&](int index) -> BlockParameter& {
    return list[static_cast<std::size_t>(MtpIndex(depth, index))];
  };
  list.resize(static_cast<std::size_t>(MtpIndex(depth, kMtpLayer)));
  at(kMtpTokenNorm) = Vector(prefix + "tokens.norm.weight", m.hidden);
  at(kMtpHiddenNorm) = Vector(prefix + "hidden.norm.weight", m.hidden);
  at(kMtpProjection) =
      Weight(prefix + "projection.weight", m.hidden, 2 * m.hidden, SplitAxis::kNone);
  at(kMtpFinalNorm) = Vector(prefix + "norm.weight", m.hidden);
  for (int index = kMtpTokenNorm; index <= kMtpFinalNorm; ++index) {
    at(index).own_rows = plan.sequence_parallel;
  }
  for (BlockParameter& parameter : AllParametersOf(m, plan, MtpKind(m), ep_rank)) {
    for (ModelTensor& part : parameter.parts) part.name = prefix + part.name;
    list.push_back(std::move(parameter));
  }
}

// The linear and the norm before the logits; whole on every rank, on its own rows.
void AddTransform(const ModelSpec& m, std::vector<BlockParameter>& list) {
  list[kTransformWeight] = Weight("head.transform.weight", m.hidden, m.hidden, SplitAxis::kNone);
  list[kTransformBias] = Vector("head.transform.bias", m.hidden);
  list[kTransformNormWeight] = Vector("head.transform.norm.weight", m.hidden);
  if (m.HasNormBias()) list[kTransformNormBias] = Vector("head.transform.norm.bias", m.hidden);
}

// A weight with a row for each id.
BlockParameter OfVocabulary(const char* name, const ModelSpec& m, const Plan& plan,
                            std::int64_t cols) {
  BlockParameter weight =
      Weight(name, m.vocab, cols, plan.vocab_parallel ? SplitAxis::kRows : SplitAxis::kNone);
  weight.parts.front().multiple = plan.vocab_multiple;
  return weight;
}

std::vector<BlockParameter> AllParametersOf(const ModelSpec& m, const Plan& plan, BlockKind kind,
                                            int ep_rank) {
  if (IsLayer(kind)) {
    std::vector<BlockParameter> list = kind == BlockKind::kExpertLayer
                                           ? ExpertLayerParameters(m, plan, ep_rank)
                                           : LayerParameters(m, plan);
    if (IsDecoderLayer(kind)) AddCrossAttention(m, kind, list);
    for (const LayerParameter index :
         {kNorm1Weight, kNorm1Bias, kNorm2Weight, kNorm2Bias, kOutBias, kDownBias, kPostNorm1Weight,
          kPostNorm1Bias, kPostNorm2Weight, kPostNorm2Bias}) {
      list[index].own_rows = plan.sequence_parallel;
    }
    // Every tp rank normalizes its own heads with the same weight, so the gradients are partial.
    list[kQNormWeight].own_rows = list[kKNormWeight].own_rows = plan.tp > 1;
    return list;
  }
  if (kind == BlockKind::kEmbedding) {
    std::vector<BlockParameter> list(kEmbeddingParameterCount);
    list[kTokenTable] = OfVocabulary(kTokenTableName, m, plan, m.hidden);
    if (m.positions == PositionKind::kLearned) {
      list[kPositionTable] =
          Weight("embedding.positions.weight", m.PositionRows(), m.hidden, SplitAxis::kNone);
    }
    if (m.token_types > 0) {
      list[kTokenTypes] =
          Weight("embedding.types.weight", m.token_types, m.hidden, SplitAxis::kNone);
    }
    if (m.HasEncoder()) {
      list[kEncoderRelative] = Weight("embedding.relative.encoder.weight", m.relative_buckets,
                                      m.heads, SplitAxis::kCols);
      list[kDecoderRelative] = Weight("embedding.relative.decoder.weight", m.relative_buckets,
                                      m.heads, SplitAxis::kCols);
    }
    if (m.embedding_norm) {
      list[kEmbeddingNormWeight] = Vector("embedding.norm.weight", m.hidden);
      if (m.HasNormBias()) list[kEmbeddingNormBias] = Vector("embedding.norm.bias", m.hidden);
    }
    list[kEmbeddingNormWeight].own_rows = list[kEmbeddingNormBias].own_rows =
        list[kTokenTypes].own_rows = plan.sequence_parallel;
    return list;
  }
  std::vector<BlockParameter> list(kHeadParameterCount);
  list[kFinalNormWeight] = Vector("head.norm.weight", m.hidden);
  if (m.HasNormBias()) list[kFinalNormBias] = Vector("head.norm.bias", m.hidden);
  list[kHeadWeight] =
      OfVocabulary(m.tied_embeddings ? kTokenTableName : "head.weight", m, plan, m.hidden);
  if (m.head_bias) {
    list[kHeadBias] = OfVocabulary("head.bias", m, plan, 1);
    list[kHeadBias].decays = false;
  }
  if (m.head_transform) AddTransform(m, list);
  for (const HeadParameter index : {kFinalNormWeight, kFinalNormBias, kTransformWeight,
                                    kTransformBias, kTransformNormWeight, kTransformNormBias}) {
    list[index].own_rows = plan.sequence_parallel;
  }
  for (int depth = 0; depth < m.predict_ahead; ++depth) AddMtp(m, plan, ep_rank, depth, list);
  if (TiedCopyOf(m) == kMtpTable)
    list[kMtpTable] = OfVocabulary(kTokenTableName, m, plan, m.hidden);
  return list;
}

}  // namespace

std::vector<BlockParameter> ParametersOf(const ModelSpec& m, const Plan& plan, BlockKind kind,
                                         int ep_rank) {
  return WithAdapters(m, plan, kind, AllParametersOf(m, plan, kind, ep_rank));
}

std::int64_t RowsOfPiece(const ModelTensor& tensor, int ranks) {
  return CeilDiv(CeilDiv(tensor.rows, ranks), tensor.multiple) * tensor.multiple;
}

std::int64_t ElementsOf(const ModelTensor& tensor, SplitAxis split, int tp) {
  const int ranks = tp / tensor.Copies(tp);
  if (split == SplitAxis::kRows) return RowsOfPiece(tensor, ranks) * tensor.cols;
  return RowsOfPiece(tensor, 1) * tensor.cols / (split == SplitAxis::kNone ? 1 : ranks);
}

std::int64_t VocabRows(const ModelSpec& model, const Plan& plan) {
  ModelTensor table;
  table.rows = model.vocab, table.multiple = plan.vocab_multiple;
  return RowsOfPiece(table, plan.vocab_parallel ? plan.tp : 1);
}

std::int64_t ElementsOf(const BlockParameter& parameter, int tp) {
  std::int64_t sum = 0;
  for (const ModelTensor& part : parameter.parts) sum += ElementsOf(part, parameter.split, tp);
  return sum;
}

}  // namespace foretrain
