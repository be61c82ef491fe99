#include "app/plan_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

#include "base/checked.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/spec/cluster_json.h"
#include "sim/spec/plan_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxSpecBytes = 16 * kMiB;
constexpr std::int64_t kDefaultSequence = 1024;  // where a model allows more
constexpr int kFillingMicroBatches = 4;          // micro-batches a stage that keep a pipeline busy

bool LooksLikeFile(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

template <class T>
T FirstOr(const std::vector<T>& list, T otherwise) {
  return list.empty() ? otherwise : list.front();
}

Result<std::int64_t> One(const std::string& option, const std::string& text,
                         std::int64_t automatic) {
  FT_ASSIGN(const std::vector<std::int64_t> list, ParseIntegerList(option, text, {automatic}));
  if (list.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": \"" + Printable(text) +
                    "\" has several values; this command takes one (`foretrain plan` takes lists)");
  }
  return list.front();
}

// The kinds that "gpipe,zb-h1" names, with the names of `all` in messages.
template <class Kind, std::size_t n>
Result<std::vector<Kind>> ParseKinds(const std::string& option, const std::string& text,
                                     const std::array<Kind, n>& all,
                                     const std::vector<Kind>& automatic) {
  if (text == "auto") return automatic;
  std::array<std::string_view, n> names;
  for (std::size_t i = 0; i < n; ++i) names[i] = Name(all[i]);
  std::vector<Kind> kinds;
  for (const std::string_view part : Split(text, ',')) {
    const auto found = std::find(names.begin(), names.end(), ToLower(part));
    if (found == names.end()) {
      std::string list;
      for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
      return Fail(
          ErrorCode::kInvalidArgument,
          option + ": \"" + Printable(part) + "\" is none of " + list + DidYouMean(part, names));
    }
    kinds.push_back(all[static_cast<std::size_t>(found - names.begin())]);
  }
  return kinds;
}

constexpr std::array kSchedules = {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1};
constexpr std::array kRecomputes = {RecomputeKind::kNone, RecomputeKind::kFull};

Result<std::int64_t> SequenceOf(const PlanFlags& flags, const ModelSpec& model) {
  return One("--sequence", flags.sequence, std::min(model.max_sequence, kDefaultSequence));
}

// The smallest batch that keeps every stage busy with the largest micro-batch.
std::int64_t FillingBatch(std::int64_t dp, std::int64_t pp, std::int64_t micro_batch) {
  return dp * micro_batch * (pp > 1 ? kFillingMicroBatches * pp : 1);
}

}  // namespace

void ModelFlags::Declare(Arguments& arguments) {
  arguments.Section("Model");
  arguments.Option(
      "--model", model, "NAME|FILE",
      "Catalogue name (`foretrain models`), a Hugging Face config.json or a model file");
  arguments.Option("--layers,--num-layers", layers, "N", "Override the number of layers");
  arguments.Option("--hidden,--hidden-size", hidden, "N", "Override the hidden size");
  arguments.Option("--heads,--num-attention-heads", heads, "N", "Override the attention heads");
}

Result<ModelSpec> ModelFlags::Resolve(const Catalogue& catalogue) const {
  std::string text = model;
  std::string origin = "--model";
  if (LooksLikeFile(model)) {
    PosixFileSystem files;
    FT_ASSIGN(text, ReadFile(files, model, kMaxSpecBytes));
    origin = model;
  }
  FT_ASSIGN(ResolvedModel resolved, ResolveModel(text, origin, catalogue));
  ModelSpec& spec = resolved.model;
  if (layers < 0 || hidden < 0 || heads < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--layers, --hidden and --heads are counts of at least 1");
  }
  if (layers > 0) spec.layers = layers;
  if (heads > 0) {
    spec.kv_heads = spec.kv_heads == spec.heads ? heads : spec.kv_heads;
    spec.heads = heads;
  }
  if (hidden > 0) {
    // The width of the MLP keeps its proportion.
    spec.ffn_hidden = spec.ffn_hidden * hidden / spec.hidden;
    spec.hidden = hidden;
  }
  if (hidden > 0 || heads > 0) {
    if (spec.hidden % spec.heads != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--heads: " + std::to_string(spec.heads) + " does not divide the hidden size " +
                      std::to_string(spec.hidden) + "; give a divisor of it");
    }
    spec.head_dim = spec.hidden / spec.heads;
  }
  FT_TRY(ValidateModel(spec));
  return spec;
}

void ClusterFlags::Declare(Arguments& arguments) {
  arguments.Section("Machine");
  arguments.Option("--cluster", cluster, "SPEC",
                   "local, NODESxGPUSxGPU (64x8xA100-80GB-SXM) or a JSON file");
  arguments.Option("--ranks", ranks, "N", "Ranks of a local cluster; 0: one a core");
  arguments.Option("--max-memory", max_memory, "SIZE", "Memory a device may use, e.g. 72GiB");
  arguments.Option("--device-profile", device_profile, "FILE",
                   "Measured rates; default: what `foretrain calibrate` stored for this machine");
}

