#include "app/forecast/forecasting.h"

#include <algorithm>
#include <cstdlib>

#include "base/io/file_system.h"
#include "base/units.h"
#include "sim/cost/metric_options.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/profile/profile_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxProfileBytes = 64 * kMiB;

// `origin` says where the rates come from; every forecast prints it.
Result<DeviceProfile> ReadProfile(const std::string& path, std::string& origin) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxProfileBytes));
  FT_ASSIGN(DeviceProfile profile, ProfileFromJson(text, path));
  origin = profile.date.empty() ? "assumed (" + path + ")"
                                : "measured " + profile.date + " (" + path + ")";
  return profile;
}

}  // namespace

// $XDG_CONFIG_HOME, else ~/.config, else the current folder. GPU and CPU profiles are separate
// files.
std::string LocalProfilePath(bool cuda) {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::string folder = config != nullptr && *config != '\0' ? config
                       : home != nullptr                    ? std::string(home) + "/.config"
                                                            : ".";
  return folder + (cuda ? "/foretrain/cuda.json" : "/foretrain/local.json");
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

// The order matters: the preset's software is laid over the profile's rates before costs are made,
// and CUDA graphs over the preset.
Result<ForecastContext> MakeContext(const ModelFlags& model_flags,
                                    const ClusterFlags& cluster_flags,
                                    const std::optional<Preset>& preset) {
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const ModelSpec model, model_flags.Resolve(catalogue));
  FT_ASSIGN(const ClusterSpec cluster, cluster_flags.Resolve(catalogue));
  std::string origin;
  FT_ASSIGN(DeviceProfile profile, LoadProfile(cluster_flags, cluster, origin));
  if (preset && !cluster.is_cpu) {
    LaySystem(preset->system, profile);
    origin += "; kernels and host of preset " + preset->name;
  }
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

}  // namespace foretrain
