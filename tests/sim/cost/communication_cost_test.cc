#include "sim/cost/communication_cost.h"

#include <gtest/gtest.h>

#include "sim/cost/derive_profile.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

// Links 80 GB/s, base 5 us, 1 us a hop; network 8.5 GB/s a device, base 15 us, 5 us a hop.
ProfileRates Rates() { return DeriveProfile(GpuCluster(8, 8)).rates; }

double Seconds(OpKind kind, double bytes, const GroupPlace& place) {
  return CommunicationSeconds(Rates(), kind, bytes, place, /*shared=*/false);
}

constexpr GroupPlace kNode{.members = 8, .nodes = 1, .per_node = 8};

TEST(CommunicationCost, OfAGatherInANodeIsARingOverItsLinks) {
  // 7 hops, 7/8 of 8 GB over 80 GB/s.
  EXPECT_NEAR(Seconds(OpKind::kAllGather, 8e9, kNode), 5e-6 + 7e-6 + 0.0875, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kReduceScatter, 8e9, kNode), 5e-6 + 7e-6 + 0.0875, 1e-12);
}

TEST(CommunicationCost, OfALargeAllReduceIsTwoRings) {
  EXPECT_NEAR(Seconds(OpKind::kAllReduce, 8e9, kNode), 5e-6 + 14e-6 + 0.175, 1e-12);
}

// 64 bytes over 8 nodes of 8: a tree of depth 3 over the network and 7 hops in the node, both ways,
// beats a ring of 56 links and 8 crossings.
TEST(CommunicationCost, OfASmallAllReduceIsATree) {
  const GroupPlace place{.members = 64, .nodes = 8, .per_node = 8};
  EXPECT_NEAR(Seconds(OpKind::kAllReduce, 64, place), 15e-6 + 2 * (7e-6 + 15e-6), 1e-8);
}

// 4 members a node carry 4 rings over 4 network ports: 34 GB/s; one a node has one port, 8.5 GB/s;
// 8 and more would be held by their links.
TEST(CommunicationCost, BetweenNodesUsesTheNetworkPortOfEachMember) {
  const double bytes = 34e9;
  EXPECT_NEAR(Seconds(OpKind::kAllGather, bytes, {.members = 8, .nodes = 2, .per_node = 4}),
              15e-6 + 6e-6 + 10e-6 + 7.0 / 8, 1e-9);
  EXPECT_NEAR(Seconds(OpKind::kAllGather, bytes, {.members = 2, .nodes = 2, .per_node = 1}),
              15e-6 + 10e-6 + 2.0, 1e-9);
}

TEST(CommunicationCost, OfATransferIsALatencyAndItsBytes) {
  EXPECT_NEAR(Seconds(OpKind::kSend, 80e6, {.members = 2, .nodes = 1, .per_node = 2}), 1.005e-3,
              1e-9);
  EXPECT_NEAR(Seconds(OpKind::kRecv, 85e6, {.members = 2, .nodes = 2, .per_node = 1}), 10.015e-3,
              1e-9);
}

// Each of 8 members sends an eighth of 8 GB to each other one, at once: 7 GB over its link, or 3 GB
// over its link beside 4 GB over its port to the other node.
TEST(CommunicationCost, OfAnAllToAllIsWhatAMemberSends) {
  EXPECT_NEAR(Seconds(OpKind::kAllToAll, 8e9, kNode), 5e-6 + 1e-6 + 0.0875, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kAllToAll, 8e9, {.members = 8, .nodes = 2, .per_node = 4}),
              15e-6 + 5e-6 + 4.0 / 8.5, 1e-12);
}

// The whole tensor goes to the next member, from each to its own.
TEST(CommunicationCost, OfARotationIsThatOfATransfer) {
  EXPECT_NEAR(Seconds(OpKind::kRotate, 8e9, kNode), 5e-6 + 0.1, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kRotate, 8.5e9, {.members = 8, .nodes = 2, .per_node = 4}),
              15e-6 + 1.0, 1e-12);
}

// Threads of one machine at 8 GB/s each, 60 us to meet. Two members of an all-reduce of 8 MB each
// read 8 MB and write 4 for the sum, and read 4 and write 4 for the other half: 20 MB.
TEST(CommunicationCost, OfThreadsIsTheMemoryThatAMemberTouches) {
  const ProfileRates rates = DeriveProfile(CpuCluster(2, 2)).rates;
  const GroupPlace pair{.members = 2, .nodes = 1, .per_node = 2};
  const auto shared = [&](OpKind kind) {
    return CommunicationSeconds(rates, kind, 8e6, pair, true);
  };
  EXPECT_NEAR(shared(OpKind::kAllReduce), 60e-6 + 20e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kReduceScatter), 60e-6 + 12e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kAllGather), 60e-6 + 8e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kAllToAll), 60e-6 + 16e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kRotate), 60e-6 + 16e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kRecv), 60e-6 + 16e6 / 8e9, 1e-12);
}

TEST(CommunicationCost, PlacesRanksNodeByNode) {
  const ClusterSpec cluster = GpuCluster(4, 8);
  EXPECT_EQ(PlaceOf(cluster, {0, 1, 2, 3}), (GroupPlace{4, 1, 4}));
  EXPECT_EQ(PlaceOf(cluster, {0, 8, 16, 24}), (GroupPlace{4, 4, 1}));
  EXPECT_EQ(PlaceOf(cluster, {6, 7, 8}), (GroupPlace{3, 2, 1}));
}

}  // namespace
}  // namespace foretrain
