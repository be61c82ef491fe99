#include "sim/spec/plan_fields.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <type_traits>

#include "base/checked.h"

namespace foretrain {
namespace {

// Names of each enum's values, in the order of its enumerators.
constexpr std::array<std::string_view, 10> kSchedules = {
    "gpipe", "1f1b",     "zb-h1",      "interleaved", "zb-h2",
    "zb-v",  "dualpipe", "dualpipe-v", "pipedream",   "pipedream-2bw"};
constexpr std::array<std::string_view, 3> kRecomputes = {"none", "full", "selective"};
constexpr std::array<std::string_view, 3> kContextParallelKinds = {"ring", "all-gather",
                                                                   "all-to-all"};
constexpr std::array<std::string_view, 2> kReductionTimes = {"end", "micro-batch"};
constexpr std::array<std::string_view, 4> kGatherFormats = {"fp32", "bf16", "fp8", "int8"};
constexpr std::array<std::string_view, 3> kMomentFormats = {"fp32", "bf16", "int8"};
constexpr std::array<std::string_view, 7> kPrecisions = {"fp32", "tf32",      "fp16", "bf16",
                                                         "fp8",  "fp8-block", "fp4"};
constexpr std::array<std::string_view, 3> kWeightStorages = {"master", "fp32", "alone"};
constexpr std::array<std::string_view, 2> kGradientFormats = {"fp32", "compute"};
constexpr std::array<std::string_view, 2> kOptimizers = {"adamw", "sgd"};
constexpr std::array<std::string_view, 3> kOffloadTargets = {"none", "host", "nvme"};
constexpr std::array<std::string_view, 2> kAttentions = {"flash", "standard"};
constexpr std::array<std::string_view, 4> kFusions = {"none", "norms", "epilogues", "all"};
constexpr std::array<std::string_view, 3> kMethods = {"full", "lora", "qlora"};

constexpr double kMostDropped = 0.9;
constexpr double kLargestNumber = 1e30;     // where nothing smaller is a natural limit
constexpr std::int64_t kMostPieces = 4096;  // ids hold 12 bits for a part

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
                 double most, std::string_view help) {
  PlanField field{name, options, value_name, help, PlanFieldType::kNumber};
  field.number = member;
  field.most = most;
  return field;
}
PlanField Core(PlanField field) {
  field.core = true;
  return field;
}

std::span<const std::string_view> RankOrders() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (int order = 0; order < kRankOrderCount; ++order) all.push_back(NameOfRankOrder(order));
    return all;
  }();
  return names;
}

