// How a model is trained on a number of ranks. The plan is complete: nothing else decides. Leaves
// out the model and the machine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/schedule/slot_order.h"

namespace foretrain {

enum class ScheduleKind : std::uint8_t {
  kGpipe,
  k1f1b,
  kZbH1,
  kInterleaved,
  kZbH2,
  kZbV,
  kDualPipe,
  kDualPipeV,
  kPipeDream,
  kPipeDream2bw,
  kCustom,  // that of Plan::slots
};
enum class RecomputeKind : std::uint8_t { kNone, kFull, kSelective };
// Parts of a layer whose saved tensors selective recomputation drops. blocks.h says which tensors
// each one drops and from which kept tensors the backward rebuilds them.
enum class RecomputeModule : std::uint8_t {
  kCoreAttention,
  kNorm,
  kActivation,
  kMlp,
  kQkv,
  kLatentUp,
  kExpertActivation,
  kExperts,
  kSharedExperts,
};
// A set of modules, one bit each.
using RecomputeModules = std::uint32_t;
constexpr RecomputeModules BitOf(RecomputeModule module) {
  return RecomputeModules{1} << static_cast<unsigned>(module);
}
enum class ContextParallelKind : std::uint8_t { kRing, kAllGather, kAllToAll };
// When gradients are reduced over data parallelism: once, after the last micro-batch, or after each
// one.
enum class ReductionTime : std::uint8_t { kEnd, kMicroBatch };
// Number formats of gathered parameters (ZeRO) and of the optimizer's moments.
enum class GatherFormat : std::uint8_t { kFp32, kBf16, kFp8, kInt8 };
enum class MomentFormat : std::uint8_t { kFp32, kBf16, kInt8 };
// Compute format of the layers' products. From kFp16 on, activations, their gradients and their
// communication have 16 bits: bf16, or fp16 with kFp16. kFp8 has one scale per tensor, kFp8Block
// and kFp4 one per block.
enum class Precision : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8, kFp8Block, kFp4 };
// Where fp32 parameters are kept if activations have 16 bits. kMaster: as masters, in addition to
// 16-bit weights. kFp32: the parameters themselves, cast for each use. kAlone: nowhere, the weights
// have 16 bits.
enum class WeightStorage : std::uint8_t { kMaster, kFp32, kAlone };
// Format in which parameter gradients are accumulated and reduced, or logits and their gradient are
// stored: fp32, or that of activations.
enum class GradientFormat : std::uint8_t { kFp32, kCompute };
// How attention is computed. kFlash keeps scores on the chip. kStandard writes scores and their
// softmax to memory, [batch, heads, sequence, sequence] each.
enum class AttentionAlgorithm : std::uint8_t { kFlash, kStandard };
// Ops that are fused if the device supports it. kNorms: a residual addition with the norm after it.
// kEpilogues: products with the activation or bias gradient after them. kLoss: the loss with its
// gradient, which the forward then computes.
enum class FusionKind : std::uint8_t { kNone, kNorms, kEpilogues, kLoss, kAll };
// kMomentum: SGD with momentum. kLion: Chen et al. 2023. kMuon: Jordan et al. 2024, for matrices of
// layers; AdamW for all else. kAdafactor: Shazeer and Stern 2018.
enum class OptimizerKind : std::uint8_t { kAdamW, kSgd, kMomentum, kLion, kMuon, kAdafactor };
// Parameters that weight decay applies to. kMatrices: all but norms and biases. kNoEmbeddings: nor
// the tables of tokens and positions, and a head that shares the table of tokens.
enum class DecayKind : std::uint8_t { kMatrices, kNoEmbeddings, kAll };
enum class OffloadTarget : std::uint8_t { kNone, kHost, kNvme };
// kQlora: adapters on linears that are stored in 4 bits (Dettmers et al. 2023).
enum class TrainingMethod : std::uint8_t { kFull, kLora, kQlora };

