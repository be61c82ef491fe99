#include "sim/cost/network/plan_place.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

bool IsNeighbours(GroupKind kind) {
  return kind == GroupKind::kNext || kind == GroupKind::kPrev || kind == GroupKind::kEnds;
}

// Number of ranks on the unit of `device` whose next stage lies on another unit.
int SendersOf(const ClusterSpec& cluster, const Plan& plan, int device) {
  const int unit = cluster.DevicesPerUnit();
  const int first = device / unit * unit;
  const int end = std::min(first + unit, plan.World());
  int senders = 0;
  for (int at = first; at < end; ++at) {
    const RankCoordinates from = CoordinatesOf(plan, RankOnDevice(plan, at));
    for (const int rank : GroupMembers(plan, from, GroupKind::kNext)) {
      if (DeviceOf(plan, rank) / unit != first / unit) ++senders;
    }
  }
  return senders;
}

// Name of the outermost level that a group crosses; this is the level that limits it.
std::string TierOf(const ClusterSpec& cluster, const Fabric& fabric,
                   const std::vector<Crossing>& crossings, double& bytes_per_s) {
  if (!fabric.torus.empty()) {
    bytes_per_s = fabric.axis_bytes_per_s;
    return "torus";
  }
  if (crossings.empty()) return "";
  const Level* level = crossings.back().level;
  bytes_per_s = level->bytes_per_s;
  if (level->wire == Wire::kLink) return cluster.is_cpu ? "shared memory" : "links";
  if (level->wire == Wire::kPcie) return "PCIe";
  const auto tier = static_cast<std::size_t>(level - fabric.network.data());
  if (tier == 0) return "network";
  return fmt::format("network beyond {} node{}", cluster.network_tiers[tier - 1].nodes,
                     cluster.network_tiers[tier - 1].nodes == 1 ? "" : "s");
}

// All stages that the first rank's micro-batches pass.
std::vector<int> Pipeline(const Plan& plan) {
  std::vector<int> ranks;
  for (int pp = 0; pp < plan.pp; ++pp) ranks.push_back(RankOf(plan, {.pp = pp}));
  return ranks;
}

}  // namespace

// Transfers between nodes share the adapters of a node. So their cost depends on how many ranks of
// the node send at the same time.
GroupPlace PlaceOfGroup(const ClusterSpec& cluster, const Plan& plan, const RankCoordinates& at,
                        GroupKind kind, const std::vector<int>& members) {
  GroupPlace place = PlaceOf(cluster, DevicesOf(plan, members));
  if (place.nodes > 1 && IsNeighbours(kind)) {
    const int rank = kind == GroupKind::kPrev ? members.front() : RankOf(plan, at);
    place.senders = std::max(1, SendersOf(cluster, plan, DeviceOf(plan, rank)));
  }
  return place;
}

// For display: the groups of the first rank, from the innermost degree to the outermost. Degrees of
// 1 are left out.
std::vector<DegreePlace> PlacesOf(const ClusterSpec& cluster, const Fabric& fabric,
                                  const Plan& plan) {
  constexpr std::array<GroupKind, kDegreeCount> kGroups = {
      GroupKind::kTp, GroupKind::kCp, GroupKind::kEp, GroupKind::kDp, GroupKind::kNone};
  std::vector<DegreePlace> places;
  for (const int degree : DegreesOf(plan.rank_order)) {
    const GroupKind kind = kGroups[static_cast<std::size_t>(degree)];
    const std::vector<int> ranks =
        kind == GroupKind::kNone ? Pipeline(plan) : GroupMembers(plan, {}, kind);
    DegreePlace place;
    place.degree = NameOfDegree(degree);
    place.ranks = static_cast<int>(ranks.size());
    if (place.ranks < 2) continue;
    place.place = PlaceOf(cluster, DevicesOf(plan, ranks));
    place.tier = TierOf(cluster, fabric, CrossingsOf(fabric, place.place), place.bytes_per_s);
    places.push_back(place);
  }
  return places;
}

std::string Describe(const std::vector<DegreePlace>& places) {
  std::vector<std::string> parts;
  for (const DegreePlace& place : places) {
    std::string part = fmt::format("{} {} on {}", place.degree, place.ranks, place.tier);
    if (place.place.nodes > 1 && place.place.per_node > 1) {
      part += fmt::format(" ({} a node)", place.place.per_node);
    }
    parts.push_back(part);
  }
  return parts.empty() ? "one device" : Join(parts, ", ");
}

}  // namespace foretrain
