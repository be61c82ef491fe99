// The part of a device profile that was measured, as tables that answer for nearby sizes too. Ops
// that were not measured have rates instead (cost_model.h).
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/cost_terms.h"
#include "sim/cost/profile/device_profile.h"
#include "sim/cost/profile/interpolate.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Seconds of an op alone, with the source of the figure and its error.
struct Estimate {
  double seconds = 0;
  Provenance provenance = Provenance::kDefault;
  double error = 0;  // relative, one standard deviation

  // Marks the estimate as taken from another layout: its expected error doubles.
  void Borrow();
};

// Expected error outside the measured sizes, at least.
inline constexpr double kSmallestExtrapolatedError = 0.1;

class MeasuredTables {
 public:
  // Copies what it needs. O(points^2).
  MeasuredTables(const ClusterSpec& cluster, const DeviceProfile& profile);

  // Concurrencies for which ops have a cost; see CostModel::levels.
  const std::vector<double>& levels() const { return levels_; }

  // One kind's points: of one layout, or of one group size on one or on several nodes.
  struct Table {
    std::size_t dimensions = 1;
    int concurrency = 1;             // of the surface's points
    TimeSurface surface;             // at concurrency 1
    std::vector<LogField> slowdown;  // [level]: log of the slowdown; empty: not measured
  };

  // The table of the op's own layout and accumulation, else of the same layout, else any of the
  // kind; null if the kind was not measured. `borrowed`: the table is of another layout.
  const Table* Find(const Op& op, bool* borrowed) const;
  // The table of a collective or transfer in a group of this size; null if there is none.
  const Table* FindGroup(OpKind kind, int group, bool many_nodes) const;
  // Measured group sizes next to `group`: the largest below and the smallest above; 0: none.
  struct Neighbours {
    int below = 0;
    int above = 0;
  };
  Neighbours GroupsAround(OpKind kind, int group, bool many_nodes) const;

  Estimate At(const Table& table, const Op& op) const;
  // Records how At found `estimate`.
  static void Explain(const Table& table, const Op& op, const Estimate& estimate, CostTerms* terms);

  // Factor of a level relative to the op alone. `table` may be null: the mean of the kind's class.
  double Slowdown(const Op& op, const Table* table, std::size_t level) const;
  // The mean slowdown of the kind's class at the table's own concurrency.
  double SlowdownWithin(const Op& op, const Table& table) const;

 private:
  // Identifies a table: the kind, its layout bits or its group size, and its nodes.
  using Key = std::tuple<OpKind, int, int>;

  void MakeLevels(const DeviceProfile& profile);
  void MakeTables();
  void MakeSlowdowns(const std::map<Key, std::vector<const ProfilePoint*>>& points);
  Table MakeTable(const std::vector<const ProfilePoint*>& points) const;

  bool is_cpu_;
  std::vector<ProfilePoint> points_;
  std::vector<double> levels_{1.0};
  std::map<Key, Table> tables_;
  std::vector<std::array<double, 2>> class_slowdown_;  // [level][0 arithmetic, 1 memory]
};

}  // namespace foretrain
