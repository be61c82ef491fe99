// How a model is trained on how many ranks: a complete choice, nothing else decides. Leaves out the
// model and the machine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/model_spec.h"

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
};
enum class RecomputeKind : std::uint8_t { kNone, kFull, kSelective };
enum class ContextParallelKind : std::uint8_t { kRing, kAllGather, kAllToAll };
// When gradients are summed over data parallelism: once, behind the last micro-batch, or after
// each.
enum class ReductionTime : std::uint8_t { kEnd, kMicroBatch };
// Number format in which parameters are gathered (ZeRO) or moments are kept.
enum class GatherFormat : std::uint8_t { kFp32, kBf16, kFp8, kInt8 };
enum class MomentFormat : std::uint8_t { kFp32, kBf16, kInt8 };
// What layers' products compute in. From kFp16 on activations, their gradients and what ranks tell
// each other of them have 16 bits: bf16, or fp16 with kFp16. kFp8 has one scale a tensor, kFp8Block
// and kFp4 one a block.
enum class Precision : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8, kFp8Block, kFp4 };
// Where parameters are fp32 when activations are not: in masters that updates are made on, beside
// 16-bit weights; in the parameters themselves, which are cast for each use; nowhere.
enum class WeightStorage : std::uint8_t { kMaster, kFp32, kAlone };
// In what gradients of parameters are added up and summed over ranks: fp32, or as activations.
enum class GradientFormat : std::uint8_t { kFp32, kCompute };
// How attention is computed: kFlash keeps scores on the chip, kStandard writes them and their
// softmax out, [batch, heads, sequence, sequence] each.
enum class AttentionAlgorithm : std::uint8_t { kFlash, kStandard };
// Ops that are joined to one where the device computes them so: a residual's sum with the norm
// behind it, and products with the activation or the gradient of a bias behind them.
enum class FusionKind : std::uint8_t { kNone, kNorms, kEpilogues, kAll };
enum class OptimizerKind : std::uint8_t { kAdamW, kSgd };
enum class OffloadTarget : std::uint8_t { kNone, kHost, kNvme };
// kQlora: adapters beside linears that are kept in 4 bits (Dettmers et al. 2023).
enum class TrainingMethod : std::uint8_t { kFull, kLora, kQlora };

std::string_view Name(ScheduleKind schedule);     // "gpipe", "1f1b", "zb-h1", "interleaved", ...
std::string_view Name(RecomputeKind recompute);   // "none", "full", "selective"
std::string_view Name(ContextParallelKind kind);  // "ring", "all-gather", "all-to-all"
std::string_view Name(OffloadTarget target);      // "none", "host", "nvme"
std::string_view Name(Precision precision);       // "fp32", "tf32", "fp16", ...
// Whether a micro-batch's backward comes in two slots, its input gradients first.
bool SplitsBackward(ScheduleKind schedule);
std::optional<ScheduleKind> ParseSchedule(std::string_view name);
std::optional<RecomputeKind> ParseRecompute(std::string_view name);

// Fields are described one by one, with range and help, in plan_fields.cc: files, the command line
// and checks read that table.
struct Plan {
  // ranks: World() = dp * cp * tp * pp; ep takes its ranks from dp, cp and, with expert_tp 1, tp
  int dp = 1;
  int cp = 1;
  int tp = 1;
  int pp = 1;
  int ep = 1;
  int expert_tp = 0;  // 0: as tp; 1: experts are not split
  ContextParallelKind cp_kind = ContextParallelKind::kRing;
  bool sequence_parallel = false;
  bool vocab_parallel = false;
  // Which degrees run over near and which over far devices: number of an order (DegreesOf).
  int rank_order = 0;

  std::int64_t sequence = 0;      // tokens of one sample
  std::int64_t global_batch = 0;  // samples a step over all ranks
  std::int64_t micro_batch = 0;   // samples of one pass on one rank

  ScheduleKind schedule = ScheduleKind::k1f1b;
  int vpp = 1;                         // chunks of layers a rank holds, for kInterleaved
  std::vector<int> stage_layers = {};  // layers of each (virtual) stage; empty: dealt evenly
  bool post_validation = false;        // optimizer step before the global norm is known

