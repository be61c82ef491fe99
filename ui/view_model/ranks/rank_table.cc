#include "ui/view_model/ranks/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/units.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr double kSlowClock = 0.98;  // of the other GPUs' median: a lower clock is told
constexpr double kThrottled = 0.01;  // share of the time from which throttling is told

// Exclusive times of one rank, means over counted steps, in the order of kPartNames.
constexpr std::size_t kParts = kOpClassCount + 4;
using Parts = std::array<double, kParts>;

std::string NameOfPart(std::size_t part) {
  constexpr std::array<std::string_view, 4> kWaits{"waiting for inputs", "waiting for peers",
                                                   "waiting for the host", "idle at the end"};
  if (part >= kOpClassCount) return std::string(kWaits[part - kOpClassCount]);
  return InWords(Name(static_cast<OpClass>(part)));
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0.0;
  return StatisticsOf(values).median;
}

// By rank.
std::map<int, Parts> PartsByRank(const SideModel& side) {
  std::map<std::int32_t, bool> counted;
  for (const StepMetrics& step : side.metrics->steps) counted[step.step] = step.counted;
  std::map<int, Parts> parts;
  std::map<int, double> steps;
  for (const RankStep& of : side.metrics->rank_steps) {
    if (!counted[of.step]) continue;
    Parts& sum = parts[of.rank];
    ++steps[of.rank];
    for (std::size_t i = 0; i < kOpClassCount; ++i) {
      sum[i] += static_cast<double>(of.exclusive_ns[i]);
    }
    const std::array<std::int64_t, 4> waits{of.idle.dependency_ns, of.idle.peer_ns, of.idle.host_ns,
                                            of.idle.drain_ns};
    for (std::size_t i = 0; i < waits.size(); ++i) {
      sum[kOpClassCount + i] += static_cast<double>(waits[i]);
    }
  }
  for (auto& [rank, sum] : parts) {
    for (double& part : sum) part /= steps[rank];
  }
  return parts;
}

// Whether a longer part makes the metric of the map longer.
bool Counts(std::size_t part, RankMetric metric) {
  const bool waits = part >= kOpClassCount;
  const auto op_class = static_cast<OpClass>(std::min<std::size_t>(part, kOpClassCount - 1));
  switch (metric) {
    case RankMetric::kStepTime:
      return true;
    case RankMetric::kCompute:
      return !waits && IsCompute(op_class);
    case RankMetric::kExposedCommunication:
      return !waits && IsCommunication(op_class);
    case RankMetric::kWait:
      return part == kOpClassCount || part == kOpClassCount + 1;
    case RankMetric::kPeakMemory:
      break;
  }
  return false;
}

// Tells why a rank differs from the others.
class Causes {
 public:
  Causes(const SideModel& side, RankMetric metric)
      : side_(side), metric_(metric), parts_(PartsByRank(side)) {
    for (std::size_t i = 0; i < kParts; ++i) {
      std::vector<double> values;
      for (const auto& [rank, parts] : parts_) values.push_back(parts[i]);
      medians_[i] = MedianOf(std::move(values));
    }
  }

  // Compute and waits of the entry's rank.
  void Fill(RankEntry& entry) const {
    const auto own = parts_.find(entry.rank);
    if (own == parts_.end()) return;
    double compute = 0.0;
    for (std::size_t i = 0; i < kOpClassCount; ++i) {
      if (IsCompute(static_cast<OpClass>(i))) compute += own->second[i];
    }
    entry.compute_ns = compute;
    entry.wait_ns = own->second[kOpClassCount] + own->second[kOpClassCount + 1];
  }

  std::string Of(int rank, double excess) const {
    std::string text = metric_ == RankMetric::kPeakMemory ? MemoryOf(rank) : PartOf(rank, excess);
    const std::string gpu = GpuOf(rank);
    if (!gpu.empty()) text += (text.empty() ? "" : ", ") + gpu;
    return text;
  }

 private:
  // The part of the step that is most over the others' median, if it explains a tenth of the
  // excess.
  std::string PartOf(int rank, double excess) const {
    const auto own = parts_.find(rank);
    if (own == parts_.end()) return {};
    std::size_t most = 0;
    double longest = 0.0;
    for (std::size_t i = 0; i < kParts; ++i) {
      const double longer = own->second[i] - medians_[i];
      if (Counts(i, metric_) && longer > longest) {
        longest = longer;
        most = i;
      }
    }
    if (longest < 0.1 * excess || longest < 1.0) return {};
    return fmt::format("{} {} longer", NameOfPart(most), FormatSeconds(longest / kNsPerSecond));
  }