// Moments that an optimizer keeps of each parameter. Muon keeps one of its matrices. Adafactor's
// are of the rows and of the columns of a matrix.
constexpr int MomentsOf(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kLion:
      return 1;
    case OptimizerKind::kAdamW:
    case OptimizerKind::kMuon:
    case OptimizerKind::kAdafactor:
      return 2;
  }
  return 0;
}

std::string_view Name(ScheduleKind schedule);     // "gpipe", "1f1b", "zb-h1", "interleaved", ...
std::string_view Name(RecomputeKind recompute);   // "none", "full", "selective"
std::string_view Name(ContextParallelKind kind);  // "ring", "all-gather", "all-to-all"
std::string_view Name(OffloadTarget target);      // "none", "host", "nvme"
std::string_view Name(Precision precision);       // "fp32", "tf32", "fp16", ...
// How the schedule, which is not kCustom, places stages.
StageShape ShapeOf(ScheduleKind schedule);
std::optional<RecomputeKind> ParseRecompute(std::string_view name);

// plan_fields.cc describes each field, with range and help. Files, the command line and checks read
// that table.
struct Plan {
  // ranks: World() = dp * cp * tp * pp; ep takes its ranks from dp, cp and, if expert_tp is 1, tp
  int dp = 1;
  int cp = 1;
  int tp = 1;
  int pp = 1;
  int ep = 1;
  int expert_tp = 0;  // 0: the same as tp; 1: experts are not split
  ContextParallelKind cp_kind = ContextParallelKind::kRing;
  bool sequence_parallel = false;
  bool vocab_parallel = false;
  int vocab_multiple = 1;  // a rank's rows of the vocabulary are padded to a multiple of it
  // Order in which the degrees run from near to far devices, as an index (DegreesOf).
  int rank_order = 0;

  std::int64_t sequence = 0;  // tokens of one sample
  // Leading tokens of a sample that the encoder of an encoder-decoder reads; the decoder predicts
  // the others. 0: half.
  std::int64_t encoder_sequence = 0;
  std::int64_t global_batch = 0;  // samples per step over all ranks
  std::int64_t micro_batch = 0;   // samples of one pass on one rank

  ScheduleKind schedule = ScheduleKind::k1f1b;
  int vpp = 1;                         // chunks of layers per rank, for kInterleaved
  SlotOrder slots = {};                // of kCustom; empty for all others
  std::vector<int> stage_layers = {};  // layers of each (virtual) stage; empty: split evenly
  bool post_validation = false;        // optimizer step before the global norm is known

  int zero_stage = 0;
  int replicas = 1;  // HSDP: dp * cp ranks form `replicas` groups that each hold all shards
  int prefetch_depth = 1;
  std::int64_t gather_bytes = 0;  // min bytes of parameters gathered together; 0: those of a block
  std::int64_t unsharded_bytes = 0;  // max bytes of parameters that ZeRO-3 leaves unsharded
  GatherFormat gather_format = GatherFormat::kFp32;
  ReductionTime reduction_time = ReductionTime::kEnd;
  // Gradients of consecutive layers are reduced together up to this size.
  std::int64_t bucket_bytes = 25'000'000;

  RecomputeKind recompute = RecomputeKind::kNone;
  // Modules that selective recomputation drops; 0: those of ModulesOf.
  RecomputeModules recompute_modules = 0;
  int recompute_layers = 0;      // first layers of each stage that recompute; 0: all
  int recompute_every = 1;       // every n-th layer of a stage recomputes
  int loss_chunks = 1;           // pieces of the logits, computed one after the other
  int mlp_tiles = 1;             // pieces of the MLP along the sequence
  int tp_tiles = 1;              // pieces of a tensor-parallel reduction that overlap their GEMM
  int moe_pieces = 1;            // pieces of dispatch, experts and combine that overlap
  double capacity_factor = 0.0;  // rows per expert, relative to an even share; 0: dropless
  // Dropless with ep: capacity of a rank's experts in rows, relative to an even share; 0: for all
  // rows that may come.
  double expert_headroom = 0.0;
  FusionKind fuse = FusionKind::kNone;

