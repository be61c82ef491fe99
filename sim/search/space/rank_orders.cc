#include "sim/search/space/rank_orders.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "sim/cost/network/communication_cost.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// The estimate knows neither micro-batches nor what overlaps, so only clear gains count: another
// order must take at most this share of the given one's communication.
constexpr double kClearGain = 0.8;

enum Degree : std::size_t { kTp, kCp, kEp, kDp, kPp };

using Counts = std::array<std::int64_t, kDegreeCount>;  // by Degree

// Sizes in which the cluster groups consecutive devices: link sets within a node, units of linked
// devices, network tiers.
struct UnitSizes {
  std::int64_t island = 0;  // 0: links do not split a node
  std::int64_t unit = 1;
  std::vector<std::int64_t> tiers;
};

UnitSizes SizesOf(const ClusterSpec& cluster) {
  UnitSizes sizes;
  sizes.unit = cluster.DevicesPerUnit();
  const int linked = cluster.device.link_devices;
  if (cluster.device.link_bytes_per_s > 0 && linked > 0 && linked < cluster.devices_per_node) {
    sizes.island = linked;
  }
  for (const NetworkTier& tier : cluster.network_tiers) {
    sizes.tiers.push_back(
        std::max(sizes.unit, std::int64_t{tier.nodes} * cluster.devices_per_node));
  }
  return sizes;
}

// How many members of each degree one unit of `size` devices holds, if the unit begins with the
// first rank.
Counts Inside(const Counts& degrees, const std::array<int, kDegreeCount>& order,
              std::int64_t size) {
  Counts inside{};
  std::int64_t stride = 1;
  for (const int degree : order) {
    const auto at = static_cast<std::size_t>(degree);
    inside[at] = std::clamp<std::int64_t>(size / stride, 1, degrees[at]);
    stride *= degrees[at];
  }
  return inside;
}

// The spread of all degrees over all sizes of units, under one order.
struct Spread {
  Counts island{}, unit{};
  std::vector<Counts> tiers;
  bool operator==(const Spread&) const = default;
};

Spread SpreadOf(const UnitSizes& sizes, const Counts& degrees, int rank_order) {
  const std::array<int, kDegreeCount>& order = DegreesOf(rank_order);
  Spread spread;
  if (sizes.island > 0) spread.island = Inside(degrees, order, sizes.island);
  spread.unit = Inside(degrees, order, sizes.unit);
  for (const std::int64_t tier : sizes.tiers) spread.tiers.push_back(Inside(degrees, order, tier));
  return spread;
}

Counts DegreesOfPlan(const Plan& plan) {
  Counts degrees;
  const std::array<int, kDegreeCount> sizes = DegreeSizes(plan);
  std::copy(sizes.begin(), sizes.end(), degrees.begin());
  return degrees;
}

// Position of a group that runs over some degrees.
GroupPlace PlaceOf(const Spread& spread, const Counts& degrees,
                   const std::vector<Degree>& members) {
  const auto product = [&](const Counts& of) {
    std::int64_t count = 1;
    for (const Degree degree : members) count *= of[degree];
    return static_cast<int>(count);
  };
  GroupPlace place;
  place.members = product(degrees);
  const auto over = [&](const Counts& inside, int& units, int& each) {
    each = product(inside);
    units = (place.members + each - 1) / each;
  };
  over(spread.unit, place.nodes, place.per_node);
  if (spread.island[kTp] > 0) over(spread.island, place.islands, place.per_island);
  for (std::size_t i = 0; i < spread.tiers.size(); ++i) {
    over(spread.tiers[i], place.units[i], place.per_unit[i]);
  }
  return place;
}

// Estimates of one plan's exposed communication, by rank order.
class Communication {
 public:
  Communication(const ModelSpec& model, const CostModel& costs, const Plan& plan)
      : costs_(costs), plan_(plan), degrees_(DegreesOfPlan(plan)) {
    const auto real = [](std::int64_t number) { return static_cast<double>(number); };
    const std::int64_t micro_batch = std::max<std::int64_t>(1, plan.micro_batch);
    micro_batches_ = std::max(1.0, real(plan.global_batch) / real(micro_batch * plan.dp));
    layers_ = std::max(1.0, real(model.layers) / plan.pp);
    const double of_experts = real(model.layers - model.DenseLayers()) / real(model.layers);
    expert_layers_ = layers_ * of_experts;
    const double bytes = plan.HasShortActivations() ? 2 : 4;
    const double tokens = real(micro_batch) * real(plan.sequence) / plan.cp;
    hidden_bytes_ = tokens * real(model.hidden) * bytes;
    key_bytes_ = 2 * tokens * plan.cp * real(model.kv_heads * model.head_dim) / plan.tp * bytes;
    token_bytes_ = hidden_bytes_ * real(model.experts_per_token) / plan.tp;
    // An expert has three matrices of hidden x expert_ffn_hidden, or two without a gate.
    const double gated = model.mlp == MlpKind::kSwiglu ? 3 : 2;
    const double in_experts = of_experts * real(model.layers) * real(model.experts) * gated *
                              real(model.hidden) * real(model.expert_ffn_hidden);
    const double all = real(ParameterCount(model));
    expert_gradients_ = 4 * in_experts / (plan.pp * std::max(plan.ep, plan.tp));
    gradients_ = 4 * std::max(0.0, all - in_experts) / (plan.tp * plan.pp);
    const DeviceSpec& device = costs.cluster().device;
    const double flop_per_s =
        std::max({device.bf16_flop_per_s, device.fp16_flop_per_s, device.fp32_flop_per_s});
    // Forward 2, backward 4 operations a parameter and token.
    last_backward_s_ = flop_per_s <= 0 ? 0
                                       : 4 * real(ActiveParameterCount(model)) * tokens /
                                             (plan.tp * plan.pp) / (flop_per_s / 2);
  }

