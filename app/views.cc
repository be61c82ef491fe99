#include "app/views.h"

#include <utility>

#include "ui/stored_run.h"

namespace foretrain {
namespace {

Result<RunView> ViewOf(const StoreReader& reader, StoredRun run) {
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  // A forecast is its last, steady step; a run is all but its first.
  const bool forecast = run.info.kind == RunKind::kPredicted;
  const int steps = run.info.last_step.value_or(0);
  const RunId id = run.info.id;
  const int warmup = forecast ? steps : WarmupSteps(run.timeline);
  RunView view =
      RunViewOf(std::move(run), MetricOptionsFor(stored.context, stored.plan, warmup));
  view.label =
      "run " + std::to_string(id) + ": " + stored.context.model.name + " " + Describe(stored.plan);
  return view;
}

}  // namespace

Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair) {
  CompareInput input;
  if (pair.predicted) {
    FT_ASSIGN(input.predicted, ViewOf(reader, *std::move(pair.predicted)));
  }
  if (pair.measured) {
    FT_ASSIGN(input.measured, ViewOf(reader, *std::move(pair.measured)));
  }
  return input;
}

}  // namespace foretrain
