// Tests each topology that joins devices by a collective on it.
#include <gtest/gtest.h>

#include "sim/cost/network/communication_cost.h"
#include "sim/cost/network/plan_place.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ir/rank_order.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

CommunicationTime TimeOn(const ClusterSpec& cluster, OpKind kind, double bytes,
                         const std::vector<int>& devices) {
  return TimeOfCommunication(MakeFabric(cluster, DeriveProfile(cluster).rates), kind, bytes,
                             PlaceOf(cluster, devices));
}

std::vector<int> First(int count, int stride = 1) {
  std::vector<int> devices;
  for (int i = 0; i < count; ++i) devices.push_back(i * stride);
  return devices;
}

TEST(GroupPlace, CountsUnitsAndTheirFewestMembers) {
  const ClusterSpec cluster = GpuCluster(4, 8);
  EXPECT_EQ(PlaceOf(cluster, {0, 1, 2, 3}), (GroupPlace{4, 1, 4}));
  EXPECT_EQ(PlaceOf(cluster, {24, 8, 16, 0}), (GroupPlace{4, 4, 1}));
  EXPECT_EQ(PlaceOf(cluster, {6, 7, 8}), (GroupPlace{3, 2, 1}));
}

// A node of 8 in linked pairs: all 8 devices are in 4 pairs, devices 1 and 2 in two.
TEST(GroupPlace, CountsSetsOfLinkedDevices) {
  ClusterSpec cluster = GpuCluster(2, 8);
  cluster.device.link_devices = 2;
  EXPECT_EQ(PlaceOf(cluster, First(8)).islands, 4);
  EXPECT_EQ(PlaceOf(cluster, First(8)).per_island, 2);
  EXPECT_EQ(PlaceOf(cluster, {1, 2}).islands, 2);
  EXPECT_EQ(PlaceOf(cluster, {2, 3}).islands, 1);
}

// Pairs have bridges of 80 GB/s. Between pairs, PCIe has 14 GB/s per device, and the two devices of
// a pair carry one ring each: 7/8 of 8 GB over 28 GB/s. A single pair: half over its bridge.
TEST(Topology, OfBridgedPairsCrossesPcieBetweenThem) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.link_devices = 2;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 8e9, First(8)).seconds,
              8.4e-6 + 4 * 3.4e-6 + 3 * 5.7e-6 + 0.25, 1e-9);
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 8e9, {2, 3}).seconds, 8.4e-6 + 3.4e-6 + 0.05,
              1e-9);
}

// Without links, PCIe has 14 GB/s. Cards without peer access send through host memory, at half the
// rate with hops of twice the time.
TEST(Topology, OfPcieAloneIsSlowerWithoutPeerAccess) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.link_bytes_per_s = 0;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 8e9, First(8)).seconds, 8.4e-6 + 7 * 5.7e-6 + 0.5,
              1e-9);
  cluster.device.peer_access = false;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 8e9, First(8)).seconds,
              8.4e-6 + 14 * 5.7e-6 + 1.0, 1e-9);
}

// A mesh of 8 with 25 GB/s between any two, of 100 in all, at 0.8: a pair has 20 GB/s, four have
// 60, eight 80.
TEST(Topology, OfAMeshHasTheLinksAmongItsMembers) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.link_peer_bytes_per_s = 25e9;
  const auto gather = [&](int members) {
    return TimeOn(cluster, OpKind::kAllGather, 8e9, First(members)).seconds - 8.4e-6 -
           (members - 1) * 3.4e-6;
  };
  EXPECT_NEAR(gather(2), 4.0 / 20, 1e-9);
  EXPECT_NEAR(gather(4), 6.0 / 60, 1e-9);
  EXPECT_NEAR(gather(8), 7.0 / 80, 1e-9);
  // A node of 4 has a third of 100 GB/s between any two: a pair has 26.7.
  ClusterSpec four = cluster;
  four.devices_per_node = 4;
  EXPECT_NEAR(TimeOn(four, OpKind::kAllGather, 8e9, First(2)).seconds, 11.8e-6 + 4.0 / (80.0 / 3),
              1e-9);
  // A neighbour is reached over one link.
  EXPECT_NEAR(TimeOn(cluster, OpKind::kRotate, 8e9, First(8)).seconds, 11.8e-6 + 0.4, 1e-9);
}

