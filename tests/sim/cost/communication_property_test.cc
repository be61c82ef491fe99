// Property tests of collectives on random machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "sim/cost/network/communication_cost.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

constexpr int kTrials = 3000;
constexpr std::array<OpKind, 8> kKinds = {
    OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll,
    OpKind::kAllToAllV, OpKind::kRotate,        OpKind::kSend,      OpKind::kRecv};

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int Whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool Coin() { return Whole(0, 1) == 1; }
  // Random number, uniform in its logarithm.
  double Scale(double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(engine_));
  }

 private:
  std::mt19937 engine_;
};

ClusterSpec RandomCluster(Dice& dice) {
  ClusterSpec cluster = GpuCluster(1 << dice.Whole(0, 5), 1 << dice.Whole(0, 3));
  DeviceSpec& device = cluster.device;
  device.link_bytes_per_s = dice.Coin() ? dice.Scale(1e9, 1e12) : 0;
  if (dice.Coin()) device.link_peer_bytes_per_s = device.link_bytes_per_s / dice.Whole(1, 7);
  if (dice.Coin()) device.link_devices = 1 << dice.Whole(0, 6);
  device.link_reduces = dice.Coin();
  device.peer_access = dice.Coin();
  device.pcie_bytes_per_s = dice.Scale(1e9, 1e11);
  cluster.network_bytes_per_s = dice.Scale(1e8, 1e11);
  cluster.network_reduces = dice.Coin();
  cluster.adapters_per_node = dice.Whole(0, cluster.devices_per_node);
  for (int nodes = 1, tier = 0; tier < dice.Whole(0, 2); ++tier) {
    nodes *= dice.Whole(2, 4);
    const double below =
        tier == 0 ? cluster.network_bytes_per_s : cluster.network_tiers.back().bytes_per_s;
    cluster.network_tiers.push_back({nodes, below / dice.Whole(1, 4)});
  }
  if (device.link_bytes_per_s > 0 && dice.Whole(0, 4) == 0) {
    cluster.torus = {cluster.devices_per_node, cluster.nodes};
  }
  cluster.collectives = static_cast<CollectiveAlgorithm>(
      dice.Coin() ? 0 : dice.Whole(0, kCollectiveAlgorithmCount - 1));
  return cluster;
}

std::vector<int> RandomGroup(Dice& dice, int devices) {
  const int stride = 1 << dice.Whole(0, 3);
  const int first = dice.Whole(0, std::max(0, std::min(stride, devices) - 1));
  std::vector<int> group;
  const int max = dice.Whole(2, devices);
  for (int at = first; at < devices && static_cast<int>(group.size()) < max; at += stride) {
    group.push_back(at);
  }
  return group;
}

double SecondsOn(const ClusterSpec& cluster, OpKind kind, double bytes,
                 const std::vector<int>& group) {
  const Fabric fabric = MakeFabric(cluster, DeriveProfile(cluster).rates);
  return TimeOfCommunication(fabric, kind, bytes, PlaceOf(cluster, group)).seconds;
}

// More bytes never take less time, and no time is negative or infinite, from 0 to 2^60 bytes.
TEST(CommunicationProperties, MoreBytesNeverTakeLessTime) {
  Dice dice(1);
  for (int trial = 0; trial < kTrials; ++trial) {
    const ClusterSpec cluster = RandomCluster(dice);
    if (cluster.Devices() < 2) continue;
    ASSERT_TRUE(ValidateCluster(cluster).has_value()) << ValidateCluster(cluster).error().message;
    const std::vector<int> group = RandomGroup(dice, cluster.Devices());
    const OpKind kind = kKinds[static_cast<std::size_t>(dice.Whole(0, 7))];
    double before = 0;
    for (const double bytes : {0.0, 1.0, 1e3, dice.Scale(1e3, 1e9), 1e9, 1e12, 0x1p60}) {
      const double seconds = SecondsOn(cluster, kind, bytes, group);
      ASSERT_TRUE(std::isfinite(seconds) && seconds >= 0) << "trial " << trial;
      EXPECT_GE(seconds, before * (1 - 1e-12)) << "trial " << trial << ", " << bytes << " bytes";
      before = seconds;
    }
  }
}

// A higher rate or a lower latency never slows down a ring, or a collective with a free choice of
// algorithm.
TEST(CommunicationProperties, FasterWiresNeverTakeMoreTime) {
  Dice dice(2);
  for (int trial = 0; trial < kTrials; ++trial) {
    ClusterSpec cluster = RandomCluster(dice);
    if (cluster.Devices() < 2) continue;
    cluster.collectives = dice.Coin() ? CollectiveAlgorithm::kAuto : CollectiveAlgorithm::kRing;
    const std::vector<int> group = RandomGroup(dice, cluster.Devices());
    const OpKind kind = kKinds[static_cast<std::size_t>(dice.Whole(0, 7))];
    const double bytes = dice.Scale(1, 1e11);
    ClusterSpec faster = cluster;
    const double factor = dice.Scale(1, 100);
    switch (dice.Whole(0, 5)) {
      case 0:
        faster.device.link_bytes_per_s *= factor;
        faster.device.link_peer_bytes_per_s *= factor;
        break;
      case 1:
        faster.device.pcie_bytes_per_s *= factor;
        break;
      case 2:
        faster.network_bytes_per_s *= factor;
        for (NetworkTier& tier : faster.network_tiers) tier.bytes_per_s *= factor;
        break;
      case 3:
        faster.network_tiers.clear();
        break;
      case 4:
        faster.device.peer_access = true;
        break;
      default:
        faster.network_latency_s = 1e-9;
        faster.link_latency_s = 1e-9;
    }
    EXPECT_LE(SecondsOn(faster, kind, bytes, group),
              SecondsOn(cluster, kind, bytes, group) * (1 + 1e-12))
        << "trial " << trial;
  }
}

// An empty message among more members never takes less time.
TEST(CommunicationProperties, MoreRanksNeverHaveLessLatency) {
  Dice dice(3);
  for (int trial = 0; trial < kTrials; ++trial) {
    ClusterSpec cluster = RandomCluster(dice);
    cluster.collectives = CollectiveAlgorithm::kAuto;
    const OpKind kind = kKinds[static_cast<std::size_t>(dice.Whole(0, 4))];
    const int devices = cluster.Devices();
    double before = 0;
    for (int members = 2; members <= devices; members *= 2) {
      std::vector<int> group;
      for (int i = 0; i < members; ++i) group.push_back(i);
      const double seconds = SecondsOn(cluster, kind, 0, group);
      EXPECT_GE(seconds, before * (1 - 1e-9)) << "trial " << trial << ", " << members;
      before = seconds;
    }
  }
}

// The largest machine that a cluster can describe, with one group of all devices.
TEST(CommunicationProperties, HoldAtTheLargestSizes) {
  ClusterSpec cluster = GpuCluster(1 << 17, 8);
  cluster.device.link_bytes_per_s = 1e21;
  cluster.network_bytes_per_s = 1e-3;
  std::vector<int> group;
  for (int i = 0; i < cluster.Devices(); ++i) group.push_back(i);
  for (const OpKind kind : kKinds) {
    const double seconds = SecondsOn(cluster, kind, 0x1p62, group);
    EXPECT_TRUE(std::isfinite(seconds) && seconds > 0);
  }
}

}  // namespace
}  // namespace foretrain
