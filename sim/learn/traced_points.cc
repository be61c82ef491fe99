#include "sim/learn/traced_points.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
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

// Series by block and op: instructions of one block share them.
class SeriesTable {
 public:
  explicit SeriesTable(const Program& program) : of_(program.blocks.size()) {
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      for (const Op& op : program.blocks[b].ops) of_[b].push_back(IsTimed(op) ? Find(op) : -1);
    }
  }

  // Null: an op without a series.
  Series* Of(std::size_t block, std::size_t op) {
    const std::int32_t number = of_[block][op];
    return number < 0 ? nullptr : &series_[static_cast<std::size_t>(number)];
  }

  std::vector<Series>& series() { return series_; }

 private:
  std::int32_t Find(const Op& op) {
    const ProfilePoint key = PointOf(op);
    const auto same = std::find_if(series_.begin(), series_.end(),
                                   [&key](const Series& known) { return SameKey(known.key, key); });
    if (same == series_.end()) {
      series_.push_back({.key = key});
      return static_cast<std::int32_t>(series_.size()) - 1;
    }
    return static_cast<std::int32_t>(same - series_.begin());
  }

  std::vector<Series> series_;
  std::vector<std::vector<std::int32_t>> of_;
};

// Sums of one rank's device spans by op and step, of the steps that count.
std::map<OpId, std::map<std::int32_t, std::int64_t>> BusyOf(const Timeline& measured, int rank,
                                                            const std::set<std::int32_t>& steps) {
  std::map<OpId, std::map<std::int32_t, std::int64_t>> busy_ns;
  for (const Span& span : SpansOfRank(measured, rank)) {
    if (span.queue == Queue::kHost || span.op == kNoOp || !steps.contains(span.step)) continue;
    busy_ns[span.op][span.step] += span.end_ns - span.start_ns;
  }
  return busy_ns;
}

// The k-th of n sorted values at a quantile, by nearest rank.
double Quantile(const std::vector<double>& sorted, double q) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(q * last + 0.5)];
}

}  // namespace

TracedPoints PointsOfTrace(const Program& program, const Timeline& measured) {
  std::set<std::int32_t> steps;
  std::set<int> ranks;
  for (const StepWindow& window : measured.steps) {
    steps.insert(window.step);
    ranks.insert(window.rank);
  }
  if (steps.size() > 1) steps.erase(steps.begin());
  std::map<int, const RankProgram*> programs;
  for (const RankProgram& rank : program.ranks) programs[rank.rank] = &rank;
  SeriesTable table(program);
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    const bool left_out = index < program.stands_for.size() && !programs.contains(rank);
    const auto found = programs.find(left_out ? program.stands_for[index] : rank);
    if (found == programs.end()) continue;
    const auto busy_ns = BusyOf(measured, rank, steps);
    for (const Instruction& instruction : found->second->step) {
      const auto block = static_cast<std::size_t>(instruction.block);
      for (std::size_t op = 0; op < program.blocks[block].ops.size(); ++op) {
        Series* const series = table.Of(block, op);
        if (series == nullptr) continue;
        series->ran = true;
        const auto of_op = busy_ns.find(PackId(instruction.key, static_cast<int>(op)));
        if (of_op == busy_ns.end()) continue;
        for (const auto& [step, ns] : of_op->second) {
          if (ns > 0) series->seconds.push_back(SecondsFromNs(ns));
        }
      }
    }
  }
  TracedPoints out;
  for (Series& series : table.series()) {
    ProfilePoint point = series.key;
    std::vector<double>& seconds = series.seconds;
    if (!series.ran) continue;
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

}  // namespace foretrain
