#include "app/desktop/views.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/runs/traced_ranks.h"
#include "sim/cost/network/communication_groups.h"
#include "sim/program/lower/rank/rank_class.h"
#include "ui/stored_run.h"

namespace foretrain {
namespace {

// [rank]: the rank of a stored forecast that stands for it. Empty if the forecast has all ranks, or
// others than those that stand for the rest today.
std::vector<int> StandsForIn(const StoredContext& stored, const Timeline& timeline) {
  const std::set<int> known = RecordedRanks(timeline);
  if (std::ssize(known) >= stored.plan.World()) return {};
  const std::vector<std::int32_t> stands =
      Representatives(stored.context.model, stored.plan, RankChoice::kClasses);
  const bool all = std::all_of(stands.begin(), stands.end(),
                               [&known](std::int32_t rank) { return known.contains(rank); });
  return all ? std::vector<int>(stands.begin(), stands.end()) : std::vector<int>();
}

}  // namespace

// Metrics use the rates and the plan that are stored with the run, not those of this machine.
Result<RunView> ViewOf(const StoreReader& reader, StoredRun run) {
  if (run.info.kind == RunKind::kImported) return RunViewOf(std::move(run));  // without specs
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  // A forecast shows its last, steady step; a measured run all but its first.
  const bool forecast = run.info.kind == RunKind::kPredicted;
  const int steps = run.info.last_step.value_or(0);
  const RunId id = run.info.id;
  const int warmup = forecast ? steps : WarmupSteps(run.timeline);
  RunView view = RunViewOf(std::move(run), MetricOptionsFor(stored.context, stored.plan, warmup));
  view.setting = std::make_shared<const RunSetting>(RunSetting{
      stored.context.model, stored.context.cluster, stored.context.costs.profile(), stored.plan});
  if (forecast) view.stands_for_rank = StandsForIn(stored, view.timeline);
  view.groups = CommunicationGroupsOf(stored.plan);
  view.model = stored.context.model.name;
  view.label =
      "run " + std::to_string(id) + ": " + stored.context.model.name + " " + Describe(stored.plan);
  return view;
}

// An imported trace has no plan of its own, so its metrics use the forecast's options where there
// is one, and its kernels take the ids of the forecast's ops.
Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair) {
  CompareInput input;
  std::optional<StructuralPairs> structure;
  const bool traced = pair.predicted && pair.predicted->info.kind == RunKind::kPredicted &&
                      pair.measured && pair.measured->info.kind == RunKind::kImported;
  if (traced) {
    FT_ASSIGN(const StoredContext stored, ContextOf(reader, *pair.predicted));
    Timeline& trace = pair.measured->timeline;
    AddTracedRanks(stored, RecordedRanks(trace), pair.predicted->timeline);
    structure = PairAllSteps(pair.predicted->timeline, trace);
  }
  if (pair.predicted) {
    FT_ASSIGN(input.predicted, ViewOf(reader, *std::move(pair.predicted)));
  }
  if (pair.measured && pair.measured->info.kind == RunKind::kImported) {
    // A trace that is compared with a forecast counts as a run of the forecast's plan.
    std::optional<MetricOptions> options;
    if (input.predicted) options = input.predicted->metrics;
    if (options) options->warmup_steps = 0;
    input.measured = RunViewOf(*std::move(pair.measured), options);
    input.measured->structure = structure;
    // The ops are those of the forecast's layers.
    if (structure) input.measured->layers = input.predicted->layers;
  } else if (pair.measured) {
    FT_ASSIGN(input.measured, ViewOf(reader, *std::move(pair.measured)));
  }
  return input;
}

}  // namespace foretrain