// 18 nodes of 4 on one switch: no network is used, 71 hops.
TEST(Topology, OfARackOnOneSwitchHasNoNetworkWithinIt) {
  ClusterSpec cluster = GpuCluster(36, 4);
  cluster.device.link_devices = 72;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 72e9, First(72)).seconds,
              8.4e-6 + 71 * 3.4e-6 + 71.0 / 80, 1e-9);
  EXPECT_EQ(PlaceOf(cluster, First(144)).nodes, 2);
}

// Leaves of 2 nodes; between leaves a quarter of 10 GB/s at 0.85. The 16 devices of a leaf carry 34
// GB/s of 63/64 of 68 GB, and 3 of 63 hops cross leaves.
TEST(Topology, OfAnOversubscribedNetworkIsSlowerBetweenLeaves) {
  ClusterSpec cluster = GpuCluster(8, 8);
  cluster.network_tiers = {{2, 2.5e9}};
  ASSERT_TRUE(ValidateCluster(cluster).has_value());
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 68e9, First(64)).seconds,
              8.4e-6 + 56 * 3.4e-6 + 7 * 9.6e-6 + 63.0 / 64 * 2, 1e-9);
  // Within one leaf, the tier is not used: 15/16 over 68 GB/s.
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 68e9, First(16)).seconds,
              8.4e-6 + 14 * 3.4e-6 + 9.6e-6 + 15.0 / 16, 1e-9);
}

// A torus of 4 x 4 x 4 with 6 links of 50 GB/s at 0.9: 45 GB/s each. All 64 devices use all links
// and are 6 hops apart. 4 in a row have 2 links. 2 of a row of 4 form a line. Every other device of
// a row goes around, sharing links with those between.
TEST(Topology, OfATorusIsTheRingsOfItsAxes) {
  ClusterSpec cluster = GpuCluster(16, 4);
  cluster.device.link_bytes_per_s = 300e9;
  cluster.torus = {4, 4, 4};
  ASSERT_TRUE(ValidateCluster(cluster).has_value());
  const auto gather = [&](const std::vector<int>& devices) {
    return TimeOn(cluster, OpKind::kAllGather, 9e9, devices).seconds - 8.4e-6;
  };
  EXPECT_NEAR(gather(First(64)), 6e-6 + 63.0 / 64 * 9 / 270, 1e-9);
  EXPECT_NEAR(gather(First(4)), 2e-6 + 0.75 * 9 / 90, 1e-9);
  EXPECT_NEAR(gather(First(4, 4)), 2e-6 + 0.75 * 9 / 90, 1e-9);
  EXPECT_NEAR(gather(First(2)), 1e-6 + 0.5 * 9 / 45, 1e-9);
  EXPECT_NEAR(gather({0, 2}), 2e-6 + 0.5 * 9 / 45, 1e-9);
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllReduce, 9e9, First(4)).seconds - 8.4e-6,
              4e-6 + 1.5 * 9 / 90, 1e-9);
  // Each of 4 sends a quarter of 9 GB to each other one; 4/8 of it crosses each link.
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllToAll, 9e9, First(4)).seconds - 8.4e-6,
              2e-6 + 0.5 * 9 / 45, 1e-9);
  EXPECT_NEAR(TimeOn(cluster, OpKind::kSend, 9e9, First(2)).seconds - 8.4e-6, 1e-6 + 0.2, 1e-9);
}

Plan Split(int tp, int cp, int dp, int pp, int ep = 1) {
  Plan plan;
  plan.tp = tp;
  plan.cp = cp;
  plan.dp = dp;
  plan.pp = pp;
  plan.ep = ep;
  return plan;
}

