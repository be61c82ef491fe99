// Layer, a layer under construction: widths on one tensor-parallel rank, the tensors that forward
// and backward share, and the steps that layer.cc and layer_backward.cc put in order. Longer than
// 400 lines: all steps share these tensors.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/layer/context_attention.h"

namespace foretrain {

// Index under which each saved tensor is known.
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
  kActivated,  // expert layers: of the shared experts
  kProbs,
  kExpertWeights,
  kChosen,
  kPlaces,
  kSources,
  kCounts,  // if no rows arrive from other ranks
  kAllCounts,
  kBalanceCounts,
  kDispatched,
  kExpertUp,
  kExpertActivated,
  kExpertOut,
  kSharedOut,  // shared experts' output, and the score that scales each row
  kSharedScores,
  kQkvInner,  // adapters: alpha / r * A x, in the order of AdaptedLinear
  kOutInner,
  kUpInner,
  kDownInner,
  kAttentionInput,  // attention's output in 8 bits or fewer, for the next GEMM
  kQkKept,          // heads of q and k before their norm
  kQkRstd,
  kBranch1,  // attention branch before its post-norm
  kPostMean1,
  kPostRstd1,
  kBranch2,  // MLP branch before its post-norm
  kPostMean2,
  kPostRstd2,
  kQueryLatent,  // latent attention: input, output and rstd of both norms
  kQueryNormed,
  kQueryRstd,
  kKeyLatent,
  kKeyNormed,
  kKeyRstd,
  kScoreWeights,  // standard attention: softmax of the scores, mask, after dropout
  kScoreMask,
  kScoreDropped,
  kBranchMask1,  // dropout mask of the attention branch
  kBranchMask2,  // of the MLP branch, or of both if they are parallel
  kTurnedKey,    // latent attention: rotated part of the key; saved only to rebuild qkv
  kCrossNormed,  // cross-attention: normed residual, its rstd, queries, keys and values, output,
  kCrossRstd,    // log-sum-exp, and the residual after it
  kCrossQuery,
  kCrossKeys,
  kCrossAttention,
  kCrossLse,
  kCrossResidual,
  kMemory,  // the encoder's normed output, made by the first decoder layer, and its rstd
  kMemoryRstd,
  kLayerTensorCount,
};
static_assert(kLayerTensorCount <= ContextAttention::kSavedIndex);

// A set of LayerTensor, one bit each.
using LayerTensors = std::uint64_t;
constexpr LayerTensors Only(LayerTensor tensor) { return LayerTensors{1} << tensor; }
constexpr bool Holds(LayerTensors set, LayerTensor tensor) { return (set & Only(tensor)) != 0; }

// Tensors that the forward of a layer of this kind saves for the backward, and those that full
// recomputation makes.
LayerTensors KeptTensors(const Plan& plan, RecomputeKind recompute, BlockKind kind);
LayerTensors RebuiltTensors(const Plan& plan);

// A range of consecutive rows.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Part `piece` of `rows` rows cut into `pieces` parts whose sizes differ by at most one row.
RowRange PieceOf(std::int64_t rows, std::int64_t pieces, std::int64_t piece);

// A GEMM whose output [rows, hidden] is summed over tensor-parallel ranks: the forward of a
// row-parallel linear, or the input gradient of a column-parallel one.
struct SummedGemm {
  std::string name;  // name of the GEMM; the collective is name.sum
  bool forward = true;
  std::int16_t in = kNoSlot;  // [rows, width]: all rows, or one tile's
  std::int16_t weight = kNoSlot;
  std::int16_t bias = kNoSlot;
  std::int64_t width = 0;
  AdaptedLinear linear = kQkvLinear;
  std::int16_t inner = kNoSlot;  // its adapter's [rows, r], as many rows as `in`
  // Another GEMM, added before the sum over ranks; its `in` covers all rows. Null: none.
  const SummedGemm* parallel = nullptr;
  // Tensor of all rows that the GEMM adds to; kNoSlot: it writes a new one.
  std::int16_t onto = kNoSlot;
  bool sums = true;  // false: no collective, the output stays this rank's partial sum
  // Destination of the sum on this rank's rows; kNoSlot: a temporary.
  std::int16_t to = kNoSlot;
};

