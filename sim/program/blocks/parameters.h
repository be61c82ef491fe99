// Lists the parameters of each kind of block, in the order in which its ops refer to them. Their
// placement in memory is in sim/program/lower/layout/stage.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// Kinds of block. kExpertLayer: a layer whose MLP is a mixture of experts. In an encoder-decoder,
// kLayer is one of the encoder; kDecoderLayer has cross-attention, and kFirstDecoderLayer begins
// with the norm of the encoder's output.
enum class BlockKind : std::uint8_t {
  kEmbedding,
  kLayer,
  kHead,
  kExpertLayer,
  kDecoderLayer,
  kFirstDecoderLayer
};
inline constexpr std::size_t kBlockKindCount = 6;

constexpr bool IsLayer(BlockKind kind) {
  return kind != BlockKind::kEmbedding && kind != BlockKind::kHead;
}
constexpr bool IsDecoderLayer(BlockKind kind) {
  return kind == BlockKind::kDecoderLayer || kind == BlockKind::kFirstDecoderLayer;
}

// Kind of layer `layer`, counted from 0 over both stacks.
inline BlockKind KindOfLayer(const ModelSpec& model, std::int64_t layer) {
  if (model.HasEncoder() && layer >= model.encoder_layers) {
    return layer == model.encoder_layers ? BlockKind::kFirstDecoderLayer : BlockKind::kDecoderLayer;
  }
  return model.HasExperts(layer) ? BlockKind::kExpertLayer : BlockKind::kLayer;
}

// Kinds of layer that the model has, and how many layers are of each.
struct LayerCount {
  BlockKind kind = BlockKind::kLayer;
  std::int64_t layers = 0;
};
std::vector<LayerCount> LayerCounts(const ModelSpec& model);

// How tensor parallelism splits a weight [out, in]. kRows: a column-parallel linear or a table.
// kCols: a row-parallel linear, or a vector, which is one row. kNone: whole on every rank. If tp
// does not divide the vocabulary, its rows are padded so that every rank has the same number. The
// padding has no part in the model: it stays 0.
enum class SplitAxis : std::uint8_t { kNone, kRows, kCols };

// A tensor of the model. A weight is [rows, cols] = [out, in]; a vector is [1, cols].
struct ModelTensor {
  std::string name;  // unique in its block: "attention.q.weight"
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  // Max number of equal pieces: the heads of keys or of values. If tp is larger, several ranks hold
  // the same piece. 0: as many pieces as ranks.
  std::int64_t heads = 0;
  std::int64_t multiple = 1;  // a rank's rows are padded to a multiple of it: of the vocabulary

  // Number of ranks, of `tp`, that hold the same piece.
  int Copies(int tp) const { return heads > 0 && heads < tp ? static_cast<int>(tp / heads) : 1; }
};

// One parameter as ops see it: consecutive tensors (q, k, v; gate, up). `parts` is empty if the
// model has no such parameter.
struct BlockParameter {
  std::vector<ModelTensor> parts;
  SplitAxis split = SplitAxis::kNone;
  bool decays = false;
  // Whole on every tensor-parallel rank, each of which computes a part of its gradient. The parts
  // are all-reduced over tp before the update. Examples: parameters that work on a rank's own rows
  // under sequence parallelism, and the router, whose gradient comes from a rank's parts of the
  // experts.
  bool own_rows = false;
  bool experts = false;  // an expert's, distributed over ranks (Plan::DealsExperts)
  bool frozen = false;   // not trained by gradients: no gradient, no moments
  // Stored in 4 bits (base/numeric/nf4.h) and dequantized before each use.
  bool quantized = false;
};

