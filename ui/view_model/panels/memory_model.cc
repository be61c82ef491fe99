#include "ui/view_model/panels/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/units.h"
#include "ui/view_model/panels/step_sums.h"
#include "ui/view_model/runs/long_runs.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {
namespace {

// Samples of a step that is not read are those that its sums keep.
std::span<const MemorySample> SamplesOf(const SideModel& side) {
  if (!side.IsPresent()) return {};
  return IsSummed(side) ? std::span<const MemorySample>(side.run->sums->levels)
                        : std::span<const MemorySample>(side.run->timeline.memory);
}

// The curves cover the whole run; the peaks are those of the chosen step.
MemoryPanel PanelIn(const SidePair& sides, int rank, Space space) {
  MemoryPanel panel{.space = space};
  for (const Side side : kSides) {
    const SideModel& of = sides.Of(side);
    if (!of.IsPresent()) continue;
    MemoryCurve& curve = panel.curves[Index(side)];
    curve = MemoryCurve(SamplesOf(of), sides.RankOn(side, rank), space);
    panel.peaks[Index(side)] =
        curve.PeakIn(static_cast<double>(of.step_start_ns), static_cast<double>(of.step_end_ns));
  }
  return panel;
}

// Peak by rank and space in the chosen step; for a run without steps, in the whole run.
using Peaks = std::map<std::pair<int, Space>, std::int64_t>;

// The highest of the moments that the sums keep of the step, rank by rank.
void AddKeptPeaks(const SideModel& side, Peaks& peaks) {
  const std::vector<MemorySample>& levels = side.run->sums->levels;
  for (auto at = levels.begin(); at != levels.end();) {
    const auto end = std::partition_point(
        at, levels.end(), [rank = at->rank](const MemorySample& s) { return s.rank <= rank; });
    for (int s = 0; s < kSpaceCount; ++s) {
      const auto space = static_cast<Space>(s);
      const MemoryCurve curve(std::span(at, end), at->rank, space);
      const bool inside = std::any_of(at, end, [&](const MemorySample& sample) {
        return sample.space == space && sample.time_ns >= side.step_start_ns &&
               sample.time_ns < side.step_end_ns;
      });
      if (!inside) continue;
      peaks[{at->rank, space}] = curve
                                     .PeakIn(static_cast<double>(side.step_start_ns),
                                             static_cast<double>(side.step_end_ns))
                                     .total_bytes;
    }
    at = end;
  }
}

Peaks PeaksOn(const SideModel& side) {
  Peaks peaks;
  if (!side.IsPresent()) return peaks;
  for (const MemoryPeak& peak : side.metrics->memory) {
    if (peak.step == side.step) peaks[{peak.rank, peak.space}] = peak.bytes;
  }
  if (peaks.empty() && IsSummed(side)) AddKeptPeaks(side, peaks);
  return peaks;
}

// The higher peak of both sides for each rank. On the device if any rank has memory there,
// otherwise in the first space that has some.
std::vector<RankPeak> RankPeaks(const SidePair& sides) {
  const std::array<Peaks, 2> peaks{PeaksOn(sides.sides[0]), PeaksOn(sides.sides[1])};
  std::vector<RankPeak> found;
  for (int s = 0; s < kSpaceCount && found.empty(); ++s) {
    for (const int rank : RanksOf(sides)) {
      std::optional<std::int64_t> max;
      for (const Side side : kSides) {
        const auto at = peaks[Index(side)].find({sides.RankOn(side, rank), static_cast<Space>(s)});
        if (at != peaks[Index(side)].end()) max = std::max(max.value_or(0), at->second);
      }
      if (max.has_value()) found.push_back({rank, *max});
    }
  }
  return found;
}

int Fullest(const std::vector<RankPeak>& ranks) {
  if (ranks.empty()) return -1;
  return std::max_element(ranks.begin(), ranks.end(),
                          [](const RankPeak& a, const RankPeak& b) { return a.bytes < b.bytes; })
      ->rank;
}

// Spaces in the order of the enum, so the device comes first.
std::vector<Space> SpacesOf(const SidePair& sides, int rank) {
  std::array<bool, kSpaceCount> has{};
  for (const Side side : kSides) {
    if (!sides.Of(side).IsPresent()) continue;
    const int on = sides.RankOn(side, rank);
    for (const MemorySample& sample : SamplesOf(sides.Of(side))) {
      if (sample.rank == on) has[static_cast<std::size_t>(sample.space)] = true;
    }
  }
  std::vector<Space> spaces;
  for (std::size_t s = 0; s < has.size(); ++s) {
    if (has[s]) spaces.push_back(static_cast<Space>(s));
  }
  return spaces;
}

// Each side's bytes are those at its own peak, so that a row may compare different moments.
std::vector<CategoryRow> RowsOf(const MemoryPanel& panel) {
  std::vector<CategoryRow> rows;
  for (std::size_t c = 0; c < kCategoryCount; ++c) {
    CategoryRow row{.category = static_cast<Category>(c)};
    for (const Side side : kSides) {
      const std::size_t i = Index(side);
      if (!panel.curves[i].empty()) row.bytes[i] = panel.peaks[i].parts[c];
    }
    if (row.Largest() > 0) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CategoryRow& a, const CategoryRow& b) {
    return a.Largest() > b.Largest();
  });
  return rows;
}

// The measured device counts; the forecast's is used if the run does not know it.
std::optional<std::int64_t> CapacityOf(const SidePair& sides) {
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (!sides.Of(side).IsPresent()) continue;
    const auto bytes = sides.Of(side).run->device_bytes;
    if (bytes.has_value() && *bytes > 0) return bytes;
  }
  return std::nullopt;
}