  double Seconds(const Spread& spread) const {
    const auto time = [&](OpKind kind, double bytes, const std::vector<Degree>& members) {
      const GroupPlace place = PlaceOf(spread, degrees_, members);
      if (place.members < 2) return 0.0;
      return TimeOfCommunication(costs_.fabric(), kind, bytes, place).seconds;
    };
    double micro_batch_s = 4 * layers_ * time(OpKind::kAllReduce, hidden_bytes_, {kTp}) +
                           3 * layers_ * time(OpKind::kAllGather, key_bytes_, {kCp});
    if (plan_.ep > 1) {
      micro_batch_s += 4 * expert_layers_ * time(OpKind::kAllToAll, token_bytes_, ExpertGroup());
    }
    double seconds = micro_batches_ * micro_batch_s;
    const double gradients_s = time(OpKind::kAllReduce, gradients_, {kCp, kEp, kDp}) +
                               time(OpKind::kAllReduce, expert_gradients_, {kDp});
    seconds += std::max(0.0, gradients_s - last_backward_s_);
    if (plan_.pp > 1) seconds += TransferSeconds(spread);
    return seconds;
  }

 private:
  // Degrees that supply the members of an expert group.
  std::vector<Degree> ExpertGroup() const {
    if (plan_.ExpertsSpanTp()) return {kTp, kCp, kEp};
    return {kCp, kEp};
  }
  // A stage sends to the next one within the unit unless it is the last of those inside.
  double TransferSeconds(const Spread& spread) const {
    GroupPlace place{.members = 2};
    const std::int64_t stages = spread.unit[kPp];
    if (stages < degrees_[kPp]) {
      place.nodes = 2;
      std::int64_t in_unit = 1;
      for (const std::int64_t inside : spread.unit) in_unit *= inside;
      place.senders = static_cast<int>(std::max<std::int64_t>(1, in_unit / stages));
    }
    const double bytes = plan_.sequence_parallel ? hidden_bytes_ / plan_.tp : hidden_bytes_;
    const double each_s = TimeOfCommunication(costs_.fabric(), OpKind::kSend, bytes, place).seconds;
    const double waits = costs_.profile().system.blocking_sends ? 2 : 1;
    return waits * (micro_batches_ + plan_.pp - 1) * each_s;
  }

  const CostModel& costs_;
  const Plan& plan_;
  Counts degrees_;
  double micro_batches_ = 1, layers_ = 1, expert_layers_ = 0;
  double hidden_bytes_ = 0, key_bytes_ = 0, token_bytes_ = 0;
  double gradients_ = 0, expert_gradients_ = 0, last_backward_s_ = 0;
};

struct OrderSpread {
  int rank_order = 0;
  Spread spread;
};

// Orders that differ only in the place of degrees of 1 are one order, so most of the 120 are
// dropped before their spread is compared.
std::vector<OrderSpread> DistinctSpreads(const ClusterSpec& cluster, const Plan& plan,
                                         std::span<const int> allowed) {
  const UnitSizes sizes = SizesOf(cluster);
  const Counts degrees = DegreesOfPlan(plan);
  std::vector<OrderSpread> out = {{plan.rank_order, SpreadOf(sizes, degrees, plan.rank_order)}};
  const std::int64_t smallest = sizes.island > 0 ? sizes.island : sizes.unit;
  if (!cluster.torus.empty() || plan.World() <= smallest) return out;
  std::set<std::vector<int>> seen;
  for (int order = 0; order < kRankOrderCount; ++order) {
    if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), order) == allowed.end()) {
      continue;
    }
    std::vector<int> larger;
    for (const int degree : DegreesOf(order)) {
      if (degrees[static_cast<std::size_t>(degree)] > 1) larger.push_back(degree);
    }
    if (!seen.insert(std::move(larger)).second) continue;
    Spread spread = SpreadOf(sizes, degrees, order);
    const bool known = std::any_of(
        out.begin(), out.end(), [&](const OrderSpread& other) { return other.spread == spread; });
    if (!known) out.push_back({order, std::move(spread)});
  }
  return out;
}

}  // namespace

std::vector<int> DistinctRankOrders(const ClusterSpec& cluster, const Plan& plan,
                                    std::span<const int> allowed) {
  std::vector<int> orders;
  for (const OrderSpread& one : DistinctSpreads(cluster, plan, allowed)) {
    orders.push_back(one.rank_order);
  }
  return orders;
}

int LikelyRankOrder(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                    std::span<const int> allowed) {
  const std::vector<OrderSpread> distinct = DistinctSpreads(costs.cluster(), plan, allowed);
  if (distinct.size() == 1) return plan.rank_order;
  const Communication estimate(model, costs, plan);
  int best = plan.rank_order;
  double best_s = kClearGain * estimate.Seconds(distinct.front().spread);
  for (const OrderSpread& one : distinct) {
    if (one.spread.unit[kTp] < distinct.front().spread.unit[kTp]) continue;
    const double seconds = estimate.Seconds(one.spread);
    if (seconds >= best_s) continue;
    best_s = seconds;
    best = one.rank_order;
  }
  return best;
}

}  // namespace foretrain
