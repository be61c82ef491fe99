// A decoder layer while its ops are written down: widths of one tensor-parallel rank, the tensors
// that forward and backward both speak of, and the steps they share. Leaves out the order of the
// steps: layer.cc, layer_backward.cc.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/context_attention.h"

namespace foretrain {

// Tensors that a backward reads, by the number under which they are saved.
enum LayerTensor : int {
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
  kActivated,  // of experts: the shared ones'
  kProbs,
  kExpertWeights,
  kChosen,
  kPlaces,
  kSources,
  kCounts,  // where no others' rows come
  kAllCounts,
  kBalanceCounts,
  kDispatched,
  kExpertUp,
  kExpertActivated,
  kExpertOut,
  kSharedOut,  // what shared experts make, and the score of each row that it is scaled by
  kSharedScores,
  kQkvInner,  // of adapters: alpha / r * A x, in the order of AdaptedLinear
  kOutInner,
  kUpInner,
  kDownInner,
  kAttentionInput,  // attention's output in 8 bits or fewer, for the product behind it
  kQkKept,          // heads of q and k before their norm
  kQkRstd,
  kBranch1,  // what attention adds, before its norm
  kPostMean1,
  kPostRstd1,
  kBranch2,  // what the MLP adds
  kPostMean2,
  kPostRstd2,
  kQueryLatent,  // latent attention: inputs, outputs and rstd of the norms of what went down
  kQueryNormed,
  kQueryRstd,
  kKeyLatent,
  kKeyNormed,
  kKeyRstd,
  kScoreWeights,  // standard attention: the scores' softmax, and what dropout does to it
  kScoreMask,
  kScoreDropped,
  kBranchMask1,  // what dropout keeps of what attention adds
  kBranchMask2,  // and of what the MLP adds, or both where they stand beside each other
  kLayerTensorCount,
};
static_assert(kLayerTensorCount <= ContextAttention::kSavedIndex);

// A set of them, a bit each.
using LayerTensors = std::uint64_t;
constexpr LayerTensors Only(LayerTensor tensor) { return LayerTensors{1} << tensor; }
constexpr bool Holds(LayerTensors set, LayerTensor tensor) { return (set & Only(tensor)) != 0; }

// What a forward keeps for the backward, and what the instruction of full recomputation makes.
LayerTensors KeptTensors(const Plan& plan, RecomputeKind recompute);
LayerTensors RebuiltTensors(const Plan& plan);

// Consecutive rows.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The `piece`-th of `pieces` parts of `rows` rows that differ by one row at most.
RowRange PieceOf(std::int64_t rows, std::int64_t pieces, std::int64_t piece);

// A GEMM whose output [rows, hidden] is summed over tensor-parallel ranks: forward of a
// row-parallel linear, or input gradient of a column-parallel one.
struct SummedGemm {
  std::string name;  // of the GEMM; the sum's is name.sum
  bool forward = true;
  std::int16_t in = kNoSlot;  // [rows, width]: all rows, or those of a tile
  std::int16_t weight = kNoSlot;
  std::int16_t bias = kNoSlot;
  std::int64_t width = 0;
  AdaptedLinear linear = kQkvLinear;
  std::int16_t inner = kNoSlot;  // [rows, r] of its adapter, as many rows as `in`
  // Another product that is added before the sum over ranks; its `in` is of all rows.
  const SummedGemm* beside = nullptr;
  // Where the product is added, of all rows, or kNoSlot.
  std::int16_t onto = kNoSlot;
  bool sums = true;  // over ranks; else what is left is this rank's part of all rows
  // Where the sum of this rank's own rows is to lie, or kNoSlot: somewhere.
  std::int16_t to = kNoSlot;
};

// A mixture of experts on one rank, by numbers of rows. What is exchanged goes in pieces, which lie
// one behind the other.
struct ExpertSizes {
  explicit ExpertSizes(const BlockContext& context);

  std::int64_t experts = 0;  // of the model
  std::int64_t here = 0;     // of them on this rank
  std::int64_t per_token = 0;
  std::int64_t tokens = 0;    // that this rank deals to experts
  std::int64_t capacity = 0;  // rows of an expert for these tokens; 0: as many as it is sent
  std::int64_t room = 0;      // of them in a piece
  std::int64_t pieces = 1;
  std::int64_t members = 1;     // ranks that experts are dealt to
  bool follows_counts = false;  // how many rows come is known once others have told
  double headroom = 0;          // of rows that come, over even ones; 0: none is too many

