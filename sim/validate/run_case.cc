#include "sim/validate/run_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/validate/run_offload.h"
#include "sim/validate/stage_layers.h"

namespace foretrain {
namespace {

constexpr std::int64_t kUsualHeadDim = 128;
constexpr std::int64_t kVocabMultiple = 128;
// Sizes to try if a row does not state its micro-batch.
constexpr std::array<std::int64_t, 5> kMicroBatches = {1, 2, 4, 8, 16};

// Sets the plan's formats from the row's dtype; the preset fills in what the dtype leaves open.
// "-amp" (autocast) keeps fp32 weights.
Result<void> SetPrecision(std::string_view dtype, const Preset& preset, Plan& plan) {
  constexpr std::array<std::pair<std::string_view, Precision>, 5> kNames = {{
      {"fp32", Precision::kFp32},
      {"fp16", Precision::kFp16},
      {"bf16", Precision::kBf16},
      {"fp8", Precision::kFp8},
      {"mxfp8", Precision::kFp8Block},
  }};
  constexpr std::string_view kAutocast = "-amp";
  const bool autocast = dtype.ends_with(kAutocast);
  if (autocast) dtype.remove_suffix(kAutocast.size());
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [dtype](const auto& name) { return name.first == dtype; });
  if (found == kNames.end()) {
    return Refuse(
        "dtype \"{}\": must be fp32, fp16, bf16, fp8 or mxfp8, with \"-amp\" for autocast",
        Printable(dtype));
  }
  plan.precision = found->second;
  ApplyFormats(preset, {}, plan);
  if (autocast && plan.HasShortActivations()) plan.weights = WeightStorage::kFp32;
  return {};
}

// Heads of the row, or a guess that is noted in `filled`.
std::int64_t HeadsOf(const PublishedRun& run, const RunFamily& family, RunCase& out) {
  if (run.heads > 0) return run.heads;
  const auto known = family.heads_of_hidden.find(run.hidden);
  const std::int64_t usual = family.heads > 0 ? family.heads : run.hidden / kUsualHeadDim;
  const std::int64_t heads = known != family.heads_of_hidden.end() ? known->second : usual;
  out.filled.push_back(fmt::format("heads {}", heads));
  return heads;
}

// Whether tied embeddings bring the parameter count closer to the published one.
bool TiedIsNearer(ModelSpec model, double parameters, bool otherwise) {
  if (parameters <= 0) return otherwise;
  const auto error = [&](bool tied) {
    model.tied_embeddings = tied;
    return std::abs(static_cast<double>(ParameterCount(model)) - parameters);
  };
  const double tied = error(true), untied = error(false);
  // A published count that is off by more than 5 % either way does not decide.
  if (std::min(tied, untied) > 0.05 * parameters) return otherwise;
  return tied < untied;
}

// Vocabulary padded to a multiple of 128, so that tensor cores can load a rank's share of the
// tables.
std::int64_t PaddedVocab(const PublishedRun& run, RunCase& out) {
  if (run.vocab % kVocabMultiple == 0) return run.vocab;
  const std::int64_t padded = (run.vocab / kVocabMultiple + 1) * kVocabMultiple;
  out.filled.push_back(fmt::format("vocab {} padded to {}", run.vocab, padded));
  return padded;
}

// Model of the row. A gated MLP implies the Llama family: RMSNorm, RoPE and no biases.
Result<ModelSpec> ModelOf(const PublishedRun& run, const RunFamily& family, RunCase& out) {
  ModelSpec model;
  model.name = run.model.empty() ? run.id : run.model;
  model.layers = run.layers;
  model.hidden = run.hidden;
  model.heads = HeadsOf(run, family, out);
  model.kv_heads = run.kv_heads > 0 ? run.kv_heads : model.heads;
  model.head_dim =
      run.head_dim > 0 ? run.head_dim : run.hidden / std::max<std::int64_t>(1, model.heads);
  model.ffn_hidden = run.ffn_hidden;
  model.vocab = PaddedVocab(run, out);
  model.max_sequence = run.sequence;
  if (run.gated_mlp) {
    model.norm = NormKind::kRmsNorm;
    model.mlp = MlpKind::kSwiglu;
    model.positions = PositionKind::kRope;
    model.attention_bias = model.output_bias = model.mlp_bias = false;
  }
  if (run.experts > 0) {
    model.experts = run.experts;
    model.experts_per_token = run.experts_per_token;
    model.expert_ffn_hidden = run.ffn_hidden;
  }
  FT_TRY(ValidateModel(model));
  model.tied_embeddings = TiedIsNearer(model, run.parameters, !run.gated_mlp);
  return model;
}

// Cluster of the row: the catalogue's GPU, with the row's own rates where it states them.
Result<ClusterSpec> ClusterOf(const PublishedRun& run, const RunFamily& family,
                              const Catalogue& catalogue) {
  FT_ASSIGN(const GpuEntry gpu, FindGpu(catalogue, run.gpu));
  const int per_node = std::min(run.gpus, run.gpus_per_node);
  FT_ASSIGN(ClusterSpec cluster, MakeCluster(gpu, (run.gpus + per_node - 1) / per_node, per_node,
                                             run.network_bytes_per_s));
  cluster.adapters_per_node = family.adapters_per_node;
  if (run.link_bytes_per_s > 0) cluster.device.link_bytes_per_s = run.link_bytes_per_s;
  return cluster;
}

// Sets recomputation as stated by the family or else by the row.
Result<void> SetRecompute(const PublishedRun& run, const RunFamily& family, Plan& plan) {
  const std::string& stated = family.recompute.empty() ? run.recompute : family.recompute;
  if (stated.empty()) return {};
  const auto recompute = ParseRecompute(stated);
  if (!recompute.has_value()) {
    return Refuse("recompute \"{}\": must be none, selective or full", Printable(stated));
  }
  plan.recompute = *recompute;
  if (plan.recompute != RecomputeKind::kSelective || family.selective_every == 0) return {};
  plan.recompute = RecomputeKind::kFull;
  const std::int64_t of_stage = CeilDiv(run.layers, run.pp);
  plan.recompute_layers = static_cast<int>(CeilDiv(of_stage, family.selective_every));
  return {};
}

// Reads llmq's --lmhead-chunks from the row's notes, where these contain its command line.
Result<void> SetLossChunks(std::string_view words, Plan& plan) {
  constexpr std::string_view kOption = "--lmhead-chunks=";
  constexpr std::int64_t kMax = 1 << 16;
  const std::size_t at = words.find(kOption);
  if (at == std::string_view::npos) return {};
  words.remove_prefix(at + kOption.size());
  const std::string_view number = words.substr(0, words.find_first_not_of("0123456789"));
  FT_ASSIGN(const std::int64_t chunks, ParseInt(kOption, number, 1, kMax));
  plan.loss_chunks = static_cast<int>(chunks);
  return {};
}

// Plan of the row: the preset's options, overridden by every field that the row states.
Result<Plan> PlanOf(const PublishedRun& run, const RunFamily& family, const Preset& preset) {
  Plan plan;
  plan.dp = run.dp;
  plan.tp = run.tp;
  plan.pp = run.pp;
  plan.cp = run.cp;
  plan.ep = run.ep;
  plan.sequence = run.sequence;
  plan.micro_batch = run.micro_batch > 0 ? run.micro_batch : 1;
  plan.global_batch = run.global_batch > 0 ? run.global_batch : plan.micro_batch * run.dp;
  ApplyPreset(preset,
              std::array{&PlanFieldOf("dp"), &PlanFieldOf("tp"), &PlanFieldOf("pp"),
                         &PlanFieldOf("cp"), &PlanFieldOf("ep")},
              plan);
  if (run.zero_stage.has_value()) plan.zero_stage = *run.zero_stage;
  plan.sequence_parallel = run.sequence_parallel && run.tp > 1;
  FT_TRY(SetRecompute(run, family, plan));
  plan.vpp = run.vpp.value_or(1);
  if (plan.pp == 1) plan.vpp = 1;
  if (plan.vpp > 1) plan.schedule = ScheduleKind::kInterleaved;
  if (plan.vpp == 1 && plan.schedule == ScheduleKind::kInterleaved) {
    plan.schedule = ScheduleKind::k1f1b;
  }
  if (run.attention == "standard") plan.attention = AttentionAlgorithm::kStandard;
  if (run.attention == "flash" || plan.cp > 1) plan.attention = AttentionAlgorithm::kFlash;
  if (plan.ep > 1 && plan.capacity_factor == 0) plan.expert_headroom = family.expert_headroom;
  FT_TRY(SetLossChunks(run.assumptions, plan));
  FT_TRY(SetOffload(run.offload, plan));
  FT_TRY(SetPrecision(run.dtype, preset, plan));
  ApplyKernels(preset, {}, plan);
  return plan;
}

// Forecasts without interleaving where the first or last chunk would have no layer (only embedding
// or head).
void DropEmptyChunks(const ModelSpec& model, Plan& plan, std::vector<std::string>& filled) {
  if (plan.schedule != ScheduleKind::kInterleaved || plan.Stages() <= model.layers) return;
  filled.push_back(
      fmt::format("vpp 1 for {}: the first and the last chunk have no layer", plan.vpp));
  plan.vpp = 1;
  plan.schedule = ScheduleKind::k1f1b;
}

using Choices = std::vector<Plan>;

// Replaces each plan by one per micro-batch size that divides the batch.
void OpenMicroBatch(const PublishedRun& run, Choices& plans) {
  Choices out;
  for (const Plan& plan : plans) {
    for (const std::int64_t size : kMicroBatches) {
      if (run.global_batch > 0 && run.global_batch % (size * plan.dp) != 0) continue;
      out.push_back(plan);
      out.back().micro_batch = size;
      if (run.global_batch == 0) out.back().global_batch = size * plan.dp;
    }
  }
  plans = std::move(out);
}

// Replaces each plan by one per vpp that divides a stage's layers.
void OpenVpp(const ModelSpec& model, Choices& plans) {
  Choices out;
  for (const Plan& plan : plans) {
    const std::int64_t of_stage = (model.layers + plan.pp - 1) / plan.pp;
    for (int vpp = 1; vpp <= of_stage; ++vpp) {
      if (of_stage % vpp != 0 || plan.MicroBatches() % plan.pp != 0) continue;
      out.push_back(plan);
      out.back().vpp = vpp;
      out.back().schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::k1f1b;
    }
    if (plan.MicroBatches() % plan.pp != 0) out.push_back(plan);
  }
  plans = std::move(out);
}

// Replaces each plan by one per kind of recomputation.
void OpenRecompute(Choices& plans) {
  Choices out;
  for (const Plan& plan : plans) {
    for (const RecomputeKind kind :
         {RecomputeKind::kNone, RecomputeKind::kSelective, RecomputeKind::kFull}) {
      out.push_back(plan);
      out.back().recompute = kind;
    }
  }
  plans = std::move(out);
}

// Expands the stated plan by every open field and keeps the valid plans. If none is valid, the
// error of the first plan is returned.
Result<void> MakePlans(const PublishedRun& run, const RunFamily& family, const Preset& preset,
                       RunCase& out) {
  FT_ASSIGN(Plan stated, PlanOf(run, family, preset));
  DropEmptyChunks(out.model, stated, out.filled);
  Choices plans = {stated};
  if (run.micro_batch == 0) {
    out.open.emplace_back("micro_batch");
    OpenMicroBatch(run, plans);
  }
  if (run.global_batch == 0) out.filled.emplace_back("global_batch of one micro-batch a rank");
  if (!run.vpp.has_value() && run.pp > 1) {
    out.open.emplace_back("vpp");
    OpenVpp(out.model, plans);
  }
  if (run.recompute.empty()) {
    out.open.emplace_back("recompute");
    OpenRecompute(plans);
  }
  std::optional<Error> first;
  for (Plan& plan : plans) {
    plan.stage_layers = family.stages_by_parameters
                            ? StageLayersByParameters(out.model, plan.Stages())
                            : StageLayers(out.model.layers, plan.Stages(), family.end_blocks_count);
    const auto valid = ValidatePlan(plan, out.model);
    if (valid.has_value()) {
      out.plans.push_back(plan);
    } else if (!first.has_value()) {
      first = valid.error();
    }
  }
  if (out.plans.empty()) {
    if (first.has_value()) return tl::unexpected<Error>(*first);
    return Refuse("global_batch {}: dp {} divides it into no micro-batches", run.global_batch,
                  run.dp);
  }
  return {};
}

}  // namespace

