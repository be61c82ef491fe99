// Seconds of an op on a device: from nearby measured points if there are any, else from rates. The
// simulator (sim/simulate) adds order, waiting and contention.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_terms.h"
#include "sim/cost/measured/hot_kernels.h"
#include "sim/cost/measured_tables.h"
#include "sim/cost/network/communication_model.h"
#include "sim/cost/profile/device_profile.h"
#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Cost of one op.
struct OpCost {
  std::vector<double> seconds;  // at each of CostModel::levels(); the first is without contention
  double launch_s = 0;          // host time to issue the op
  double load = 1;              // threads it keeps busy
  double measured_threads = 1;  // busy threads at the last level
  WireDemand demand{};          // use of the device's connections; all 0 on a CPU
  Provenance provenance = Provenance::kDefault;
  double error = 0;  // relative, one standard deviation

  double Alone() const { return seconds.front(); }
};

class CostModel {
 public:
  // Errors: kInvalidArgument for an invalid cluster, or a profile that ValidateProfile refuses.
  // O(points^2).
  static Result<CostModel> Make(const ClusterSpec& cluster, const DeviceProfile& profile);

  // Concurrencies for which ops have a cost. On a CPU these are the measured numbers of busy
  // threads. On an accelerator they are busy queues: {1, 2} if communication slows overlapping
  // compute, else {1}.
  const std::vector<double>& levels() const { return measured_.levels(); }

  // The cost of `op`. For communication, `place` gives the position of its group. Kinds with points
  // at concurrency 1 use a law fitted by TimeSurface:
  //   GEMM       terms {m n k, 1, n k, m k, m n} over (log m, log n, log k); one law per layout
  //              and accumulation.
  //   attention  terms {flop, 1, bytes} over (log sequence, log batch * heads, log head_dim).
  //   all else   terms {bytes, 1} over log bytes (WorkOf).
  // Collectives have a table per kind and group size. Between two sizes they are linear in log
  // group size; beyond them they scale as TimeOfCommunication. Higher concurrencies multiply by the
  // measured slowdown, interpolated alike; if the kind has none, by the mean of its class. A layout
  // or accumulation without points borrows another's.
  //
  // A kind without points costs KernelSeconds if the profile has kernels. Otherwise it costs
  // kernel_s + max(flop / rate, bytes / memory rate), plus gemm_fill_s for a GEMM. A fused GEMM
  // costs the sum of both parts. If an accelerator has them in one kernel (IsOneKernel), it costs
  // the GEMM plus the extra bytes. kOpaque costs its given duration at every level.
  //
  // The profile's system modifies collectives: tp_overlap hides a share of tensor parallelism's.
  // adapters_used slows data parallelism's between nodes. node_dispatch shrinks exchanges of
  // experts. `scattered` is the place of the tensor-parallel group if transfers are scattered: each
  // member sends a part, and the receivers gather them. NULL: transfers are whole.
  //
  // O(points of the kind); safe from any thread.
  OpCost CostOf(const Op& op, const GroupPlace& place = {},
                const GroupPlace* scattered = nullptr) const;

  // The derivation of CostOf(op, place, scattered).Alone(), recorded while it is computed.
  CostTerms Explain(const Op& op, const GroupPlace& place = {},
                    const GroupPlace* scattered = nullptr) const;

  // Flash attention over whole sequences then costs that of as many documents of `tokens` tokens
  // each, >= 1, as fill its rows: the cost of samples that hold documents with this mean
  // (TokenData::MeanDocumentTokens). Attention of parts (context parallelism) costs that of a
  // window with as many pairs. 0: a sample is one document. Leaves out attention that stores
  // scores, whose matrices are as large with documents.
  void SetDocumentTokens(double tokens) { document_tokens_ = tokens; }
  double document_tokens() const { return document_tokens_; }

  // Host time to launch a graph of `ops` ops.
  double GraphLaunch(int ops) const {
    return profile_.rates.graph_launch_s.value + ops * profile_.rates.graph_op_s.value;
  }

  // True if transfers between stages are scattered: the system has scatter_gather and
  // tensor-parallel ranks hold the same tensor.
  bool Scatters(const Plan& plan) const {
    return profile_.system.scatter_gather && plan.tp > 1 && !plan.sequence_parallel;
  }

  // Slowdown of the slowest of `devices` devices, for which all wait. It is relative to the slowest
  // of straggler_from devices, for which the rates hold. The expected maximum of n normal deviates
  // is about sqrt(2 ln n); straggler_sigma scales it (networks.csv). 1 on a CPU.
  double Straggling(int devices) const;

  // Seconds of an overhead with `concurrency` busy ranks, linear between measured values.
  double Overhead(OverheadKind kind, double concurrency) const;

  // The costs of all ops of a linked program on this cluster. PlaceOf places the ranks. On a CPU
  // the ranks of a node share it; on an accelerator each has its own device, and compute is
  // multiplied by Straggling. If the system has graphs (SystemOptions::cuda_graphs), the first op
  // of a graph carries the host cost of its launch, the others none (GraphStretches). Gaps between
  // kernels on the device are unchanged.
  // Errors: kInvalidArgument for more ranks than devices. O(ops + rows * points).
  Result<ProgramCosts> CostsOf(const Program& program) const;

  const ClusterSpec& cluster() const { return cluster_; }
  const DeviceProfile& profile() const { return profile_; }
  const Fabric& fabric() const { return fabric_; }

 private:
  CostModel(const ClusterSpec& cluster, const DeviceProfile& profile)
      : cluster_(cluster),
        profile_(profile),
        fabric_(MakeFabric(cluster, profile.rates)),
        measured_(cluster, profile) {
    if (profile.kernels.has_value()) hot_ = HotKernelsOf(cluster.device);
  }

  CommunicationModel Communication() const {
    return {cluster_, profile_, fabric_, measured_, hot_.has_value() ? &*hot_ : nullptr};
  }
  // `terms` of these takes the derivation; NULL: none.
  Estimate FromRates(const Op& op, CostTerms* terms) const;
  Estimate FromParts(const Op& op, CostTerms* terms) const;
  Estimate Base(const Op& op, const GroupPlace& place, CostTerms* terms = nullptr) const;
  bool HasDocuments(const Op& op) const;
  Op OfDocuments(const Op& op) const;
  std::int64_t PairsOfQuery() const;
  double Slowdown(const Op& op, const MeasuredTables::Table* table, std::size_t level) const;
  double LoadOf(const Op& op) const;
  const Figure& OverheadFigure(OverheadKind kind) const;

  ClusterSpec cluster_;
  DeviceProfile profile_;
  Fabric fabric_;
  MeasuredTables measured_;
  std::optional<KernelForecast> hot_;  // of the profile's kernel model
  double document_tokens_ = 0;
};

}  // namespace foretrain
