#include "sim/cost/network/torus_cost.h"

#include <algorithm>

namespace foretrain {
namespace {

struct Axis {
  double extent = 1;
  double stride = 1;
  bool wraps = false;  // the group spans the whole axis

  // Links of a chip along the axis that this group can use.
  double Links() const { return (wraps ? 2 : 1) / stride; }
  // Hops from one end to the farthest chip.
  double Hops() const {
    return stride * (wraps ? static_cast<int>(extent) / 2 : static_cast<int>(extent) - 1);
  }
};

// Axes along which the group has at least two members.
std::vector<Axis> AxesOf(const Fabric& fabric, const GroupPlace& place) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < fabric.torus.size() && i < place.extent.size(); ++i) {
    if (place.extent[i] < 2) continue;
    Axis axis;
    axis.extent = place.extent[i];
    axis.stride = std::max(1, place.stride[i]);
    axis.wraps = place.extent[i] * std::max(1, place.stride[i]) == fabric.torus[i];
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

// Rings along all axes run at once, so their links add up. A group with gaps passes through the
// chips between its members: its rate falls and its hops grow by the stride. An all-to-all is
// limited by the middle of the longest axis, which half of the data crosses.
CommunicationTime TimeOnTorus(const Fabric& fabric, OpKind kind, double bytes,
                              const GroupPlace& place) {
  const std::vector<Axis> axes = AxesOf(fabric, place);
  const double n = place.members;
  double hops = 0, links = 0, exchange = 0, slowest = 1;
  for (const Axis& axis : axes) {
    hops += axis.Hops();
    links += axis.Links();
    exchange = std::max(exchange, axis.extent * axis.stride / (axis.wraps ? 8 : 4));
    slowest = std::max(slowest, axis.stride);
  }
  const double hop_s = fabric.link.Hop(Pattern::kRing, Protocol::kSimple);
  const double base_s = Networks().Base(Pattern::kRing, Protocol::kSimple) * fabric.link_base_scale;
  const double link = fabric.axis_bytes_per_s;
  double busy = (n - 1) / n * bytes / (std::max(links, 1.0 / slowest) * link);
  CommunicationTime time;
  if (!IsCollective(kind) || kind == OpKind::kRotate) {
    busy = bytes / link;
    hops = slowest;
  } else if (kind == OpKind::kAllToAll || kind == OpKind::kAllToAllV) {
    busy = exchange * bytes / link;
  } else {
    time.algorithm = CollectiveAlgorithm::kRing;
    if (kind == OpKind::kAllReduce) {
      busy *= 2;
      hops *= 2;
    }
  }
  time.seconds = base_s + hops * hop_s + busy;
  time.busy_s[static_cast<std::size_t>(Wire::kTorus)] = busy;
  return time;
}

}  // namespace foretrain
