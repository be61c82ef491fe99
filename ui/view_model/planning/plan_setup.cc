#include "ui/view_model/planning/plan_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_values.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/search/space/default_space.h"

namespace foretrain::ui {
namespace {

constexpr std::int64_t kMaxSpecBytes = 16 * kMiB;

bool LooksLikeFile(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

bool Contains(std::string_view name, std::string_view filter) {
  return ToLower(name).find(ToLower(Trim(filter))) != std::string::npos;
}

// Fields that are set in every plan of the search rather than chosen from values.
bool IsOfBase(const PlanField& field) {
  return field.name == "sequence" || field.name == "global_batch" || field.number != nullptr ||
         field.list != nullptr;
}

// A field of the base plan takes one value; any other field takes a list or range of values for the
// search.
Result<void> Constrain(const Constraint& constraint, SearchSpace& space) {
  const PlanField* field = FindPlanField(constraint.field);
  if (field == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + Printable(constraint.field) + "\" is no option of plans");
  }
  if (field->slots != nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(field->name) +
                    ": a search tries schedules that fit any pipeline; open a file in What-if");
  }
  if (IsOfBase(*field)) return SetPlanField(*field, constraint.text, space.base);
  FT_ASSIGN(std::vector<std::int64_t> values, ParsePlanValues(*field, constraint.text));
  space.Choose(field->name, std::move(values));
  return {};
}

// Applies the changed parameters; each must lie within the range of its slider.
Result<ClusterSpec> Turned(const PlanSetup& setup, const ClusterSpec& cluster) {
  ClusterSpec turned = cluster;
  for (const HardwareField& field : HardwareFields()) {
    const auto found = setup.other_rates.find(std::string(field.name));
    if (found == setup.other_rates.end()) continue;
    if (!(found->second >= field.low && found->second <= field.high)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} {} is outside {} to {}", field.name, found->second,
                              field.unit, field.low, field.high));
    }
    field.Set(turned, found->second);
  }
  FT_TRY(ValidateCluster(turned));
  return turned;
}

Result<void> CheckCount(std::string_view what, int count, int max) {
  if (count >= 1 && count <= max) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is outside 1 to {}", what, count, max));
}

// This machine uses its measured profile, a GPU of the catalogue a profile derived from its
// published peaks.
Result<MachineRates> MachineOf(const PlanSetup& setup, const Catalogue& catalogue,
                               const std::optional<LocalMachine>& local, std::string& origin) {
  if (setup.gpu == kLocal) {
    if (!local) {
      return Fail(ErrorCode::kInvalidArgument,
                  "local: this desktop does not know this machine; choose a GPU of the catalogue");
    }
    origin = local->origin;
    return local->rates;
  }
  FT_TRY(CheckCount("nodes", setup.nodes, kMaxRanks));
  FT_TRY(CheckCount("devices a node", setup.devices_per_node, 1024));
  FT_ASSIGN(const GpuEntry gpu, FindGpu(catalogue, setup.gpu));
  FT_ASSIGN(ClusterSpec cluster, MakeCluster(gpu, setup.nodes, setup.devices_per_node));
  DeviceProfile profile = DeriveProfile(cluster);
  origin = "assumed from published peaks";
  if (setup.trainer != kOwnTrainer) {
    FT_ASSIGN(const Trainer trainer, TrainerOf(setup.trainer));
    if (trainer.software.has_value()) {
      profile = DeriveProfile(cluster, trainer.software->system);
      origin += "; kernels and host of preset " + trainer.software->name;
    }
  }
  return MachineRates{std::move(cluster), std::move(profile)};
}

}  // namespace

// A path is read as a file; any other text is a name of the catalogue.
Result<ModelSpec> ResolveModelText(const std::string& text, const Catalogue& catalogue,
                                   FileSystem& files) {
  std::string content = text;
  if (LooksLikeFile(text)) {
    FT_ASSIGN(content, ReadFile(files, text, kMaxSpecBytes));
  }
  FT_ASSIGN(const ResolvedModel resolved, ResolveModel(content, text, catalogue));
  return resolved.model;
}

// The order matters: a constraint replaces the default values of its field, so constraints come
// after DefaultSpace.
Result<PlanRequest> Resolve(const PlanSetup& setup, const Catalogue& catalogue,
                            const std::optional<LocalMachine>& local, FileSystem& files) {
  FT_ASSIGN(const ModelSpec model, setup.spec ? Result<ModelSpec>(*setup.spec)
                                              : ResolveModelText(setup.model, catalogue, files));
  std::string origin;
  FT_ASSIGN(const MachineRates machine, MachineOf(setup, catalogue, local, origin));
  FT_ASSIGN(const ClusterSpec cluster, Turned(setup, machine.cluster));
  FT_ASSIGN(CostModel costs, CostsOfTurned(machine, cluster));
  if (!setup.other_rates.empty()) origin += "; with other rates";
  Plan base;
  base.precision = DefaultPrecision(cluster);
  base.sequence = setup.sequence > 0 ? setup.sequence : DefaultSequence(model);
  base.global_batch =
      setup.global_batch > 0 ? setup.global_batch : DefaultBatch(cluster.Devices(), base.sequence);
  SearchSpace space = DefaultSpace(model, cluster, cluster.Devices(), base);
  if (setup.trainer != kOwnTrainer && setup.gpu != kLocal) {
    FT_ASSIGN(const Trainer trainer, TrainerOf(setup.trainer));
    std::vector<const PlanField*> given;
    for (const Constraint& constraint : setup.constraints) {
      if (const PlanField* const field = FindPlanField(constraint.field)) given.push_back(field);
    }
    ApplyTrainer(trainer, given, model.layers, space);
  }
  for (const Constraint& constraint : setup.constraints) FT_TRY(Constrain(constraint, space));
  return PlanRequest{setup,           model, machine, cluster, std::move(costs), std::move(origin),
                     std::move(space)};
}

