// The part of a cost model that communication makes: collectives and transfers, what a system makes
// of them, and what they keep busy of a device's connections.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sim/cost/cost_model.h"

namespace foretrain {

CommunicationTime CostModel::AssumedTime(OpKind kind, double bytes, const GroupPlace& place) const {
  if (!cluster_.is_cpu || place.nodes > 1) return TimeOfCommunication(fabric_, kind, bytes, place);
  CommunicationTime time;
  time.seconds = SharedMemorySeconds(profile_.rates, kind, bytes, place.members);
  return time;
}

CostModel::Estimate CostModel::Communication(const Op& op, const GroupPlace& place) const {
  if (place.members < 2) return {0, Provenance::kMeasured, 0};
  // An exchange of unequal parts costs what one of equal ones of as many bytes does: the part that
  // is longest is left out, up to the imbalance of the counts.
  if (op.kind == OpKind::kAllToAllV) {
    Op equal = op;
    equal.kind = OpKind::kAllToAll;
    return Communication(equal, place);
  }
  const bool many = place.nodes > 1;
  const double bytes = MovedBytes(op, place);
  const double assumed = AssumedTime(op.kind, bytes, place).seconds;
  if (const Table* table = FindGroup(op.kind, place.members, many)) return FromTable(*table, op);
  int below = 0;
  int above = 0;
  for (const auto& [key, table] : tables_) {
    if (std::get<0>(key) != op.kind || (std::get<2>(key) > 1) != many) continue;
    const int group = std::get<1>(key);
    if (group < place.members) below = std::max(below, group);
    if (group > place.members && (above == 0 || group < above)) above = group;
  }
  if (below > 1 && above > 0) {
    const Estimate low = FromTable(*FindGroup(op.kind, below, many), op);
    const Estimate high = FromTable(*FindGroup(op.kind, above, many), op);
    const double part = std::log(static_cast<double>(place.members) / below) /
                        std::log(static_cast<double>(above) / below);
    return {low.seconds * std::pow(high.seconds / low.seconds, part),
            Worse(Provenance::kInterpolated, Worse(low.provenance, high.provenance)),
            std::max(kSmallestExtrapolatedError, std::max(low.error, high.error))};
  }
  const int nearest = below > 1 ? below : above;
  if (nearest < 2) return {assumed, Provenance::kDefault, profile_.error};
  Estimate estimate = FromTable(*FindGroup(op.kind, nearest, many), op);
  GroupPlace measured;
  measured.members = nearest;
  measured.nodes = std::min(place.nodes, nearest);
  measured.per_node = std::max(1, nearest / measured.nodes);
  estimate.seconds *= assumed / AssumedTime(op.kind, bytes, measured).seconds;
  estimate.provenance = Provenance::kExtrapolated;
  estimate.error = std::max(profile_.error, estimate.error);
  return estimate;
}

// Bytes that a collective moves. Of k experts that a token is sent to on `nodes` nodes, alike
// likely, about nodes (1 - (1 - 1 / nodes)^k) nodes have one or more; where the system sends it to
// each of these once, so many copies of it leave in the place of k [DeepSeek-AI, DeepEP].
double CostModel::MovedBytes(const Op& op, const GroupPlace& place) const {
  const double bytes = WorkOf(op).bytes;
  const bool experts = op.op_class == OpClass::kEpComm && op.shape.per_token > 0;
  if (!profile_.system.node_dispatch || !experts || place.nodes < 2) return bytes;
  const double nodes = place.nodes, chosen = op.shape.per_token;
  return bytes * nodes * (1 - std::pow(1 - 1 / nodes, chosen)) / chosen;
}

// Of a node's adapters, those that the system's sums and gathers use.
double CostModel::NetworkShare() const {
  const double used = static_cast<double>(profile_.system.adapters_used);
  const double adapters =
      cluster_.adapters_per_node > 0 ? cluster_.adapters_per_node : cluster_.devices_per_node;
  return used > 0 ? std::min(1.0, used / adapters) : 1.0;
}

// What the system hides of a collective, or slows it down by.
CostModel::Estimate CostModel::InSystem(const Op& op, const GroupPlace& place,
                                        Estimate estimate) const {
  const SystemOptions& system = profile_.system;
  if (op.op_class == OpClass::kTpComm) estimate.seconds *= 1 - system.tp_overlap;
  if (op.op_class == OpClass::kDpComm && place.nodes > 1) estimate.seconds /= NetworkShare();
  estimate.seconds += SkewOf(place);
  return estimate;
}

// Copies between host and device, and what communication keeps busy of each wire: a transfer one
// way, a collective both.
WireDemand CostModel::DemandOf(const Op& op, const GroupPlace& place, double seconds) const {
  WireDemand demand{};
  if (cluster_.is_cpu || seconds <= 0) return demand;
  const auto use = [&](SharedWire out, SharedWire in, double busy_s) {
    const double share = std::min(1.0, busy_s / seconds);
    if (op.kind != OpKind::kRecv) demand[static_cast<std::size_t>(out)] += share;
    if (op.kind != OpKind::kSend) demand[static_cast<std::size_t>(in)] += share;
  };
  if (IsCommunication(op.kind)) {
    const auto busy = AssumedTime(op.kind, MovedBytes(op, place), place).busy_s;
    const auto at = [&](Wire wire) { return busy[static_cast<std::size_t>(wire)]; };
    use(SharedWire::kLinkOut, SharedWire::kLinkIn, at(Wire::kLink) + at(Wire::kTorus));
    use(SharedWire::kPcieOut, SharedWire::kPcieIn, at(Wire::kPcie));
    use(SharedWire::kNetworkOut, SharedWire::kNetworkIn, at(Wire::kNetwork));
    return demand;
  }
  if (op.kind != OpKind::kCopy || op.queue == Queue::kNvme || op.from == op.to) return demand;
  const SharedWire wire = op.from == Space::kDevice ? SharedWire::kPcieOut : SharedWire::kPcieIn;
  demand[static_cast<std::size_t>(wire)] =
      std::min(1.0, WorkOf(op).bytes / profile_.rates.copy_bytes_per_s.value / seconds);
  return demand;
}

}  // namespace foretrain
