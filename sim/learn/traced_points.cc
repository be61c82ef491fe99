#include "sim/learn/traced_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
#include "sim/cost/network/plan_place.h"
#include "sim/program/ir/groups.h"
#include "sim/program/ir/rank_order.h"
#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

// Measured seconds of the ops of one key.
struct Series {
  ProfilePoint key;
  std::vector<double> seconds{};
  bool ran = false;  // a traced rank has such an op
};

bool IsTimed(const Op& op) {
  return op.queue == Queue::kCompute && IsCompute(op.op_class) && op.kind != OpKind::kOpaque;
}

// Series by what identifies an op. Instructions of one block share its ops, and collectives of one
// op differ by their groups.
class SeriesTable {
 public:
  SeriesTable(const Program& program, const TracedPointsOptions& options)
      : program_(program), options_(options) {}

  // Null: an op without a series.
  Series* Of(const RankProgram& rank, std::int32_t block, std::int32_t op_number) {
    const Op& op =
        program_.blocks[static_cast<std::size_t>(block)].ops[static_cast<std::size_t>(op_number)];
    if (!IsTimed(op) && !(options_.collectives != CollectiveSpans::kNone && IsCollective(op.kind)))
      return nullptr;
    GroupPlace place;
    if (IsCollective(op.kind)) {
      const std::int32_t group = rank.groups[static_cast<std::size_t>(op.group)];
      if (group < 0) return nullptr;
      place = PlaceOfGroup(*options_.cluster, program_.plan, rank.Coordinates(), op.group,
                           program_.groups[static_cast<std::size_t>(group)]);
    }
    const auto [at, is_new] = known_.try_emplace({block, op_number, place.members, place.nodes}, 0);
    if (is_new) at->second = Find(PointOf(op, place.members, place.nodes));
    return &series_[at->second];
  }

  std::vector<Series>& series() { return series_; }

 private:
  std::size_t Find(const ProfilePoint& key) {
    const auto same = std::find_if(series_.begin(), series_.end(),
                                   [&key](const Series& known) { return SameKey(known.key, key); });
    if (same != series_.end()) return static_cast<std::size_t>(same - series_.begin());
    series_.push_back({.key = key});
    return series_.size() - 1;
  }

  const Program& program_;
  const TracedPointsOptions options_;
  std::vector<Series> series_;
  std::map<std::array<std::int32_t, 4>, std::size_t> known_;
};

// An op of one rank in one step.
struct OpTime {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t busy_ns = 0;
};
using StepTimes = std::map<std::int32_t, OpTime>;  // by step
using RankTimes = std::map<OpId, StepTimes>;

// Times of one rank's ops on the device, of the steps that count.
RankTimes TimesOf(const Timeline& measured, int rank, const std::set<std::int32_t>& steps) {
  RankTimes times;
  for (const Span& span : SpansOfRank(measured, rank)) {
    if (span.queue == Queue::kHost || span.op == kNoOp || !steps.contains(span.step)) continue;
    const auto [at, is_new] =
        times[span.op].try_emplace(span.step, OpTime{span.start_ns, span.end_ns, 0});
    at->second.start_ns = std::min(at->second.start_ns, span.start_ns);
    at->second.end_ns = std::max(at->second.end_ns, span.end_ns);
    at->second.busy_ns += span.end_ns - span.start_ns;
  }
  return times;
}

// Collects the samples of a run.
class Collector {
 public:
  Collector(const Program& program, const Timeline& measured, const TracedPointsOptions& options)
      : program_(program), options_(options), table_(program, options) {
    std::set<std::int32_t> steps;
    std::set<int> ranks;
    for (const StepWindow& window : measured.steps) {
      steps.insert(window.step);
      ranks.insert(window.rank);
    }
    if (steps.size() > 1) steps.erase(steps.begin());
    for (const int rank : ranks) times_[rank] = TimesOf(measured, rank, steps);
    for (const RankProgram& rank : program.ranks) programs_[rank.rank] = &rank;
  }

  std::vector<Series>& Collect() {
    for (const auto& [rank, times] : times_) {
      const auto index = static_cast<std::size_t>(rank);
      const bool left_out = index < program_.stands_for.size() && !programs_.contains(rank);
      const auto found = programs_.find(left_out ? program_.stands_for[index] : rank);
      if (found != programs_.end()) AddRank(rank, *found->second, times);
    }
    return table_.series();
  }

