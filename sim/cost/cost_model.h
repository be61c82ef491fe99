// Seconds of an op on a device: from measured points where there are any near, else from rates.
// Leaves out order, waiting and contention (sim/simulate).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "sim/cost/communication_cost.h"
#include "sim/cost/device_profile.h"
#include "sim/cost/interpolate.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"

namespace foretrain {

// What one op costs.
struct OpCost {
  std::vector<double> seconds;  // at each of CostModel::levels(); the first is alone
  double launch_s = 0;          // host
  double load = 1;              // threads it keeps busy
  double measured_threads = 1;  // busy threads at the last level
  WireDemand demand{};          // of the device's connections; all 0 on a CPU
  Provenance provenance = Provenance::kDefault;
  double error = 0;  // relative, one standard deviation

  double Alone() const { return seconds.front(); }
};

class CostModel {
 public:
  // Errors: kInvalidArgument, an invalid cluster, or a profile that ValidateProfile refuses.
  // O(points^2).
  static Result<CostModel> Make(const ClusterSpec& cluster, const DeviceProfile& profile);

  // Concurrencies at which ops have a cost. On a CPU: busy threads of the machine, as measured. On
  // an accelerator: busy queues of the device, {1, 2}, where compute slows down beside
  // communication, else {1}.
  const std::vector<double>& levels() const { return levels_; }

  // The cost of `op`; `place` where its group lies, for communication. Of a kind with points at
  // concurrency 1:
  //   GEMM       time law of {m n k, 1, n k, m k, m n} over (log m, log n, log k), by layout and
  //              accumulation
  //   attention  law of {flop, 1, bytes} over (log sequence, log batch * heads, log head_dim)
  //   all else   law of {bytes, 1} over log bytes (WorkOf); collectives by kind and group size,
  //              straight in log group size between two, beyond them in the ratio of
  //              TimeOfCommunication
  // as TimeSurface makes of it. Higher concurrencies multiply that by the slowdown measured there,
  // interpolated alike, or where the kind has none by the mean one of its class. A layout or
  // accumulation without points borrows another's. A kind without points costs what KernelSeconds
  // says where the profile has kernels, else kernel_s + max(flop / rate, bytes / memory rate), a
  // GEMM gemm_fill_s more; a GEMM with what follows it costs what both do apart, or on an
  // accelerator that has them in one kernel (IsOneKernel) the GEMM and the bytes beside it. kOpaque
  // costs what it says, at every level.
  //
  // Of the profile's system: tp_overlap hides a share of the collectives of tensor parallelism,
  // adapters_used slows those of data parallelism between nodes, node_dispatch makes exchanges of
  // experts smaller. `scattered`, where the tensor-parallel
  // group lies: what a send carries goes in parts, one of each of its members, and is gathered
  // among them behind it; null: no send is cut.
  //
  // O(points of the kind); safe from any thread.
  OpCost CostOf(const Op& op, const GroupPlace& place = {},
                const GroupPlace* scattered = nullptr) const;

  // Host time to launch a graph of `ops` ops.
  double GraphLaunch(int ops) const {
    return profile_.rates.graph_launch_s.value + ops * profile_.rates.graph_op_s.value;
  }

  // Whether the plan's sends between stages are scattered: the system's scatter_gather, where
  // tensor-parallel ranks hold the same.
  bool Scatters(const Plan& plan) const {
    return profile_.system.scatter_gather && plan.tp > 1 && !plan.sequence_parallel;
  }

  // By how much the slowest of `devices` devices, for which all wait, is slower than the slowest of
  // as many as the rates hold for (networks.csv, straggler_from and straggler_sigma): the expected
  // largest of n normal deviates is about sqrt(2 ln n). 1 on a CPU.
  double Straggling(int devices) const;

  // Seconds of an overhead with `concurrency` busy ranks: straight between measured ones.
  double Overhead(OverheadKind kind, double concurrency) const;

  // The costs of all ops of a linked program on this cluster. Ranks are placed by PlaceOf; on a CPU
  // those of one node share it, on an accelerator each has its own, and compute is Straggling.
  // Where the system has graphs (SystemOptions::cuda_graphs), the first op of each costs the host
  // the launch of all of it, the others nothing (GraphStretches); what the device does between two
  // kernels is left as it is without.
  // Errors: kInvalidArgument, more ranks than devices. O(ops + rows * points).
  Result<ProgramCosts> CostsOf(const Program& program) const;

  const ClusterSpec& cluster() const { return cluster_; }
  const DeviceProfile& profile() const { return profile_; }
  const Fabric& fabric() const { return fabric_; }

 private:
  // kind and what else has a table of its own: layout bits, or group and nodes.
  using Key = std::tuple<OpKind, int, int>;
  struct Table {
    std::size_t dimensions = 1;
    int concurrency = 1;             // of the surface's points
    TimeSurface surface;             // at concurrency 1
    std::vector<LogField> slowdown;  // [level]: log of the factor; empty: not measured
  };
  // A borrowed layout, and sizes outside of what was measured, are trusted half as far.
  static constexpr double kBorrowedFactor = 2.0;
  static constexpr double kSmallestExtrapolatedError = 0.1;
  // 0: arithmetic, 1: memory; kinds of one class slow down alike.
  static std::size_t ClassOf(OpKind kind);

  struct Estimate {
    double seconds = 0;
    Provenance provenance = Provenance::kDefault;
    double error = 0;
  };

  CostModel(const ClusterSpec& cluster, const DeviceProfile& profile)
      : cluster_(cluster), profile_(profile), fabric_(MakeFabric(cluster, profile.rates)) {}

  void MakeLevels();
  void MakeTables();
  void MakeSlowdowns(const std::map<Key, std::vector<const ProfilePoint*>>& points);
  Table MakeTable(const std::vector<const ProfilePoint*>& points) const;
  const Table* FindTable(const Op& op, bool* borrowed) const;
  const Table* FindGroup(OpKind kind, int group, bool many_nodes) const;
  Estimate FromTable(const Table& table, const Op& op) const;
  Estimate FromRates(const Op& op) const;
  Estimate FromParts(const Op& op) const;
  Estimate Communication(const Op& op, const GroupPlace& place) const;
  double SkewOf(const GroupPlace& place) const {
    return (place.members - 1) * profile_.rates.member_skew_s.value;
  }
  Estimate InSystem(const Op& op, const GroupPlace& place, Estimate estimate) const;
  double MovedBytes(const Op& op, const GroupPlace& place) const;
  double NetworkShare() const;
  // Without measurements.
  CommunicationTime AssumedTime(OpKind kind, double bytes, const GroupPlace& place) const;
  Estimate Base(const Op& op, const GroupPlace& place) const;
  double Slowdown(const Op& op, const Table* table, std::size_t level) const;
  double LoadOf(const Op& op) const;
  WireDemand DemandOf(const Op& op, const GroupPlace& place, double seconds) const;
  const Figure& OverheadFigure(OverheadKind kind) const;

  ClusterSpec cluster_;
  DeviceProfile profile_;
  Fabric fabric_;
  std::vector<double> levels_{1.0};
  std::map<Key, Table> tables_;
  std::vector<std::vector<double>> class_slowdown_;  // [level][0 arithmetic, 1 memory]
};

}  // namespace foretrain
