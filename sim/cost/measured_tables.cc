#include "sim/cost/measured_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>

#include "sim/cost/kernels/op_features.h"

namespace foretrain {
namespace {

// In a normal distribution p10 and p90 are 2.563 standard deviations apart.
constexpr double kDeviationsBetweenDeciles = 2.563;
constexpr double kBorrowedFactor = 2.0;

// 0: arithmetic, 1: memory. Kinds of one class share a slowdown.
std::size_t ClassOf(OpKind kind) { return IsProduct(kind) || IsAttention(kind) ? 0 : 1; }

}  // namespace

void Estimate::Borrow() {
  provenance = Provenance::kExtrapolated;
  error = std::max(kSmallestExtrapolatedError, kBorrowedFactor * error);
}

MeasuredTables::MeasuredTables(const ClusterSpec& cluster, const DeviceProfile& profile)
    : is_cpu_(cluster.is_cpu), points_(profile.points) {
  MakeLevels(profile);
  MakeTables();
}

// CPU levels are the measured numbers of busy threads. An accelerator has a second level only if
// compute slows down while communication overlaps it.
void MeasuredTables::MakeLevels(const DeviceProfile& profile) {
  if (!is_cpu_) {
    if (profile.rates.overlap_slowdown.value > 1) levels_.push_back(2.0);
    return;
  }
  std::set<int> levels{1};
  for (const ProfilePoint& point : points_) {
    if (!IsCommunication(point.kind)) levels.insert(point.concurrency);
  }
  levels_.assign(levels.begin(), levels.end());
}

// One table per key. Points at other concurrencies only give slowdowns.
void MeasuredTables::MakeTables() {
  std::map<Key, std::vector<const ProfilePoint*>> points;
  for (const ProfilePoint& point : points_) {
    const bool communicates = IsCommunication(point.kind);
    // Points of an accelerator are measured on one rank alone.
    if (!is_cpu_ && !communicates && point.concurrency != 1) continue;
    const Key key{point.kind, communicates ? point.group : VariantOf(OpOf(point)),
                  communicates ? point.nodes : 1};
    points[key].push_back(&point);
  }
  for (const auto& [key, of_key] : points) tables_.emplace(key, MakeTable(of_key));
  MakeSlowdowns(points);
}

// The surface uses the lowest measured concurrency, so that slowdowns are at least 1 in the limit.
MeasuredTables::Table MeasuredTables::MakeTable(
    const std::vector<const ProfilePoint*>& points) const {
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

// Slowdown of each level relative to the table's own concurrency, at the points measured there.
// Kinds without such points use the mean of the logarithms over their class.
void MeasuredTables::MakeSlowdowns(const std::map<Key, std::vector<const ProfilePoint*>>& points) {
  class_slowdown_.assign(levels_.size(), {1.0, 1.0});
  if (!is_cpu_) return;
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
        // Disks and copy limits do not show how compute slows down.
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

// Finds the table of the op's own layout and accumulation, else of the same layout, else any of the
// kind.
const MeasuredTables::Table* MeasuredTables::Find(const Op& op, bool* borrowed) const {
  *borrowed = false;
  const int variant = VariantOf(op);
  const auto exact = tables_.find({op.kind, variant, 1});
  if (exact != tables_.end()) return &exact->second;
  if (op.kind == OpKind::kCopy) return nullptr;  // one route says nothing about another
  *borrowed = true;
  const Table* any = nullptr;
  for (auto it = tables_.lower_bound({op.kind, 0, 0});
       it != tables_.end() && std::get<0>(it->first) == op.kind; ++it) {
    if ((std::get<1>(it->first) ^ variant) == kAccumulateBit) return &it->second;
    if (any == nullptr) any = &it->second;
  }
  return any;
}

// A measured point's error comes from its own spread, an interpolated one's from leaving samples
// out, an extrapolated one's from twice that.
Estimate MeasuredTables::At(const Table& table, const Op& op) const {
  const OpFeatures features = FeaturesOf(op);
  const TimeSurface::Value value = table.surface(features.at, features.terms);
  Estimate estimate{value.seconds, Provenance::kInterpolated, table.surface.error()};
  if (value.measured) {
    estimate.provenance = Provenance::kMeasured;
    for (const ProfilePoint& point : points_) {
      if (point.kind != op.kind || point.shape != op.shape || point.p90_s <= 0 ||
          point.formats != op.formats || VariantOf(OpOf(point)) != VariantOf(op)) {
        continue;
      }
      estimate.error = (point.p90_s - point.p10_s) / kDeviationsBetweenDeciles / point.seconds;
      break;
    }
  } else if (!value.inside) {
    estimate.Borrow();
  }
  return estimate;
}

// A measured time is one term. Between points it is the fitted law and its correction.
void MeasuredTables::Explain(const Table& table, const Op& op, const Estimate& estimate,
                             CostTerms* terms) {
  if (terms == nullptr) return;
  if (estimate.provenance == Provenance::kMeasured) {
    terms->Seconds("measured", estimate.seconds);
    return;
  }
  const double law_s = table.surface.LawAt(FeaturesOf(op).terms);
  terms->Fact("error between points", table.surface.error());
  if (!(law_s > 0)) {
    terms->Seconds("interpolated between measured sizes", estimate.seconds);
    return;
  }
  terms->Seconds("law fitted to measured sizes", law_s);
  terms->Factor("correction by nearby sizes", estimate.seconds / law_s);
}

const MeasuredTables::Table* MeasuredTables::FindGroup(OpKind kind, int group,
                                                       bool many_nodes) const {
  // Both ends of a transfer take the same time, so either may have been measured.
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

MeasuredTables::Neighbours MeasuredTables::GroupsAround(OpKind kind, int group,
                                                        bool many_nodes) const {
  Neighbours found;
  for (const auto& [key, table] : tables_) {
    if (std::get<0>(key) != kind || (std::get<2>(key) > 1) != many_nodes) continue;
    const int size = std::get<1>(key);
    if (size < group) found.below = std::max(found.below, size);
    if (size > group && (found.above == 0 || size < found.above)) found.above = size;
  }
  return found;
}

double MeasuredTables::Slowdown(const Op& op, const Table* table, std::size_t level) const {
  if (table != nullptr && table->concurrency == 1 && !table->slowdown[level].empty()) {
    return std::exp(table->slowdown[level](FeaturesOf(op).at));
  }
  return class_slowdown_[level][ClassOf(op.kind)];
}

double MeasuredTables::SlowdownWithin(const Op& op, const Table& table) const {
  const auto level = std::find(levels_.begin(), levels_.end(), table.concurrency);
  return class_slowdown_[static_cast<std::size_t>(level - levels_.begin())][ClassOf(op.kind)];
}

}  // namespace foretrain
