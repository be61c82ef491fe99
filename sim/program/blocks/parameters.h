// The parameters of each kind of block, in the order in which its ops refer to them. Leaves out
// where they lie: sim/program/lower/stage.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// kExpertLayer: a layer with a mixture of experts in the place of its MLP.
enum class BlockKind : std::uint8_t { kEmbedding, kLayer, kHead, kExpertLayer };

constexpr bool IsLayer(BlockKind kind) {
  return kind == BlockKind::kLayer || kind == BlockKind::kExpertLayer;
}

// How tensor parallelism splits a weight [out, in]: rows of a column-parallel linear or of a table,
// columns of a row-parallel one, nothing of what every rank holds in full. A vector is one row.
// Rows of a vocabulary that tp does not divide are padded: each rank has room for the same number.
enum class Split : std::uint8_t { kNone, kRows, kCols };

// A tensor of the model. A weight is [rows, cols] = [out, in]; a vector is [1, cols].
struct ModelTensor {
  std::string name;  // within its block: "attention.q.weight"
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  // Equal pieces that it is split into at most, heads of keys or of values: where there are more
  // ranks, several have the same one. 0: as many as ranks.
  std::int64_t heads = 0;

  // Of `tp` ranks, those that have the same piece.
  int Copies(int tp) const { return heads > 0 && heads < tp ? static_cast<int>(tp / heads) : 1; }
};

// What an op sees as one parameter: tensors that lie one after the other (q, k, v; gate, up).
// Absent where the model has none: `parts` is empty.
struct BlockParameter {
  std::vector<ModelTensor> parts;
  Split split = Split::kNone;
  bool decays = false;
  // Whole on every tensor-parallel rank, each of which makes a part of its gradient, so that they
  // are summed over tp before the update. With sequence parallelism, what works on rows of the
  // residual: that of a rank's own rows. With experts, the router: that of a rank's parts of the
  // experts.
  bool own_rows = false;
  bool experts = false;  // held by the ranks that experts are dealt to so (Plan::DealsExperts)
  bool frozen = false;   // no gradient trains it: no gradient, no moments
  // Kept in 4 bits, as one tensor (base/nf4.h), and made what products read before each of them.
  bool quantized = false;
};

enum EmbeddingParameter : int {
  kTokenTable,
  kPositionTable,
  kEmbeddingNormWeight,
  kEmbeddingNormBias,
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
  kQNormWeight,  // of each head, the same for all
  kKNormWeight,
  kPostNorm1Weight,  // of what attention adds, and of what the MLP adds
  kPostNorm1Bias,
  kPostNorm2Weight,
  kPostNorm2Bias,
  // Of layers with experts, where up and down are those of the shared experts. All experts' weights
  // lie one behind the other.
  kRouterWeight,
  kExpertUpWeight,
  kExpertDownWeight,
  kRouterBias,
  kChoiceBias,  // of a sigmoid router's choice alone: no gradient trains it
  kExpertUpBias,
  kExpertDownBias,
  kSharedGate,  // [1, hidden]: of the scores that shared experts' output is scaled by
  // Of latent attention, in place of qkv: queries down (where the model has a rank for them), their
  // norm, and up to heads; keys and values, with the turned key behind them, down, their norm and
  // up. What goes down is whole on every tensor-parallel rank.
  kQueryDown,
  kQueryNorm,
  kQueryUp,
  kKeyDown,
  kKeyNorm,
  kKeyUp,
  kSinks,
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
// A linear y = W x + b of a layer that method lora adapts: y += alpha / r * B (A x) with A [r, in]
// and B [out, r], of which W [out, in] and all else stay as they are (Hu et al. 2022). q, k and v
// are one linear with one A and so are gate and up. Tensor parallelism cuts B of a column-parallel
// linear by rows and A of a row-parallel one by columns; the other is whole on every rank, each of
// which makes a part of its gradient.
enum AdaptedLinear : int { kQkvLinear, kOutLinear, kUpLinear, kDownLinear, kAdaptedLinearCount };
constexpr LayerParameter AdapterA(AdaptedLinear linear) {
  return static_cast<LayerParameter>(kQkvA + 2 * linear);
}
constexpr LayerParameter AdapterB(AdaptedLinear linear) {
  return static_cast<LayerParameter>(kQkvB + 2 * linear);
}
inline bool TrainsAdapters(const Plan& plan) { return plan.HasAdapters(); }
// alpha / r
inline float LoraScale(const Plan& plan) {
  return static_cast<float>(plan.lora_alpha / plan.lora_rank);
}

// The bias of logits is [vocabulary, 1], so that it is split as the weight is.
enum HeadParameter : int {
  kFinalNormWeight,
  kFinalNormBias,
  kHeadWeight,
  kHeadBias,
  kHeadParameterCount,
  // Of layers that predict tokens further ahead: the tokens' vectors, unless the head's weight is
  // them, for all; of the first, norms of the next token's vector and of what the last layer made,
  // what joins both, and a final norm; then its LayerParameters. The head's weight serves it too.
  kAheadTable = kHeadParameterCount,
  kAheadTokenNorm,
  kAheadHiddenNorm,
  kAheadProjection,
  kAheadFinalNorm,
  kAheadLayer,
};

// Of the layer that predicts `depth` + 2 tokens ahead: the number of what kAheadTokenNorm and what
// is behind it are of the first.
constexpr int AheadIndex(int depth, int index) {
  return index + depth * (kAheadLayer - kAheadTokenNorm + kLayerParameterCount);
}

// Which of the head's parameters is the token table, or a copy of it; -1: none.
inline int TwinOf(const ModelSpec& model) {
  if (model.tied_embeddings) return kHeadWeight;
  return model.predict_ahead > 0 ? int{kAheadTable} : -1;
}
inline bool HasTwin(const ModelSpec& model) { return TwinOf(model) >= 0; }
// Which layer it is that predicts ahead: of the last one's kind.
inline BlockKind AheadKind(const ModelSpec& model) {
  return model.experts > 0 ? BlockKind::kExpertLayer : BlockKind::kLayer;
}

// One entry per enumerator above, of the head up to what the model has. With tied embeddings the
// head's weight is still listed: it is the token table, under the same name, and lowering decides
// whether it is one tensor or a copy. `ep_rank`: place in the kEp group, which says whose experts
// they are; sizes are the same for all.
std::vector<BlockParameter> ParametersOf(const ModelSpec& model, const Plan& plan, BlockKind kind,
                                         int ep_rank = 0);

// Elements of one part, or of a whole parameter, on one of `tp` ranks.
std::int64_t ElementsOf(const ModelTensor& tensor, Split split, int tp);
std::int64_t ElementsOf(const BlockParameter& parameter, int tp);

// Parameters of the whole model, adapters among them, and those of them that the plan trains. A
// tied table counts once. O(layers).
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t trained = 0;
};
ParameterCounts CountParameters(const ModelSpec& model, const Plan& plan);

// Rows of the vocabulary that one rank has room for.
std::int64_t VocabRows(const ModelSpec& model, const Plan& plan);

inline constexpr const char* kTokenTableName = "embedding.tokens.weight";

}  // namespace foretrain