// Row counts of a mixture of experts on one rank. Exchanges go in pieces, which are consecutive.
struct ExpertSizes {
  explicit ExpertSizes(const BlockContext& context);

  std::int64_t experts = 0;  // in the model
  std::int64_t here = 0;     // on this rank
  std::int64_t per_token = 0;
  std::int64_t tokens = 0;    // tokens that this rank dispatches
  std::int64_t capacity = 0;  // max rows of an expert for these tokens; 0: no limit
  std::int64_t room = 0;      // rows of an expert in a piece
  std::int64_t pieces = 1;
  std::int64_t members = 1;     // ranks that share the experts
  bool follows_counts = false;  // arriving rows are known only once counts are exchanged
  double headroom = 0;          // max arriving rows over even ones; 0: no limit

  // Rows of a piece that this rank sends: those of its tokens.
  RowRange Sent(std::int64_t piece) const;
  // Room: rows of a piece that this rank's experts have buffers for. Even: rows that arrive if
  // choices are even.
  RowRange Room(std::int64_t piece) const;
  std::int64_t Even(std::int64_t piece) const;
  std::int64_t AllSent() const { return Sent(pieces - 1).first + Sent(pieces - 1).count; }
  std::int64_t AllRoom() const { return Room(pieces - 1).first + Room(pieces - 1).count; }

 private:
  std::int64_t RoomOf(std::int64_t piece) const;
};

// ExpertSizes with the tensors that forward and backward share.
struct ExpertTensors : ExpertSizes {
  using ExpertSizes::ExpertSizes;
  std::int64_t up_width = 0, ffn_width = 0;
  std::int16_t probs = kNoSlot, weights = kNoSlot, chosen = kNoSlot, places = kNoSlot,
               sources = kNoSlot, counts = kNoSlot, all_counts = kNoSlot, balance_counts = kNoSlot,
               dispatched = kNoSlot, up = kNoSlot, activated = kNoSlot, out = kNoSlot,
               shared_out = kNoSlot, shared_scores = kNoSlot;
};

// Makes a slot of `elements` numbers, saved or temporary.
using TensorMaker = std::function<std::int16_t(NumberFormat format, const char* name,
                                               std::int64_t elements, LayerTensor index)>;

struct Layer {
  BlockBuilder b;
  const BlockContext& context;
  ContextAttention shared;  // used if cp > 1
  std::int64_t rows, own_rows, hidden, qkv_width, attention_width, up_width, ffn_width;
  int tp;
  bool rms, split_rows;
  bool whole_mlp = true;  // up and activated hold all rows, not one tile
  // GEMMs read casts of 8 bits or fewer. Tensors that only GEMMs read (norm1, activated, norm2 of
  // dense layers, dispatched rows of experts) are saved in that format. Until the cast they lie in
  // `..._wide`, in the format of activations.
  bool quantizes;
  std::int16_t norm1_wide = kNoSlot, norm2_wide = kNoSlot, attention_input = kNoSlot;
  std::int16_t x = kNoSlot, norm1 = kNoSlot, mean1 = kNoSlot, rstd1 = kNoSlot, qkv = kNoSlot,
               attention = kNoSlot, lse = kNoSlot, residual = kNoSlot, norm2 = kNoSlot,
               mean2 = kNoSlot, rstd2 = kNoSlot, up = kNoSlot, activated = kNoSlot;
  std::int16_t qk_kept = kNoSlot, qk_rstd = kNoSlot;
  std::int16_t whole_norm1 = kNoSlot;      // norm1 of all rows, once gathered
  std::int16_t document_starts = kNoSlot;  // from DocumentStarts()
  std::int16_t turned_key = kNoSlot;       // latent attention: the rotated key, if it is saved
  // Saved tensors of a post-norm: its input, mean and rstd.
  struct PostNorm {
    std::int16_t branch = kNoSlot, mean = kNoSlot, rstd = kNoSlot;
  };
  PostNorm post1, post2;
  // Latent attention: one narrow vector and its norm, on own rows.
  struct Latent {
    std::int64_t width = 0;  // of the vector
    std::int16_t in = kNoSlot, normed = kNoSlot, rstd = kNoSlot;
    std::int16_t whole = kNoSlot;  // normed of all rows, once gathered for the backward
  };
  Latent query_latent, key_latent;
  // Standard attention and dropout (layer_attention.cc, layer_dropout.cc).
  struct ScoreTensors {
    std::int16_t weights = kNoSlot, mask = kNoSlot, dropped = kNoSlot;
  };
  ScoreTensors scores;
  // Encoder-decoders (stacks.cc): the streams that come in and go out, the biases of self-attention
  // and their gradient, and cross-attention.
  std::int16_t stream = kNoSlot, handed_on = kNoSlot, biases = kNoSlot, d_biases = kNoSlot;
  struct CrossTensors {
    std::int16_t normed = kNoSlot, rstd = kNoSlot, query = kNoSlot, keys = kNoSlot,
                 attention = kNoSlot, lse = kNoSlot, residual = kNoSlot;
    std::int16_t memory = kNoSlot, memory_rstd = kNoSlot;  // memory: what keys are made of
  };
  CrossTensors cross;
  std::int16_t branch_mask1 = kNoSlot, branch_mask2 = kNoSlot;

