#include "ui/view_model/runs/long_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "traces/metrics/stored_metrics.h"

namespace foretrain {

bool RunView::IsLoaded(double start_ns, double end_ns) const {
  if (sums == nullptr) return true;
  return std::any_of(loaded.begin(), loaded.end(), [&](const Stretch& stretch) {
    return static_cast<double>(stretch.start_ns) <= start_ns &&
           end_ns <= static_cast<double>(stretch.end_ns);
  });
}

}  // namespace foretrain

namespace foretrain::ui {
namespace {

// Sorts the ranges and merges those that touch.
std::vector<Stretch> Joined(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.start_ns < b.start_ns; });
  std::vector<Stretch> joined;
  for (const Stretch& stretch : stretches) {
    if (!joined.empty() && stretch.start_ns <= joined.back().end_ns) {
      joined.back().end_ns = std::max(joined.back().end_ns, stretch.end_ns);
    } else {
      joined.push_back(stretch);
    }
  }
  return joined;
}

// Time range of the whole run, from its sums.
Stretch WholeOf(const SpanSums& sums) {
  std::optional<Stretch> whole;
  for (const TrackSums& track : sums.tracks) {
    if (track.blocks.empty()) continue;
    const Stretch of{track.blocks.front().start_ns, track.blocks.back().end_ns};
    if (!whole.has_value()) whole = of;
    whole->start_ns = std::min(whole->start_ns, of.start_ns);
    whole->end_ns = std::max(whole->end_ns, of.end_ns);
  }
  return whole.value_or(Stretch{});
}

// Counts from the sums alone, without reading spans.
bool Fits(const RunView& run, double start_ns, double end_ns) {
  return run.sums->SpansIn(start_ns, end_ns) <= kMaxLoadedSpans;
}

bool StepFits(const SideModel& side) {
  return side.step >= 0 && Fits(*side.run, static_cast<double>(side.step_start_ns),
                                static_cast<double>(side.step_end_ns));
}

// Ranges of one long run that the view needs; `nullopt` if all of them are loaded or none can be.
std::optional<std::vector<Stretch>> MissingOf(const SideModel& side, const Viewport* viewport) {
  const RunView& run = *side.run;
  std::vector<Stretch> wanted;
  bool missing = false;
  if (StepFits(side)) {
    // Includes spans that end with the step or have no length.
    wanted.push_back({side.step_start_ns, side.step_end_ns + 1});
    missing = !run.IsLoaded(static_cast<double>(side.step_start_ns),
                            static_cast<double>(side.step_end_ns));
  }
  // The visible range is loaded with half its length on both sides, so that small pans need no
  // load.
  if (viewport != nullptr) {
    const Stretch whole = WholeOf(*run.sums);
    const auto first = static_cast<double>(whole.start_ns);
    const auto last = static_cast<double>(whole.end_ns);
    const double start = std::clamp(side.Own(viewport->start_ns), first, last);
    const double end = std::clamp(side.Own(viewport->end_ns), first, last);
    const double margin = (end - start) / 2;
    if (end > start && Fits(run, start - margin, end + margin)) {
      const Stretch seen{static_cast<std::int64_t>(std::floor(std::max(first, start - margin))),
                         static_cast<std::int64_t>(std::ceil(std::min(last, end + margin))) + 1};
      wanted.push_back(seen);
      wanted = Joined(std::move(wanted));
      const bool inside = std::any_of(wanted.begin(), wanted.end(), [&](const Stretch& s) {
        return s.start_ns <= seen.start_ns && seen.end_ns <= s.end_ns;
      });
      missing = missing || (inside && !run.IsLoaded(start, end));
    }
  }
  if (!missing || wanted == run.loaded) return std::nullopt;
  return wanted;
}

// Adds the shares of `blocks` to columns [from, to), assuming that work is spread evenly over a
// block.
void AddBlocks(const std::vector<SpanBlock>& blocks, const TrackWindow& window, double from,
               double to, std::vector<HueShares>& columns) {
  const double scale = window.ColumnsPerNs();
  const double start_ns = window.start_ns + from / scale;
  auto at = std::partition_point(blocks.begin(), blocks.end(), [&](const SpanBlock& b) {
    return static_cast<double>(b.end_ns) <= start_ns;
  });
  for (; at != blocks.end(); ++at) {
    const double x0 = (static_cast<double>(at->start_ns) - window.start_ns) * scale;
    if (x0 >= to) break;
    const double x1 = (static_cast<double>(at->end_ns) - window.start_ns) * scale;
    // Only the part of the block inside [from, to) counts; its work is spread evenly.
    const double first = std::max(x0, from), last = std::min(x1, to);
    if (!(last > first)) continue;
    const double width = x1 - x0;
    const auto end = static_cast<std::size_t>(std::min<double>(std::ceil(last), window.columns));
    for (auto c = static_cast<std::size_t>(first); c < end; ++c) {
      const auto column = static_cast<double>(c);
      const double part = std::min(last, column + 1.0) - std::max(first, column);
      if (part <= 0.0) continue;
      const auto share = static_cast<float>(part / width * scale);
      for (std::size_t hue = 0; hue < kHueCount; ++hue) {
        if (at->busy_ns[hue] > 0.0F) columns[c][hue] += share * at->busy_ns[hue];
      }
    }
  }
}

}  // namespace

