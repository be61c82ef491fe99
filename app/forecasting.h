// From the options of a command to a cost model, and from a forecast to figures. Leaves out
// printing: app/report.h.
#pragma once

#include <optional>
#include <string>

#include "app/plan_flags.h"
#include "sim/cost/cost_model.h"
#include "sim/search/search.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

// What is forecast on.
struct ForecastContext {
  ModelSpec model;
  ClusterSpec cluster;
  CostModel costs;
  std::string profile_origin;  // "measured 2026-11-20 (FILE)" or "assumed: ...", for people
};

// `preset` says what software runs on accelerators; ours where there is none.
Result<ForecastContext> MakeContext(const ModelFlags& model, const ClusterFlags& cluster,
                                    const std::optional<Preset>& preset = std::nullopt);

// Where `calibrate` keeps this machine's profile: $XDG_CONFIG_HOME or ~/.config,
// foretrain/local.json; cuda.json of its GPU.
std::string LocalProfilePath(bool cuda = false);

// The profile named by the options: the file, else what is stored for this machine, else one
// derived from the cluster's published peaks. `origin` says which.
Result<DeviceProfile> LoadProfile(const ClusterFlags& flags, const ClusterSpec& cluster,
                                  std::string& origin);

// sim/cost/metric_options.h, of a context.
MetricOptions MetricOptionsFor(const ForecastContext& context, const Plan& plan, int warmup_steps);

// How many first steps of a measured timeline warm up: the run's own first step, where it was
// recorded.
int WarmupSteps(const Timeline& timeline);

// Metrics of the last, steady step of a simulated timeline.
Metrics ForecastMetrics(const ForecastContext& context, const Forecast& forecast);

}  // namespace foretrain
