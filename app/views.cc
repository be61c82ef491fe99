#include "app/views.h"

namespace foretrain {
namespace {

Result<RunView> ViewOf(const StoreReader& reader, const StoredRun& run) {
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  RunView view;
  view.timeline = run.timeline;
  view.label = "run " + std::to_string(run.info.id) + ": " + stored.context.model.name + " " +
               Describe(stored.plan);
  // A forecast is its last, steady step; a run is all but its first.
  const bool forecast = run.info.kind == RunKind::kPredicted;
  const int steps = run.info.last_step.value_or(0);
  view.metrics = MetricOptionsFor(stored.context, stored.plan, forecast ? steps : 1);
  view.layers = static_cast<int>(stored.context.model.layers);
  view.program_hash = std::to_string(run.info.program_hash);
  view.device_bytes = stored.context.cluster.device.memory_bytes;
  view.dropped = run.info.totals.dropped;
  view.invalid = run.info.totals.invalid;
  return view;
}

}  // namespace

Result<CompareInput> CompareInputOf(const StoreReader& reader, const RunPair& pair) {
  CompareInput input;
  if (pair.predicted) {
    FT_ASSIGN(input.predicted, ViewOf(reader, *pair.predicted));
  }
  if (pair.measured) {
    FT_ASSIGN(input.measured, ViewOf(reader, *pair.measured));
  }
  return input;
}

}  // namespace foretrain