enum EmbeddingParameter : int {
  kTokenTable,
  kPositionTable,
  kEmbeddingNormWeight,
  kEmbeddingNormBias,
  kTokenTypes,       // [types, hidden]
  kEncoderRelative,  // biases [buckets, heads] of a stack's distances
  kDecoderRelative,
  kEmbeddingParameterCount
};
enum LayerParameter : int {
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kQNormWeight,  // one weight for all heads
  kKNormWeight,
  kPostNorm1Weight,  // norm of the attention branch; kPostNorm2*: of the MLP branch
  kPostNorm1Bias,
  kPostNorm2Weight,
  kPostNorm2Bias,
  // Expert layers only; there kUp* and kDown* are the shared experts'. The weights of all experts
  // are consecutive.
  kRouterWeight,
  kExpertUpWeight,
  kExpertDownWeight,
  kRouterBias,
  kChoiceBias,  // sigmoid router: added for the top-k choice only, not trained
  kExpertUpBias,
  kExpertDownBias,
  kSharedGate,  // [1, hidden]: gives each row's score, which scales the shared output
  // Latent attention, in place of qkv. Queries: down projection and norm (absent if query_rank is
  // 0), and up projection to heads. Keys and values: one down projection, which also makes the
  // rotated key, a norm and an up projection. Down projections are whole on every tp rank.
  kQueryDown,
  kQueryNorm,
  kQueryUp,
  kKeyDown,
  kKeyNorm,
  kKeyUp,
  kSinks,
  // Decoder layers of an encoder-decoder: cross-attention, whose queries are the decoder's and
  // whose keys and values the encoder's. kEncoderNormWeight is the first decoder layer's alone.
  kCrossNormWeight,
  kCrossQueryWeight,
  kCrossKeysWeight,  // [k | v]
  kCrossOutWeight,
  kEncoderNormWeight,
  // Low-rank adapters of the four linears, in the order of AdaptedLinear.
  kQkvA,
  kQkvB,
  kOutA,
  kOutB,
  kUpA,
  kUpB,
  kDownA,
  kDownB,
  kLayerParameterCount,
};
// Linears that LoRA adapts: y = W x + b + alpha / r * B (A x) with A [r, in] and B [out, r]; W
// [out, in] and b are frozen (Hu et al. 2022). q, k and v share one A, and so do gate and up.
// Tensor parallelism splits B of a column-parallel linear by rows and A of a row-parallel one by
// columns. The other factor is whole on every rank, with a partial gradient.
enum AdaptedLinear : int { kQkvLinear, kOutLinear, kUpLinear, kDownLinear, kAdaptedLinearCount };
constexpr LayerParameter AdapterA(AdaptedLinear linear) {
  return static_cast<LayerParameter>(kQkvA + 2 * linear);
}
constexpr LayerParameter AdapterB(AdaptedLinear linear) {
  return static_cast<LayerParameter>(kQkvB + 2 * linear);
}
inline bool TrainsAdapters(const Plan& plan) { return plan.HasAdapters(); }
// Scale alpha / r of an adapter's output.
inline float LoraScale(const Plan& plan) {
  return static_cast<float>(plan.lora_alpha / plan.lora_rank);
}

// Parameters of the head. The bias of the logits is [vocabulary, 1], so that it is split as the
// weight is.
enum HeadParameter : int {
  kFinalNormWeight,
  kFinalNormBias,
  kHeadWeight,
  kHeadBias,
  // Linear [hidden, hidden] and norm before the logits (ModelSpec::head_transform).
  kTransformWeight,
  kTransformBias,
  kTransformNormWeight,
  kTransformNormBias,
  kHeadParameterCount,
  // MTP layers. kMtpTable: their token table, absent if the head's weight is tied to it; all MTP
  // layers share it. Then for the first layer: norms of the next token's vector and of the hidden
  // state, the projection that joins both, a final norm, and a layer's LayerParameters. The head's
  // weight serves MTP too.
  kMtpTable = kHeadParameterCount,
  kMtpTokenNorm,
  kMtpHiddenNorm,
  kMtpProjection,
  kMtpFinalNorm,
  kMtpLayer,
};

// Number of head parameter `index`, given for the first MTP layer, in MTP layer `depth`, which
// predicts `depth` + 2 tokens ahead.
constexpr int MtpIndex(int depth, int index) {
  return index + depth * (kMtpLayer - kMtpTokenNorm + kLayerParameterCount);
}

// Head parameter that is the token table or a tied copy of it; -1 if none.
inline int TiedCopyOf(const ModelSpec& model) {
  if (model.tied_embeddings) return kHeadWeight;
  return model.predict_ahead > 0 ? int{kMtpTable} : -1;
}
inline bool HasTiedCopy(const ModelSpec& model) { return TiedCopyOf(model) >= 0; }
// Kind of the MTP layers: that of the model's last layer.
inline BlockKind MtpKind(const ModelSpec& model) {
  return model.HasExperts(model.layers - 1) ? BlockKind::kExpertLayer : BlockKind::kLayer;
}

// Parameters of a block, one entry for each enumerator above; the head's list ends where the
// model's MTP layers do. With tied embeddings the head's weight is listed under the token table's
// name, and lowering decides whether it is one tensor or a tied copy. `ep_rank`: position in the
// kEp group, which selects the experts' names; sizes do not depend on it.
std::vector<BlockParameter> ParametersOf(const ModelSpec& model, const Plan& plan, BlockKind kind,
                                         int ep_rank = 0);

// Rows of one of `ranks` pieces of a tensor that is split by rows, padding included.
std::int64_t RowsOfPiece(const ModelTensor& tensor, int ranks);

// Elements of one part, or of a whole parameter, on one of `tp` ranks, padding included.
std::int64_t ElementsOf(const ModelTensor& tensor, SplitAxis split, int tp);
std::int64_t ElementsOf(const BlockParameter& parameter, int tp);

// Parameters of the whole model, adapters included, and how many of them the plan trains. A tied
// table counts once. O(layers).
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t trained = 0;
};
ParameterCounts CountParameters(const ModelSpec& model, const Plan& plan);

// Vocabulary rows on one rank, padding included.
std::int64_t VocabRows(const ModelSpec& model, const Plan& plan);

inline constexpr const char* kTokenTableName = "embedding.tokens.weight";

}  // namespace foretrain