int OrderCalled(std::string_view name) {
  for (int order = 0; order < kRankOrderCount; ++order) {
    if (NameOfRankOrder(order) == name) return order;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(RankOrder, NumbersAllOrders) {
  EXPECT_EQ(NameOfRankOrder(0), "tp-cp-ep-dp-pp");
  EXPECT_EQ(NameOfRankOrder(1), "tp-cp-ep-pp-dp");
  EXPECT_EQ(NameOfRankOrder(119), "pp-dp-ep-cp-tp");
}

// tp 2, dp 4, pp 2 on 16 devices in the order tp-cp-ep-pp-dp. Rank 8 (pp 1, dp 0, tp 0) is on
// device 2. Rank 2 (pp 0, dp 1, tp 0) is on device 4.
TEST(RankOrder, PutsTheFirstDegreeOnNeighbours) {
  Plan plan = Split(2, 1, 4, 2);
  EXPECT_EQ(DeviceOf(plan, 9), 9);
  plan.rank_order = OrderCalled("tp-cp-ep-pp-dp");
  EXPECT_EQ(DeviceOf(plan, 8), 2);
  EXPECT_EQ(DeviceOf(plan, 2), 4);
  plan.rank_order = OrderCalled("dp-tp-cp-ep-pp");
  EXPECT_EQ(DevicesOf(plan, {0, 2, 4, 6}), (std::vector<int>{0, 1, 2, 3}));
}

// dp 4 with expert groups of 2. With ep last, ranks 0 and 2 of one such group are 2 x 2 devices
// apart.
TEST(RankOrder, TakesExpertParallelRanksOutOfData) {
  Plan plan = Split(2, 1, 4, 1, 2);
  plan.rank_order = OrderCalled("tp-cp-dp-ep-pp");
  EXPECT_EQ(DevicesOf(plan, {0, 2}), (std::vector<int>{0, 4}));
  EXPECT_EQ(DevicesOf(plan, {0, 4}), (std::vector<int>{0, 2}));
}

TEST(RankOrder, IsAPermutationThatReadsBack) {
  for (const Plan& split : {Split(2, 3, 4, 2, 6), Split(2, 1, 6, 2, 3), Split(4, 2, 2, 3, 2)}) {
    for (int order = 0; order < kRankOrderCount; ++order) {
      Plan plan = split;
      plan.rank_order = order;
      std::vector<bool> taken(static_cast<std::size_t>(plan.World()), false);
      for (int rank = 0; rank < plan.World(); ++rank) {
        const int device = DeviceOf(plan, rank);
        ASSERT_TRUE(device >= 0 && device < plan.World());
        EXPECT_FALSE(taken[static_cast<std::size_t>(device)]);
        taken[static_cast<std::size_t>(device)] = true;
        EXPECT_EQ(RankOnDevice(plan, device), rank);
      }
    }
  }
}

// Two nodes of 8. By default, tp 8 fills a node and the two stages are on two nodes. With
// neighbouring stages, tp spans both nodes.
TEST(PlanPlace, SaysOverWhatEachDegreeExchanges) {
  const ClusterSpec cluster = GpuCluster(2, 8);
  const Fabric fabric = MakeFabric(cluster, DeriveProfile(cluster).rates);
  Plan plan = Split(8, 1, 1, 2);
  EXPECT_EQ(Describe(PlacesOf(cluster, fabric, plan)), "tp 8 on links, pp 2 on network");
  plan.rank_order = OrderCalled("pp-tp-cp-ep-dp");
  EXPECT_EQ(Describe(PlacesOf(cluster, fabric, plan)), "pp 2 on links, tp 8 on network (4 a node)");
}

// Stages of 8 ranks, each on a node: all 8 send at once. Stages of one rank, 8 on a node: only the
// last one sends to the other node.
TEST(PlanPlace, CountsWhoSendsToAnotherNodeAtOnce) {
  const ClusterSpec cluster = GpuCluster(2, 8);
  const Plan wide = Split(8, 1, 1, 2);
  const auto next = [&](const Plan& plan, const RankCoordinates& at) {
    return PlaceOfGroup(cluster, plan, at, GroupKind::kNext,
                        GroupMembers(plan, at, GroupKind::kNext));
  };
  EXPECT_EQ(next(wide, {}).senders, 8);
  const Plan deep = Split(1, 1, 1, 16);
  EXPECT_EQ(next(deep, {.pp = 7}).senders, 1);
  EXPECT_EQ(next(deep, {.pp = 3}).nodes, 1);
}

}  // namespace
}  // namespace foretrain
