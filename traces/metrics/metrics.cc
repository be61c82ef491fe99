#include "traces/metrics/metrics.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace foretrain {
namespace {

// The order on which all searches in a timeline rely.
bool IsSorted(const Timeline& timeline) {
  const auto by_place = [](const Span& a, const Span& b) {
    return std::tie(a.rank, a.queue, a.start_ns) < std::tie(b.rank, b.queue, b.start_ns);
  };
  const auto by_time = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  return std::is_sorted(timeline.spans.begin(), timeline.spans.end(), by_place) &&
         std::is_sorted(timeline.memory.begin(), timeline.memory.end(), by_time) &&
         std::is_sorted(timeline.steps.begin(), timeline.steps.end(), by_time);
}

// One rank in one step. The check below ties the two splits together: causes of idle time sum to
// the time in which the device is idle.
RankStep RankStepOf(const StepWindow& window, const RankClasses& classes, const RankIdle& idle) {
  const std::int64_t start = window.start_ns;
  const std::int64_t end = window.end_ns;
  RankStep result{.rank = window.rank, .step = window.step, .start_ns = start, .end_ns = end};
  result.classes = classes.In(start, end);
  result.exclusive_ns = classes.ExclusiveIn(start, end);
  result.busy_ns = classes.BusyIn(start, end);
  result.communication_ns = classes.CommunicationIn(start, end);
  result.hidden_communication_ns =
      result.communication_ns - result.classes.exposed_communication_ns;
  result.overlap = classes.OverlapIn(start, end);
  result.idle = idle.In(start, end);
  FT_CHECK(result.idle.Sum() == result.classes.host_ns + result.classes.idle_ns);
  return result;
}

// Builds the interval sets once for each rank and queries them for each step: O(n log n) in all
// instead of O(n) for each step.
std::vector<RankStep> RankStepsOf(const Timeline& timeline) {
  std::vector<RankStep> result;
  result.reserve(timeline.steps.size());
  for (std::size_t i = 0; i < timeline.steps.size();) {
    const std::int16_t rank = timeline.steps[i].rank;
    const std::span<const Span> spans = SpansOfRank(timeline, rank);
    const RankClasses classes(spans);
    const RankIdle idle(spans, classes.DeviceBusy());
    for (; i < timeline.steps.size() && timeline.steps[i].rank == rank; ++i) {
      result.push_back(RankStepOf(timeline.steps[i], classes, idle));
    }
  }
  std::sort(result.begin(), result.end(), [](const RankStep& a, const RankStep& b) {
    return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
  });
  return result;
}

// Mean over `ranks`, in seconds.
ClassSeconds MeanOf(std::span<const RankStep> ranks) {
  const auto mean = [ranks](auto figure) {
    double sum = 0.0;
    for (const RankStep& rank : ranks) sum += SecondsFromNs(figure(rank));
    return sum / static_cast<double>(ranks.size());
  };
  return {
      .window_s = mean([](const RankStep& r) { return r.end_ns - r.start_ns; }),
      .compute_s = mean([](const RankStep& r) { return r.classes.compute_ns; }),
      .exposed_communication_s =
          mean([](const RankStep& r) { return r.classes.exposed_communication_ns; }),
      .exposed_copy_s = mean([](const RankStep& r) { return r.classes.exposed_copy_ns; }),
      .host_s = mean([](const RankStep& r) { return r.classes.host_ns; }),
      .idle_s = mean([](const RankStep& r) { return r.classes.idle_ns; }),
      .dependency_wait_s = mean([](const RankStep& r) { return r.idle.dependency_ns; }),
      .peer_wait_s = mean([](const RankStep& r) { return r.idle.peer_ns; }),
      .host_wait_s = mean([](const RankStep& r) { return r.idle.host_ns; }),
      .drain_s = mean([](const RankStep& r) { return r.idle.drain_ns; }),
  };
}

std::optional<double> MeanOf(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return StatisticsOf(values).mean;
}

std::optional<double> MedianOf(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return StatisticsOf(values).median;
}

// Values without a positive input stay absent. MFU counts the model's FLOPs, HFU those that the
// hardware executes, which include recomputation.
void FillThroughput(const MetricOptions& options, StepMetrics& step) {
  if (options.tokens_per_step > 0.0 && step.time_s > 0.0) {
    step.tokens_per_s = options.tokens_per_step / step.time_s;
  }
  step.mfu = Utilisation(options.model_flops_per_step, step.time_s, options.peak_flop_per_s);
  step.hfu = Utilisation(options.hardware_flops_per_step, step.time_s, options.peak_flop_per_s);
}

// The step takes as long as its slowest rank. Overlap is the ratio of sums, so that ranks with
// little communication count little.
StepMetrics StepOf(std::span<const RankStep> ranks) {
  StepMetrics step{.step = ranks.front().step, .classes = MeanOf(ranks)};
  std::int64_t longest = 0;
  double communication = 0.0;
  double hidden = 0.0;
  for (const RankStep& rank : ranks) {
    longest = std::max(longest, rank.end_ns - rank.start_ns);
    communication += static_cast<double>(rank.communication_ns);
    hidden += static_cast<double>(rank.hidden_communication_ns);
  }
  step.time_s = SecondsFromNs(longest);
  if (communication > 0.0) step.overlap = hidden / communication;
  return step;
}

// Mean over the pipelines of each step.
void FillBubbles(const std::vector<PipelineBubble>& bubbles, std::vector<StepMetrics>& steps) {
  std::map<std::int32_t, std::pair<std::vector<double>, std::vector<double>>> by_step;
  for (const PipelineBubble& bubble : bubbles) {
    auto& [shares, overheads] = by_step[bubble.step];
    shares.push_back(bubble.bubble);
    if (bubble.bubble_overhead.has_value()) overheads.push_back(*bubble.bubble_overhead);
  }
  for (StepMetrics& step : steps) {
    const auto at = by_step.find(step.step);
    if (at == by_step.end()) continue;
    step.bubble = MeanOf(at->second.first);
    step.bubble_overhead = MeanOf(at->second.second);
  }
}

// Rank steps are sorted by step, so each step is a contiguous range.
std::vector<StepMetrics> StepsOf(const Metrics& metrics, const MetricOptions& options) {
  std::vector<StepMetrics> steps;
  const std::span<const RankStep> all = metrics.rank_steps;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].step == all[i].step) ++end;
    steps.push_back(StepOf(all.subspan(i, end - i)));
    FillThroughput(options, steps.back());
    i = end;
  }
  FillBubbles(metrics.bubbles, steps);
  return steps;
}

