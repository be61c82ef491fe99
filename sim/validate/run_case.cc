#include "sim/validate/run_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/validate/run_network.h"
#include "sim/validate/run_plan.h"
#include "sim/validate/stage_layers.h"

namespace foretrain {
namespace {

constexpr std::int64_t kUsualHeadDim = 128;
constexpr std::int64_t kVocabMultiple = 128;
// Sizes to try if a row does not state its micro-batch.
constexpr std::array<std::int64_t, 5> kMicroBatches = {1, 2, 4, 8, 16};

// Integer that stands just before `unit` in a row's notes: 1 in "1 dense layer". 0: none.
std::int64_t NumberBefore(std::string_view words, std::string_view unit) {
  const std::size_t at = words.find(unit);
  if (at == std::string_view::npos) return 0;
  std::size_t first = at;
  while (first > 0 && words[first - 1] >= '0' && words[first - 1] <= '9') --first;
  const auto number = ParseInt(unit, words.substr(first, at - first), 0, kMaxModelCount);
  return number.value_or(0);
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

// The catalogue's mixture of experts with the row's sizes; NULL if there is none. Tables have no
// columns for latent attention, shared experts or leading dense layers. A truncated model has fewer
// layers.
const ModelEntry* KnownExperts(const PublishedRun& run, const Catalogue& catalogue) {
  const bool truncated = run.model.find("truncated") != std::string::npos;
  for (const ModelEntry& entry : catalogue.models) {
    const ModelSpec& spec = entry.spec;
    if (!entry.described || spec.experts == 0 || spec.experts != run.experts) continue;
    if (spec.experts_per_token != run.experts_per_token || spec.hidden != run.hidden) continue;
    if (spec.heads != run.heads || spec.expert_ffn_hidden != run.ffn_hidden) continue;
    if (truncated ? spec.layers >= run.layers : spec.layers == run.layers) return &entry;
  }
  return nullptr;
}

// The catalogue's model with the row's layers and sequence. "w/ MTP" adds one predicted token.
ModelSpec KnownModel(const PublishedRun& run, const ModelEntry& entry, RunCase& out) {
  ModelSpec model = entry.spec;
  model.layers = run.layers;
  model.max_sequence = std::max(model.max_sequence, run.sequence);
  const std::int64_t dense = NumberBefore(run.assumptions, " dense layer");
  if (model.layers != entry.spec.layers && dense > 0) model.first_dense_layers = dense;
  model.first_dense_layers = std::min(model.first_dense_layers, model.layers);
  if (run.model.find("w/ MTP") != std::string::npos) model.predict_ahead = 1;
  out.filled.push_back("model " + entry.name + " of the catalogue");
  return model;
}

// Model of the row. A gated MLP implies the Llama family: RMSNorm, RoPE and no biases.
Result<ModelSpec> ModelOf(const PublishedRun& run, const RunFamily& family,
                          const Catalogue& catalogue, RunCase& out) {
  if (const ModelEntry* const known = run.experts > 0 ? KnownExperts(run, catalogue) : nullptr) {
    return KnownModel(run, *known, out);
  }
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
  int per_node = std::min(run.gpus, run.gpus_per_node);
  // A "node" of such tables may be a rack of 72, of which jobs use equal shares.
  if (gpu.device.link_devices == per_node) per_node = EvenShareOfDomain(run.gpus, per_node, 1);
  FT_ASSIGN(ClusterSpec cluster, MakeCluster(gpu, (run.gpus + per_node - 1) / per_node, per_node,
                                             run.network_bytes_per_s));
  cluster.adapters_per_node = family.adapters_per_node;
  if (run.link_bytes_per_s > 0) cluster.device.link_bytes_per_s = run.link_bytes_per_s;
  SetMeasuredNetwork(run, family, cluster);
  return cluster;
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
      if (kind != RecomputeKind::kSelective) out.back().recompute_modules = 0;
    }
  }
  plans = std::move(out);
}

// Expands the stated plan by every open field and keeps the valid plans. If none is valid, the
// error of the first plan is returned.
Result<void> MakePlans(const PublishedRun& run, const RunFamily& family, const Preset& preset,
                       RunCase& out) {
  FT_ASSIGN(Plan stated, PlanOfRun(run, family, preset, out.filled));
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

// Preset of the row: the one that it states, its family's, or the first default whose conditions it
// meets. A default is noted in `filled`.
std::string PresetOf(const PublishedRun& run, const RunFamilies& families, const RunFamily& family,
                     RunCase& out) {
  if (!run.preset.empty()) return run.preset;
  const std::string known = family.PresetOf(run.id, run.zero_stage.value_or(0) == 3);
  if (!known.empty()) return known;
  const DefaultPreset& chosen = families.DefaultOf(run);
  out.filled.push_back(fmt::format("preset {}: {}", chosen.preset, chosen.because));
  return chosen.preset;
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
  RunCase out;
  const RunFamily family = sources.families.Find(run.family);
  FT_ASSIGN(const Preset preset,
            FindPreset(sources.presets, PresetOf(run, sources.families, family, out)));
  out.preset = preset.name;
  out.system = preset.system;
  family.ApplyNotes(run.assumptions, out.system);
  if (run.reserved_gib > 0) out.system.memory_figure = MemoryFigure::kReserved;
  FT_ASSIGN(out.model, ModelOf(run, family, sources.catalogue, out));
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