  // Rows that this rank sends: those of its tokens.
  RowRange Sent(std::int64_t piece) const;
  // Rows that its experts have room for, and those that come if choices are even.
  RowRange Room(std::int64_t piece) const;
  std::int64_t Even(std::int64_t piece) const;
  std::int64_t AllSent() const { return Sent(pieces - 1).first + Sent(pieces - 1).count; }
  std::int64_t AllRoom() const { return Room(pieces - 1).first + Room(pieces - 1).count; }

 private:
  std::int64_t RoomOf(std::int64_t piece) const;
};

// With the tensors that both passes speak of.
struct ExpertTensors : ExpertSizes {
  using ExpertSizes::ExpertSizes;
  std::int64_t up_width = 0, ffn_width = 0;
  std::int16_t probs = kNoSlot, weights = kNoSlot, chosen = kNoSlot, places = kNoSlot,
               sources = kNoSlot, counts = kNoSlot, all_counts = kNoSlot, balance_counts = kNoSlot,
               dispatched = kNoSlot, up = kNoSlot, activated = kNoSlot, out = kNoSlot,
               shared_out = kNoSlot, shared_scores = kNoSlot;
};

// Makes a slot, saved or not, of so many elements.
using TensorMaker = std::function<std::int16_t(NumberFormat format, const char* name,
                                               std::int64_t elements, LayerTensor index)>;

struct Layer {
  BlockBuilder b;
  const BlockContext& context;
  ContextAttention shared;  // where the sequence is shared out
  std::int64_t rows, own_rows, hidden, qkv_width, attention_width, up_width, ffn_width;
  int tp;
  bool rms, split_rows;
  bool whole_mlp = true;  // up and activated of all rows exist, not of one tile alone
  // Products read casts of 8 bits or fewer. What they alone read of the forward (norm1, activated;
  // of a dense layer norm2; of experts dispatched) is kept in that format, and lives as an
  // activation, in `..._wide`, until it is cast.
  bool quantizes;
  std::int16_t norm1_wide = kNoSlot, norm2_wide = kNoSlot, attention_input = kNoSlot;
  std::int16_t x = kNoSlot, norm1 = kNoSlot, mean1 = kNoSlot, rstd1 = kNoSlot, qkv = kNoSlot,
               attention = kNoSlot, lse = kNoSlot, residual = kNoSlot, norm2 = kNoSlot,
               mean2 = kNoSlot, rstd2 = kNoSlot, up = kNoSlot, activated = kNoSlot;
  std::int16_t qk_kept = kNoSlot, qk_rstd = kNoSlot;
  std::int16_t whole_norm1 = kNoSlot;  // norm1 of all rows, once it is there
  // Of the norm of what attention or the MLP adds: its input, mean and rstd.
  struct PostNorm {
    std::int16_t branch = kNoSlot, mean = kNoSlot, rstd = kNoSlot;
  };
  PostNorm post1, post2;
  // Of latent attention, on own rows.
  struct Latent {
    std::int64_t width = 0;  // of the vector that is normed
    std::int16_t in = kNoSlot, normed = kNoSlot, rstd = kNoSlot;
  };
  Latent query_latent, key_latent;
  // Dropout and standard attention (layer_dropout.cc, standard_attention.cc).
  struct ScoreTensors {
    std::int16_t weights = kNoSlot, mask = kNoSlot, dropped = kNoSlot;
  };
  ScoreTensors scores;
  std::int16_t branch_mask1 = kNoSlot, branch_mask2 = kNoSlot;

  BlockKind kind;
  std::vector<BlockParameter> parameters;  // of the kind, once one is asked for
  ExpertTensors experts;
  std::int64_t lora_rank = 0;                           // 0: no adapters
  std::array<std::int16_t, kAdaptedLinearCount> inner;  // of each adapter, kNoSlot without

  Layer(const BlockContext& c, std::string name, BlockKind of_kind);

  // The tensors of `saved` under `category`, the others as temporaries under `otherwise`.
  void MakeTensors(LayerTensors saved, Category category, Category otherwise);

  std::int16_t Parameter(const char* name, LayerParameter index) {
    return ParameterSlot(name, index, Category::kParameters, SlotRole::kParameter);
  }
  // kNoSlot of what is frozen.
  std::int16_t Gradient(const char* name, LayerParameter index) {
    return ParameterSlot(name, index, Category::kGradients, SlotRole::kGradient);
  }
  // "x.2": the given rows of a tensor of `width`; the tensor itself where that is all of it.
  std::int16_t RowsOf(std::int16_t tensor, RowRange range, std::int64_t width);