// Warm-up steps are left out of medians only if other steps remain.
void MarkWarmup(const MetricOptions& options, std::vector<StepMetrics>& steps) {
  const auto warmup = static_cast<std::size_t>(std::max(0, options.warmup_steps));
  if (warmup >= steps.size()) return;
  for (std::size_t i = 0; i < warmup; ++i) steps[i].counted = false;
}

// Steps without a value do not count.
std::optional<double> MedianOver(const std::vector<StepMetrics>& steps,
                                 std::optional<double> StepMetrics::*figure) {
  std::vector<double> values;
  for (const StepMetrics& step : steps) {
    if (step.counted && (step.*figure).has_value()) values.push_back(*(step.*figure));
  }
  return MedianOf(values);
}

// The counted step with the lower median time: a real step, so that its classes still sum.
const StepMetrics& Representative(const std::vector<StepMetrics>& steps) {
  std::vector<const StepMetrics*> counted;
  for (const StepMetrics& step : steps) {
    if (step.counted) counted.push_back(&step);
  }
  const auto middle = counted.begin() + static_cast<std::ptrdiff_t>((counted.size() - 1) / 2);
  std::nth_element(counted.begin(), middle, counted.end(),
                   [](const StepMetrics* a, const StepMetrics* b) {
                     return std::tie(a->time_s, a->step) < std::tie(b->time_s, b->step);
                   });
  return **middle;
}

// Medians resist outliers, but do not sum: classes are therefore taken from one representative
// step.
void FillOverall(const MetricOptions& options, Metrics& metrics) {
  std::vector<double> times;
  for (const StepMetrics& step : metrics.steps) {
    if (step.counted) times.push_back(step.time_s);
  }
  if (times.empty()) return;
  metrics.step_time_s = StatisticsOf(times);
  StepMetrics overall = Representative(metrics.steps);
  overall.time_s = metrics.step_time_s.median;
  FillThroughput(options, overall);
  overall.bubble = MedianOver(metrics.steps, &StepMetrics::bubble);
  overall.bubble_overhead = MedianOver(metrics.steps, &StepMetrics::bubble_overhead);
  overall.overlap = MedianOver(metrics.steps, &StepMetrics::overlap);
  metrics.overall = overall;
}

