#include "sim/config/plan/plan_fields.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <type_traits>

#include "base/checked.h"
#include "base/enum_names.h"

namespace foretrain {
namespace {

// Names of each enum's values, in the order of its enumerators.
constexpr std::array<std::string_view, 11> kSchedules = {
    "gpipe",    "1f1b",       "zb-h1",     "interleaved",   "zb-h2", "zb-v",
    "dualpipe", "dualpipe-v", "pipedream", "pipedream-2bw", "custom"};
constexpr std::array<std::string_view, 3> kRecomputes = {"none", "full", "selective"};
// Our names of modules, and those of Megatron-Core's --recompute-modules.
constexpr std::array<std::string_view, 9> kRecomputeModules = {
    "core-attention",    "norm",    "activation",    "mlp", "qkv", "mla-up",
    "expert-activation", "experts", "shared-experts"};
constexpr std::array<std::string_view, 9> kMegatronModules = {
    "core_attn", "layernorm", "", "", "", "mla_up_proj", "moe_act", "moe", "shared_experts"};
constexpr std::array<std::string_view, 3> kContextParallelKinds = {"ring", "all-gather",
                                                                   "all-to-all"};
constexpr std::array<std::string_view, 2> kReductionTimes = {"end", "micro-batch"};
constexpr std::array<std::string_view, 4> kGatherFormats = {"fp32", "bf16", "fp8", "int8"};
constexpr std::array<std::string_view, 3> kMomentFormats = {"fp32", "bf16", "int8"};
constexpr std::array<std::string_view, 7> kPrecisions = {"fp32", "tf32",      "fp16", "bf16",
                                                         "fp8",  "fp8-block", "fp4"};
constexpr std::array<std::string_view, 3> kWeightStorages = {"master", "fp32", "alone"};
constexpr std::array<std::string_view, 2> kGradientFormats = {"fp32", "compute"};
constexpr std::array<std::string_view, 6> kOptimizers = {"adamw", "sgd",  "momentum",
                                                         "lion",  "muon", "adafactor"};
constexpr std::array<std::string_view, 3> kDecays = {"matrices", "no-embeddings", "all"};
constexpr std::array<std::string_view, 3> kOffloadTargets = {"none", "host", "nvme"};
constexpr std::array<std::string_view, 2> kAttentions = {"flash", "standard"};
constexpr std::array<std::string_view, 5> kFusions = {"none", "norms", "epilogues", "loss", "all"};
constexpr std::array<std::string_view, 3> kMethods = {"full", "lora", "qlora"};

constexpr double kMaxDropped = 0.9;
constexpr double kMaxAverageDecay = 0.9999999;  // at 1 an average would never move
constexpr double kLargestNumber = 1e30;         // for fields without a natural limit
constexpr std::int64_t kMaxPieces = 4096;       // ids hold 12 bits for a part

// Accessors by member pointer let one table serve fields of every type.
template <auto member>
std::int64_t Get(const Plan& plan) {
  return static_cast<std::int64_t>(plan.*member);
}
template <auto member>
void Set(Plan& plan, std::int64_t value) {
  plan.*member = static_cast<std::remove_reference_t<decltype(plan.*member)>>(value);
}

template <auto member>
PlanField Integer(std::string_view name, std::string_view options, std::int64_t low,
                  std::int64_t high, std::string_view help) {
  return {name, options, "N", help,        PlanFieldType::kInteger,
          low,  high,    {},  Get<member>, Set<member>};
}
template <auto member>
PlanField Flag(std::string_view name, std::string_view options, std::string_view help) {
  return {name, options, "", help, PlanFieldType::kFlag, 0, 1, {}, Get<member>, Set<member>};
}
template <auto member>
PlanField Choice(std::string_view name, std::string_view options, std::string_view value_name,
                 std::span<const std::string_view> choices, std::string_view help) {
  return {name,
          options,
          value_name,
          help,
          PlanFieldType::kChoice,
          0,
          static_cast<std::int64_t>(choices.size()) - 1,
          choices,
          Get<member>,
          Set<member>};
}
template <auto member>
PlanField Number(std::string_view name, std::string_view options, std::string_view value_name,
                 double max, std::string_view help) {
  PlanField field{name, options, value_name, help, PlanFieldType::kNumber};
  field.number = member;
  field.max = max;
  return field;
}
// Marks a field that files always contain, even with its default.
PlanField Core(PlanField field) {
  field.core = true;
  return field;
}

// The names of all 120 orders, built once, because choices need a span that outlives the table.
std::span<const std::string_view> RankOrders() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (int order = 0; order < kRankOrderCount; ++order) all.push_back(NameOfRankOrder(order));
    return all;
  }();
  return names;
}