  int zero_stage = 0;
  int replicas = 1;  // HSDP: dp * cp ranks are `replicas` groups that each hold all shards
  int prefetch_depth = 1;
  std::int64_t gather_bytes = 0;  // parameters that are gathered together, at least; 0: of a block
  std::int64_t unsharded_bytes = 0;  // parameters that ZeRO-3 leaves whole, at most
  GatherFormat gather_format = GatherFormat::kFp32;
  ReductionTime reduction_time = ReductionTime::kEnd;
  std::int64_t bucket_bytes =
      25'000'000;  // gradients of layers are reduced together up to this size

  RecomputeKind recompute = RecomputeKind::kNone;
  int recompute_layers = 0;      // of each stage, the first ones; 0: all
  int loss_chunks = 1;           // pieces of the logits, made one after the other
  int mlp_tiles = 1;             // pieces of the MLP along the sequence
  int tp_tiles = 1;              // pieces of a tensor-parallel sum beside those of its GEMM
  int moe_pieces = 1;            // pieces of dispatch, experts and combine
  double capacity_factor = 0.0;  // of experts; 0: dropless
  // Dropless with ep: rows that a rank's experts have room for, times an even share; 0: all that
  // may come.
  double expert_headroom = 0.0;
  FusionKind fuse = FusionKind::kNone;

  AttentionAlgorithm attention = AttentionAlgorithm::kFlash;
  // Probabilities with which a number becomes 0: of the embedding's output and of what attention
  // and MLP add; of attention's weights.
  double dropout = 0.0;
  double attention_dropout = 0.0;

  Precision precision = Precision::kFp32;
  WeightStorage weights = WeightStorage::kMaster;
  GradientFormat gradients = GradientFormat::kFp32;

  OffloadTarget offload_optimizer = OffloadTarget::kNone;
  OffloadTarget offload_gradients = OffloadTarget::kNone;
  OffloadTarget offload_parameters = OffloadTarget::kNone;
  OffloadTarget offload_activations = OffloadTarget::kNone;
  double offload_fraction = 1.0;  // of the optimizer state
  bool stream_optimizer = false;  // offloaded state is copied to the device, which updates
  bool delayed_update = false;    // the update of a step runs beside the next step

  OptimizerKind optimizer = OptimizerKind::kAdamW;
  MomentFormat moments = MomentFormat::kFp32;
  double clip_norm = 0.0;   // global gradient norm that is clipped to; 0: no clipping
  double loss_scale = 0.0;  // the loss is scaled, and a step with infinities skipped; 0: neither
  // Steps without infinities after which loss_scale doubles, as it halves after one with them; 0:
  // it stays.
  int loss_scale_window = 0;
  TrainingMethod method = TrainingMethod::kFull;
  int lora_rank = 8;
  double lora_alpha = 16.0;