Result<ClusterSpec> ClusterFlags::Resolve(const Catalogue& catalogue) const {
  ClusterSpec spec;
  if (cluster == "local") {
    const Machine machine = ThisMachine();
    if (ranks < 0 || ranks > kMaxRanks) {
      return Fail(ErrorCode::kInvalidArgument, "--ranks: " + std::to_string(ranks) +
                                                   " is outside 0 to " + std::to_string(kMaxRanks) +
                                                   "; 0 takes one a core");
    }
    const int count = ranks > 0 ? static_cast<int>(ranks) : machine.cores;
    FT_ASSIGN(spec, LocalCluster(machine.cores, machine.memory_bytes, count));
    spec.device.name = machine.name;
  } else if (LooksLikeFile(cluster)) {
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, cluster, kMaxSpecBytes));
    FT_ASSIGN(spec, ClusterFromJson(text, cluster, catalogue));
  } else {
    FT_ASSIGN(spec, ParseCluster(cluster, catalogue));
  }
  if (!max_memory.empty()) {
    FT_ASSIGN(const std::int64_t bytes, ParseBytes("--max-memory", max_memory));
    spec.device.memory_bytes = std::min(spec.device.memory_bytes, bytes);
  }
  return spec;
}

void PlanFlags::Declare(Arguments& arguments) {
  arguments.Section("Plan");
  arguments.Option("--plan", plan_file, "FILE", "Plan file; options given beside it overrule it");
  arguments.Option("--dp,--data-parallel-size", dp, "N", "Data parallelism");
  arguments.Option("--tp,--tensor-model-parallel-size", tp, "N", "Tensor parallelism");
  arguments.Option("--pp,--pipeline-model-parallel-size", pp, "N", "Pipeline stages");
  arguments.Option("--sequence,--seq-length", sequence, "N", "Tokens of one sample");
  arguments.Option("--global-batch,--global-batch-size", global_batch, "N", "Samples a step");
  arguments.Option("--micro-batch,--micro-batch-size", micro_batch, "N",
                   "Samples of one pass on one rank");
  arguments.Option("--schedule", schedule, "NAME", "Pipeline schedule: gpipe, 1f1b, zb-h1");
  arguments.Option("--zero", zero, "0|1|3", "ZeRO stage");
  arguments.Option("--recompute", recompute, "none|full", "What the backward computes again");
  arguments.Option("--clip", clip, "NORM", "Clip the global gradient norm; 0: no clipping");
  arguments.Option("--bucket", bucket, "SIZE", "Gradients that are reduced together");
}

Result<std::vector<std::int64_t>> ParseIntegerList(const std::string& option,
                                                   const std::string& text,
                                                   const std::vector<std::int64_t>& automatic) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (text == "auto") return automatic;
  std::vector<std::int64_t> list;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    FT_ASSIGN(const std::int64_t first, ParseInt(option, text.substr(0, dots), 1, kMost));
    FT_ASSIGN(const std::int64_t last, ParseInt(option, text.substr(dots + 2), first, kMost));
    for (std::int64_t value = first; value <= last && list.size() < 64; value *= 2) {
      list.push_back(value);
    }
    return list;
  }
  for (const std::string_view part : Split(text, ',')) {
    FT_ASSIGN(const std::int64_t value, ParseInt(option, Trim(part), 0, kMost));
    list.push_back(value);
  }
  return list;
}

Result<SearchSpace> ChoicesOf(const PlanFlags& flags, const ModelSpec& model, int ranks) {
  std::vector<std::int64_t> divisors;
  for (int d = 1; d <= ranks; ++d) {
    if (ranks % d == 0) divisors.push_back(d);
  }
  SearchSpace out;
  FT_ASSIGN(out.dp, ParseIntegerList("--dp", flags.dp, divisors));
  FT_ASSIGN(out.tp, ParseIntegerList("--tp", flags.tp, divisors));
  FT_ASSIGN(out.pp, ParseIntegerList("--pp", flags.pp, divisors));
  FT_ASSIGN(out.micro_batch,
            ParseIntegerList("--micro-batch", flags.micro_batch, {1, 2, 4, 8, 16, 32}));
  FT_ASSIGN(out.zero, ParseIntegerList("--zero", flags.zero, {0, 1, 3}));
  FT_ASSIGN(out.schedules,
            ParseKinds("--schedule", flags.schedule, kSchedules,
                       {ScheduleKind::k1f1b, ScheduleKind::kZbH1, ScheduleKind::kGpipe}));
  FT_ASSIGN(out.recomputes, ParseKinds("--recompute", flags.recompute, kRecomputes,
                                       {RecomputeKind::kNone, RecomputeKind::kFull}));
  FT_ASSIGN(out.sequence, SequenceOf(flags, model));
  // Every plan of the search trains the same batch: one that fills the largest pipeline.
  FT_ASSIGN(out.global_batch, One("--global-batch", flags.global_batch, FillingBatch(ranks, 2, 4)));
  FT_ASSIGN(out.bucket_bytes, ParseBytes("--bucket", flags.bucket));
  out.clip_norm = flags.clip;
  return out;
}