// The one table of plan fields. Files, command line options and messages are derived from it, so a
// new field needs a single row. A test compares docs/options.md with it.
std::vector<PlanField> MakeFields() {
  const std::int64_t count = kMaxModelCount;
  PlanField bucket =
      Integer<&Plan::bucket_bytes>("bucket_bytes", "--bucket", 1, kMaxProduct,
                                   "Size of the buckets in which gradients are reduced");
  PlanField gather = Integer<&Plan::gather_bytes>(
      "gather_bytes", "--gather-bucket", 0, kMaxProduct,
      "Size of the buckets in which ZeRO gathers consecutive blocks; 0: each block by itself");
  PlanField unsharded = Integer<&Plan::unsharded_bytes>(
      "unsharded_bytes", "--unsharded", 0, kMaxProduct,
      "Maximum size of the parameters that ZeRO-3 keeps gathered on each rank");
  for (PlanField* field : {&bucket, &gather, &unsharded}) {
    field->type = PlanFieldType::kSize;
    field->value_name = "SIZE";
  }
  PlanField stage_layers{
      "stage_layers",
      "--stage-layers",
      "N,N,...",
      "Layers of each stage, first to last; the two ends may have 0; default: spread evenly",
      PlanFieldType::kIntegers,
      0,
      kMaxLayers};
  stage_layers.list = &Plan::stage_layers;
  PlanField slots{"schedule_slots", "--schedule-file", "FILE",
                  "Run the passes in the order of this file: CSV with a line for each rank, as "
                  "PyTorch's pipelining writes it; the schedule is then custom",
                  PlanFieldType::kSlots};
  slots.slots = &Plan::slots;
  PlanField schedule =
      Core(Choice<&Plan::schedule>("schedule", "--schedule", "NAME", kSchedules,
                                   "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, "
                                   "zb-v, dualpipe, dualpipe-v, pipedream, pipedream-2bw, or "
                                   "custom, which --schedule-file gives"));
  // Slots belong to a custom schedule alone.
  schedule.set = [](Plan& plan, std::int64_t value) {
    plan.schedule = static_cast<ScheduleKind>(value);
    if (plan.schedule != ScheduleKind::kCustom) plan.slots = {};
  };
  PlanField fuse = Choice<&Plan::fuse>(
      "fuse", "--fuse", "none|norms|epilogues|loss|all", kFusions,
      "Fused ops: a residual addition with the norm after it (norms); a GEMM "
      "with the activation or bias gradient after it (epilogues); the loss with its "
      "gradient (loss)");
  fuse.when_true = static_cast<std::int64_t>(FusionKind::kNorms);
  PlanField modules{"recompute_modules",
                    "--recompute-modules",
                    "NAME,...",
                    "Parts of a layer that selective recomputation drops and rebuilds; default: "
                    "core-attention and, with flash attention, norm, activation and "
                    "expert-activation",
                    PlanFieldType::kNames,
                    0,
                    (std::int64_t{1} << kRecomputeModules.size()) - 1,
                    kRecomputeModules,
                    Get<&Plan::recompute_modules>,
                    Set<&Plan::recompute_modules>};
  modules.second_names = kMegatronModules;
  constexpr std::string_view offload = "none|host|nvme";
  return {
      Core(Integer<&Plan::dp>("dp", "--dp,--data-parallel-size", 1, kMaxRanks,
                              "Data-parallel ranks")),
      Integer<&Plan::cp>("cp", "--cp,--context-parallel-size", 1, kMaxRanks,
                         "Context-parallel ranks, which share a sample's tokens"),
      Core(Integer<&Plan::tp>("tp", "--tp,--tensor-model-parallel-size", 1, kMaxRanks,
                              "Tensor-parallel ranks")),
      Core(Integer<&Plan::pp>("pp", "--pp,--pipeline-model-parallel-size", 1, kMaxRanks,
                              "Pipeline stages")),
      Integer<&Plan::ep>("ep", "--ep,--expert-model-parallel-size", 1, kMaxRanks,
                         "Expert-parallel ranks, which share a layer's experts"),
      Integer<&Plan::expert_tp>("expert_tp", "--etp,--expert-tensor-parallel-size", 0, kMaxRanks,
                                "Tensor-parallel ranks of one expert; 0: the same as --tp"),
      Choice<&Plan::cp_kind>("cp_kind", "--cp-type", "NAME", kContextParallelKinds,
                             "How context-parallel ranks exchange keys and values: ring, "
                             "all-gather, all-to-all"),
      Flag<&Plan::sequence_parallel>(
          "sequence_parallel", "--sequence-parallel",
          "Shard norms and residuals by tokens over tensor-parallel ranks"),
      Flag<&Plan::vocab_parallel>("vocab_parallel", "--vocab-parallel",
                                  "Shard embedding and head over tensor-parallel ranks"),
      Integer<&Plan::vocab_multiple>(
          "vocab_multiple", "--vocab-multiple,--make-vocab-size-divisible-by", 1, kMaxPieces,
          "Pad each rank's rows of the vocabulary to a multiple of N, which aligns GEMMs"),
      Choice<&Plan::rank_order>("rank_order", "--rank-order", "ORDER", RankOrders(),
                                "Order of the degrees from near devices to far ones: "
                                "tp-cp-ep-dp-pp, or another order of these five"),
      Core(Integer<&Plan::sequence>("sequence", "--sequence,--seq-length", 1, count,
                                    "Tokens in one sample; 8k is 8,192")),
      Integer<&Plan::encoder_sequence>(
          "encoder_sequence", "--encoder-sequence,--encoder-seq-length", 0, count,
          "Leading tokens of a sample that an encoder reads; the decoder predicts the others; 0: "
          "half"),
      Core(Integer<&Plan::global_batch>(
          "global_batch", "--global-batch,--global-batch-size", 1, count,
          "Samples in one step; with k or M tokens in one step: 4M is "
          "4,194,304")),
      Core(Integer<&Plan::micro_batch>("micro_batch", "--micro-batch,--micro-batch-size", 1, count,
                                       "Samples in one forward pass of a rank")),
      schedule,
      slots,
      Integer<&Plan::vpp>("vpp", "--vpp,--virtual-pipeline-model-parallel-size", 1, kMaxPieces,
                          "Chunks of layers on each rank, for the interleaved schedule"),
      stage_layers,
      Flag<&Plan::post_validation>("post_validation", "--post-validation",
                                   "Update weights before the global gradient norm is known; roll "
                                   "back if it asks for clipping"),
      Core(Integer<&Plan::zero_stage>("zero_stage", "--zero", 0, 3,
                                      "ZeRO stage: 1 shards optimizer state over data-parallel "
                                      "ranks, 2 also gradients, 3 also weights")),
      Integer<&Plan::replicas>("replicas", "--hsdp", 1, kMaxRanks,
                               "Replica groups of HSDP: each holds a full set of ZeRO's shards"),
      Integer<&Plan::prefetch_depth>(
          "prefetch_depth", "--prefetch", 0, kMaxPieces,
          "Number of parameter gathers that ZeRO-3 issues before they are needed"),
      gather,
      unsharded,
      Choice<&Plan::gather_format>("gather_format", "--gather-format", "FORMAT", kGatherFormats,
                                   "Number format in which ZeRO gathers parameters"),
      Choice<&Plan::reduction_time>(
          "reduction_time", "--reduce-at", "end|micro-batch", kReductionTimes,
          "When gradients are reduced: at the end of the step, or after each micro-batch"),
      Core(bucket),
      Core(Choice<&Plan::recompute>("recompute", "--recompute", "none|selective|full", kRecomputes,
                                    "Activations that the backward pass recomputes")),
      modules,
      Integer<&Plan::recompute_layers>("recompute_layers", "--recompute-layers", 0, kMaxLayers,
                                       "Layers of a stage that recompute; 0: all"),
      Integer<&Plan::recompute_every>("recompute_every", "--recompute-every", 1, kMaxLayers,
                                      "Every N-th layer of a stage recomputes"),
      Integer<&Plan::loss_chunks>("loss_chunks", "--loss-chunks", 1, kMaxPieces,
                                  "Number of pieces in which logits and loss are computed"),
      Integer<&Plan::mlp_tiles>("mlp_tiles", "--mlp-tiles", 1, kMaxPieces,
                                "Number of pieces of the tokens in which the MLP is computed"),
      Integer<&Plan::tp_tiles>(
          "tp_tiles", "--tp-tiles", 1, kMaxPieces,
          "Number of pieces in which tensor-parallel communication overlaps its GEMM"),
      Integer<&Plan::moe_pieces>("moe_pieces", "--moe-pieces", 1, kMaxPieces,
                                 "Number of pieces in which dispatch, experts and combine overlap"),
      Number<&Plan::capacity_factor>(
          "capacity_factor", "--capacity-factor", "X", 1e6,
          "Tokens that an expert accepts, as a multiple of its even share; 0: no limit"),
      Number<&Plan::expert_headroom>("expert_headroom", "--expert-headroom", "X", 1e6,
                                     "Rows that a rank's dropless experts have memory for, as a "
                                     "multiple of the even share; 0: all rows"),
      fuse,
      Choice<&Plan::attention>(
          "attention", "--attention", "flash|standard", kAttentions,
          "flash keeps attention scores on the chip; standard writes scores and softmax to memory"),
      Number<&Plan::dropout>("dropout", "--dropout,--hidden-dropout", "P", kMaxDropped,
                             "Dropout probability after the embedding, attention and MLP"),
      Number<&Plan::attention_dropout>("attention_dropout", "--attention-dropout", "P", kMaxDropped,
                                       "Dropout probability of attention weights"),
      Flag<&Plan::documents>("documents", "--documents",
                             "Attention ends at the borders of documents, and positions count from "
                             "their first tokens"),
      Choice<&Plan::precision>("precision", "--precision", "FORMAT", kPrecisions,
                               "Number format of GEMMs: fp32, tf32, fp16, bf16, fp8, fp8-block, "
                               "fp4. From fp16 on, activations have 16 bits"),
      Choice<&Plan::weights>(
          "weights", "--weights", "master|fp32|alone", kWeightStorages,
          "With 16-bit activations: 16-bit weights with fp32 master weights (master), fp32 weights "
          "cast at each use (fp32), or 16-bit weights only (alone)"),
      Choice<&Plan::gradients>("gradients", "--gradients", "fp32|compute", kGradientFormats,
                               "Number format in which weight gradients are accumulated"),
      Choice<&Plan::logits>("logits", "--logits", "fp32|compute", kGradientFormats,
                            "Number format of logits and their gradient: fp32, or that of "
                            "activations"),
      Choice<&Plan::offload_optimizer>("offload_optimizer", "--offload-optimizer", offload,
                                       kOffloadTargets, "Where optimizer state is kept"),
      Choice<&Plan::offload_gradients>("offload_gradients", "--offload-gradients", offload,
                                       kOffloadTargets, "Where accumulated gradients are kept"),
      Choice<&Plan::offload_parameters>("offload_parameters", "--offload-parameters", offload,
                                        kOffloadTargets, "Where parameters are kept between uses"),
      Choice<&Plan::offload_activations>(
          "offload_activations", "--offload-activations", offload, kOffloadTargets,
          "Where saved activations are kept until the backward pass"),
      Number<&Plan::offload_fraction>("offload_fraction", "--offload-fraction", "0..1", 1,
                                      "Share of the optimizer state that is offloaded"),
      Flag<&Plan::stream_optimizer>("stream_optimizer", "--stream-optimizer",
                                    "Update offloaded state on the device, not on the host"),
      Flag<&Plan::delayed_update>(
          "delayed_update", "--delayed-update",
          "Overlap a step's update with the next step; weights are one step old"),
      Choice<&Plan::optimizer>(
          "optimizer", "--optimizer", "NAME", kOptimizers,
          "Optimizer: adamw, sgd, momentum (SGD with momentum), lion, muon (layers' "
          "matrices; adamw for the rest), adafactor"),
      Choice<&Plan::moments>("moments", "--moments", "FORMAT", kMomentFormats,
                             "Number format of the optimizer's moments: fp32, bf16, int8"),
      Choice<&Plan::decay>("decay", "--decay", "NAME", kDecays,
                           "Parameters with weight decay: matrices, matrices without embeddings "
                           "(no-embeddings), all"),
      Number<&Plan::average_decay>("average_decay", "--ema", "DECAY", kMaxAverageDecay,
                                   "Keep a moving average of the parameters that decays by this "
                                   "factor a step; 0: none"),
      Core(Number<&Plan::clip_norm>("clip_norm", "--clip", "NORM", kLargestNumber,
                                    "Clip the global gradient norm; 0: no clipping")),
      Number<&Plan::loss_scale>(
          "loss_scale", "--loss-scale", "X", kLargestNumber,
          "Loss scale; steps with overflowed gradients are skipped; 0: no scaling"),
      Integer<&Plan::loss_scale_window>(
          "loss_scale_window", "--loss-scale-window", 0, kMaxModelCount,
          "Steps without overflow after which the loss scale doubles; each overflow halves it; 0: "
          "the scale is constant"),
      Choice<&Plan::method>("method", "--method", "full|lora|qlora", kMethods,
                            "Parameters to train: all (full), low-rank adapters (lora), or "
                            "adapters over 4-bit weights (qlora)"),
      Integer<&Plan::lora_rank>("lora_rank", "--lora-rank", 1, count, "Rank of the adapters"),
      Number<&Plan::lora_alpha>("lora_alpha", "--lora-alpha", "X", 1e6,
                                "Adapters are scaled by alpha / rank"),
  };
}

}  // namespace

