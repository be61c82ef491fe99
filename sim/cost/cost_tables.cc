// The part of a cost model that measured points make: tables by kind, layout and group.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "sim/cost/cost_model.h"
#include "sim/cost/op_features.h"

namespace foretrain {
namespace {

// Of a normal distribution p10 and p90 lie 2.563 standard deviations apart.
constexpr double kDeviationsBetweenDeciles = 2.563;

}  // namespace

void CostModel::MakeTables() {
  std::map<Key, std::vector<const ProfilePoint*>> points;
  for (const ProfilePoint& point : profile_.points) {
    const bool communicates = IsCommunication(point.kind);
    // An accelerator's points are those of one rank alone.
    if (!cluster_.is_cpu && !communicates && point.concurrency != 1) continue;
    const Key key{point.kind, communicates ? point.group : VariantOf(OpOf(point)),
                  communicates ? point.nodes : 1};
    points[key].push_back(&point);
  }
  for (const auto& [key, of_key] : points) tables_.emplace(key, MakeTable(of_key));
  MakeSlowdowns(points);
}

CostModel::Table CostModel::MakeTable(const std::vector<const ProfilePoint*>& points) const {
  Table table;
  table.concurrency = (*std::min_element(points.begin(), points.end(), [](auto* a, auto* b) {
                        return a->concurrency < b->concurrency;
                      }))->concurrency;
  std::vector<TimeSample> samples;
  for (const ProfilePoint* point : points) {
    if (point->concurrency != table.concurrency) continue;
    const OpFeatures features = FeaturesOf(OpOf(*point));
    table.dimensions = features.dimensions;
    samples.push_back({features.at, features.terms, point->seconds});
  }
  table.surface = TimeSurface(samples, table.dimensions);
  table.slowdown.resize(levels_.size());
  return table;
}

// The factor of each level over the table's own, at the points that were measured there, and its
// mean over the kinds of a class for those that were not.
void CostModel::MakeSlowdowns(const std::map<Key, std::vector<const ProfilePoint*>>& points) {
  class_slowdown_.assign(levels_.size(), {1.0, 1.0});
  if (!cluster_.is_cpu) return;
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    std::array<double, 2> sums{};
    std::array<int, 2> counts{};
    for (auto& [key, table] : tables_) {
      if (IsCommunication(std::get<0>(key)) || levels_[level] <= table.concurrency) continue;
      std::vector<LogPoint> at;
      std::vector<double> logs;
      for (const ProfilePoint* point : points.at(key)) {
        if (point->concurrency != levels_[level]) continue;
        const OpFeatures features = FeaturesOf(OpOf(*point));
        at.push_back(features.at);
        logs.push_back(
            std::log(point->seconds / table.surface(features.at, features.terms).seconds));
        // A disk or a cap says nothing of how compute slows down.
        if (table.concurrency == 1 && point->kind != OpKind::kCopy) {
          sums[ClassOf(point->kind)] += logs.back();
          ++counts[ClassOf(point->kind)];
        }
      }
      table.slowdown[level] = LogField(at, logs, table.dimensions);
    }
    for (std::size_t c = 0; c < 2; ++c) {
      const std::size_t from = counts[c] > 0 ? c : 1 - c;
      if (counts[from] > 0) class_slowdown_[level][c] = std::exp(sums[from] / counts[from]);
    }
  }
}

// The table of the op's own layout and accumulation, else of the same layout, else of any.
const CostModel::Table* CostModel::FindTable(const Op& op, bool* borrowed) const {
  *borrowed = false;
  const int variant = VariantOf(op);
  const auto exact = tables_.find({op.kind, variant, 1});
  if (exact != tables_.end()) return &exact->second;
  if (op.kind == OpKind::kCopy) return nullptr;  // one route says nothing of another
  *borrowed = true;
  const Table* any = nullptr;
  for (auto it = tables_.lower_bound({op.kind, 0, 0});
       it != tables_.end() && std::get<0>(it->first) == op.kind; ++it) {
    if ((std::get<1>(it->first) ^ variant) == kAccumulateBit) return &it->second;
    if (any == nullptr) any = &it->second;
  }
  return any;
}

CostModel::Estimate CostModel::FromTable(const Table& table, const Op& op) const {
  const OpFeatures features = FeaturesOf(op);
  const TimeSurface::Value value = table.surface(features.at, features.terms);
  Estimate estimate{value.seconds, Provenance::kInterpolated, table.surface.error()};
  if (value.measured) {
    estimate.provenance = Provenance::kMeasured;
    for (const ProfilePoint& point : profile_.points) {
      if (point.kind != op.kind || point.shape != op.shape || point.p90_s <= 0 ||
          point.formats != op.formats || VariantOf(OpOf(point)) != VariantOf(op)) {
        continue;
      }
      estimate.error = (point.p90_s - point.p10_s) / kDeviationsBetweenDeciles / point.seconds;
      break;
    }
  } else if (!value.inside) {
    estimate.provenance = Provenance::kExtrapolated;
    estimate.error = std::max(kSmallestExtrapolatedError, kBorrowedFactor * estimate.error);
  }
  return estimate;
}

const CostModel::Table* CostModel::FindGroup(OpKind kind, int group, bool many_nodes) const {
  // Both ends of a transfer take the same time: either may have been measured.
  for (const OpKind k : {kind, kind == OpKind::kSend ? OpKind::kRecv : OpKind::kSend}) {
    for (auto it = tables_.lower_bound({k, group, 0});
         it != tables_.end() && std::get<0>(it->first) == k && std::get<1>(it->first) == group;
         ++it) {
      if ((std::get<2>(it->first) > 1) == many_nodes) return &it->second;
    }
    if (IsCollective(kind)) break;
  }
  return nullptr;
}

}  // namespace foretrain
