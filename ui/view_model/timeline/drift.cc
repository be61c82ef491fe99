#include "ui/view_model/timeline/drift.h"

#include <algorithm>
#include <tuple>

namespace foretrain::ui {
namespace {

// Index of the first point after `time_ns`.
std::size_t FirstAfter(std::span<const DriftPoint> points, double time_ns) {
  const auto at = std::partition_point(points.begin(), points.end(), [&](const DriftPoint& point) {
    return static_cast<double>(point.time_ns) <= time_ns;
  });
  return static_cast<std::size_t>(at - points.begin());
}

// Drift at the point where the line from `a` to `b` crosses `time_ns`.
double CrossingAt(const DriftPoint& a, const DriftPoint& b, double time_ns) {
  const auto from = static_cast<double>(a.time_ns);
  const auto length = static_cast<double>(b.time_ns) - from;
  const double share = length > 0.0 ? (time_ns - from) / length : 0.0;
  return static_cast<double>(a.drift_ns) + share * static_cast<double>(b.drift_ns - a.drift_ns);
}

DriftColumn EdgeColumn(int column, double drift_ns) {
  return {column, drift_ns, drift_ns, drift_ns, drift_ns};
}

}  // namespace

// Compute ops are preferred: communication also ends late if a peer is late.
std::vector<DriftPoint> DriftOfRank(std::span<const PairedOp> pairs,
                                    std::int64_t predicted_start_ns,
                                    std::int64_t measured_start_ns) {
  std::vector<DriftPoint> compute, others;
  for (const PairedOp& pair : pairs) {
    if (!pair.IsPair() || pair.measured->op_class == OpClass::kHost) continue;
    const std::int64_t measured_ns = pair.measured->end_ns - measured_start_ns;
    const std::int64_t predicted_ns = pair.predicted->end_ns - predicted_start_ns;
    auto& points = pair.measured->queue == Queue::kCompute ? compute : others;
    points.push_back({measured_ns, measured_ns - predicted_ns});
  }
  std::vector<DriftPoint> points = std::move(compute.empty() ? others : compute);
  std::sort(points.begin(), points.end(), [](const DriftPoint& a, const DriftPoint& b) {
    return std::tie(a.time_ns, a.drift_ns) < std::tie(b.time_ns, b.drift_ns);
  });
  if (!points.empty())
    points.insert(points.begin(), {std::min<std::int64_t>(0, points[0].time_ns), 0});
  return points;
}

// Keeps the first, last, lowest and highest value per column, which is enough to draw the line
// without gaps.
std::vector<DriftColumn> FoldDrift(std::span<const DriftPoint> points, double start_ns,
                                   double end_ns, int columns) {
  std::vector<DriftColumn> folded;
  if (points.empty() || !(end_ns > start_ns) || columns < 1) return folded;
  const double scale = columns / (end_ns - start_ns);
  std::size_t i = FirstAfter(points, start_ns);
  if (i > 0 && i < points.size()) {
    folded.push_back(EdgeColumn(-1, CrossingAt(points[i - 1], points[i], start_ns)));
  }
  for (; i < points.size() && static_cast<double>(points[i].time_ns) < end_ns; ++i) {
    const auto drift = static_cast<double>(points[i].drift_ns);
    const int column = std::min(
        columns - 1, static_cast<int>((static_cast<double>(points[i].time_ns) - start_ns) * scale));
    if (folded.empty() || folded.back().column != column) {
      folded.push_back(EdgeColumn(column, drift));
    }
    DriftColumn& at = folded.back();
    at.low_ns = std::min(at.low_ns, drift);
    at.high_ns = std::max(at.high_ns, drift);
    at.last_ns = drift;
  }
  if (i > 0 && i < points.size()) {
    folded.push_back(EdgeColumn(columns, CrossingAt(points[i - 1], points[i], end_ns)));
  }
  return folded;
}

std::int64_t DriftAt(std::span<const DriftPoint> points, double time_ns) {
  const std::size_t i = FirstAfter(points, time_ns);
  return i == 0 ? 0 : points[i - 1].drift_ns;
}

}  // namespace foretrain::ui