std::span<const PlanField> PlanFields() {
  static const std::vector<PlanField> fields = MakeFields();
  return fields;
}

const PlanField* FindPlanField(std::string_view name) {
  for (const PlanField& field : PlanFields()) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

// For names that the program itself writes, so a missing one is a bug.
const PlanField& PlanFieldOf(std::string_view name) {
  const PlanField* field = FindPlanField(name);
  FT_CHECK(field != nullptr);
  return *field;
}

// Compares with a default-constructed plan, so defaults have one place: the members of Plan.
bool HasDefault(const PlanField& field, const Plan& plan) {
  static const Plan standard;
  if (field.number != nullptr) return plan.*field.number == standard.*field.number;
  if (field.list != nullptr) return plan.*field.list == standard.*field.list;
  if (field.slots != nullptr) return (plan.*field.slots).empty();
  return field.get(plan) == field.get(standard);
}

// An option may have a second name, as other programs call it. Messages use the first.
std::string_view FirstOption(const PlanField& field) {
  return field.options.substr(0, field.options.find(','));
}

std::string TextOf(const PlanField& field, std::int64_t value) {
  if (field.type == PlanFieldType::kFlag) return value != 0 ? "on" : "off";
  if (field.type == PlanFieldType::kChoice) {
    const auto index = static_cast<std::size_t>(value);
    return index < field.choices.size() ? std::string(field.choices[index]) : "?";
  }
  if (field.type == PlanFieldType::kNames) {
    return value == 0 ? "default" : fmt::format("{}", fmt::join(NamesIn(field, value), ","));
  }
  return std::to_string(value);
}

std::vector<std::string_view> NamesIn(const PlanField& field, std::int64_t value) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < field.choices.size(); ++i) {
    if ((static_cast<std::uint64_t>(value) >> i & 1U) != 0) names.push_back(field.choices[i]);
  }
  return names;
}