// Time of device spans, and the part of it with an op id.
struct Covered {
  double all_ns = 0.0;
  double known_ns = 0.0;
  double Share() const { return all_ns == 0.0 ? 1.0 : known_ns / all_ns; }
};

// Sums over the spans for which `counts` is true.
template <class Counts>
Covered CoveredBy(const Timeline& timeline, Counts counts) {
  Covered covered;
  for (const Span& span : timeline.spans) {
    if (span.op_class == OpClass::kHost || !counts(span)) continue;
    const auto length = static_cast<double>(span.end_ns - span.start_ns);
    covered.all_ns += length;
    if (span.op != kNoOp) covered.known_ns += length;
  }
  return covered;
}

// All metrics except the coverage and those over all steps.
Metrics MetricsOfSteps(const Timeline& timeline, const MetricOptions& options) {
  FT_CHECK(IsSorted(timeline));
  Metrics metrics;
  metrics.rank_steps = RankStepsOf(timeline);
  metrics.bubbles =
      PipelineBubbles(timeline, options.pipelines, {.asynchronous = options.asynchronous});
  metrics.memory = MemoryPeaks(timeline);
  metrics.steps = StepsOf(metrics, options);
  for (const MemoryPeak& peak : metrics.memory) {
    std::int64_t& max = metrics.peak_bytes[static_cast<std::size_t>(peak.space)];
    if (peak.step == -1) max = std::max(max, peak.bytes);
  }
  return metrics;
}

// Merges the peaks of `part` into `whole`: the larger one of each rank, space and category.
void MergePeaks(const std::vector<MemoryPeak>& part, std::vector<MemoryPeak>& whole) {
  const auto place = [](const MemoryPeak& peak) { return std::tie(peak.rank, peak.space); };
  for (const MemoryPeak& peak : part) {
    if (peak.step != -1) continue;
    const auto at = std::lower_bound(
        whole.begin(), whole.end(), peak,
        [&](const MemoryPeak& a, const MemoryPeak& b) { return place(a) < place(b); });
    if (at == whole.end() || place(*at) != place(peak)) {
      whole.insert(at, peak);
      continue;
    }
    MemoryPeak merged = peak.bytes > at->bytes ? peak : *at;
    for (std::size_t c = 0; c < merged.max.size(); ++c) {
      const MemoryPeak& max = peak.max[c] > at->max[c] ? peak : *at;
      merged.max[c] = max.max[c];
      merged.max_time_ns[c] = max.max_time_ns[c];
    }
    *at = merged;
  }
}

// Appends metrics under one (rank, step); metrics without a value are skipped.
class Flattener {
 public:
  explicit Flattener(std::vector<MetricValue>& values) : values_(values) {}

  void At(int rank, std::int32_t step) {
    rank_ = rank;
    step_ = step;
  }

  void Add(std::string name, std::optional<double> value) {
    if (value.has_value()) values_.push_back({rank_, step_, std::move(name), *value});
  }

  void Add(const StepMetrics& step) {
    Add("step_time_s", step.time_s);
    Add("tokens_per_s", step.tokens_per_s);
    Add("mfu", step.mfu);
    Add("hfu", step.hfu);
    Add("bubble", step.bubble);
    Add("bubble_overhead", step.bubble_overhead);
    Add("overlap", step.overlap);
    Add("window_s", step.classes.window_s);
    Add("compute_s", step.classes.compute_s);
    Add("exposed_communication_s", step.classes.exposed_communication_s);
    Add("exposed_copy_s", step.classes.exposed_copy_s);
    Add("host_s", step.classes.host_s);
    Add("idle_s", step.classes.idle_s);
    Add("dependency_wait_s", step.classes.dependency_wait_s);
    Add("peer_wait_s", step.classes.peer_wait_s);
    Add("host_wait_s", step.classes.host_wait_s);
    Add("drain_s", step.classes.drain_s);
  }

  void Add(const MemoryPeak& peak) {
    const std::string space(Name(peak.space));
    Add("peak_" + space + "_bytes", static_cast<double>(peak.bytes));
    for (std::size_t c = 0; c < peak.parts.size(); ++c) {
      if (peak.parts[c] == 0) continue;
      Add("peak_" + space + "_" + std::string(Name(static_cast<Category>(c))) + "_bytes",
          static_cast<double>(peak.parts[c]));
    }
  }