  BlockKind kind;
  std::vector<BlockParameter> parameters;  // of `kind`, filled on first use
  ExpertTensors experts;
  std::int64_t lora_rank = 0;                           // 0: no adapters
  std::array<std::int16_t, kAdaptedLinearCount> inner;  // by linear; kNoSlot without adapters

  Layer(const BlockContext& c, std::string name, BlockKind of_kind);

  // Makes all slots: tensors of `saved` as saved ones under `category`, the others as temporaries
  // under `otherwise`.
  void MakeTensors(LayerTensors saved, Category category, Category otherwise);

  std::int16_t Parameter(const char* name, LayerParameter index) {
    return ParameterSlot(name, index, Category::kParameters, SlotRole::kParameter);
  }
  // kNoSlot if the parameter is frozen.
  std::int16_t Gradient(const char* name, LayerParameter index) {
    return ParameterSlot(name, index, Category::kGradients, SlotRole::kGradient);
  }
  // Where the documents of the rows begin; kNoSlot if a sample is one document.
  std::int16_t DocumentStarts();
  // View of the given rows of a tensor of `width`; the tensor itself if that is all of it.
  std::int16_t RowsOf(std::int16_t tensor, RowRange range, std::int64_t width);

  // ---- Steps of a forward; a backward repeats those whose outputs were not kept.
  // Without pre-norms, norm1 and norm2 are their inputs, or casts of them.
  void Norm1();
  void Norm2();
  // `branch` as it is added to the residual: its post-norm if the model has one, else itself.
  std::int16_t NormOfBranch(const PostNorm& post, std::int16_t branch);
  // The residual after attention, with cross-attention if the layer has it.
  std::int16_t AfterAttention() const { return IsDecoderLayer(kind) ? cross.residual : residual; }
  // Input of norm2: the layer's input if attention and MLP are parallel.
  std::int16_t Norm2Input() const { return IsParallel() ? x : AfterAttention(); }
  bool IsParallel() const { return context.model.order != LayerOrder::kSequential; }
  bool HasOneNorm() const { return context.model.order == LayerOrder::kParallelOneNorm; }
  bool SharesSequence() const { return context.plan.cp > 1; }
  // Norms of the heads of q and k: with weights, or without in layers that rotate.
  bool NormsHeads() const {
    return context.model.qk_norm || (context.model.qk_l2_norm && context.rotates);
  }
  // A residual starts at the output of the norm before its branch, not at the norm's input.
  bool AddsToNorms() const { return context.model.residual_after_norm; }
  // From norm1 to qkv, with head norms and rotary positions.
  void Qkv();
  // ---- latent attention (latent.cc)
  bool HasLatentQueries() const { return context.model.query_rank > 0; }
  std::int64_t QueryWidth() const { return context.model.heads * context.model.head_dim / tp; }
  std::int64_t KeyUpWidth() const { return context.model.LatentKeyWidth() / tp; }
  void MakeAttentionTensors(const TensorMaker& make, Category otherwise);
  void MakeResidualTensors(const TensorMaker& make, Category otherwise);
  void MakeMlpTensors(const TensorMaker& make);
  void MakeLatentTensors(const TensorMaker& make);
  void LatentQkv(std::int16_t out);
  // Inputs of the up projections, of all rows, and the rotated key on own rows.
  struct LatentInputs {
    std::int16_t queries = kNoSlot, keys = kNoSlot, own_turned = kNoSlot;
    bool again = false;  // in a backward
  };
  void LatentUp(const LatentInputs& from, std::int16_t out);
  // Rebuilds qkv in a backward that has the tensors `have`, and adds to these what it rebuilds.
  void LatentUpAgain(LayerTensors& have);
  void LatentNorm(const Latent& latent);
  const char* LatentName(const Latent& latent) const {
    return &latent == &query_latent ? "attention.q" : "attention.kv";
  }
  LayerParameter NormOf(const Latent& latent) const {
    return &latent == &query_latent ? kQueryNorm : kKeyNorm;
  }
  // Rotates the rotary part of each of `heads` heads, which are consecutive in a row.
  void LatentRope(const char* name, std::int16_t tensor, std::int64_t heads, std::int64_t head_dim,
                  bool inverse);
  OpShape LatentShape() const;
  // GatheredOf: all rows of a tensor of `width`, gathered if each rank has its own. SummedOf: the
  // sum over tp of a tensor of all rows, on this rank's rows.
  std::int16_t GatheredOf(const std::string& name, std::int16_t own, std::int64_t width);
  std::int16_t SummedOf(const std::string& name, std::int16_t whole, std::int64_t width);
  void AttentionCore();
  // Gradient of qkv; only if the sequence is not split (cp 1).
  void AttentionCoreGradient(std::int16_t d_attention, std::int16_t d_qkv);
  // Recomputes what AttentionCoreGradient reads and a forward that kept `have` did not.
  void AttentionCoreAgain(LayerTensors have);
  // out = through + dropout(branch + bias); `mask` from MakeDropoutTensors.
  void AddBranch(const char* name, std::int16_t through, std::int16_t branch, std::int16_t bias,
                 std::int16_t out, std::int16_t mask);
  // Draws the MLP branch's dropout mask again, without the branch.
  void MlpMaskAgain();
  // Gradient of AddBranch's branch, given that of its out.
  std::int16_t BranchGradient(const char* name, std::int16_t d_out, std::int16_t mask);
  void MlpUp(const std::string& suffix, std::int16_t in, std::int16_t inner_out, std::int16_t out,
             std::int64_t count);
  void Activation(const std::string& suffix, std::int16_t in, std::int16_t out, std::int64_t count);