std::int64_t BitOfName(const PlanField& field, std::string_view name) {
  if (name.empty()) return 0;
  for (std::size_t i = 0; i < field.choices.size(); ++i) {
    const bool second = i < field.second_names.size() && field.second_names[i] == name;
    if (field.choices[i] == name || second) return std::int64_t{1} << i;
  }
  return 0;
}

std::string TextOf(const PlanField& field, const Plan& plan) {
  if (field.number != nullptr) return fmt::format("{}", plan.*field.number);
  if (field.list != nullptr) return fmt::format("{}", fmt::join(plan.*field.list, ","));
  if (field.slots != nullptr) {
    return (plan.*field.slots).empty() ? std::string() : (plan.*field.slots).file();
  }
  return TextOf(field, field.get(plan));
}

// Numbers, lists and slots are reached by member pointer; everything else is an integer behind get
// and set.
void CopyField(const PlanField& field, const Plan& from, Plan& to) {
  if (field.number != nullptr) {
    to.*field.number = from.*field.number;
  } else if (field.list != nullptr) {
    to.*field.list = from.*field.list;
  } else if (field.slots != nullptr) {
    to.*field.slots = from.*field.slots;
  } else {
    field.set(to, field.get(from));
  }
}

std::string_view Name(ScheduleKind schedule) { return NameIn(kSchedules, schedule); }
std::string_view Name(RecomputeKind recompute) { return NameIn(kRecomputes, recompute); }
std::string_view Name(ContextParallelKind kind) { return NameIn(kContextParallelKinds, kind); }
std::string_view Name(OffloadTarget target) { return NameIn(kOffloadTargets, target); }
std::string_view Name(Precision precision) { return NameIn(kPrecisions, precision); }
std::optional<RecomputeKind> ParseRecompute(std::string_view name) {
  return ParseIn<RecomputeKind>(kRecomputes, name);
}

}  // namespace foretrain
