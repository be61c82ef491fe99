#include "sim/cost/network/communication_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "sim/cost/network/torus_cost.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array<Protocol, kProtocolCount> kAllProtocols = {Protocol::kLl, Protocol::kLl128,
                                                                Protocol::kSimple};

std::size_t At(Wire wire) { return static_cast<std::size_t>(wire); }

// Number of hops on one level.
struct Hops {
  const Level* level = nullptr;
  double count = 0;
};

// Times of one group. crossings_ run from the innermost level outwards.
class Group {
 public:
  Group(const Fabric& fabric, const GroupPlace& place)
      : fabric_(fabric),
        n_(place.members),
        one_node_(place.nodes == 1),
        place_(place),
        crossings_(CrossingsOf(fabric, place)) {}

  CommunicationTime Of(OpKind kind, double bytes) const {
    if (!IsCollective(kind) || kind == OpKind::kRotate) return Rotate(kind, bytes);
    if (kind == OpKind::kAllToAll || kind == OpKind::kAllToAllV) return AllToAll(bytes);
    return Cheapest(kind, bytes);
  }

 private:
  // Rate of all carriers of a crossing. Between nodes a measured rate replaces the level's.
  double RateOf(const Crossing& crossing, OpKind kind) const {
    const bool network = crossing.level->wire == Wire::kNetwork;
    const double measured =
        network ? MeasuredNetworkRate(fabric_, place_.nodes, kind == OpKind::kAllReduce) : 0;
    return measured > 0 ? measured * crossing.carriers : crossing.Rate();
  }

  // Times that the tensor passes around a ring: once, or twice for an all-reduce.
  static double Rounds(OpKind kind) { return kind == OpKind::kAllReduce ? 2 : 1; }

  // A ring serves every collective, so it is the fallback. kAuto takes the fastest; a requested
  // algorithm is used if it applies.
  CommunicationTime Cheapest(OpKind kind, double bytes) const {
    using Algorithm = CollectiveAlgorithm;
    CommunicationTime best = Ring(kind, bytes);
    const auto consider = [&](Algorithm algorithm, CommunicationTime time) {
      const bool asked = fabric_.algorithm == algorithm && time.seconds < kNever;
      const bool better = fabric_.algorithm == Algorithm::kAuto && time.seconds < best.seconds;
      if (!asked && !better) return;
      best = time;
      best.algorithm = algorithm;
    };
    consider(Algorithm::kTree, Tree(kind, bytes));
    // NCCL has no hierarchical algorithm. Between two nodes of A100s its sums reach the ring's rate
    // (docs/validation.md), so the fabric must ask for it.
    if (fabric_.algorithm == Algorithm::kHierarchical) {
      consider(Algorithm::kHierarchical, Hierarchical(kind, bytes));
    }
    consider(Algorithm::kInNetwork, InNetwork(kind, bytes));
    if (fabric_.algorithm == Algorithm::kParameterServer) {
      consider(Algorithm::kParameterServer, ParameterServer(kind, bytes));
    }
    return best;
  }

  // Start, hops and transfer under the fastest protocol. Protocols trade latency against bandwidth,
  // so small messages prefer LL and large ones Simple.
  double Fastest(Pattern pattern, std::span<const Hops> hops, double full_rate_s) const {
    const NetworkConstants& constants = Networks();
    double fastest = kNever;
    for (const Protocol protocol : kAllProtocols) {
      if (protocol == Protocol::kLl128 && !fabric_.ll128) continue;
      const double share = constants.Share(pattern, protocol);
      double seconds = constants.Base(pattern, protocol);
      if (share <= 0 || seconds < 0) continue;
      seconds *= one_node_ ? fabric_.link_base_scale : fabric_.network_base_scale;
      bool possible = true;
      for (const Hops& hop : hops) {
        const double each = hop.level->Hop(pattern, protocol);
        possible = possible && each >= 0;
        seconds += hop.count * each;
      }
      if (possible) fastest = std::min(fastest, seconds + full_rate_s / share);
    }
    return fastest;
  }

