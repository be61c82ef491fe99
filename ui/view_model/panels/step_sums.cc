#include "ui/view_model/panels/step_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "ui/view_model/runs/long_runs.h"
#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {
namespace {

struct ClassText {
  std::string_view name;
  std::string_view explained;
  double ClassSeconds::*part;
};
constexpr std::array kClassTexts{
    ClassText{"compute", "products, attention and memory-bound ops", &ClassSeconds::compute_s},
    ClassText{"exposed comm", "communication that no compute hides",
              &ClassSeconds::exposed_communication_s},
    ClassText{"exposed copy", "copies that neither hides", &ClassSeconds::exposed_copy_s},
    ClassText{"dependency wait", "an input was not ready", &ClassSeconds::dependency_wait_s},
    ClassText{"peer wait", "peers had not come", &ClassSeconds::peer_wait_s},
    ClassText{"host wait", "the host was late", &ClassSeconds::host_wait_s},
    ClassText{"drain", "nothing follows", &ClassSeconds::drain_s},
};

// Stored metrics of the chosen step; null if none were stored.
const StepMetrics* MetricsOf(const SideModel& side) {
  if (!side.IsPresent() || side.metrics == nullptr) return nullptr;
  for (const StepMetrics& step : side.metrics->steps) {
    if (step.step == side.step && step.classes.window_s > 0.0) return &step;
  }
  const auto& overall = side.metrics->overall;
  const bool of_step = overall.has_value() && overall->step == side.step;
  return of_step && overall->classes.window_s > 0.0 ? &*overall : nullptr;
}

std::array<double, kHueCount> BusySeconds(const SideModel& side) {
  std::array<double, kHueCount> seconds{};
  std::set<int> ranks;
  const auto start = static_cast<double>(side.step_start_ns);
  const auto end = static_cast<double>(side.step_end_ns);
  for (const TrackSums& track : side.run->sums->tracks) {
    ranks.insert(track.rank);
    for (const SpanBlock& block : track.blocks) {
      const auto first = static_cast<double>(block.start_ns);
      const auto last = static_cast<double>(block.end_ns);
      const double inside = std::min(last, end) - std::max(first, start);
      if (inside <= 0.0) continue;
      for (std::size_t hue = 0; hue < kHueCount; ++hue) {
        seconds[hue] += block.busy_ns[hue] * inside / (last - first) / kNsPerSecond;
      }
    }
  }
  for (double& of : seconds) of /= static_cast<double>(std::max<std::size_t>(1, ranks.size()));
  return seconds;
}

}  // namespace

bool IsSummed(const SideModel& side) {
  if (!side.IsPresent() || side.run->sums == nullptr || side.step < 0) return false;
  return !side.run->IsLoaded(static_cast<double>(side.step_start_ns),
                             static_cast<double>(side.step_end_ns)) &&
         SpansOfStep(side) > kMaxLoadedSpans;
}

std::vector<std::string> DescribeSummed(const SidePair& sides) {
  std::vector<std::string> sentences;
  for (const Side side : kSides) {
    const SideModel& of = sides.Of(side);
    if (!IsSummed(of)) continue;
    sentences.push_back(fmt::format(
        "Step {} of the {} has about {} spans, more than the {} that are read at once: it is told "
        "from their sums. `foretrain analyze --step {}` reads all.",
        of.step, side == Side::kPredicted ? sides.Reference() : "measured run", SpansOfStep(of),
        kMaxLoadedSpans, of.step));
  }
  return sentences;
}

std::vector<WaitRow> ClassRows(const SidePair& sides) {
  std::array<const StepMetrics*, 2> of{};
  for (const Side side : kSides) of[Index(side)] = MetricsOf(sides.Of(side));
  if (of[0] == nullptr && of[1] == nullptr) return {};
  std::vector<WaitRow> rows;
  const auto add = [&](std::string_view name, std::string_view explained,
                       double ClassSeconds::*part, bool total) {
    WaitRow row{std::string(name), std::string(explained), {}, total};
    bool any = total;
    for (const Side side : kSides) {
      if (of[Index(side)] == nullptr) continue;
      const double seconds = of[Index(side)]->classes.*part;
      row.seconds[Index(side)] = seconds;
      any = any || seconds > 0.0;
    }
    if (any) rows.push_back(std::move(row));
  };
  for (const ClassText& text : kClassTexts) add(text.name, text.explained, text.part, false);
  add("step", "mean over ranks", &ClassSeconds::window_s, true);
  return rows;
}

std::vector<WaitRow> WorkRows(const SidePair& sides) {
  std::array<std::array<double, kHueCount>, 2> seconds{};
  std::array<bool, 2> known{};
  for (const Side side : kSides) {
    const SideModel& of = sides.Of(side);
    if (!of.IsPresent() || of.run->sums == nullptr) continue;
    seconds[Index(side)] = BusySeconds(of);
    known[Index(side)] = true;
  }
  std::vector<WaitRow> rows;
  for (std::size_t hue = 0; hue < kHueCount; ++hue) {
    if (seconds[0][hue] <= 0.0 && seconds[1][hue] <= 0.0) continue;
    WaitRow row{std::string(Name(static_cast<Hue>(hue))),
                "busy time of its spans; work that overlaps counts twice",
                {},
                false};
    for (const Side side : kSides) {
      if (known[Index(side)]) row.seconds[Index(side)] = seconds[Index(side)][hue];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace foretrain::ui
