#include "sim/validate/run_network.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/network/network_constants.h"

namespace foretrain {
namespace {

constexpr double kSlowShare = 0.8;
// Size of the tensors that the jobs timed: with it, hops of the same length explain gathers, sums
// and tensor parallelism.
constexpr double kTimedBytes = 1 << 30;
constexpr double kGatherShare = 0.56;  // of the nominal rate, on 2 nodes
constexpr double kMinTransfer = 0.1;   // of the time of a timed collective

// Whether the job's gathers are slower than those of undisturbed jobs on as many nodes. The two
// kinds of jobs differ by a factor of 1.3 on 2 nodes and of 6 on 64, with nothing between.
bool IsSlow(const RunFamily& family, int nodes, double gather_bytes_per_s) {
  const auto usual = family.gather_bytes_per_s.lower_bound(nodes);
  return usual != family.gather_bytes_per_s.end() &&
         gather_bytes_per_s < kSlowShare * usual->second;
}

}  // namespace

void SetMeasuredNetwork(const PublishedRun& run, const RunFamily& family, ClusterSpec& cluster) {
  const double gather = std::min(run.all_gather_bytes_per_s, run.reduce_scatter_bytes_per_s);
  const double reduce = run.all_reduce_bytes_per_s;
  if (cluster.nodes < 2 || reduce <= 0 || gather <= 0) return;
  cluster.network_latency_s = family.network_hop_s;
  if (IsSlow(family, cluster.nodes, gather)) cluster.member_launch_s = family.slow_launch_s;
  const double skew_s = cluster.member_launch_s * (cluster.Devices() - 1);
  // Rate of the transfer alone, without hops and skew, of one device.
  const auto rate = [&](double bus, double rounds, double hops, double usual) {
    const double bytes = rounds * kTimedBytes;
    const double all_s = bytes / bus;
    const double transfer_s =
        std::max(kMinTransfer * all_s, all_s - hops * family.network_hop_s - skew_s);
    return std::min(usual, bytes / transfer_s / cluster.devices_per_node);
  };
  const double usual_reduce = Networks().Efficiency(Wire::kNetwork) * cluster.network_bytes_per_s;
  const double usual_gather = kGatherShare * cluster.network_bytes_per_s;
  if (cluster.nodes > 2) cluster.measured_network.push_back({2, usual_reduce, usual_gather});
  const double depth = std::ceil(std::log2(cluster.nodes));
  cluster.measured_network.push_back({cluster.nodes, rate(reduce, 2, 2 * depth, usual_reduce),
                                      rate(gather, 1, cluster.nodes - 1, usual_gather)});
}

}  // namespace foretrain