 private:
  std::vector<MetricValue>& values_;
  int rank_ = -1;
  std::int32_t step_ = -1;
};

}  // namespace

Metrics ComputeMetrics(const Timeline& timeline, const MetricOptions& options) {
  Metrics metrics = MetricsOfSteps(timeline, options);
  metrics.coverage = CoveredBy(timeline, [](const Span&) { return true; }).Share();
  MarkWarmup(options, metrics.steps);
  FillOverall(options, metrics);
  return metrics;
}

// A part holds whole steps, so their metrics are final. Only what is needed over all steps is kept:
// memory grows with the steps and not with the spans.
std::vector<MetricValue> MetricsInParts::Add(const Timeline& part) {
  const Metrics metrics = MetricsOfSteps(part, options_);
  std::vector<MetricValue> values;
  if (metrics.steps.empty()) return values;
  // Spans of neighbouring steps also appear in the neighbouring part, so only this part's are
  // counted. Work without an op has step -1, which neighbours only the part of step 0.
  const auto first = metrics.steps.front().step, last = metrics.steps.back().step;
  const Covered covered = CoveredBy(part, [&](const Span& span) {
    return span.step < 0 || (span.step >= first && span.step <= last);
  });
  device_ns_ += covered.all_ns;
  known_ns_ += covered.known_ns;
  metrics_.steps.insert(metrics_.steps.end(), metrics.steps.begin(), metrics.steps.end());
  MergePeaks(metrics.memory, metrics_.memory);
  for (std::size_t space = 0; space < metrics.peak_bytes.size(); ++space) {
    metrics_.peak_bytes[space] = std::max(metrics_.peak_bytes[space], metrics.peak_bytes[space]);
  }
  Flattener flattener(values);
  for (const StepMetrics& step : metrics.steps) {
    flattener.At(-1, step.step);
    flattener.Add(step);
  }
  return values;
}

// Medians and warm-up need all steps, so they are computed at the end.
Metrics MetricsInParts::Take() {
  metrics_.coverage = Covered{device_ns_, known_ns_}.Share();
  MarkWarmup(options_, metrics_.steps);
  FillOverall(options_, metrics_);
  return std::move(metrics_);
}

// Windows of a timeline that has none: from the first start to the last end of the spans of each
// step.
void DeriveSteps(Timeline& timeline) {
  if (!timeline.steps.empty()) return;
  std::map<std::pair<std::int16_t, std::int32_t>, StepWindow> windows;
  for (const Span& span : timeline.spans) {
    const auto [at, is_new] = windows.try_emplace(
        {span.rank, span.step}, StepWindow{span.start_ns, span.end_ns, span.step, span.rank});
    at->second.start_ns = std::min(at->second.start_ns, span.start_ns);
    at->second.end_ns = std::max(at->second.end_ns, span.end_ns);
  }
  for (const auto& [place, window] : windows) timeline.steps.push_back(window);
  SortTimeline(timeline);
}

// Rank -1 stands for all ranks and step -1 for all steps. Peaks of single steps are not stored:
// they can be computed again.
std::vector<MetricValue> Flatten(const Metrics& metrics, bool steps) {
  std::vector<MetricValue> values;
  Flattener flattener(values);
  if (metrics.overall.has_value()) flattener.Add(*metrics.overall);
  flattener.Add("step_time_spread", metrics.step_time_s.spread);
  flattener.Add("steps", static_cast<double>(metrics.step_time_s.count));
  flattener.Add("coverage", metrics.coverage);
  for (std::size_t space = 0; space < metrics.peak_bytes.size(); ++space) {
    if (metrics.peak_bytes[space] == 0) continue;
    flattener.Add("peak_" + std::string(Name(static_cast<Space>(space))) + "_bytes",
                  static_cast<double>(metrics.peak_bytes[space]));
  }
  for (const StepMetrics& step : metrics.steps) {
    if (!steps) break;
    flattener.At(-1, step.step);
    flattener.Add(step);
  }
  for (const MemoryPeak& peak : metrics.memory) {
    if (peak.step != -1) continue;
    flattener.At(peak.rank, -1);
    flattener.Add(peak);
  }
  return values;
}

}  // namespace foretrain