std::vector<PlanField> MakeFields() {
  const std::int64_t count = kMaxModelCount;
  PlanField bucket = Integer<&Plan::bucket_bytes>("bucket_bytes", "--bucket", 1, kMaxProduct,
                                                  "Gradients that are reduced together");
  PlanField gather = Integer<&Plan::gather_bytes>(
      "gather_bytes", "--gather-bucket", 0, kMaxProduct,
      "Parameters of consecutive blocks that are gathered together; 0: each block's alone");
  PlanField unsharded =
      Integer<&Plan::unsharded_bytes>("unsharded_bytes", "--unsharded", 0, kMaxProduct,
                                      "Parameters that ZeRO-3 leaves whole on each rank, at most");
  for (PlanField* field : {&bucket, &gather, &unsharded}) {
    field->type = PlanFieldType::kSize;
    field->value_name = "SIZE";
  }
  PlanField stage_layers{"stage_layers",
                         "--stage-layers",
                         "N,N,...",
                         "Layers of each stage, first to last; left out: dealt evenly",
                         PlanFieldType::kIntegers,
                         1,
                         kMaxLayers};
  stage_layers.list = &Plan::stage_layers;
  PlanField fuse = Choice<&Plan::fuse>(
      "fuse", "--fuse", "none|norms|epilogues|all", kFusions,
      "Ops that are joined to one: a residual's sum with the norm behind it; products with the "
      "activation or the gradient of a bias behind them");
  fuse.when_true = static_cast<std::int64_t>(FusionKind::kNorms);
  constexpr std::string_view offload = "none|host|nvme";
  return {
      Core(Integer<&Plan::dp>("dp", "--dp,--data-parallel-size", 1, kMaxRanks, "Data parallelism")),
      Integer<&Plan::cp>("cp", "--cp,--context-parallel-size", 1, kMaxRanks,
                         "Context parallelism: ranks that share a sample's tokens"),
      Core(Integer<&Plan::tp>("tp", "--tp,--tensor-model-parallel-size", 1, kMaxRanks,
                              "Tensor parallelism")),
      Core(Integer<&Plan::pp>("pp", "--pp,--pipeline-model-parallel-size", 1, kMaxRanks,
                              "Pipeline stages")),
      Integer<&Plan::ep>("ep", "--ep,--expert-model-parallel-size", 1, kMaxRanks,
                         "Expert parallelism: ranks that share a layer's experts"),
      Integer<&Plan::expert_tp>("expert_tp", "--etp,--expert-tensor-parallel-size", 0, kMaxRanks,
                                "Ranks that share one expert; 0: as --tp"),
      Choice<&Plan::cp_kind>("cp_kind", "--cp-type", "NAME", kContextParallelKinds,
                             "How context-parallel ranks exchange keys and values: ring, "
                             "all-gather, all-to-all"),
      Flag<&Plan::sequence_parallel>(
          "sequence_parallel", "--sequence-parallel",
          "Norms and residuals hold a share of the tokens on each tensor-parallel rank"),
      Flag<&Plan::vocab_parallel>("vocab_parallel", "--vocab-parallel",
                                  "Embedding and head are split over tensor-parallel ranks"),
      Choice<&Plan::rank_order>("rank_order", "--rank-order", "ORDER", RankOrders(),
                                "Which degrees run over near devices and which over far ones: "
                                "tp-cp-ep-dp-pp, or another order of these five"),
      Core(Integer<&Plan::sequence>("sequence", "--sequence,--seq-length", 1, count,
                                    "Tokens of one sample")),
      Core(Integer<&Plan::global_batch>("global_batch", "--global-batch,--global-batch-size", 1,
                                        count, "Samples a step")),
      Core(Integer<&Plan::micro_batch>("micro_batch", "--micro-batch,--micro-batch-size", 1, count,
                                       "Samples of one pass on one rank")),
      Core(Choice<&Plan::schedule>("schedule", "--schedule", "NAME", kSchedules,
                                   "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, "
                                   "zb-v, dualpipe, dualpipe-v, pipedream, pipedream-2bw")),
      Integer<&Plan::vpp>("vpp", "--vpp,--virtual-pipeline-model-parallel-size", 1, kMostPieces,
                          "Chunks of layers a rank holds, for the interleaved schedule"),
      stage_layers,
      Flag<&Plan::post_validation>("post_validation", "--post-validation",
                                   "Update before the global norm is known, roll back if need be"),
      Core(Integer<&Plan::zero_stage>("zero_stage", "--zero", 0, 3,
                                      "ZeRO stage: what is sharded over data-parallel ranks")),
      Integer<&Plan::replicas>("replicas", "--hsdp", 1, kMaxRanks,
                               "Groups of ranks that each hold all of ZeRO's shards"),
      Integer<&Plan::prefetch_depth>("prefetch_depth", "--prefetch", 0, kMostPieces,
                                     "Gathers of parameters that ZeRO-3 issues ahead"),
      gather,
      unsharded,
      Choice<&Plan::gather_format>("gather_format", "--gather-format", "FORMAT", kGatherFormats,
                                   "Number format in which ZeRO gathers parameters"),
      Choice<&Plan::reduction_time>("reduction_time", "--reduce-at", "end|micro-batch",
                                    kReductionTimes, "When gradients are summed over ranks"),
      Core(bucket),
      Core(Choice<&Plan::recompute>("recompute", "--recompute", "none|selective|full", kRecomputes,
                                    "What the backward computes again")),
      Integer<&Plan::recompute_layers>("recompute_layers", "--recompute-layers", 0, kMaxLayers,
                                       "Layers of a stage that recompute; 0: all"),
      Integer<&Plan::loss_chunks>("loss_chunks", "--loss-chunks", 1, kMostPieces,
                                  "Pieces in which logits and loss are made"),
      Integer<&Plan::mlp_tiles>("mlp_tiles", "--mlp-tiles", 1, kMostPieces,
                                "Pieces of the tokens in which the MLP runs"),
      Integer<&Plan::tp_tiles>("tp_tiles", "--tp-tiles", 1, kMostPieces,
                               "Pieces in which tensor-parallel sums run beside their GEMM"),
      Integer<&Plan::moe_pieces>("moe_pieces", "--moe-pieces", 1, kMostPieces,
                                 "Pieces in which dispatch, experts and combine overlap"),
      Number<&Plan::capacity_factor>("capacity_factor", "--capacity-factor", "X", 1e6,
                                     "Tokens an expert takes, times its even share; 0: all"),
      Number<&Plan::expert_headroom>(
          "expert_headroom", "--expert-headroom", "X", 1e6,
          "Rows that dropless experts of a rank have room for, times an even share; 0: all"),
      fuse,
      Choice<&Plan::attention>("attention", "--attention", "flash|standard", kAttentions,
                               "Whether scores stay on the chip or are written out, as their "
                               "softmax is"),
      Number<&Plan::dropout>("dropout", "--dropout,--hidden-dropout", "P", kMostDropped,
                             "Probability with which a number of the embedding's output, or of "
                             "what attention and MLP add, is dropped"),
      Number<&Plan::attention_dropout>("attention_dropout", "--attention-dropout", "P",
                                       kMostDropped,
                                       "Probability with which a weight of attention is dropped"),
      Choice<&Plan::precision>("precision", "--precision", "FORMAT", kPrecisions,
                               "What products compute in: fp32, tf32, fp16, bf16, fp8, fp8-block, "
                               "fp4; activations have 16 bits from fp16 on"),
      Choice<&Plan::weights>("weights", "--weights", "master|fp32|alone", kWeightStorages,
                             "Beside 16-bit activations: 16-bit weights with fp32 masters, fp32 "
                             "weights cast for each use, or 16-bit weights alone"),
      Choice<&Plan::gradients>("gradients", "--gradients", "fp32|compute", kGradientFormats,
                               "Format in which gradients of parameters are summed"),
      Choice<&Plan::offload_optimizer>("offload_optimizer", "--offload-optimizer", offload,
                                       kOffloadTargets, "Where optimizer state lies"),
      Choice<&Plan::offload_gradients>("offload_gradients", "--offload-gradients", offload,
                                       kOffloadTargets, "Where summed gradients lie"),
      Choice<&Plan::offload_parameters>("offload_parameters", "--offload-parameters", offload,
                                        kOffloadTargets, "Where parameters lie between uses"),
      Choice<&Plan::offload_activations>("offload_activations", "--offload-activations", offload,
                                         kOffloadTargets,
                                         "Where saved activations wait for the backward"),
      Number<&Plan::offload_fraction>("offload_fraction", "--offload-fraction", "0..1", 1,
                                      "Share of the optimizer state that is offloaded"),
      Flag<&Plan::stream_optimizer>("stream_optimizer", "--stream-optimizer",
                                    "Update offloaded state on the device, not on the host"),
      Flag<&Plan::delayed_update>("delayed_update", "--delayed-update",
                                  "Run a step's update beside the next step"),
      Choice<&Plan::optimizer>("optimizer", "--optimizer", "adamw|sgd", kOptimizers, "Optimizer"),
      Choice<&Plan::moments>("moments", "--moments", "FORMAT", kMomentFormats,
                             "Number format of the optimizer's moments: fp32, bf16, int8"),
      Core(Number<&Plan::clip_norm>("clip_norm", "--clip", "NORM", kLargestNumber,
                                    "Clip the global gradient norm; 0: no clipping")),
      Number<&Plan::loss_scale>("loss_scale", "--loss-scale", "X", kLargestNumber,
                                "Scale the loss and skip steps with infinities; 0: neither"),
      Integer<&Plan::loss_scale_window>("loss_scale_window", "--loss-scale-window", 0,
                                        kMaxModelCount,
                                        "Steps without infinities after which the loss scale "
                                        "doubles, as it halves after one with "
                                        "them; 0: it stays"),
      Choice<&Plan::method>("method", "--method", "full|lora|qlora", kMethods,
                            "What is trained: all parameters, or low-rank adapters, of weights "
                            "that have 4 bits with qlora"),
      Integer<&Plan::lora_rank>("lora_rank", "--lora-rank", 1, count, "Rank of the adapters"),
      Number<&Plan::lora_alpha>("lora_alpha", "--lora-alpha", "X", 1e6,
                                "Adapters are scaled by this over their rank"),
  };
}