  // The category with the largest excess at the peak.
  std::string MemoryOf(int rank) const {
    std::map<int, std::array<std::int64_t, kCategoryCount>> peaks;
    for (const MemoryPeak& peak : side_.metrics->memory) {
      if (peak.space == Space::kDevice && peak.step < 0) peaks[peak.rank] = peak.parts;
    }
    const auto own = peaks.find(rank);
    if (own == peaks.end()) return {};
    std::string text;
    double most = 0.0;
    for (std::size_t i = 0; i < kCategoryCount; ++i) {
      std::vector<double> others;
      for (const auto& [other, parts] : peaks) {
        if (other != rank) others.push_back(static_cast<double>(parts[i]));
      }
      if (others.empty()) return {};
      const double more = static_cast<double>(own->second[i]) - MedianOf(std::move(others));
      if (more <= most) continue;
      most = more;
      text = fmt::format("{} more {}", FormatBytes(std::llround(more)),
                         InWords(Name(static_cast<Category>(i))));
    }
    return text;
  }

  // A lower clock than the other GPUs', and throttling, in the chosen step.
  std::string GpuOf(int rank) const {
    if (side_.run->gpu_counters == nullptr) return {};
    std::vector<double> clocks;
    std::optional<double> own, throttled;
    for (const GpuCounter& counter : *side_.run->gpu_counters) {
      const bool clock = counter.series.name == "gpu_sm_clock_hz";
      const bool reasons = counter.series.title == "throttled";
      if (!clock && !(reasons && counter.rank == rank)) continue;
      const std::optional<double> mean = counter.Mean(side_.step_start_ns, side_.step_end_ns);
      if (!mean.has_value()) continue;
      if (reasons) {
        throttled = mean;
      } else if (counter.rank == rank) {
        own = mean;
      } else {
        clocks.push_back(*mean);
      }
    }
    std::string text;
    const double others = MedianOf(std::move(clocks));
    if (own.has_value() && *own < kSlowClock * others) {
      text = fmt::format("clock {} against {}", FormatSi(*own, "Hz"), FormatSi(others, "Hz"));
    }
    if (throttled.value_or(0.0) >= kThrottled) {
      text += fmt::format("{}throttled {} of the step", text.empty() ? "" : ", ",
                          FormatPercent(*throttled));
    }
    return text;
  }

  const SideModel& side_;
  RankMetric metric_;
  std::map<int, Parts> parts_;
  Parts medians_{};
};

// "node 0, GPU 3": ranks fill node by node.
std::string PlaceOf(const SideModel& side, int rank) {
  const RunSetting* const setting = side.run->setting.get();
  if (setting == nullptr || setting->cluster.devices_per_node <= 0) return {};
  const int per_node = setting->cluster.devices_per_node;
  const char* const device = setting->cluster.is_cpu ? "process" : "GPU";
  return fmt::format("node {}, {} {}", rank / per_node, device, rank % per_node);
}

struct Traffic {
  double bytes = 0.0;
  double busy_ns = 0.0;
};

// [class][rank]
using TrafficByRank = std::array<std::map<int, Traffic>, kOpClassCount>;

TrafficByRank TrafficOf(const SideModel& side) {
  TrafficByRank traffic;
  for (const Span& span : side.run->timeline.spans) {
    if (span.step != side.step || !IsCommunication(span.op_class)) continue;
    // A receive moves the bytes that its send counts.
    Traffic& of = traffic[static_cast<std::size_t>(span.op_class)][span.rank];
    of.bytes += static_cast<double>(span.bytes);
    of.busy_ns += static_cast<double>(span.end_ns - span.start_ns);
  }
  return traffic;
}

// Whether the groups of the class lie inside nodes. Empty if that is unknown.
std::string ReachOf(const SideModel& side, OpClass op_class) {
  if (side.run->setting == nullptr) return {};
  const int per_node = side.run->setting->cluster.devices_per_node;
  constexpr std::array<std::pair<OpClass, Queue>, 5> kQueues{
      {{OpClass::kTpComm, Queue::kTp},
       {OpClass::kCpComm, Queue::kCp},
       {OpClass::kEpComm, Queue::kEp},
       {OpClass::kDpComm, Queue::kReduce},
       {OpClass::kPpComm, Queue::kSendNext}}};
  const auto queue = std::find_if(kQueues.begin(), kQueues.end(), [op_class](const auto& entry) {
    return entry.first == op_class;
  });
  if (queue == kQueues.end() || per_node <= 0) return {};
  const std::vector<int>& groups = side.run->groups.of[static_cast<std::size_t>(queue->second)];
  std::map<int, int> node_of_group;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    if (groups[rank] < 0) continue;
    const int node = static_cast<int>(rank) / per_node;
    if (node_of_group.try_emplace(groups[rank], node).first->second != node) return "between nodes";
  }
  return node_of_group.empty() ? "" : "inside a node";
}

std::optional<double> RateOf(const std::map<int, Traffic>& ranks, double* bytes, double* busy_ns) {
  Traffic sum;
  for (const auto& [rank, of] : ranks) {
    sum.bytes += of.bytes;
    sum.busy_ns += of.busy_ns;
  }
  if (ranks.empty() || !(sum.busy_ns > 0.0)) return std::nullopt;
  *bytes = sum.bytes / static_cast<double>(ranks.size());
  *busy_ns = sum.busy_ns / static_cast<double>(ranks.size());
  return sum.bytes / sum.busy_ns * kNsPerSecond;
}

}  // namespace