Result<CaseSources> BuiltInCaseSources() {
  CaseSources sources;
  FT_ASSIGN(sources.catalogue, BuiltInCatalogue());
  FT_ASSIGN(sources.presets, BuiltInPresets());
  FT_ASSIGN(sources.families, BuiltInRunFamilies());
  FT_ASSIGN(sources.architectures, BuiltInArchitectures());
  return sources;
}

// Heads and batch sizes may be missing in a row. A guess is noted in `filled`; a field with several
// plausible values opens several plans.
Result<RunCase> CaseOf(const PublishedRun& run, const CaseSources& sources) {
  const RunFamily family = sources.families.Find(run.family, run.gated_mlp);
  const bool sharded = run.zero_stage.value_or(0) == 3;
  FT_ASSIGN(const Preset preset, FindPreset(sources.presets, family.PresetOf(run.id, sharded)));
  RunCase out;
  out.preset = preset.name;
  out.system = preset.system;
  FT_ASSIGN(out.model, ModelOf(run, family, out));
  FT_ASSIGN(out.cluster, ClusterOf(run, family, sources.catalogue));
  const std::int64_t ranks = std::int64_t{run.dp} * run.tp * run.pp * run.cp;
  if (ranks != run.gpus) {
    return Refuse("n_gpus {}: dp {} x tp {} x pp {} x cp {} make {}", run.gpus, run.dp, run.tp,
                  run.pp, run.cp, ranks);
  }
  FT_TRY(MakePlans(run, family, preset, out));
  return out;
}

}  // namespace foretrain