  AttentionAlgorithm attention = AttentionAlgorithm::kFlash;
  // Dropout probabilities: of the embedding's output and the outputs of attention and MLP; of the
  // attention weights.
  double dropout = 0.0;
  double attention_dropout = 0.0;
  // Attention ends at the borders of documents, and positions count from their first tokens.
  bool documents = false;

  Precision precision = Precision::kFp32;
  WeightStorage weights = WeightStorage::kMaster;
  GradientFormat gradients = GradientFormat::kFp32;
  GradientFormat logits = GradientFormat::kFp32;

  OffloadTarget offload_optimizer = OffloadTarget::kNone;
  OffloadTarget offload_gradients = OffloadTarget::kNone;
  OffloadTarget offload_parameters = OffloadTarget::kNone;
  OffloadTarget offload_activations = OffloadTarget::kNone;
  double offload_fraction = 1.0;  // share of the optimizer state that is offloaded
  bool stream_optimizer = false;  // offloaded state is copied to the device, which updates
  bool delayed_update = false;    // a step's update overlaps the next step

  OptimizerKind optimizer = OptimizerKind::kAdamW;
  MomentFormat moments = MomentFormat::kFp32;
  DecayKind decay = DecayKind::kMatrices;
  double average_decay = 0.0;  // of a moving average of the parameters, kept beside them; 0: none
  double clip_norm = 0.0;      // global gradient norm that gradients are clipped to; 0: no clipping
  double loss_scale = 0.0;     // factor of the loss; steps with infinities are skipped; 0: neither
  // Steps without infinities after which loss_scale doubles; it halves after a step with them. 0:
  // it is constant.
  int loss_scale_window = 0;
  TrainingMethod method = TrainingMethod::kFull;
  int lora_rank = 8;
  double lora_alpha = 16.0;

  // True if adapters are trained and the base weights are frozen; and if those weights are stored
  // in 4 bits.
  bool HasAdapters() const { return method != TrainingMethod::kFull; }
  bool QuantizesBase() const { return method == TrainingMethod::kQlora; }
  // True if updates correct the bias of their moments, so they count the steps that were taken.
  bool CorrectsBias() const { return MomentsOf(optimizer) == 2; }
  bool HasDynamicScale() const { return loss_scale > 0 && loss_scale_window > 0; }
  int World() const { return dp * cp * tp * pp; }
  // How stages lie on pipeline ranks. kLine for a custom schedule without slots, which is refused.
  StageShape Shape() const;
  bool GoesBothWays() const { return Shape() == StageShape::kBothWays; }
  // True if a micro-batch's backward has two slots, input gradients first.
  bool SplitsBackward() const;
  // True if slots run in pairs.
  bool PairsSlots() const;
  // Pipeline ranks that hold the same stage: under DualPipe, those at the same distance from either
  // end.
  int StageCopies() const { return GoesBothWays() && pp > 1 ? 2 : 1; }
  // Ranks that hold the same parameters and reduce their gradients together.
  int DataParallel() const { return dp * cp * StageCopies(); }
  // Ranks over which ZeRO shards state.
  int Shards() const { return DataParallel() / replicas; }
  // True if tensor-parallel ranks hold different experts instead of parts of the same ones.
  bool ExpertsSpanTp() const { return expert_tp == 1 && tp > 1; }
  // Ranks of a stage over which experts are distributed, and the number of those that hold the same
  // ones.
  int ExpertRanks() const { return dp * cp * (ExpertsSpanTp() ? tp : 1); }
  int ExpertHolders() const { return ExpertRanks() / ep * StageCopies(); }
  // True if experts are held, reduced and sharded by other groups of ranks than the rest.
  bool DealsExperts() const { return ep > 1 || ExpertsSpanTp(); }
  // Tokens of a micro-batch that one rank routes.
  std::int64_t ExpertTokens() const {
    return micro_batch * LocalSequence() / (ExpertsSpanTp() ? tp : 1);
  }
  // Chunks of consecutive layers on one rank.
  int Chunks() const;
  // Stages of the model; under DualPipe each lies on two ranks.
  int Stages() const { return GoesBothWays() ? pp : pp * Chunks(); }
  std::int64_t MicroBatches() const { return global_batch / (micro_batch * dp); }
  // True if activations have 16 bits or fewer.
  bool HasShortActivations() const { return precision >= Precision::kFp16; }
  // True if the layers' products read values of 8 bits or fewer.
  bool QuantizesProducts() const { return precision >= Precision::kFp8; }
  // True if the pipeline does not drain between steps; gradients then belong to older weights.
  bool StepsOverlap() const {
    return schedule == ScheduleKind::kPipeDream || schedule == ScheduleKind::kPipeDream2bw;
  }
  // True if each micro-batch is an update by itself, not a part of the step's.
  bool UpdatesEachMicroBatch() const { return schedule == ScheduleKind::kPipeDream; }
  // Samples over which an update averages its gradient.
  std::int64_t SamplesOfUpdate() const {
    return UpdatesEachMicroBatch() ? micro_batch * dp : global_batch;
  }
  // Index in the step's batch of the first sample of a micro-batch on rank `of_dp`.
  std::int64_t FirstSample(int of_dp, int micro_batch_index) const {
    return (of_dp * MicroBatches() + micro_batch_index) * micro_batch;
  }
  // Tokens of one sample on one rank.
  std::int64_t LocalSequence() const { return sequence / cp; }
  // Tokens of one sample that each stack of an encoder-decoder reads.
  std::int64_t EncoderSequence() const {
    return encoder_sequence > 0 ? encoder_sequence : sequence / 2;
  }
  std::int64_t DecoderSequence() const { return sequence - EncoderSequence(); }
  bool operator==(const Plan&) const = default;
};

