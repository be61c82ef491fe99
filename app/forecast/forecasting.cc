#include "app/forecast/forecasting.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/io/file_system.h"
#include "base/units.h"
#include "sim/cost/metric_options.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/learn/learn.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxProfileBytes = 64 * kMiB;

// "learned from 3 runs (FILE)".
std::string LearnedText(const DeviceProfile& profile, const std::string& path) {
  const int runs = profile.learned->runs;
  return "learned from " + std::to_string(runs) + (runs == 1 ? " run (" : " runs (") + path + ")";
}

// `origin` says where the rates come from; every forecast prints it.
Result<DeviceProfile> ReadProfile(const std::string& path, std::string& origin) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxProfileBytes));
  FT_ASSIGN(DeviceProfile profile, ProfileFromJson(text, path));
  if (const auto learned = CheckLearned(profile); !learned.has_value()) {
    return Fail(ErrorCode::kInvalidArgument, path + ": " + learned.error().message);
  }
  if (profile.learned.has_value()) {
    origin = LearnedText(profile, path);
    return profile;
  }
  origin = profile.date.empty() ? "assumed (" + path + ")"
                                : "measured " + profile.date + " (" + path + ")";
  return profile;
}

// Letters and digits of a name in lower case; all else becomes a dash.
std::string FileNameOf(std::string_view name) {
  std::string out;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (out.ends_with('-')) out.pop_back();
  return out;
}

// $XDG_CONFIG_HOME, else ~/.config, else the current folder.
std::string ConfigFolder() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = config != nullptr && *config != '\0' ? config
                             : home != nullptr                    ? std::string(home) + "/.config"
                                                                  : ".";
  return folder + "/foretrain";
}

// Moves the constants of `profile` as a stored file says. If the machine was calibrated again after
// that, what was learned does not hold for its rates.
Result<void> UseLearned(const ClusterSpec& cluster, const std::string& preset,
                        DeviceProfile& profile, std::string& origin) {
  const std::string path = LearnedProfilePath(cluster.device.name, preset);
  PosixFileSystem files;
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind != FileKind::kRegular) return {};
  std::string of_file;
  FT_ASSIGN(const DeviceProfile learned, ReadProfile(path, of_file));
  if (!learned.learned.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                path +
                    ": nothing was learned in it; remove it, or learn again with `foretrain "
                    "calibrate --from-run`");
  }
  if (learned.date != profile.date) {
    origin += "; not used: " + of_file + ", of another calibration";
    return {};
  }
  TakeLearned(learned, profile);
  origin = of_file + ", over rates " + origin;
  return {};
}

}  // namespace

// GPU and CPU profiles are separate files.
std::string LocalProfilePath(bool cuda) {
  return ConfigFolder() + (cuda ? "/cuda.json" : "/local.json");
}

std::string LearnedProfilePath(const std::string& device, const std::string& preset) {
  return ConfigFolder() + "/learned-" + FileNameOf(device) +
         (preset.empty() ? "" : "-" + FileNameOf(preset)) + ".json";
}

// Order: --device-profile, this machine's measured profile for CPUs, published peaks.
Result<DeviceProfile> LoadProfile(const ClusterFlags& flags, const ClusterSpec& cluster,
                                  std::string& origin) {
  if (!flags.device_profile.empty()) return ReadProfile(flags.device_profile, origin);
  if (cluster.is_cpu) {
    PosixFileSystem files;
    FT_ASSIGN(const FileInfo info, files.Stat(LocalProfilePath()));
    if (info.kind == FileKind::kRegular) return ReadProfile(LocalProfilePath(), origin);
    origin = "assumed, because this machine was not measured; `foretrain calibrate` measures it";
  } else {
    origin = "assumed from published peaks; not measured on this device";
  }
  return DeriveProfile(cluster);
}

// The order matters: the preset's software is laid over the profile's rates, then constants are
// moved. A profile that was learned with the preset has its software already.
Result<DeviceProfile> MakeProfile(const ClusterFlags& flags, const ClusterSpec& cluster,
                                  const std::optional<Preset>& preset, bool learned,
                                  std::string& origin) {
  FT_ASSIGN(DeviceProfile profile, LoadProfile(flags, cluster, origin));
  const std::string system = preset && !cluster.is_cpu ? preset->name : "";
  const bool has_system = profile.learned.has_value() && profile.learned->preset == system;
  if (!system.empty() && !has_system) {
    LaySystem(preset->system, profile);
    origin += "; kernels and host of preset " + preset->name;
  }
  if (learned && flags.device_profile.empty()) {
    FT_TRY(UseLearned(cluster, system, profile, origin));
  }
  return profile;
}

// CUDA graphs are laid over the preset, before costs are made.
Result<ForecastContext> MakeContext(const ModelFlags& model_flags,
                                    const ClusterFlags& cluster_flags,
                                    const std::optional<Preset>& preset) {
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const ModelSpec model, model_flags.Resolve(catalogue));
  FT_ASSIGN(const ClusterSpec cluster, cluster_flags.Resolve(catalogue));
  std::string origin;
  FT_ASSIGN(DeviceProfile profile, MakeProfile(cluster_flags, cluster, preset, true, origin));
  if (cluster_flags.cuda_graphs) profile.system.cuda_graphs = true;
  FT_ASSIGN(CostModel costs, CostModel::Make(cluster, profile));
  return ForecastContext{model, cluster, std::move(costs), origin};
}

MetricOptions MetricOptionsFor(const ForecastContext& context, const Plan& plan, int warmup_steps) {
  return MetricOptionsFor(context.model, context.costs, plan, warmup_steps);
}

// 1 if the recording has step 0, which warms up; 0 for a recording that starts later.
int WarmupSteps(const Timeline& timeline) {
  const auto first = [](const StepWindow& window) { return window.step == 0; };
  return std::any_of(timeline.steps.begin(), timeline.steps.end(), first) ? 1 : 0;
}

// All steps but the last are warm-up: the last one is steady.
Metrics ForecastMetrics(const ForecastContext& context, const Forecast& forecast) {
  return ComputeMetrics(
      forecast.simulation.timeline,
      MetricOptionsFor(context, forecast.program.plan, forecast.simulation.steps - 1));
}

CheckpointCost CheckpointCostIn(const ForecastContext& context, const Plan& plan) {
  return CheckpointCostOf(context.model, plan, context.costs.profile(), context.cluster.is_cpu);
}

}  // namespace foretrain