std::vector<RankEntry> RankTableOf(const CompareModel& model, const RankMap& map, double min,
                                   std::size_t told) {
  std::vector<RankEntry> entries;
  const Side shown = model.Shown();
  const SideModel& side = model.recorded.Of(shown);
  if (!side.IsPresent()) return entries;
  const std::vector<double> medians = SortedMedians(map);
  RankMap other;
  if (model.HasBoth()) other = MakeRankMap(model.recorded.Of(Other(shown)), map.metric);
  std::map<int, double> forecasts;
  for (const RankRow& row : other.rows) {
    if (row.steps > 0) forecasts[row.rank] = row.median;
  }
  std::map<int, std::int64_t> stands;
  for (const int rank : side.run->stands_for_rank) ++stands[rank];
  for (const RankRow& row : map.rows) {
    if (row.steps == 0) continue;
    RankEntry entry{.rank = row.rank, .place = PlaceOf(side, row.rank), .median = row.median};
    entry.others = MedianOfOthers(medians, row.median);
    if (const auto lane = LaneOfRank(model, row.rank)) entry.stage = model.lanes[*lane].detail;
    if (const auto of = stands.find(row.rank); of != stands.end()) entry.stands_for = of->second;
    const auto forecast = forecasts.find(model.RankOn(Other(shown), row.rank));
    if (forecast != forecasts.end()) entry.forecast = forecast->second;
    entry.straggler = entry.others > 0.0 && entry.Excess() >= kStragglerShare &&
                      entry.median - entry.others >= min;
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const RankEntry& a, const RankEntry& b) {
    return a.median - a.others > b.median - b.others;
  });
  const Causes causes(side, map.metric);
  for (RankEntry& entry : entries) causes.Fill(entry);
  for (std::size_t i = 0; i < std::min(told, entries.size()); ++i) {
    RankEntry& entry = entries[i];
    const double excess = entry.median - entry.others;
    if (excess > 0.0 && entry.others > 0.0) entry.cause = causes.Of(entry.rank, excess);
  }
  return entries;
}

std::vector<LinkRow> LinkTableOf(const CompareModel& model) {
  std::vector<LinkRow> rows;
  std::array<TrafficByRank, 2> traffic;
  for (const Side side : kSides) {
    const SideModel& of = model.recorded.Of(side);
    if (of.IsPresent()) traffic[Index(side)] = TrafficOf(of);
  }
  const Side shown = model.Shown();
  for (std::size_t c = 0; c < kOpClassCount; ++c) {
    LinkRow row{.op_class = static_cast<OpClass>(c)};
    for (const Side side : {Other(shown), shown}) {
      row.bytes_per_s[Index(side)] =
          RateOf(traffic[Index(side)][c], &row.bytes, &row.busy_ns[Index(side)]);
    }
    if (!(row.bytes > 0.0)) continue;
    row.reach = ReachOf(model.recorded.Of(shown), row.op_class);
    for (const auto& [rank, of] : traffic[Index(shown)][c]) {
      if (!(of.busy_ns > 0.0) || !(of.bytes > 0.0)) continue;
      const double rate = of.bytes / of.busy_ns * kNsPerSecond;
      if (row.slowest.has_value() && rate >= row.slowest_bytes_per_s) continue;
      row.slowest = rank;
      row.slowest_bytes_per_s = rate;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Warm-up steps are drawn but do not stretch the range.
RankSeries RankSeriesOf(const RankMap& map, int rank) {
  RankSeries series;
  const auto place = std::lower_bound(map.ranks.begin(), map.ranks.end(), rank);
  const bool known = place != map.ranks.end() && *place == rank;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t s = 0; s < map.steps.size(); ++s) {
    std::vector<double> values;
    for (std::size_t r = 0; r < map.ranks.size(); ++r) {
      if (std::isfinite(map.At(r, s))) values.push_back(map.At(r, s));
    }
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Statistics of = StatisticsOf(values);
    series.medians.push_back(values.empty() ? nan : of.median);
    series.highest.push_back(values.empty() ? nan : of.max);
    series.chosen.push_back(known ? map.At(static_cast<std::size_t>(place - map.ranks.begin()), s)
                                  : nan);
    if (values.empty() || !map.counted[s]) continue;
    low = std::min(low, std::isfinite(series.chosen.back())
                            ? std::min(of.median, series.chosen.back())
                            : of.median);
    high = std::max(high, of.max);
  }
  if (low <= high) {
    const double room = std::max(0.05 * (high - low), 0.002 * high);
    series.low = std::max(0.0, low - room);
    series.high = high + room;
  }
  return series;
}

}  // namespace foretrain::ui
