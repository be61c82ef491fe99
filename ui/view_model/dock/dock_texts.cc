#include "ui/view_model/dock/dock_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "ui/view_model/runs/run_model.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// Rounds to whole nanoseconds; far outside int64_t it stays at its ends.
std::int64_t WholeNs(double ns) { return NsFromSeconds(ns / kNsPerSecond); }

}  // namespace

Result<SummedRange> RangeOf(const SidePair& sides, Side side,
                            const std::optional<Measure>& measure) {
  const SideModel& of = sides.Of(side);
  if (!of.IsPresent() || of.step < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("The {} run has no step whose time is known.", sides.NameOf(side)));
  }
  SummedRange range{of.step_start_ns, of.step_end_ns};
  if (measure.has_value()) {
    const double from = std::min(measure->from_ns, measure->to_ns);
    const double to = std::max(measure->from_ns, measure->to_ns);
    range.start_ns = std::max(of.step_start_ns, WholeNs(of.Own(from)));
    range.end_ns = WholeNs(of.Own(to));
  }
  if (range.end_ns > range.start_ns) return range;
  return Fail(ErrorCode::kInvalidArgument,
              measure.has_value()
                  ? fmt::format("The range ends before the {} step begins.", sides.NameOf(side))
                  : "The step has no length.");
}

std::string DescribeGaps(const SideModel& side, const SummedRange& range) {
  const auto start = static_cast<double>(range.start_ns);
  const auto end = static_cast<double>(range.end_ns);
  if (side.run->IsLoaded(start, end)) return {};
  return "Only spans that are read are summed here; the command sums all.";
}

std::optional<RunId> RunIdOf(const SidePair& sides, Side side, const StoreRequest& shown,
                             const std::vector<RunInfo>& runs) {
  if (shown.path.empty() || shown.run <= 0) return std::nullopt;
  if (side == sides.Shown()) return shown.run;
  if (shown.against > 0) return shown.against;
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [&](const RunInfo& info) { return info.id == shown.run; });
  return run == runs.end() ? std::nullopt : run->forecast;
}

std::string CommandOf(const std::string& store, RunId run, const SideModel& side, SumBy by,
                      const SummedRange& range) {
  std::vector<std::string> words{"foretrain", "analyze",
                                 "--store",   store,
                                 "--run",     std::to_string(run),
                                 "--step",    std::to_string(side.step),
                                 "--by",      std::string(Name(by))};
  if (range.start_ns != side.step_start_ns || range.end_ns != side.step_end_ns) {
    words.insert(words.end(), {"--window", RangeText(range, side.step_start_ns)});
  }
  if (range.rank.has_value()) {
    words.insert(words.end(), {"--rank", std::to_string(*range.rank)});
  }
  return JoinWords(words);
}

Table TableOf(const HoverText& details) {
  Table table({"", "value"});
  table.AddRow({"op", details.title});
  table.AddRow({"of", details.subtitle});
  for (const HoverLine& line : details.lines) table.AddRow({line.name, line.value});
  return table;
}

std::vector<std::string> TitlesOfFound() { return {"op", "of", ">rank", ">starts", ">takes"}; }

std::vector<std::string> CellsOf(const CompareModel& model, const SpanRef& ref) {
  const SideModel& side = model.Of(ref.side);
  const Span& span = model.SpanOf(ref);
  const std::string place =
      IsValidId(span.op) ? Describe(InstructionOf(span.op), side.run->layers) : std::string();
  return {OpTitle(*side.run, span.op), place, std::to_string(span.rank),
          PreciseTime(static_cast<double>(span.start_ns - side.step_start_ns)),
          FormatSeconds(SecondsFromNs(span.end_ns - span.start_ns))};
}

Table TableOf(const CompareModel& model, const std::vector<SpanRef>& found) {
  Table table(TitlesOfFound());
  for (const SpanRef& ref : found) table.AddRow(CellsOf(model, ref));
  return table;
}

}  // namespace foretrain::ui
