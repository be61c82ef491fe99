#include "app/runs/run_progress.h"

#include <algorithm>

#include "sim/config/plan/plan_json.h"
#include "traces/store.h"

namespace foretrain {

// Counters alone are read, so that a long run costs what its steps cost. Counters of one rank, such
// as those of GPUs, are left out.
Result<RunProgress> ProgressOfStoredRun(const std::string& path, RunId run) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path));
  LoadOptions options;
  options.timeline = false;
  options.kernels = false;
  FT_ASSIGN(StoredRun stored, reader.LoadRun(run, options));
  RunProgress progress;
  for (Counter& counter : stored.counters) {
    if (counter.rank == -1 && counter.step >= 0) progress.series.push_back(std::move(counter));
  }
  if (!stored.specs.plan_json.empty()) {
    FT_ASSIGN(const Plan plan, PlanFromJson(stored.specs.plan_json, path));
    progress.tokens_per_step = static_cast<double>(plan.global_batch * plan.sequence);
  }
  if (stored.info.forecast.has_value()) {
    const auto forecast = reader.FindRun(*stored.info.forecast);
    if (forecast.has_value())
      progress.predicted_step_s = forecast->Metric("step_time_s").value_or(0);
  }
  progress.info = std::move(stored.info);
  return progress;
}

}  // namespace foretrain
