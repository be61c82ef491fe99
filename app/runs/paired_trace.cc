#include "app/runs/paired_trace.h"

#include <algorithm>
#include <optional>
#include <set>

#include "app/runs/traced_ranks.h"
#include "sim/compare/join.h"
#include "sim/compare/structure/pair_by_structure.h"
#include "sim/cost/network/communication_groups.h"
#include "traces/export/chrome_trace.h"

namespace foretrain {
namespace {

// The step that is compared: as compare does it.
std::optional<std::int32_t> StepOf(const StoredRun& run) {
  if (run.timeline.steps.empty()) return std::nullopt;
  if (run.info.kind == RunKind::kPredicted) return LastStep(run.timeline);
  int first = run.timeline.steps.front().step;
  for (const StepWindow& window : run.timeline.steps) first = std::min(first, window.step);
  const int left_out = run.info.kind == RunKind::kImported ? 0 : WarmupSteps(run.timeline);
  const auto step = MedianStep(run.timeline, first + left_out);
  return step ? step : MedianStep(run.timeline, first);
}

std::int64_t StartOf(const Timeline& timeline, std::int32_t step) {
  std::optional<std::int64_t> start_ns;
  for (const StepWindow& window : timeline.steps) {
    if (window.step != step) continue;
    start_ns = start_ns ? std::min(*start_ns, window.start_ns) : window.start_ns;
  }
  return start_ns.value_or(0);
}

// The forecast's ops of a trace's kernels; kNoOp for those that have none. Empty if the pairs
// cannot be trusted.
std::vector<OpId> CounterpartsOf(const StoredRun& predicted, std::int32_t predicted_step,
                                 const StoredRun& trace, std::int32_t step) {
  Timeline paired = trace.timeline;
  if (!PairByStructure(predicted.timeline, predicted_step, paired, step).IsTrusted()) return {};
  std::vector<OpId> counterparts;
  for (std::size_t i = 0; i < paired.spans.size(); ++i) {
    const bool has = paired.spans[i].op != trace.timeline.spans[i].op;
    counterparts.push_back(has ? paired.spans[i].op : kNoOp);
  }
  return counterparts;
}

// Lets the compared steps begin together and pairs their ops. Returns the counterparts of the spans
// of a trace; empty for other runs, which pair by their own ids.
std::vector<OpId> Join(const std::optional<StoredContext>& forecast, RunPair& pair,
                       std::vector<StoredChromeRun>& shown) {
  const auto predicted = StepOf(*pair.predicted), measured = StepOf(*pair.measured);
  if (!predicted || !measured) return {};
  shown[0].how.shift_ns =
      StartOf(pair.measured->timeline, *measured) - StartOf(pair.predicted->timeline, *predicted);
  const bool trace = pair.measured->info.kind == RunKind::kImported && forecast.has_value();
  std::vector<OpId> counterparts;
  if (trace) {
    // A forecast may hold one rank of several that do the same.
    AddTracedRanks(*forecast, RecordedRanks(pair.measured->timeline), pair.predicted->timeline);
    counterparts = CounterpartsOf(*pair.predicted, *predicted, *pair.measured, *measured);
    if (counterparts.empty()) return {};
  }
  shown[0].how.flows.paired_step = predicted;
  shown[1].how.flows.paired_step = measured;
  return counterparts;
}

}  // namespace

Result<std::vector<RunId>> WritePairedTrace(const StoreReader& reader, RunId run, RunId against,
                                            FileSystem& files, const std::string& path) {
  FT_ASSIGN(RunPair pair, LoadPair(reader, run, against));
  std::vector<StoredChromeRun> shown;
  // Groups and counterparts live until the file is written.
  CommunicationGroups groups[2];
  std::vector<OpId> counterparts;
  std::optional<StoredContext> forecast;
  for (const std::optional<StoredRun>* of : {&pair.predicted, &pair.measured}) {
    if (!of->has_value()) continue;
    StoredChromeRun next{.run = &**of};
    if ((*of)->info.kind != RunKind::kImported) {
      FT_ASSIGN(StoredContext context, ContextOf(reader, **of));
      groups[shown.size()] = CommunicationGroupsOf(context.plan);
      next.how.flows.groups = &groups[shown.size()];
      if (shown.empty()) forecast = std::move(context);
    }
    shown.push_back(std::move(next));
  }
  if (shown.size() == 2) counterparts = Join(forecast, pair, shown);
  if (!counterparts.empty()) shown[1].how.flows.counterparts = counterparts;
  FT_TRY(WriteChromeTrace(shown, files, path));
  std::vector<RunId> runs;
  for (const StoredChromeRun& of : shown) runs.push_back(of.run->info.id);
  return runs;
}

}  // namespace foretrain