  // ---- Tensor parallelism. Gathered: all rows of a tensor of which each rank has its own.
  std::int16_t Gathered(const std::string& name, std::int16_t own);
  // The GEMM's output on this rank's rows, summed over tp. With tp_tiles pieces, each sum overlaps
  // with the next piece's GEMM.
  std::int16_t Sum(const SummedGemm& gemm);
  // The GEMM of gemm.in, which holds rows `range`, written to those rows of `out`; all-reduced
  // there if each rank has all rows.
  void SumRows(const SummedGemm& gemm, RowRange range, std::int16_t out);
  // Reduce-scatters the output of SumRows to this rank's rows.
  std::int16_t Scattered(const SummedGemm& gemm, std::int16_t out);

  std::int64_t MlpTiles() const { return context.plan.mlp_tiles; }
  RowRange MlpTile(std::int64_t tile) const { return PieceOf(rows, MlpTiles(), tile); }
  // Suffix of a tile's ops, for example ".3"; empty if there is one tile.
  std::string TileSuffix(std::int64_t tile) const {
    return MlpTiles() > 1 ? "." + std::to_string(tile) : "";
  }
  std::int16_t TileOf(std::int16_t tensor, std::int64_t tile, std::int64_t width);

  // ---- Adapters (adapters.cc); no-ops without them. AdapterForward: inner = alpha / r * x A^T, y
  // += inner B^T. AdapterInputGradient: d_inner = alpha / r * dy B, dx += d_inner A.
  // AdapterWeightGradient: of A and B. All on `count` rows.
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
  // Temporary for the gradient of an inner tensor of `count` rows; kNoSlot without adapters.
  std::int16_t InnerGradient(AdaptedLinear linear, std::int64_t count);
  std::int16_t InnerTile(AdaptedLinear linear, std::int64_t tile) {
    return lora_rank > 0 ? TileOf(inner[linear], tile, lora_rank) : kNoSlot;
  }