  // ---- steps of a forward, again in a backward that did not keep their outputs
  void Norm1();
  void Norm2();
  // What `branch` adds to the residual: itself or, where the model has it, its norm.
  std::int16_t NormOfBranch(const PostNorm& post, std::int16_t branch);
  // What norm2 reads.
  std::int16_t Norm2Input() const { return IsParallel() ? x : residual; }
  // Context parallelism: rows that are this rank's part of a sequence.
  bool IsParallel() const { return context.model.order != LayerOrder::kSequential; }
  bool HasOneNorm() const { return context.model.order == LayerOrder::kParallelOneNorm; }
  bool SharesSequence() const { return context.plan.cp > 1; }
  // norm1 -> qkv, with rotary positions.
  void Qkv();
  // ---- latent attention (latent.cc)
  bool HasLatentQueries() const { return context.model.query_rank > 0; }
  std::int64_t QueryWidth() const { return context.model.heads * context.model.head_dim / tp; }
  std::int64_t KeyUpWidth() const { return context.model.LatentKeyWidth() / tp; }
  void MakeLatentTensors(const TensorMaker& make);
  void LatentQkv(std::int16_t out);
  void LatentNorm(const Latent& latent);
  const char* LatentName(const Latent& latent) const {
    return &latent == &query_latent ? "attention.q" : "attention.kv";
  }
  LayerParameter NormOf(const Latent& latent) const {
    return &latent == &query_latent ? kQueryNorm : kKeyNorm;
  }
  // Turns the turned part of each of `heads` heads, which lie behind one another in a row.
  void LatentRope(const char* name, std::int16_t tensor, std::int64_t heads, std::int64_t head_dim,
                  bool inverse);
  OpShape LatentShape() const;
  // All rows of a tensor of `width` of which this rank has its own; and the sum over ranks of one
  // of all rows, on this rank's own.
  std::int16_t GatheredOf(const std::string& name, std::int16_t own, std::int64_t width);
  std::int16_t SummedOf(const std::string& name, std::int16_t whole, std::int64_t width);
  void AttentionCore();
  // The gradient of qkv, where the sequence is not shared out.
  void AttentionCoreGradient(std::int16_t d_attention, std::int16_t d_qkv);
  // What AttentionCoreGradient reads and a forward with `have` did not keep.
  void AttentionCoreAgain(LayerTensors have);
  // out = through + dropout(branch + bias); `mask` as made by MakeDropoutTensors.
  void AddBranch(const char* name, std::int16_t through, std::int16_t branch, std::int16_t bias,
                 std::int16_t out, std::int16_t mask);
  // The mask that AddBranch of what the MLP adds makes, alone.
  void MlpMaskAgain();
  // Of AddBranch's out -> of its branch.
  std::int16_t BranchGradient(const char* name, std::int16_t d_out, std::int16_t mask);
  void MlpUp(const std::string& suffix, std::int16_t in, std::int16_t inner_out, std::int16_t out,
             std::int64_t count);
  void Activation(const std::string& suffix, std::int16_t in, std::int16_t out, std::int64_t count);

  // ---- tensor parallelism
  // All rows of a tensor of which this rank has its own.
  std::int16_t Gathered(const std::string& name, std::int16_t own);
  // The product on this rank's own rows, summed. With tp_tiles pieces, each sum runs beside the
  // next piece's GEMM.
  std::int16_t Sum(const SummedGemm& gemm);
  // The product of gemm.in, which holds the rows `range`, written to those rows of `out` and, where
  // each rank has all rows, summed there.
  void SumRows(const SummedGemm& gemm, RowRange range, std::int16_t out);
  // What SumRows left of all rows, on this rank's own rows.
  std::int16_t Scattered(const SummedGemm& gemm, std::int16_t out);

  std::int64_t MlpTiles() const { return context.plan.mlp_tiles; }
  RowRange MlpTile(std::int64_t tile) const { return PieceOf(rows, MlpTiles(), tile); }
  // "": one tile; ".3"
  std::string TileSuffix(std::int64_t tile) const {
    return MlpTiles() > 1 ? "." + std::to_string(tile) : "";
  }
  std::int16_t TileOf(std::int16_t tensor, std::int64_t tile, std::int64_t width);