  // All levels work at the same time on different chunks; the slowest one limits the rate.
  CommunicationTime Ring(OpKind kind, double bytes) const {
    const double moved = Rounds(kind) * (n_ - 1) / n_ * bytes;
    CommunicationTime time;
    time.algorithm = CollectiveAlgorithm::kRing;
    std::vector<Hops> hops;
    double longest = 0;
    for (const Crossing& crossing : crossings_) {
      hops.push_back({crossing.level, Rounds(kind) * crossing.Steps()});
      const double busy = moved / RateOf(crossing, kind);
      Occupy(time, crossing, busy);
      longest = std::max(longest, busy);
    }
    time.seconds = Fastest(Pattern::kRing, hops, longest);
    return time;
  }

  // A double binary tree: inside a node a chain, between nodes depth log2. All bytes pass each
  // level twice.
  CommunicationTime Tree(OpKind kind, double bytes) const {
    CommunicationTime time;
    time.seconds = kNever;
    if (kind != OpKind::kAllReduce) return time;
    std::vector<Hops> hops;
    double longest = 0;
    for (const Crossing& crossing : crossings_) {
      const bool inside = crossing.level->wire != Wire::kNetwork;
      const double depth = inside ? crossing.Fan() - 1 : std::ceil(std::log2(crossing.Fan()));
      hops.push_back({crossing.level, 2 * depth});
      const double busy = 2 * bytes / RateOf(crossing, kind);
      Occupy(time, crossing, busy);
      longest = std::max(longest, busy);
    }
    time.seconds = Fastest(Pattern::kTree, hops, longest);
    return time;
  }

  // Phases run one after the other. Each level handles only the share that the level below left to
  // a carrier.
  CommunicationTime Hierarchical(OpKind kind, double bytes) const {
    CommunicationTime time;
    if (crossings_.size() < 2 || crossings_.back().carriers < 2) {
      time.seconds = kNever;
      return time;
    }
    for (const Crossing& crossing : crossings_) {
      const int units = crossing.Fan();
      const double busy = (units - 1.0) / units * bytes / RateOf(crossing, kind);
      const std::array<Hops, 1> hops = {Hops{crossing.level, units - 1.0}};
      time.seconds += Rounds(kind) * Fastest(Pattern::kRing, hops, busy);
      Occupy(time, crossing, Rounds(kind) * busy);
    }
    return time;
  }

  // Switches add what passes, so each member sends its tensor once and receives the sum once.
  // Levels below reduce and gather by rings.
  CommunicationTime InNetwork(OpKind kind, double bytes) const {
    CommunicationTime time;
    time.seconds = kNever;
    const bool sums = !crossings_.empty() && crossings_.back().level->sums;
    const bool between = sums && crossings_.back().level->wire == Wire::kNetwork;
    if (kind != OpKind::kAllReduce || !sums || (!between && crossings_.size() > 1)) return time;
    std::vector<Hops> hops;
    double longest = 0;
    for (const Crossing& crossing : crossings_) {
      const bool outermost = &crossing == &crossings_.back();
      const double units = crossing.Fan();
      double parts = between ? 1 : 1 + 1 / n_;
      if (!outermost) parts = 2 * (units - 1) / units;
      hops.push_back({crossing.level, outermost ? 2 : 2 * (units - 1)});
      const double busy = parts * bytes / RateOf(crossing, kind);
      Occupy(time, crossing, busy);
      longest = std::max(longest, busy);
    }
    // Switches between devices have their own share; the pattern's share is for networks.
    if (!between) {
      longest *= Networks().Share(Pattern::kInNetwork, Protocol::kSimple) / Networks().link_sums;
    }
    time.seconds = Fastest(Pattern::kInNetwork, hops, longest);
    return time;
  }

  // Every member pushes to and pulls from all servers; the busier side limits the rate.
  CommunicationTime ParameterServer(OpKind kind, double bytes) const {
    CommunicationTime time;
    if (crossings_.empty()) return time;
    const Level& level = *crossings_.back().level;
    const double servers = fabric_.parameter_servers > 0 ? fabric_.parameter_servers
                           : one_node_                   ? 1
                                                         : place_.nodes;
    const double serve = n_ * bytes / (servers * level.bytes_per_s * fabric_.devices_per_node);
    const double busy = std::max(bytes / level.bytes_per_s, serve);
    const std::array<Hops, 1> hops = {Hops{&level, 1}};
    time.seconds = Rounds(kind) * Fastest(Pattern::kRing, hops, busy);
    time.busy_s[At(level.wire)] = Rounds(kind) * busy;
    return time;
  }