  // Sum of all rows over tensor-parallel ranks, on this rank's rows; the collective is name.sum.
  std::int16_t Summed(const std::string& name, std::int16_t whole);

  // Format of tensors that only GEMMs read.
  NumberFormat OfProducts() const {
    return quantizes ? b.formats().products : b.formats().activations;
  }
  OpShape AttentionShape() const;
  // AttentionShape of the core. Each chunk is a sequence of its own.
  OpShape CoreShape() const;
  std::int64_t KeysOfCore() const {
    return context.chunk > 0 ? context.chunk : context.plan.sequence;
  }
  // ---- Encoder-decoders (stacks.cc). StackRows: the rows of the layer's stack in a stream; in
  // other models the tensor itself. Output: these rows of the layer's output. HandOn writes the
  // rest of it. CrossAttention: from the residual to the one after it. CrossGradient: the same
  // backward, given the gradient of the sum; it adds to dx the gradient of the encoder's output.
  // TableGradients: the parts of dx that the layer hands on, and its own table's gradient.
  std::int16_t StackRows(const char* name, std::int16_t of);
  std::int16_t Output();
  void HandOn();
  void CrossAttention();
  std::int16_t CrossGradient(LayerTensors have, bool accumulate, std::int16_t d_sum,
                             std::int16_t dy, std::int16_t dx);
  void TableGradients(std::int16_t dy, std::int16_t dx);
  // ---- Attention sinks (sinks.cc); no-ops without them. A sink is one more score in the softmax,
  // without a value. SinkGradient adds its ops to the weight half.
  void Sinks();
  void SinkGradient(std::int16_t d_attention, bool accumulate);
  void Rope(const char* name, std::int16_t tensor, bool inverse);
  // Normalizes the heads of q and k in `qkv`, in place.
  void HeadNorms(std::int16_t qkv);

 private:
  OpShape SinkShape() const;
  void MakeExpertTensors(const TensorMaker& make);
  void MakeScoreTensors(const TensorMaker& make);
  void MakeDropoutTensors(const TensorMaker& make);
  void StandardCore(std::int16_t out);
  void SetCore(Op& op) const;
  void SetBidirectional(Op& op) const;
  void MakeCrossTensors(const TensorMaker& make);
  void MakeMemory();
  void Biases();
  void CrossCore();
  OpShape CrossShape() const;
  std::int64_t MemoryRows() const;
  std::int64_t CrossKeyWidth() const;
  Op& AddDropout(OpKind op_kind, const std::string& name, std::initializer_list<Operand> operands,
                 std::int16_t mask);
  std::int16_t ParameterSlot(const char* name, LayerParameter index, Category category,
                             SlotRole role);
  // `wide`: the output before its cast to `out`; kNoSlot without a cast.
  struct NormTensors {
    std::int16_t in = kNoSlot, wide = kNoSlot, out = kNoSlot, mean = kNoSlot, rstd = kNoSlot;
  };
  void Norm(const char* name, std::int16_t weight, std::int16_t bias, const NormTensors& of);
  // Casts rows [own_rows, hidden] to the format of products.
  void CastRows(const std::string& name, std::int16_t in, std::int16_t out);
  // Product runs gemm and, before it, gemm.parallel. `range`: rows within gemm.in and its adapter's
  // inner tensor; `all`: the same rows among all rows. `suffix` ends the ops' names.
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

// Scaling of the model's rotary frequencies.
RopeStretch StretchOf(const ModelSpec& model);

// ---- Latent attention (latent.cc): from the gradient of qkv to those of the projections. Calls
// `norm1_backward` with the gradient of norm1's output on own rows as soon as it is computed.
void LatentBackwardOf(Layer& layer, LayerTensors have, bool accumulate, std::int16_t d_qkv,
                      const std::function<void(std::int16_t)>& norm1_backward);

// ---- Mixture of experts in place of the MLP (experts.cc).

// From the residual to y.
void ExpertsForward(Layer& layer, std::int16_t y);
// Recomputes what a backward reads of the layer's second part: norm2 and everything after it.
void ExpertsAgain(Layer& layer);
// From dy to the gradient of norm2's output on this rank's rows. `have`: tensors saved or rebuilt
// before.
std::int16_t ExpertsBackward(Layer& layer, LayerTensors have, const BlockRequest& request,
                             std::int16_t dy);

}  // namespace foretrain