  // Whether adapters are trained, beside weights that stay as they are; and whether linears of
  // these have 4 bits.
  bool HasAdapters() const { return method != TrainingMethod::kFull; }
  bool QuantizesBase() const { return method == TrainingMethod::kQlora; }
  bool FusesNorms() const { return fuse == FusionKind::kNorms || fuse == FusionKind::kAll; }
  bool FusesEpilogues() const { return fuse == FusionKind::kEpilogues || fuse == FusionKind::kAll; }
  bool HasDynamicScale() const { return loss_scale > 0 && loss_scale_window > 0; }
  int World() const { return dp * cp * tp * pp; }
  // Pipeline ranks that hold one stage: under DualPipe the r-th from either end hold the same.
  int StageCopies() const { return schedule == ScheduleKind::kDualPipe && pp > 1 ? 2 : 1; }
  // Ranks that hold the same parameters and sum their gradients.
  int DataParallel() const { return dp * cp * StageCopies(); }
  // Ranks over which ZeRO divides state.
  int Shards() const { return DataParallel() / replicas; }
  // Whether tensor-parallel ranks hold experts of their own rather than parts of the same ones.
  bool ExpertsSpanTp() const { return expert_tp == 1 && tp > 1; }
  // Ranks of a stage that experts are dealt to, and those of them that hold the same ones.
  int ExpertRanks() const { return dp * cp * (ExpertsSpanTp() ? tp : 1); }
  int ExpertHolders() const { return ExpertRanks() / ep * StageCopies(); }
  // Whether experts are held, summed and sharded by other ranks than all else.
  bool DealsExperts() const { return ep > 1 || ExpertsSpanTp(); }
  // Tokens of a micro-batch that one rank sends to experts.
  std::int64_t ExpertTokens() const {
    return micro_batch * LocalSequence() / (ExpertsSpanTp() ? tp : 1);
  }
  // Chunks of consecutive layers that one rank holds.
  int Chunks() const;
  // That the model is cut into; on DualPipe's two ways each stage lies on two ranks.
  int Stages() const { return schedule == ScheduleKind::kDualPipe ? pp : pp * Chunks(); }
  std::int64_t MicroBatches() const { return global_batch / (micro_batch * dp); }
  // Whether activations are shorter than fp32.
  bool HasShortActivations() const { return precision >= Precision::kFp16; }
  // Whether layers' products read numbers of 8 bits or fewer.
  bool QuantizesProducts() const { return precision >= Precision::kFp8; }
  // Whether the pipeline never drains between steps, so that gradients are those of older weights.
  bool StepsOverlap() const {
    return schedule == ScheduleKind::kPipeDream || schedule == ScheduleKind::kPipeDream2bw;
  }
  // Whether each micro-batch's gradients are an update by themselves, not a part of the step's.
  bool UpdatesEachMicroBatch() const { return schedule == ScheduleKind::kPipeDream; }
  // Tokens whose mean gradient an update applies.
  std::int64_t TokensOfUpdate() const {
    return (UpdatesEachMicroBatch() ? micro_batch * dp : global_batch) * sequence;
  }
  // Number in the step's batch of the first sample of a micro-batch of rank `of_dp`.
  std::int64_t FirstSample(int of_dp, int micro_batch_index) const {
    return (of_dp * MicroBatches() + micro_batch_index) * micro_batch;
  }
  // Tokens of one sample on one rank.
  std::int64_t LocalSequence() const { return sequence / cp; }
  bool operator==(const Plan&) const = default;
};

// Degrees of parallelism, by number: tp, cp, ep, dp, pp. The orders of all five are numbered in
// lexicographic order of these numbers, so that 0 is tp-cp-ep-dp-pp; the first degree of an order
// runs over neighbouring devices.
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
// Errors: kInvalidArgument, naming field, value and remedy with the nearest value that works: a
// field outside its range (plan_fields.h); more than kMaxRanks ranks; a global batch that is no
// multiple of dp * micro_batch; more micro-batches than ids can hold; two choices that exclude each
// other (plan_rules.h). ZeRO with one data-parallel rank is allowed: nothing is sharded. Any
// schedule is allowed with pp 1, and any recomputation with any schedule: with a split backward, a
// layer's forward runs again before its input-gradient half, whose weight-gradient half reads the
// same rebuilt tensors. O(1); safe from any thread.
Result<void> ValidatePlan(const Plan& plan);

// Checks `plan` by itself and against `model`, which is valid.
//
// Errors: as above, and heads or ffn_hidden that tp does not divide; kv_heads that neither tp
// divides nor they divide tp; more stages than layers; more layers than ids can hold; a sequence
// past the learned position table; an activation of a micro-batch past 2^56 bytes. O(sqrt(heads));
// safe from any thread.
Result<void> ValidatePlan(const Plan& plan, const ModelSpec& model);

// "dp2 tp1 pp2 1f1b mb4 x8 zero1 recompute-full": short, for tables and titles. mb is the samples
// of a micro-batch, x the micro-batches of a step; what has its default is left out.
std::string Describe(const Plan& plan);

}  // namespace foretrain