  // Levels are busy at the same time; the slowest limits. Hops count messages in groups of
  // messages_at_once.
  CommunicationTime AllToAll(double bytes) const {
    CommunicationTime time;
    std::vector<Hops> hops;
    double longest = 0;
    double inside = 1;  // members in the unit below the level
    for (const Crossing& crossing : crossings_) {
      const double above = n_ / crossing.after;
      hops.push_back({crossing.level, std::ceil((above - inside) / Networks().messages_at_once)});
      // Adapters carry all traffic that leaves a node; other levels carry only what ends there.
      const bool adapters = crossing.level->wire == Wire::kNetwork;
      const double part = ((adapters ? n_ : above) - inside) / n_;
      const double busy = part * bytes / (crossing.Rate() / crossing.carriers);
      Occupy(time, crossing, busy);
      longest = std::max(longest, busy);
      inside = above;
    }
    time.seconds = Fastest(Pattern::kRing, hops, longest);
    return time;
  }

  // Every member (or one, for a transfer) sends all its bytes to one other. Of each node, one
  // sender crosses to the next.
  CommunicationTime Rotate(OpKind kind, double bytes) const {
    CommunicationTime time;
    if (crossings_.empty()) return time;
    const bool p2p = !IsCollective(kind);
    std::vector<Hops> hops;
    double longest = 0;
    for (const Crossing& crossing : crossings_) {
      const Level& level = *crossing.level;
      double rate = level.bytes_per_s;
      if (level.peer_bytes_per_s > 0) rate = std::min(rate, level.peer_bytes_per_s);
      if (p2p && level.wire == Wire::kNetwork) rate *= ShareOfAdapters();
      const double busy = bytes / rate;
      Occupy(time, crossing, busy);
      hops.push_back({&level, 1});
      longest = std::max(longest, busy);
    }
    time.seconds = Fastest(Pattern::kRing, hops, longest);
    return time;
  }

  // Adapter share of one of `senders` devices, in units of a device's share. It is the node's
  // adapters divided among the senders, but at most one adapter or one device's share, whichever is
  // larger.
  double ShareOfAdapters() const {
    if (place_.senders <= 0) return 1;
    const double devices = fabric_.devices_per_node;
    const double adapters = fabric_.adapters_per_node > 0 ? fabric_.adapters_per_node : devices;
    return std::min(devices / place_.senders, std::max(1.0, devices / adapters));
  }

  // Adds the time that a wire is busy, for contention between collectives.
  static void Occupy(CommunicationTime& time, const Crossing& crossing, double busy) {
    time.busy_s[At(crossing.level->wire)] += busy;
  }

  const Fabric& fabric_;
  double n_;
  bool one_node_;
  GroupPlace place_;
  std::vector<Crossing> crossings_;
};

}  // namespace

CommunicationTime TimeOfCommunication(const Fabric& fabric, OpKind kind, double bytes,
                                      const GroupPlace& place) {
  if (place.members < 2) return {};
  if (!fabric.torus.empty()) return TimeOnTorus(fabric, kind, bytes, place);
  return Group(fabric, place).Of(kind, bytes);
}

// Threads read each other's memory directly, so time is the traffic of one thread over its rate.
double SharedMemorySeconds(const ProfileRates& rates, OpKind kind, double bytes, int members) {
  if (members < 2) return 0;
  const double n = members;
  double traffic = 2 * bytes;
  if (kind == OpKind::kReduceScatter) traffic = bytes * (1 + 1 / n);
  if (kind == OpKind::kAllGather) traffic = 2 * bytes * (n - 1) / n;
  if (kind == OpKind::kAllReduce) traffic = bytes * (1 + 1 / n) + 2 * bytes * (n - 1) / n;
  return rates.link_base_s.value + traffic / rates.link_bytes_per_s.value;
}

}  // namespace foretrain
