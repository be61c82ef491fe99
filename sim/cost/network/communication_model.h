// Cost of collectives and transfers as a system runs them: from measured groups if there are any,
// else from kernel profiles within a node (kernel_forecast.h), else modelled
// (communication_cost.h), with the effects that the system's options have on them.
#pragma once

#include <optional>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/measured/kernel_forecast.h"
#include "sim/cost/measured_tables.h"
#include "sim/cost/network/communication_cost.h"
#include "sim/cost/program_costs.h"

namespace foretrain {

class CommunicationModel {
 public:
  // Borrows all. `hot` is NULL if no kernel profile serves the device.
  CommunicationModel(const ClusterSpec& cluster, const DeviceProfile& profile, const Fabric& fabric,
                     const MeasuredTables& measured, const KernelForecast* hot)
      : cluster_(cluster), profile_(profile), fabric_(fabric), measured_(measured), hot_(hot) {}

  // Time of the op in a group at `place`, without what the system hides or adds (InSystem).
  // `terms`: takes the derivation; NULL: none.
  Estimate EstimateOf(const Op& op, const GroupPlace& place, CostTerms* terms = nullptr) const;
  // Applies what the system hides of a collective, or slows it down by.
  Estimate InSystem(const Op& op, const GroupPlace& place, Estimate estimate,
                    CostTerms* terms = nullptr) const;
  // Spread of the members' arrivals, in seconds.
  double SkewOf(const GroupPlace& place) const {
    return (place.members - 1) * profile_.rates.member_skew_s.value;
  }
  // Use of each wire as a share of the `seconds` that the op takes: a transfer in one direction, a
  // collective in both, host-device copies too. All 0 on a CPU.
  WireDemand DemandOf(const Op& op, const GroupPlace& place, double seconds) const;

 private:
  bool DispatchesByNode(const Op& op) const;
  std::optional<double> ExchangeSeconds(const Op& op, const GroupPlace& place) const;
  double MovedBytes(const Op& op, const GroupPlace& place) const;
  double NetworkShare() const;
  double HiddenShare(const Op& op, const GroupPlace& place) const;
  CommunicationTime AssumedTime(OpKind kind, double bytes, const GroupPlace& place) const;
  std::optional<double> HotSeconds(OpKind kind, double bytes, const GroupPlace& place,
                                   CostTerms* terms) const;
  double ModelledSeconds(OpKind kind, double bytes, const GroupPlace& place,
                         CostTerms* terms) const;

  const ClusterSpec& cluster_;
  const DeviceProfile& profile_;
  const Fabric& fabric_;
  const MeasuredTables& measured_;
  const KernelForecast* hot_;
};

}  // namespace foretrain
