#include "sim/cost/network/communication_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr double kHalfBytes = 2;
constexpr std::array<std::string_view, kWireCount> kWireNames = {"links", "PCIe", "network",
                                                                 "torus"};
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
                                                     const GroupPlace& place,
                                                     CostTerms* terms) const {
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
  const double start_s = fabric_.link_base_scale * *latency;
  const double transfer_s = std::max(0.0, *seconds - *latency);
  if (terms != nullptr) {
    (void)hot_->CollectiveSeconds(kind, bytes * slower, place.members, terms);
    terms->Fact("links over the catalogue's", 1 / slower);
    terms->Seconds("latency", start_s);
    terms->Seconds("transfer", transfer_s);
  }
  return start_s + transfer_s;
}

// The wires that are busy longest at their full rate, and all else: starts, hops, and the share of
// the rate that the protocol reaches.
double CommunicationModel::ModelledSeconds(OpKind kind, double bytes, const GroupPlace& place,
                                           CostTerms* terms) const {
  const CommunicationTime time = AssumedTime(kind, bytes, place);
  if (terms == nullptr) return time.seconds;
  for (const Crossing& crossing : CrossingsOf(fabric_, place)) {
    const std::string wire(kWireNames[static_cast<std::size_t>(crossing.level->wire)]);
    terms->Fact(wire + ": rate of the carriers", crossing.Rate(), "B/s");
    terms->Fact(wire + ": carriers", crossing.carriers);
    terms->Fact(wire + ": hops of a ring", crossing.Steps());
  }
  if (place.nodes > 1) {
    const double measured = MeasuredNetworkRate(fabric_, place.nodes, kind == OpKind::kAllReduce);
    if (measured > 0) terms->Fact("measured network rate of a device", measured, "B/s");
  }
  if (IsCollective(kind)) terms->Fact("algorithm", Name(time.algorithm));
  const double wires_s = *std::max_element(time.busy_s.begin(), time.busy_s.end());
  terms->Seconds("busiest wires at their rate", wires_s);
  terms->Seconds("start, hops and protocol", time.seconds - wires_s);
  return time.seconds;
}

bool CommunicationModel::DispatchesByNode(const Op& op) const {
  return profile_.system.node_dispatch && op.op_class == OpClass::kEpComm && op.shape.per_token > 0;
}

// Time by the profiles of DeepEP's kernels between nodes. Within one set of links, newer kernels
// reach the rate of an all-to-all. Dispatch moves 8 bits and combine 16; the gradient of
// each is the other's exchange, in 16 bits. The experts are taken to be many.
std::optional<double> CommunicationModel::ExchangeSeconds(const Op& op,
                                                          const GroupPlace& place) const {
  const bool unknown = hot_ == nullptr || cluster_.is_cpu || place.nodes < 2;
  if (unknown || !DispatchesByNode(op) || op.shape.cols < 1) return std::nullopt;
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
Estimate CommunicationModel::EstimateOf(const Op& op, const GroupPlace& place,
                                        CostTerms* terms) const {
  if (place.members < 2) return {0, Provenance::kMeasured, 0};
  // An exchange of unequal parts is taken to cost the same as one of equal parts. This neglects the
  // longest part, up to the imbalance of the counts.
  if (op.kind == OpKind::kAllToAllV) {
    Op equal = op;
    equal.kind = OpKind::kAllToAll;
    return EstimateOf(equal, place, terms);
  }
  if (const auto seconds = ExchangeSeconds(op, place); seconds.has_value()) {
    if (terms != nullptr) terms->Seconds("DeepEP's exchange between nodes", *seconds);
    return {*seconds, Provenance::kDefault, profile_.error};
  }
  const bool many = place.nodes > 1;
  const double bytes = MovedBytes(op, place);
  if (terms != nullptr) terms->Fact("bytes of the whole tensor", bytes, "B");
  const auto measured = [&](int group, CostTerms* to = nullptr) {
    const MeasuredTables::Table& table = *measured_.FindGroup(op.kind, group, many);
    const Estimate estimate = measured_.At(table, op);
    MeasuredTables::Explain(table, op, estimate, to);
    return estimate;
  };
  if (measured_.FindGroup(op.kind, place.members, many) != nullptr) {
    return measured(place.members, terms);
  }
  const auto [below, above] = measured_.GroupsAround(op.kind, place.members, many);
  if (below > 1 && above > 0) {
    const Estimate low = measured(below);
    const Estimate high = measured(above);
    const double part = std::log(static_cast<double>(place.members) / below) /
                        std::log(static_cast<double>(above) / below);
    const double grows = std::pow(high.seconds / low.seconds, part);
    if (terms != nullptr) {
      terms->Fact("nearest measured groups", fmt::format("{} and {}", below, above));
      terms->Seconds("in the smaller group", low.seconds);
      terms->Factor("interpolated between the groups", grows);
    }
    return {low.seconds * grows,
            Worse(Provenance::kInterpolated, Worse(low.provenance, high.provenance)),
            std::max(kSmallestExtrapolatedError, std::max(low.error, high.error))};
  }
  const int nearest = below > 1 ? below : above;
  if (nearest < 2) {
    const auto hot_s = HotSeconds(op.kind, bytes, place, terms);
    return {hot_s.has_value() ? *hot_s : ModelledSeconds(op.kind, bytes, place, terms),
            Provenance::kDefault, profile_.error};
  }
  Estimate estimate = measured(nearest, terms);
  GroupPlace other;
  other.members = nearest;
  other.nodes = std::min(place.nodes, nearest);
  other.per_node = std::max(1, nearest / other.nodes);
  const double scale =
      AssumedTime(op.kind, bytes, place).seconds / AssumedTime(op.kind, bytes, other).seconds;
  if (terms != nullptr) {
    terms->Fact("nearest measured group", nearest);
    terms->Factor("modelled from that group to this one", scale);
  }
  estimate.seconds *= scale;
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

// Share of a collective that the system hides behind kernels. Kernels that split tensor-parallel
// collectives write to the peers' memory, so they reach no further than the links.
double CommunicationModel::HiddenShare(const Op& op, const GroupPlace& place) const {
  if (op.op_class == OpClass::kTpComm) return place.nodes > 1 ? 0 : profile_.system.tp_overlap;
  return op.op_class == OpClass::kEpComm && place.nodes > 1 ? profile_.system.ep_overlap : 0;
}

Estimate CommunicationModel::InSystem(const Op& op, const GroupPlace& place, Estimate estimate,
                                      CostTerms* terms) const {
  const double shown = 1 - HiddenShare(op, place);
  const double used = op.op_class == OpClass::kDpComm && place.nodes > 1 ? NetworkShare() : 1;
  const double parts_s = op.shape.tensors * place.members * profile_.system.part_copy_s;
  if (terms != nullptr) {
    terms->Factor("share that kernels do not hide", shown);
    terms->Factor("1 / share of the adapters used", 1 / used);
    if (SkewOf(place) > 0) terms->Seconds("skew of the members", SkewOf(place));
    if (parts_s > 0) terms->Seconds("copies of each rank's part of each parameter", parts_s);
  }
  estimate.seconds *= shown;
  estimate.seconds /= used;
  estimate.seconds += SkewOf(place) + parts_s;
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