// Modules that selective recomputation drops under `plan`: those that it names. If it names none:
// attention's core and, with flash attention, norms and activations; with mlp_tiles > 1 the MLP
// too.
RecomputeModules ModulesOf(const Plan& plan);

// Degrees of parallelism by index: tp, cp, ep, dp, pp. Orders of all five are numbered
// lexicographically, so that 0 is tp-cp-ep-dp-pp. The first degree of an order runs over
// neighbouring devices.
inline constexpr int kDegreeCount = 5;
inline constexpr int kRankOrderCount = 120;
std::string_view NameOfDegree(int degree);
const std::array<int, kDegreeCount>& DegreesOf(int rank_order);
// "tp-cp-ep-dp-pp"
std::string_view NameOfRankOrder(int rank_order);

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 18;  // ids hold 18 bits
inline constexpr std::int64_t kMaxLayers = 8190;  // ids hold 13 bits for embedding, layers and head

// Checks `plan` by itself.
//
// Errors: kInvalidArgument, naming field, value and remedy with the nearest value that works:
//   - a field outside its range (plan_fields.h), or more than kMaxRanks ranks;
//   - a global batch that is not a multiple of dp * micro_batch;
//   - more micro-batches than ids can hold;
//   - two choices that exclude each other (plan_rules.h).
//
// ZeRO with one data-parallel rank is allowed and shards nothing. Any schedule is allowed with pp
// 1. Any recomputation is allowed with any schedule. With a split backward, a layer's forward is
// recomputed before its input gradients; the weight gradients read the same tensors. O(1); safe
// from any thread.
Result<void> ValidatePlan(const Plan& plan);

// Checks `plan` by itself and against `model`, which must be valid.
//
// Errors: as above, and
//   - heads or ffn_hidden that tp does not divide;
//   - kv_heads that neither divides tp nor is divided by it;
//   - more stages than layers, or more layers than ids can hold;
//   - a sequence longer than the learned position table;
//   - an activation of a micro-batch above 2^56 bytes.
// O(sqrt(heads)); safe from any thread.
Result<void> ValidatePlan(const Plan& plan, const ModelSpec& model);

// "dp2 tp1 pp2 1f1b mb4 x8 zero1 recompute-full": short, for tables and titles. mb is the samples
// of a micro-batch, x the micro-batches of a step. Fields with their default are omitted.
std::string Describe(const Plan& plan);

}  // namespace foretrain