template <std::size_t n>
std::string_view NameAt(const std::array<std::string_view, n>& names, std::size_t index) {
  return index < n ? names[index] : "?";
}

template <class Kind, std::size_t n>
std::optional<Kind> Parse(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
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

const PlanField& PlanFieldOf(std::string_view name) {
  const PlanField* field = FindPlanField(name);
  FT_CHECK(field != nullptr);
  return *field;
}

bool HasDefault(const PlanField& field, const Plan& plan) {
  static const Plan standard;
  if (field.number != nullptr) return plan.*field.number == standard.*field.number;
  if (field.list != nullptr) return plan.*field.list == standard.*field.list;
  return field.get(plan) == field.get(standard);
}

std::string_view FirstOption(const PlanField& field) {
  return field.options.substr(0, field.options.find(','));
}

std::string TextOf(const PlanField& field, std::int64_t value) {
  if (field.type == PlanFieldType::kFlag) return value != 0 ? "on" : "off";
  if (field.type == PlanFieldType::kChoice) {
    const auto index = static_cast<std::size_t>(value);
    return index < field.choices.size() ? std::string(field.choices[index]) : "?";
  }
  return std::to_string(value);
}

std::string TextOf(const PlanField& field, const Plan& plan) {
  if (field.number != nullptr) return fmt::format("{}", plan.*field.number);
  if (field.list != nullptr) return fmt::format("{}", fmt::join(plan.*field.list, ","));
  return TextOf(field, field.get(plan));
}

void CopyField(const PlanField& field, const Plan& from, Plan& to) {
  if (field.number != nullptr) {
    to.*field.number = from.*field.number;
  } else if (field.list != nullptr) {
    to.*field.list = from.*field.list;
  } else {
    field.set(to, field.get(from));
  }
}

std::string_view Name(ScheduleKind schedule) {
  return NameAt(kSchedules, static_cast<std::size_t>(schedule));
}
std::string_view Name(RecomputeKind recompute) {
  return NameAt(kRecomputes, static_cast<std::size_t>(recompute));
}
std::string_view Name(ContextParallelKind kind) {
  return NameAt(kContextParallelKinds, static_cast<std::size_t>(kind));
}
std::string_view Name(OffloadTarget target) {
  return NameAt(kOffloadTargets, static_cast<std::size_t>(target));
}
std::string_view Name(Precision precision) {
  return NameAt(kPrecisions, static_cast<std::size_t>(precision));
}
std::optional<ScheduleKind> ParseSchedule(std::string_view name) {
  return Parse<ScheduleKind>(kSchedules, name);
}
std::optional<RecomputeKind> ParseRecompute(std::string_view name) {
  return Parse<RecomputeKind>(kRecomputes, name);
}

}  // namespace foretrain