  // ---- adapters (adapters.cc): nothing without them. Forward: inner = alpha / r * x A^T, y +=
  // inner B^T. InputGradient: d_inner = alpha / r * dy B, and dx += d_inner A if there is a dx.
  // WeightGradient: of A and B. All on `count` rows.
  void AdapterInner(AdaptedLinear linear, const std::string& name, std::int16_t in,
                    std::int16_t inner_out, std::int64_t count);
  void AdapterForward(AdaptedLinear linear, const std::string& name, std::int16_t in,
                      std::int16_t inner_out, std::int16_t y, std::int64_t count);
  void AdapterInputGradient(AdaptedLinear linear, const std::string& name, std::int16_t dy,
                            std::int16_t d_inner, std::int16_t dx, std::int64_t count);
  struct AdapterTensors {
    std::int16_t dy = kNoSlot, x = kNoSlot, inner = kNoSlot, d_inner = kNoSlot;
  };
  void AdapterWeightGradient(AdaptedLinear linear, const std::string& name,
                             const AdapterTensors& of, std::int64_t count, bool accumulate);
  // Gradient of an inner tensor of `count` rows, a temporary; kNoSlot without adapters.
  std::int16_t InnerGradient(AdaptedLinear linear, std::int64_t count);
  std::int16_t InnerTile(AdaptedLinear linear, std::int64_t tile) {
    return lora_rank > 0 ? TileOf(inner[linear], tile, lora_rank) : kNoSlot;
  }

  // All rows' sum over tensor-parallel ranks, on this rank's own rows; the sum's name is name.sum.
  std::int16_t Summed(const std::string& name, std::int16_t whole);

  // The format of what only products read.
  NumberFormat OfProducts() const {
    return quantizes ? b.formats().products : b.formats().activations;
  }
  OpShape AttentionShape() const;
  // ---- sinks.cc: scores that take part in the softmax alone, behind attention without them;
  // nothing without. SinkGradient: in the weight half.
  void Sinks();
  void SinkGradient(std::int16_t d_attention, bool accumulate);
  void Rope(const char* name, std::int16_t tensor, bool inverse);
  // Norms of the heads of q and k in `qkv`, in place.
  void HeadNorms(std::int16_t qkv);

 private:
  OpShape SinkShape() const;
  void MakeExpertTensors(const TensorMaker& make);
  void MakeScoreTensors(const TensorMaker& make);
  void MakeDropoutTensors(const TensorMaker& make);
  void StandardCore(std::int16_t out);
  Op& AddDropout(OpKind op_kind, const std::string& name,
                 std::initializer_list<Operand> operands, std::int16_t mask);
  std::int16_t ParameterSlot(const char* name, LayerParameter index, Category category,
                             SlotRole role);
  // wide: kNoSlot, or where the output lies until it is cast to `out`.
  struct NormTensors {
    std::int16_t in = kNoSlot, wide = kNoSlot, out = kNoSlot, mean = kNoSlot, rstd = kNoSlot;
  };
  void Norm(const char* name, std::int16_t weight, std::int16_t bias, const NormTensors& of);
  // Rows `range` of gemm.in, which has those of its adapter's inner tensor too; `all`: the same
  // rows among all. `suffix`: of the op's name.
  void Product(const SummedGemm& gemm, const std::string& suffix, RowRange range, RowRange all,
               std::int16_t out);
  void OneProduct(const SummedGemm& gemm, const std::string& name, RowRange range, std::int16_t out,
                  bool adds);
  struct AdapterSizes {
    std::int64_t in = 0, out = 0;
  };
  AdapterSizes SizesOf(AdaptedLinear linear) const;
  struct AdapterParameters {
    std::int16_t a = kNoSlot, b = kNoSlot;
  };
  AdapterParameters ParametersOfAdapter(AdaptedLinear linear);
  std::array<AdapterParameters, kAdaptedLinearCount> adapters_;
  std::int16_t ScatteredPieces(const SummedGemm& gemm);
};

// How the model stretches rotary frequencies.
RopeStretch StretchOf(const ModelSpec& model);

// ---- latent.cc: from the gradient of qkv to those of the projections. `norm1_backward` gets the
// gradient of norm1's output on own rows as soon as it is there.
void LatentBackwardOf(Layer& layer, LayerTensors have, bool accumulate, std::int16_t d_qkv,
                      const std::function<void(std::int16_t)>& norm1_backward);

// ---- experts.cc: a mixture of experts in the place of the MLP

// residual -> y.
void ExpertsForward(Layer& layer, std::int16_t y);
// What a backward reads of the layer's second part: norm2 and all behind it.
void ExpertsAgain(Layer& layer);
// dy -> gradient of norm2's output on this rank's own rows. `have`: tensors that are there before.
std::int16_t ExpertsBackward(Layer& layer, LayerTensors have, const BlockRequest& request,
                             std::int16_t dy);

}  // namespace foretrain