// A side that needs nothing keeps its loaded ranges, so that one request describes both sides.
std::optional<WantedParts> PartsToLoad(const SidePair& sides, const Viewport* viewport) {
  WantedParts wanted;
  bool missing = false;
  for (const Side side : kSides) {
    const SideModel& of = sides.Of(side);
    if (!of.IsPresent() || of.run->sums == nullptr) continue;
    const auto parts = MissingOf(of, viewport);
    missing = missing || parts.has_value();
    wanted[Index(side)] = parts.value_or(of.run->loaded);
  }
  if (!missing) return std::nullopt;
  return wanted;
}

std::int64_t SpansOfStep(const SideModel& side) {
  return side.run->sums->SpansIn(static_cast<double>(side.step_start_ns),
                                 static_cast<double>(side.step_end_ns));
}

// Four states: fully loaded, no steps, a step too long to load, and a step that is being loaded or
// is loaded.
std::string DescribeLoading(const SideModel& side, std::string_view name) {
  if (!side.IsPresent() || side.run->sums == nullptr) return {};
  // A short run next to a long one may be loaded completely.
  if (static_cast<std::int64_t>(side.run->timeline.spans.size()) >= side.run->sums->Spans()) {
    return {};
  }
  const std::string begin = fmt::format("The {} has {} spans and is drawn from sums of them", name,
                                        side.run->sums->Spans());
  if (side.step < 0) {
    return begin +
           "; it has no steps, so pairs, errors, search and critical path are of the "
           "stretch that is read as you zoom in.";
  }
  if (!StepFits(side)) {
    return fmt::format(
        "{}; step {} alone has more than {}, so pairs, errors, search and critical "
        "path are of the stretch that is read as you zoom in.",
        begin, side.step, kMaxLoadedSpans);
  }
  const bool loaded = side.run->IsLoaded(static_cast<double>(side.step_start_ns),
                                         static_cast<double>(side.step_end_ns));
  if (!loaded) return fmt::format("{}; those of step {} are being read.", begin, side.step);
  return fmt::format("{}; step {}, and what you zoom into, is read span by span.", begin,
                     side.step);
}

// Metrics of the whole run were stored with it. Those of single ranks exist only for loaded steps
// and are merged in.
Metrics MetricsOfRun(const RunView& run) {
  if (run.sums == nullptr) return ComputeMetrics(run.timeline, run.metrics);
  Metrics whole = MetricsFromStored(run.stored_metrics, run.timeline.steps, run.metrics);
  // Metrics per rank need whole steps, so only completely loaded ones are computed.
  Timeline part = run.timeline;
  std::erase_if(part.steps, [&run](const StepWindow& window) {
    return !run.IsLoaded(static_cast<double>(window.start_ns), static_cast<double>(window.end_ns));
  });
  if (part.steps.empty()) return whole;
  Metrics loaded = ComputeMetrics(part, run.metrics);
  whole.rank_steps = std::move(loaded.rank_steps);
  whole.bubbles = std::move(loaded.bubbles);
  std::erase_if(loaded.memory, [](const MemoryPeak& peak) { return peak.step == -1; });
  whole.memory.insert(whole.memory.end(), loaded.memory.begin(), loaded.memory.end());
  std::sort(whole.memory.begin(), whole.memory.end(), [](const MemoryPeak& a, const MemoryPeak& b) {
    return std::tie(a.rank, a.space, a.step) < std::tie(b.rank, b.space, b.step);
  });
  for (const StepMetrics& step : loaded.steps) {
    // The run was recorded without metrics: the loaded step stands for it.
    if (!whole.overall.has_value() || whole.overall->step != step.step) continue;
    if (whole.overall->classes.window_s > 0.0) continue;
    const double time_s = whole.overall->time_s;
    whole.overall = step;
    whole.overall->time_s = time_s;
  }
  return whole;
}

// Folds the sums in the gaps between the loaded ranges; inside those, single spans are drawn
// instead.
std::vector<HueShares> FoldSums(const RunView& run, const Row& row, const TrackWindow& window) {
  std::vector<HueShares> columns;
  if (row.sums.empty()) return columns;
  columns.resize(static_cast<std::size_t>(window.columns));
  const double scale = window.ColumnsPerNs();
  double from = 0.0;
  const auto fold = [&](double to) {
    const double end = std::min(to, static_cast<double>(window.columns));
    if (!(end > from)) return;
    for (const TrackSums* const sums : row.sums) {
      AddBlocks(sums->blocks, window, from, end, columns);
    }
  };
  for (const Stretch& stretch : run.loaded) {
    fold((static_cast<double>(stretch.start_ns) - window.start_ns) * scale);
    from = std::max(from, (static_cast<double>(stretch.end_ns) - window.start_ns) * scale);
  }
  fold(window.columns);
  return columns;
}

// Spans have no lasting index, so a span is found again by its position in the sort order.
std::optional<SpanRef> Locate(const SidePair& sides, Side side, const Span& span) {
  if (!sides.Of(side).IsPresent()) return std::nullopt;
  const std::vector<Span>& spans = sides.TimelineOf(side).spans;
  const auto key = [](const Span& s) { return std::tuple(s.rank, s.queue, s.start_ns); };
  auto at = std::lower_bound(spans.begin(), spans.end(), span,
                             [&](const Span& a, const Span& b) { return key(a) < key(b); });
  for (; at != spans.end() && key(*at) == key(span); ++at) {
    if (at->op == span.op && at->step == span.step) {
      return SpanRef{side, static_cast<std::uint32_t>(at - spans.begin())};
    }
  }
  return std::nullopt;
}

}  // namespace foretrain::ui