 private:
  // `program`: of the rank, or of its representative.
  void AddRank(int rank, const RankProgram& program, const RankTimes& times) {
    for (const Instruction& instruction : program.step) {
      const std::vector<Op>& ops = program_.blocks[static_cast<std::size_t>(instruction.block)].ops;
      for (std::int32_t number = 0; number < std::ssize(ops); ++number) {
        const Op& op = ops[static_cast<std::size_t>(number)];
        Series* const series = table_.Of(program, instruction.block, number);
        if (series == nullptr) continue;
        series->ran = true;
        const OpId id = PackId(instruction.key, number);
        const auto of_op = times.find(id);
        if (of_op == times.end()) continue;
        for (const auto& [step, time] : of_op->second) {
          const std::int64_t ns =
              IsCollective(op.kind) ? WireNs(rank, op, id, step, time) : time.busy_ns;
          if (ns > 0) series->seconds.push_back(SecondsFromNs(ns));
        }
      }
    }
  }

  // The time of a collective from its last arrival; 0 if it is not known.
  std::int64_t WireNs(int rank, const Op& op, OpId id, std::int32_t step, const OpTime& own) const {
    constexpr std::int64_t kTogetherNs = 1'000;
    if (options_.collectives == CollectiveSpans::kFromLast) return own.end_ns - own.start_ns;
    std::int64_t first_ns = own.start_ns, last_ns = own.start_ns;
    for (const int member : GroupMembers(program_.plan, CoordinatesOf(program_.plan, rank),
                                         op.group, program_.model.kv_heads)) {
      const auto times = times_.find(member);
      if (times == times_.end()) return 0;
      const auto of_op = times->second.find(id);
      if (of_op == times->second.end()) return 0;
      const auto of_step = of_op->second.find(step);
      if (of_step == of_op->second.end()) return 0;
      first_ns = std::min(first_ns, of_step->second.start_ns);
      last_ns = std::max(last_ns, of_step->second.start_ns);
    }
    const bool together = last_ns - first_ns <= kTogetherNs;
    if (options_.collectives == CollectiveSpans::kIfTogether && !together) return 0;
    return own.end_ns - last_ns;
  }

  const Program& program_;
  const TracedPointsOptions options_;
  SeriesTable table_;
  std::map<int, RankTimes> times_;
  std::map<int, const RankProgram*> programs_;
};

// The k-th of n sorted values at a quantile, by nearest rank.
double Quantile(const std::vector<double>& sorted, double q) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(q * last))];
}

}  // namespace

TracedPoints PointsOfTrace(const Program& program, const Timeline& measured,
                           const TracedPointsOptions& options) {
  Collector collector(program, measured, options);
  TracedPoints out;
  for (Series& series : collector.Collect()) {
    ProfilePoint point = series.key;
    std::vector<double>& seconds = series.seconds;
    // A collective without a kernel was not traced; a compute op was fused.
    if (!series.ran || (seconds.empty() && IsCollective(point.kind))) continue;
    if (seconds.empty()) {
      point.seconds = point.p10_s = point.p90_s = kFusedSeconds;
      ++out.fused;
    } else {
      std::sort(seconds.begin(), seconds.end());
      point.seconds = Quantile(seconds, 0.5);
      point.p10_s = Quantile(seconds, 0.1);
      point.p90_s = Quantile(seconds, 0.9);
      point.samples = static_cast<int>(std::min<std::size_t>(seconds.size(), 1'000'000));
      ++out.timed;
      out.samples += std::ssize(seconds);
    }
    out.points.push_back(point);
  }
  return out;
}

void FitPoints(const std::vector<ProfilePoint>& measured, const TracedPoints& forecast,
               std::vector<ProfilePoint>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto same = std::find_if(forecast.points.begin(), forecast.points.end(),
                                   [&](const ProfilePoint& of) { return SameKey(of, points[i]); });
    if (same == forecast.points.end() || points[i].seconds <= kFusedSeconds ||
        same->seconds <= kFusedSeconds) {
      continue;
    }
    // Bounded, so that a forecast that hardly depends on a point cannot move it far.
    const double by = std::clamp(measured[i].seconds / same->seconds, 0.5, 2.0);
    points[i].seconds *= by;
    points[i].p10_s *= by;
    points[i].p90_s *= by;
  }
}

}  // namespace foretrain