// Counts come before the name: reads up to two numbers, each followed by an 'x'; the rest is the
// name, which may contain digits itself.
Result<void> SetCluster(const std::string& text, PlanSetup& setup) {
  PlanSetup next = setup;
  next.nodes = next.devices_per_node = 1;
  std::string_view rest = text;
  std::vector<std::int64_t> counts;
  while (counts.size() < 2) {
    const std::size_t cross = rest.find('x');
    const std::string_view count = rest.substr(0, cross);
    const bool number = cross != std::string_view::npos && !count.empty() &&
                        count.find_first_not_of("0123456789") == std::string_view::npos;
    if (!number) break;
    FT_ASSIGN(const std::int64_t value, ParseInt("--cluster", count, 1, kMaxRanks));
    counts.push_back(value);
    rest.remove_prefix(cross + 1);
  }
  if (!counts.empty()) next.devices_per_node = static_cast<int>(counts.back());
  if (counts.size() == 2) next.nodes = static_cast<int>(counts.front());
  next.gpu = std::string(rest);
  setup = std::move(next);
  return {};
}

std::vector<std::string> ModelNames(const Catalogue& catalogue, std::string_view filter) {
  std::vector<std::string> names;
  for (const ModelEntry& entry : catalogue.models) {
    if (entry.unsupported.empty() &&
        (Contains(entry.name, filter) || Contains(entry.title, filter)))
      names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> GpuNames(const Catalogue& catalogue, std::string_view filter) {
  std::vector<std::string> names;
  for (const GpuEntry& entry : catalogue.gpus) {
    const bool named = Contains(entry.name, filter) || Contains(entry.device.name, filter) ||
                       Contains(entry.architecture, filter);
    if (entry.unusable.empty() && named) names.push_back(entry.name);
  }
  return names;
}

// The CPU of a run counts as this machine.
PlanSetup SetupOf(const RunSetting& run, const Catalogue& catalogue, PlanSetup setup) {
  setup.model = run.model.name;
  setup.spec = run.model;
  setup.sequence = run.plan.sequence;
  setup.global_batch = run.plan.global_batch;
  setup.constraints.clear();
  setup.other_rates.clear();
  const auto gpu = std::find_if(
      catalogue.gpus.begin(), catalogue.gpus.end(),
      [&](const GpuEntry& entry) { return entry.device.name == run.cluster.device.name; });
  if (run.cluster.is_cpu) {
    setup.gpu = kLocal;
  } else if (gpu != catalogue.gpus.end()) {
    setup.gpu = gpu->name;
    setup.nodes = run.cluster.nodes;
    setup.devices_per_node = run.cluster.devices_per_node;
  }
  return setup;
}

// Reads the suggestion as pairs of option and value. Any other word makes it impossible to follow,
// and the setup stays unchanged.
bool Follow(std::string_view change, PlanSetup& setup) {
  const std::vector<std::string_view> words = Split(change, ' ');
  PlanSetup next = setup;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const auto fields = PlanFields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const PlanField& f) { return FirstOption(f) == words[i]; });
    if (field == fields.end()) return false;
    const Constraint wanted{std::string(field->name), std::string(words[i + 1])};
    if (field->name == "sequence") {
      const auto sequence = ParseInt("--sequence", wanted.text, 1, kMaxModelCount);
      if (!sequence) return false;
      next.sequence = *sequence;
      continue;
    }
    std::erase_if(next.constraints, [&](const Constraint& c) { return c.field == wanted.field; });
    next.constraints.push_back(wanted);
  }
  if (words.size() % 2 != 0 || next == setup) return false;
  setup = std::move(next);
  return true;
}

// Values that the search would choose itself are left out. Changed parameters of the machine have
// no option.
std::string CommandOf(const PlanSetup& setup) {
  std::string text = "foretrain plan --model " + setup.model + " --cluster ";
  text += setup.gpu == kLocal
              ? setup.gpu
              : fmt::format("{}x{}x{}", setup.nodes, setup.devices_per_node, setup.gpu);
  if (setup.gpu != kLocal) text += " --for " + setup.trainer;
  if (setup.sequence > 0) text += fmt::format(" --sequence {}", setup.sequence);
  if (setup.global_batch > 0) text += fmt::format(" --global-batch {}", setup.global_batch);
  for (const Constraint& constraint : setup.constraints) {
    const PlanField* field = FindPlanField(constraint.field);
    if (field == nullptr) continue;
    text += fmt::format(" {} {}", FirstOption(*field), constraint.text);
  }
  return text;
}

}  // namespace foretrain::ui
