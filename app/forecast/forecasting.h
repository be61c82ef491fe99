// From the options of a command to a cost model, and from a forecast to metrics. Leaves out
// printing: app/report/report.h.
#pragma once

#include <optional>
#include <string>

#include "app/cli/flags/plan_flags.h"
#include "sim/cost/checkpoint_cost.h"
#include "sim/cost/cost_model.h"
#include "sim/forecast/forecast.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// The model, the machine and its rates: the inputs of every forecast of a command.
struct ForecastContext {
  ModelSpec model;
  ClusterSpec cluster;
  CostModel costs;
  std::string profile_origin;  // "measured 2026-11-20 (FILE)" or "assumed: ...", for people
};

// `preset`: the software that runs on accelerators; `nullopt`: foretrain's own.
Result<ForecastContext> MakeContext(const ModelFlags& model, const ClusterFlags& cluster,
                                    const std::optional<Preset>& preset = std::nullopt);

// Where `calibrate` keeps this machine's profile: $XDG_CONFIG_HOME or ~/.config,
// foretrain/local.json; cuda.json of its GPU.
std::string LocalProfilePath(bool cuda = false);

// Where `calibrate --from-run` keeps what it learned for a device and a system, beside the files
// above.
//   preset  the system; empty: foretrain's own
std::string LearnedProfilePath(const std::string& device, const std::string& preset);

// The device profile of a cluster with the preset's software, as MakeContext uses it.
//   learned  whether to use what was learned for the device and the preset
Result<DeviceProfile> MakeProfile(const ClusterFlags& flags, const ClusterSpec& cluster,
                                  const std::optional<Preset>& preset, bool learned,
                                  std::string& origin);

// The profile that the options name, else the one stored for this machine, else one derived from
// the cluster's published peaks. `origin` says which.
Result<DeviceProfile> LoadProfile(const ClusterFlags& flags, const ClusterSpec& cluster,
                                  std::string& origin);

// The options of sim/cost/metric_options.h for a context.
MetricOptions MetricOptionsFor(const ForecastContext& context, const Plan& plan, int warmup_steps);

// Number of first steps that metrics leave out: 1 if the run's first step, which warms up, was
// recorded, else 0.
int WarmupSteps(const Timeline& timeline);

// Metrics of the last, steady step of a simulated timeline.
Metrics ForecastMetrics(const ForecastContext& context, const Forecast& forecast);

// The cost of a checkpoint on the context's machine.
CheckpointCost CheckpointCostIn(const ForecastContext& context, const Plan& plan);

}  // namespace foretrain
