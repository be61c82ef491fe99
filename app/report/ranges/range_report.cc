#include "app/report/ranges/range_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/forecast/forecasting.h"
#include "base/json/json.h"
#include "base/units.h"
#include "sim/compare/join.h"
#include "traces/metrics/metrics.h"

namespace foretrain {
namespace {

tl::unexpected<Error> Refused(const RunInfo& run, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("run {} {}", run.id, why));
}

// Windows without spans where the store has them; otherwise they are derived from all spans.
Result<Timeline> WindowsOf(const StoreReader& reader, RunId id) {
  LoadOptions options;
  options.spans = options.counters = options.kernels = false;
  FT_ASSIGN(StoredRun run, reader.LoadRun(id, options));
  if (!run.timeline.steps.empty()) return std::move(run.timeline);
  options.spans = true;
  FT_ASSIGN(StoredRun whole, reader.LoadRun(id, options));
  DeriveSteps(whole.timeline);
  return std::move(whole.timeline);
}

std::pair<std::int32_t, std::int32_t> StepsOf(const std::vector<StepWindow>& windows) {
  const auto [first, last] =
      std::minmax_element(windows.begin(), windows.end(),
                          [](const StepWindow& a, const StepWindow& b) { return a.step < b.step; });
  return {first->step, last->step};
}

// A forecast shows its last, steady step; a measured run the median after its warm-up.
std::int32_t DefaultStep(const RunInfo& run, const Timeline& timeline) {
  const auto [first, last] = StepsOf(timeline.steps);
  if (run.kind == RunKind::kPredicted) return last;
  const int warm = run.kind == RunKind::kImported ? 0 : WarmupSteps(timeline);
  return MedianStep(timeline, first + warm).value_or(first);
}

// From the first start to the last end of any rank.
Result<std::pair<std::int64_t, std::int64_t>> WindowOf(const RunInfo& run,
                                                       const std::vector<StepWindow>& windows,
                                                       std::int32_t step) {
  std::optional<std::pair<std::int64_t, std::int64_t>> window;
  for (const StepWindow& of : windows) {
    if (of.step != step) continue;
    if (!window) window.emplace(of.start_ns, of.end_ns);
    window->first = std::min(window->first, of.start_ns);
    window->second = std::max(window->second, of.end_ns);
  }
  if (window) return *window;
  const auto [first, last] = StepsOf(windows);
  return Refused(
      run, fmt::format("has no window of step {}; it has those of steps {} to {} (--step)", step,
                       first, last));
}

Result<void> CheckRank(const RunInfo& run, const std::vector<StepWindow>& windows,
                       std::int32_t step, std::optional<int> rank) {
  const auto known = [&](const StepWindow& of) { return of.step == step && of.rank == *rank; };
  if (!rank || std::any_of(windows.begin(), windows.end(), known)) return {};
  return Refused(run, fmt::format("has no rank {} in step {} (--rank); it has ranks 0 to {}", *rank,
                                  step, std::max(0, run.world - 1)));
}

void WriteRow(JsonWriter& json, const RangeSums& sums, const RangeSum& row, bool is_total) {
  json.BeginObject();
  const bool by_rank = sums.by == SumBy::kRank;
  if (!is_total && by_rank) json.Field("rank", row.rank);
  if (!is_total && sums.by == SumBy::kOp) json.Field("op", row.name);
  if (!is_total && !by_rank) json.Field("class", Name(row.op_class));
  json.Field("spans", row.spans).Field("busy_s", SecondsFromNs(row.busy_ns));
  json.Field("bytes", row.bytes);
  if (by_rank) {
    json.Field("compute_s", SecondsFromNs(row.classes.compute_ns))
        .Field("exposed_communication_s", SecondsFromNs(row.classes.exposed_communication_ns))
        .Field("exposed_copy_s", SecondsFromNs(row.classes.exposed_copy_ns))
        .Field("host_s", SecondsFromNs(row.classes.host_ns))
        .Field("idle_s", SecondsFromNs(row.classes.idle_ns));
  }
  json.EndObject();
}

}  // namespace

Result<ReportedRange> ReadRange(const StoreReader& reader, RunId id, const AskedRange& asked) {
  LoadOptions options;
  options.timeline = options.counters = options.kernels = false;
  FT_ASSIGN(StoredRun named, reader.LoadRun(id, options));
  ReportedRange range{.run = std::move(named.info)};
  FT_ASSIGN(const Timeline windows, WindowsOf(reader, id));
  if (windows.steps.empty()) {
    return Refused(range.run, "has no step with a window: its steps were cut short");
  }
  range.step = asked.step.value_or(DefaultStep(range.run, windows));
  FT_ASSIGN(const auto window, WindowOf(range.run, windows.steps, range.step));
  FT_TRY(CheckRank(range.run, windows.steps, range.step, asked.rank));
  range.step_start_ns = window.first;
  FT_ASSIGN(SummedRange summed, ParseRange("--window", asked.window, window.first, window.second));
  summed.rank = asked.rank;
  LoadOptions part;
  part.window_ns = std::pair(summed.start_ns, summed.end_ns);
  part.counters = part.kernels = false;
  if (asked.rank) part.ranks = {*asked.rank};
  FT_ASSIGN(const StoredRun run, reader.LoadRun(id, part));
  range.sums = SumRange(run.timeline, asked.by, summed);
  return range;
}

std::string TextOf(const ReportedRange& range) {
  const std::string title =
      fmt::format("run {}, {}, by {}", range.run.id,
                  Describe(range.sums, range.step, range.step_start_ns), Name(range.sums.by));
  if (range.sums.rows.empty()) return title + "\n\n  no spans were recorded there\n";
  return title + "\n\n" + TableOf(range.sums).Text(2);
}

void Write(JsonWriter& json, const ReportedRange& range) {
  const RangeSums& sums = range.sums;
  json.Field("by", Name(sums.by)).Field("step", range.step);
  json.Name("window").BeginObject();
  json.Field("begin_s", SecondsFromNs(sums.range.start_ns - range.step_start_ns))
      .Field("end_s", SecondsFromNs(sums.range.end_ns - range.step_start_ns))
      .EndObject();
  json.Field("ranks", sums.ranks);
  json.Name("rows").BeginArray();
  for (const RangeSum& row : sums.rows) WriteRow(json, sums, row, /*is_total=*/false);
  json.EndArray();
  json.Name("sum");
  WriteRow(json, sums, sums.total, /*is_total=*/true);
}

}  // namespace foretrain