// A step whose sums keep no moment of memory: only the stored peak of the run is known.
std::string DescribeUnread(const SideModel& side) {
  const MemoryPeak* highest = nullptr;
  for (const MemoryPeak& peak : side.metrics->memory) {
    const bool higher = highest == nullptr || peak.bytes > highest->bytes;
    if (peak.space == Space::kDevice && higher) highest = &peak;
  }
  std::string text = fmt::format(
      "Step {} has about {} spans, too many to be read at once, so its memory over time is not "
      "drawn",
      side.step, SpansOfStep(side));
  if (highest == nullptr) return text + ".";
  return text + fmt::format("; the highest peak of the run is {}, on rank {}.",
                            FormatBytes(highest->bytes), highest->rank);
}

// Says why a side or the whole view is empty, and where moments are missing.
void FillNotices(const SidePair& sides, MemoryModel& model) {
  if (model.rank < 0 && IsSummed(sides.Of(sides.Shown()))) {
    model.notices.push_back(DescribeUnread(sides.Of(sides.Shown())));
    return;
  }
  for (const Side side : kSides) {
    if (!IsSummed(sides.Of(side)) || !model.Has(side)) continue;
    model.notices.push_back(
        fmt::format("{}: from the moments that sums keep; peaks between them are not seen.",
                    sides.NameOf(side)));
  }
  if (model.rank < 0) {
    model.notices.emplace_back(sides.Shown() == Side::kMeasured
                                   ? "No memory was recorded (--capture full records it)."
                                   : "The forecast holds no memory over time.");
    return;
  }
  for (const Side side : kSides) {
    if (!sides.Of(side).IsPresent() || model.Has(side)) continue;
    model.notices.push_back(
        side == Side::kPredicted
            ? fmt::format("The {} says nothing of this memory.", sides.Reference())
            : fmt::format("Of the measured run no memory was recorded: the {} "
                          "alone is shown.",
                          sides.Reference()));
  }
}

}  // namespace

std::int64_t MemoryPanel::Highest() const {
  std::int64_t highest = 0;
  for (const MemoryCurve& curve : curves) {
    for (const MemoryLevel& level : curve.levels()) highest = std::max(highest, level.total_bytes);
  }
  return highest;
}

// Tries the requested space, then all spaces in order, until one has samples.
MemoryPanel MakeMemoryPanel(const SidePair& sides, int rank, std::optional<Space> space) {
  if (space.has_value()) {
    MemoryPanel panel = PanelIn(sides, rank, *space);
    if (!panel.IsEmpty()) return panel;
  }
  for (int s = 0; s < kSpaceCount; ++s) {
    MemoryPanel panel = PanelIn(sides, rank, static_cast<Space>(s));
    if (!panel.IsEmpty()) return panel;
  }
  return {};
}

std::optional<std::int64_t> CategoryRow::ErrorBytes() const {
  if (!bytes[0].has_value() || !bytes[1].has_value()) return std::nullopt;
  return *bytes[1] - *bytes[0];
}

std::int64_t CategoryRow::Largest() const {
  return std::max(bytes[0].value_or(0), bytes[1].value_or(0));
}

std::optional<std::int64_t> MemoryModel::HeadroomBytes() const {
  if (!capacity_bytes.has_value()) return std::nullopt;
  return *capacity_bytes - std::max(panel.peaks[0].total_bytes, panel.peaks[1].total_bytes);
}

// The capacity is only known for the device, so other spaces have no headroom.
MemoryModel BuildMemoryModel(const SidePair& sides, std::optional<int> rank,
                             std::optional<Space> space) {
  MemoryModel model;
  model.ranks = RankPeaks(sides);
  const bool known =
      rank.has_value() && std::any_of(model.ranks.begin(), model.ranks.end(),
                                      [&](const RankPeak& of) { return of.rank == *rank; });
  model.rank = known ? *rank : Fullest(model.ranks);
  if (model.rank >= 0) {
    model.spaces = SpacesOf(sides, model.rank);
    model.panel = MakeMemoryPanel(sides, model.rank, space);
    model.rows = RowsOf(model.panel);
    if (model.panel.space == Space::kDevice) model.capacity_bytes = CapacityOf(sides);
    for (const Side side : kSides) {
      if (!model.Has(side)) continue;
      model.at_peak[Index(side)] =
          WhatRuns(*sides.Of(side).run, sides.RankOn(side, model.rank), model.Peak(side).time_ns);
    }
  }
  FillNotices(sides, model);
  return model;
}

// Spans of a rank are sorted by queue and start, so a binary search finds the last compute span
// that starts by then.
std::string WhatRuns(const RunView& run, int rank, std::int64_t time_ns) {
  const std::span<const Span> spans = SpansOfRank(run.timeline, rank);
  const auto after = std::partition_point(spans.begin(), spans.end(), [&](const Span& span) {
    return span.queue < Queue::kCompute ||
           (span.queue == Queue::kCompute && span.start_ns <= time_ns);
  });
  if (after == spans.begin()) return {};
  const Span& span = *(after - 1);
  if (span.queue != Queue::kCompute || span.end_ns < time_ns || !IsValidId(span.op)) return {};
  const std::string title = OpTitle(run, span.op);
  const std::string place = Describe(InstructionOf(span.op), run.layers);
  return title == place ? place : fmt::format("{}, {}", title, place);
}

}  // namespace foretrain::ui
