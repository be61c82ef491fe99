#include "sim/cost/network/communication_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/checked.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr double kHalfBytes = 2;
constexpr std::int64_t kExpertsEach = 16;  // of a device, where an exchange is forecast

}  // namespace

// Time without measurements.
CommunicationTime CommunicationModel::AssumedTime(OpKind kind, double bytes,
                                                  const GroupPlace& place) const {
  if (!cluster_.is_cpu || place.nodes > 1) return TimeOfCommunication(fabric_, kind, bytes, place);
  CommunicationTime time;
  time.seconds = SharedMemorySeconds(profile_.rates, kind, bytes, place.members);
  return time;
}

// Time by the kernel profiles, which know one kind of fabric: all members in one link set, with the
// library's own choice of algorithm. A stated algorithm or latency asks for the model.
//
// A device profile may hold other link rates and latencies than the catalogue's, fitted to runs.
// Slower links act as a larger tensor, another latency on the time of the smallest tensor.
std::optional<double> CommunicationModel::HotSeconds(OpKind kind, double bytes,
                                                     const GroupPlace& place) const {
  const bool modelled = cluster_.is_cpu || !cluster_.torus.empty() || cluster_.link_latency_s > 0 ||
                        cluster_.parameter_servers > 0 ||
                        cluster_.collectives != CollectiveAlgorithm::kAuto;
  if (hot_ == nullptr || modelled || !place.IsWithinLinks()) return std::nullopt;
  const DeviceSpec& device = cluster_.device;
  const double nominal = device.link_bytes_per_s > 0
                             ? Networks().Efficiency(Wire::kLink) * device.link_bytes_per_s
                             : PciePeerRate(device);
  const double slower = nominal / profile_.rates.link_bytes_per_s.value;
  const auto seconds = hot_->CollectiveSeconds(kind, bytes * slower, place.members);
  const auto latency = hot_->CollectiveSeconds(kind, 1, place.members);
  if (!seconds.has_value() || !latency.has_value()) return std::nullopt;
  return fabric_.link_base_scale * *latency + std::max(0.0, *seconds - *latency);
}

bool CommunicationModel::DispatchesByNode(const Op& op) const {
  return profile_.system.node_dispatch && op.op_class == OpClass::kEpComm && op.shape.per_token > 0;
}

// Time by the profiles of DeepEP's kernels between nodes. Within one set of links, newer kernels
// reach the rate of an all-to-all. Dispatch moves 8 bits and combine 16; the gradient of
// each is the other's exchange, in 16 bits. The experts are taken to be many.
std::optional<double> CommunicationModel::ExchangeSeconds(const Op& op,
                                                          const GroupPlace& place) const {
  if (hot_ == nullptr || cluster_.is_cpu || place.nodes < 2 || !DispatchesByNode(op)) {
    return std::nullopt;
  }
  const double bytes_each = WorkOf(op).bytes / static_cast<double>(op.shape.elements);
  const auto part = bytes_each < kHalfBytes ? ExchangePart::kDispatch : ExchangePart::kCombine;
  const ExchangeShape shape = {
      .nodes = place.nodes,
      .hidden = op.shape.cols,
      .tokens = op.shape.elements / (op.shape.per_token * op.shape.cols),
      .topk = op.shape.per_token,
      .experts = std::max<std::int64_t>(op.shape.per_token, kExpertsEach * place.members),
      .node_devices = CeilDiv(place.members, place.nodes),
      .network_bytes_per_s = cluster_.network_bytes_per_s};
  return hot_->ExchangeSeconds(part, shape);
}

// Sources in order: a measured group of this size, interpolation between two measured sizes, the
// nearest size scaled by the model, a kernel profile, then the model alone.
Estimate CommunicationModel::EstimateOf(const Op& op, const GroupPlace& place) const {
  if (place.members < 2) return {0, Provenance::kMeasured, 0};
  // An exchange of unequal parts is taken to cost the same as one of equal parts. This neglects the
  // longest part, up to the imbalance of the counts.
  if (op.kind == OpKind::kAllToAllV) {
    Op equal = op;
    equal.kind = OpKind::kAllToAll;
    return EstimateOf(equal, place);
  }
  if (const auto seconds = ExchangeSeconds(op, place); seconds.has_value()) {
    return {*seconds, Provenance::kDefault, profile_.error};
  }
  const bool many = place.nodes > 1;
  const double bytes = MovedBytes(op, place);
  const double assumed = AssumedTime(op.kind, bytes, place).seconds;
  const auto measured = [&](int group) {
    return measured_.At(*measured_.FindGroup(op.kind, group, many), op);
  };
  if (measured_.FindGroup(op.kind, place.members, many) != nullptr) return measured(place.members);
  const auto [below, above] = measured_.GroupsAround(op.kind, place.members, many);
  if (below > 1 && above > 0) {
    const Estimate low = measured(below);
    const Estimate high = measured(above);
    const double part = std::log(static_cast<double>(place.members) / below) /
                        std::log(static_cast<double>(above) / below);
    return {low.seconds * std::pow(high.seconds / low.seconds, part),
            Worse(Provenance::kInterpolated, Worse(low.provenance, high.provenance)),
            std::max(kSmallestExtrapolatedError, std::max(low.error, high.error))};
  }
  const int nearest = below > 1 ? below : above;
  if (nearest < 2) {
    return {HotSeconds(op.kind, bytes, place).value_or(assumed), Provenance::kDefault,
            profile_.error};
  }
  Estimate estimate = measured(nearest);
  GroupPlace other;
  other.members = nearest;
  other.nodes = std::min(place.nodes, nearest);
  other.per_node = std::max(1, nearest / other.nodes);
  estimate.seconds *= assumed / AssumedTime(op.kind, bytes, other).seconds;
  estimate.provenance = Provenance::kExtrapolated;
  estimate.error = std::max(profile_.error, estimate.error);
  return estimate;
}

// Bytes that a collective moves. A token goes to k experts, equally likely on any of `nodes` nodes.
// About nodes (1 - (1 - 1 / nodes)^k) nodes receive it. With node_dispatch it is sent to each of
// these once, instead of k times [DeepSeek-AI, DeepEP].
double CommunicationModel::MovedBytes(const Op& op, const GroupPlace& place) const {
  const double bytes = WorkOf(op).bytes;
  if (!DispatchesByNode(op) || place.nodes < 2) return bytes;
  const double nodes = place.nodes, chosen = op.shape.per_token;
  return bytes * nodes * (1 - std::pow(1 - 1 / nodes, chosen)) / chosen;
}

// Share of a node's adapters that the system's reductions and gathers use.
double CommunicationModel::NetworkShare() const {
  const double used = static_cast<double>(profile_.system.adapters_used);
  const double adapters =
      cluster_.adapters_per_node > 0 ? cluster_.adapters_per_node : cluster_.devices_per_node;
  return used > 0 ? std::min(1.0, used / adapters) : 1.0;
}

Estimate CommunicationModel::InSystem(const Op& op, const GroupPlace& place,
                                      Estimate estimate) const {
  const SystemOptions& system = profile_.system;
  if (op.op_class == OpClass::kTpComm) estimate.seconds *= 1 - system.tp_overlap;
  if (op.op_class == OpClass::kEpComm && place.nodes > 1) {
    estimate.seconds *= 1 - system.ep_overlap;
  }
  if (op.op_class == OpClass::kDpComm && place.nodes > 1) estimate.seconds /= NetworkShare();
  estimate.seconds += SkewOf(place);
  return estimate;
}

WireDemand CommunicationModel::DemandOf(const Op& op, const GroupPlace& place,
                                        double seconds) const {
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
