#include "ui/view_model/panels/counter_rows.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace foretrain::ui {

std::vector<const GpuCounter*> CountersOf(const RunView& run, int rank) {
  std::vector<const GpuCounter*> counters;
  if (run.gpu_counters == nullptr) return counters;
  for (const GpuCounter& counter : *run.gpu_counters) {
    if (counter.rank == rank && counter.series.main && counter.highest > 0) {
      counters.push_back(&counter);
    }
  }
  return counters;
}

double TopOf(const GpuCounter& counter) {
  return counter.series.unit == GpuUnit::kShare ? 1.0 : std::max(1.0, counter.highest);
}

// Each reading enters all columns that it touches, so short ones are not lost between columns.
std::vector<CounterColumn> FoldCounter(const GpuCounter& counter, double start_ns, double end_ns,
                                       int columns) {
  std::vector<CounterColumn> folded(static_cast<std::size_t>(std::max(0, columns)));
  if (folded.empty() || end_ns <= start_ns) return folded;
  const double per_ns = columns / (end_ns - start_ns);
  const auto first = std::partition_point(
      counter.readings.begin(), counter.readings.end(), [start_ns](const GpuReading& reading) {
        return static_cast<double>(reading.time_ns + kMaxReadingNs) <= start_ns;
      });
  for (auto i = static_cast<std::size_t>(first - counter.readings.begin());
       i < counter.readings.size(); ++i) {
    const GpuReading& reading = counter.readings[i];
    const double from = (static_cast<double>(reading.time_ns) - start_ns) * per_ns;
    const double to = (static_cast<double>(counter.EndOf(i)) - start_ns) * per_ns;
    if (from >= columns) break;
    if (to <= 0.0) continue;
    const auto begin = static_cast<std::size_t>(std::max(0.0, std::floor(from)));
    const auto end =
        static_cast<std::size_t>(std::min(static_cast<double>(columns), std::ceil(to)));
    for (std::size_t c = begin; c < end; ++c) {
      folded[c].low = std::min(folded[c].low, reading.value);
      folded[c].high = std::max(folded[c].high, reading.value);
    }
  }
  return folded;
}

// The time for which the reading holds is shown: a reading may be much longer than a step.
std::optional<HoverText> HoverOfCounter(const CompareModel& model, const Layout& layout,
                                        const Viewport& viewport, float x, float y) {
  const std::optional<CounterHit> hit = CounterAt(layout, viewport, x, y);
  if (!hit.has_value()) return std::nullopt;
  const GpuCounter& counter = *model.lanes[hit->lane].counters[hit->counter];
  HoverText text{.title = std::string(counter.series.title),
                 .subtitle = "GPU of " + model.lanes[hit->lane].name,
                 .lines = {}};
  const std::optional<std::size_t> at = counter.At(model.Of(model.Shown()).Own(hit->time_ns));
  if (!at.has_value()) {
    text.lines.push_back({"value", "no reading here"});
    return text;
  }
  text.lines.push_back({"value", FormatReading(counter.series.unit, counter.readings[*at].value)});
  const std::int64_t length = counter.EndOf(*at) - counter.readings[*at].time_ns;
  text.lines.push_back({"reading of", FormatSeconds(SecondsFromNs(length))});
  if (counter.series.unit != GpuUnit::kShare) {
    text.lines.push_back({"highest", FormatReading(counter.series.unit, counter.highest)});
  }
  return text;
}

}  // namespace foretrain::ui