Result<Plan> PlanOf(const PlanFlags& flags, const ModelSpec& model, int ranks) {
  Plan base;
  const bool from_file = !flags.plan_file.empty();
  if (from_file) {
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, flags.plan_file, kMaxSpecBytes));
    FT_ASSIGN(base, PlanFromJson(text, flags.plan_file));
  }
  Plan plan = base;
  FT_ASSIGN(const std::int64_t tp, One("--tp", flags.tp, from_file ? base.tp : 1));
  FT_ASSIGN(const std::int64_t pp, One("--pp", flags.pp, from_file ? base.pp : 1));
  const std::int64_t left = std::max<std::int64_t>(1, ranks / std::max<std::int64_t>(1, tp * pp));
  FT_ASSIGN(const std::int64_t dp, One("--dp", flags.dp, from_file ? base.dp : left));
  plan.tp = static_cast<int>(tp);
  plan.pp = static_cast<int>(pp);
  plan.dp = static_cast<int>(dp);
  FT_ASSIGN(plan.micro_batch,
            One("--micro-batch", flags.micro_batch, from_file ? base.micro_batch : 1));
  if (from_file && flags.sequence == "auto") {
    plan.sequence = base.sequence;
  } else {
    FT_ASSIGN(plan.sequence, SequenceOf(flags, model));
  }
  FT_ASSIGN(plan.global_batch,
            One("--global-batch", flags.global_batch,
                from_file ? base.global_batch : FillingBatch(dp, pp, plan.micro_batch)));
  FT_ASSIGN(const std::int64_t zero, One("--zero", flags.zero, base.zero_stage));
  plan.zero_stage = static_cast<int>(zero);
  FT_ASSIGN(const auto schedules,
            ParseKinds("--schedule", flags.schedule, kSchedules, {base.schedule}));
  FT_ASSIGN(const auto recomputes,
            ParseKinds("--recompute", flags.recompute, kRecomputes, {base.recompute}));
  plan.schedule = FirstOr(schedules, base.schedule);
  plan.recompute = FirstOr(recomputes, base.recompute);
  if (!from_file || flags.clip > 0) plan.clip_norm = flags.clip;
  if (!from_file || flags.bucket != PlanFlags{}.bucket) {
    FT_ASSIGN(plan.bucket_bytes, ParseBytes("--bucket", flags.bucket));
  }
  FT_TRY(ValidatePlan(plan, model));
  return plan;
}

std::string CommandLineOf(const ModelFlags& model, const Plan& plan) {
  std::string text = "--model " + model.model;
  const auto add = [&](const char* option, std::int64_t value, std::int64_t otherwise) {
    if (value != otherwise) text += std::string(" ") + option + " " + std::to_string(value);
  };
  add("--layers", model.layers, 0);
  add("--hidden", model.hidden, 0);
  add("--heads", model.heads, 0);
  add("--dp", plan.dp, 0);
  add("--tp", plan.tp, 1);
  add("--pp", plan.pp, 1);
  add("--sequence", plan.sequence, 0);
  add("--global-batch", plan.global_batch, 0);
  add("--micro-batch", plan.micro_batch, 0);
  add("--zero", plan.zero_stage, 0);
  if (plan.pp > 1) text.append(" --schedule ").append(Name(plan.schedule));
  if (plan.recompute != RecomputeKind::kNone)
    text.append(" --recompute ").append(Name(plan.recompute));
  if (plan.clip_norm > 0) text += fmt::format(" --clip {}", plan.clip_norm);
  if (plan.bucket_bytes != Plan{}.bucket_bytes)
    text += " --bucket " + std::to_string(plan.bucket_bytes);
  return text;
}

Machine ThisMachine() {
  Machine machine;
  machine.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::ifstream memory("/proc/meminfo");
  for (std::string key; memory >> key;) {
    std::int64_t value = 0;
    if (key == "MemTotal:" && memory >> value) machine.memory_bytes = value * kKiB;
  }
  std::ifstream processor("/proc/cpuinfo");
  for (std::string line; std::getline(processor, line);) {
    if (!line.starts_with("model name")) continue;
    machine.name = std::string(Trim(std::string_view(line).substr(line.find(':') + 1)));
    break;
  }
  if (machine.name.empty()) machine.name = "cpu";
  return machine;
}

}  // namespace foretrain
