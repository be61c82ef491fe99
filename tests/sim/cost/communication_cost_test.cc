#include "sim/cost/network/communication_cost.h"

#include <gtest/gtest.h>

#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

// Times of hops and starts are in sim/cost/profile/constants/collectives.csv. With the Simple
// protocol a ring starts in 8.4 us and takes 3.4 us per hop over links, 5.7 over PCIe, 9.6 over the
// network. With LL it takes 3.6, 0.47, 1.0 and 2.7 us, at a quarter of the rate.

namespace foretrain {
namespace {

// Links have 100 GB/s at 0.8 efficiency; the network 10 GB/s per device at 0.85; PCIe 20 GB/s at
// 0.7.
ClusterSpec Cluster() { return GpuCluster(8, 8); }

Fabric FabricOf(const ClusterSpec& cluster) {
  return MakeFabric(cluster, DeriveProfile(cluster).rates);
}

CommunicationTime TimeOn(const ClusterSpec& cluster, OpKind kind, double bytes,
                         const std::vector<int>& devices) {
  return TimeOfCommunication(FabricOf(cluster), kind, bytes, PlaceOf(cluster, devices));
}

double Seconds(OpKind kind, double bytes, const GroupPlace& place) {
  return TimeOfCommunication(FabricOf(Cluster()), kind, bytes, place).seconds;
}

std::vector<int> First(int count, int stride = 1) {
  std::vector<int> devices;
  for (int i = 0; i < count; ++i) devices.push_back(i * stride);
  return devices;
}

constexpr GroupPlace kNode{.members = 8, .nodes = 1, .per_node = 8};

TEST(CommunicationCost, OfAGatherInANodeIsARingOverItsLinks) {
  // 7 hops, 7/8 of 8 GB over 80 GB/s.
  EXPECT_NEAR(Seconds(OpKind::kAllGather, 8e9, kNode), 8.4e-6 + 7 * 3.4e-6 + 0.0875, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kReduceScatter, 8e9, kNode), 8.4e-6 + 7 * 3.4e-6 + 0.0875, 1e-12);
}

TEST(CommunicationCost, OfALargeAllReduceIsTwoRings) {
  EXPECT_NEAR(Seconds(OpKind::kAllReduce, 8e9, kNode), 8.4e-6 + 14 * 3.4e-6 + 0.175, 1e-12);
}

// LL takes 3.6 us, 7 hops of 0.47 us, and 0.35 us for 7/8 of 8 kB at a quarter of 80 GB/s. That is
// less than LL128 (10 us) and Simple (8.4 us, hops of 3.4).
TEST(CommunicationCost, OfSmallMessagesTakesTheProtocolWithShortHops) {
  EXPECT_NEAR(Seconds(OpKind::kAllGather, 8e3, kNode), 3.6e-6 + 7 * 0.47e-6 + 0.35e-6, 1e-12);
}

// 64 bytes over 8 nodes of 8. A tree has depth 3 over the network and 7 hops in the node, both
// ways. It takes 4.4 us to start, and 0.52 and 5 us per hop. It beats a ring with 56 links and 7
// crossings each way.
TEST(CommunicationCost, OfASmallAllReduceIsATree) {
  const GroupPlace place{.members = 64, .nodes = 8, .per_node = 8};
  EXPECT_NEAR(Seconds(OpKind::kAllReduce, 64, place), 4.4e-6 + 2 * (7 * 0.52e-6 + 3 * 5e-6), 2e-8);
}

// 4 members per node run 4 rings over 4 network ports: 34 GB/s. One member per node has one port,
// 8.5 GB/s.
TEST(CommunicationCost, BetweenNodesUsesTheNetworkPortOfEachMember) {
  const double bytes = 34e9;
  EXPECT_NEAR(Seconds(OpKind::kAllGather, bytes, {.members = 8, .nodes = 2, .per_node = 4}),
              8.4e-6 + 6 * 3.4e-6 + 9.6e-6 + 7.0 / 8, 1e-9);
  EXPECT_NEAR(Seconds(OpKind::kAllGather, bytes, {.members = 2, .nodes = 2, .per_node = 1}),
              8.4e-6 + 9.6e-6 + 2.0, 1e-9);
}

// Hierarchical over two nodes of 4: a scatter of 8 GB over links (3/4 at 80 GB/s: 75 ms), an
// all-reduce of a quarter over each port (1 GB each way at 8.5 GB/s: 235.3 ms), and a gather: 385.3
// ms. The automatic choice is a ring, which moves 7/4 of 8 GB over 34 GB/s.
TEST(CommunicationCost, OfAnAllReduceOverTwoNodesIsHierarchicalIfAsked) {
  ClusterSpec cluster = Cluster();
  const std::vector<int> devices = {0, 1, 2, 3, 8, 9, 10, 11};
  const auto ring = TimeOn(cluster, OpKind::kAllReduce, 8e9, devices);
  EXPECT_EQ(ring.algorithm, CollectiveAlgorithm::kRing);
  EXPECT_NEAR(ring.seconds, 8.4e-6 + 2 * (6 * 3.4e-6 + 9.6e-6) + 1.75 * 8 / 34, 1e-9);
  cluster.collectives = CollectiveAlgorithm::kHierarchical;
  const auto time = TimeOn(cluster, OpKind::kAllReduce, 8e9, devices);
  EXPECT_EQ(time.algorithm, CollectiveAlgorithm::kHierarchical);
  EXPECT_NEAR(time.seconds, 2 * (8.4e-6 + 3 * 3.4e-6 + 0.075) + 2 * (8.4e-6 + 9.6e-6 + 1 / 8.5),
              1e-9);
}

// Hierarchical gather: half of 34 GB over 4 ports, then 3/4 over links.
TEST(CommunicationCost, OfAHierarchicalGatherIsOnePhaseALevel) {
  ClusterSpec cluster = Cluster();
  cluster.collectives = CollectiveAlgorithm::kHierarchical;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 34e9, {0, 1, 2, 3, 8, 9, 10, 11}).seconds,
              8.4e-6 + 9.6e-6 + 0.5 + 8.4e-6 + 3 * 3.4e-6 + 0.75 * 34 / 80, 1e-9);
}

// NVSwitches sum: each device sends its 8 GB once and an eighth more, at 0.85 of the links' rate,
// with two hops of 4 us.
TEST(CommunicationCost, OfLinksThatSumIsOnePass) {
  ClusterSpec cluster = Cluster();
  cluster.device.link_reduces = true;
  const auto time = TimeOn(cluster, OpKind::kAllReduce, 8e9, First(8));
  EXPECT_EQ(time.algorithm, CollectiveAlgorithm::kInNetwork);
  EXPECT_NEAR(time.seconds, 8e-6 + 8 * 1.125 / 80 / 0.85, 1e-9);
  // A gather has nothing to sum.
  EXPECT_EQ(TimeOn(cluster, OpKind::kAllGather, 8e9, First(8)).algorithm,
            CollectiveAlgorithm::kRing);
}

// 64 members on 8 nodes whose network sums. The links' two rounds of 7/8 take longest, at 0.9 of
// the rate. There are 14 hops of 4 us in the node and 2 of 10.7 us between nodes.
TEST(CommunicationCost, OfANetworkThatSumsPipelinesItsLevels) {
  ClusterSpec cluster = Cluster();
  cluster.network_reduces = true;
  const auto time = TimeOn(cluster, OpKind::kAllReduce, 8e9, First(64));
  EXPECT_EQ(time.algorithm, CollectiveAlgorithm::kInNetwork);
  EXPECT_NEAR(time.seconds, 14 * 4e-6 + 2 * 10.7e-6 + 0.175 / 0.9, 1e-9);
}

// 16 workers push 8.5 GB each and pull as much. Two server nodes take 68 GB/s each: 1 s each way,
// the same as a device's own port. One server takes 2 s.
TEST(CommunicationCost, OfAParameterServerIsWhatItsServersTakeIn) {
  ClusterSpec cluster = Cluster();
  cluster.collectives = CollectiveAlgorithm::kParameterServer;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllReduce, 8.5e9, First(16)).seconds, 2 * (18e-6 + 1.0),
              1e-9);
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllGather, 8.5e9, First(16)).seconds, 18e-6 + 1.0, 1e-9);
  cluster.parameter_servers = 1;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllReduce, 8.5e9, First(16)).seconds, 2 * (18e-6 + 2.0),
              1e-9);
}

TEST(CommunicationCost, KeepsToTheAlgorithmThatIsAskedFor) {
  ClusterSpec cluster = Cluster();
  const auto algorithm = [&](CollectiveAlgorithm asked, OpKind kind) {
    cluster.collectives = asked;
    return TimeOn(cluster, kind, 8e9, First(64)).algorithm;
  };
  using Algorithm = CollectiveAlgorithm;
  EXPECT_EQ(algorithm(Algorithm::kRing, OpKind::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(algorithm(Algorithm::kTree, OpKind::kAllReduce), Algorithm::kTree);
  EXPECT_EQ(algorithm(Algorithm::kTree, OpKind::kAllGather), Algorithm::kRing);
  EXPECT_EQ(algorithm(Algorithm::kInNetwork, OpKind::kAllReduce), Algorithm::kRing);
}

// A tree of 3 levels between nodes and chains of 7 in them, with 28 and 50 us per hop of 256 kB. It
// moves 8 GB twice over 68 GB/s at 0.9 of the rate.
TEST(CommunicationCost, OfALargeTreeMovesAllBytesTwice) {
  ClusterSpec cluster = Cluster();
  cluster.collectives = CollectiveAlgorithm::kTree;
  EXPECT_NEAR(TimeOn(cluster, OpKind::kAllReduce, 8e9, First(64)).seconds,
              2 * (7 * 28e-6 + 3 * 50e-6) + 16.0 / 68 / 0.9, 1e-9);
}

TEST(CommunicationCost, OfATransferIsALatencyAndItsBytes) {
  EXPECT_NEAR(Seconds(OpKind::kSend, 80e6, {.members = 2, .nodes = 1, .per_node = 2}),
              8.4e-6 + 3.4e-6 + 1e-3, 1e-9);
  EXPECT_NEAR(Seconds(OpKind::kRecv, 85e6, {.members = 2, .nodes = 2, .per_node = 1}),
              8.4e-6 + 9.6e-6 + 10e-3, 1e-9);
}

// 8 devices share 4 adapters of 17 GB/s: all together have 8.5 each, one or two alone have an
// adapter each.
TEST(CommunicationCost, OfATransferBetweenNodesSharesTheAdaptersThatOthersLeave) {
  ClusterSpec cluster = Cluster();
  cluster.adapters_per_node = 4;
  const auto seconds = [&](int senders) {
    const GroupPlace place{.members = 2, .nodes = 2, .per_node = 1, .senders = senders};
    return TimeOfCommunication(FabricOf(cluster), OpKind::kSend, 85e6, place).seconds - 18e-6;
  };
  EXPECT_NEAR(seconds(0), 10e-3, 1e-9);
  EXPECT_NEAR(seconds(8), 10e-3, 1e-9);
  EXPECT_NEAR(seconds(4), 5e-3, 1e-9);
  EXPECT_NEAR(seconds(1), 5e-3, 1e-9);
}

// Each of 8 members sends an eighth of 8 GB to every other member at once. On one node that is 7 GB
// over its link; on two, 3 GB over its link and 4 GB over its port. Up to 8 peers count as one hop.
TEST(CommunicationCost, OfAnAllToAllIsWhatAMemberSends) {
  EXPECT_NEAR(Seconds(OpKind::kAllToAll, 8e9, kNode), 8.4e-6 + 3.4e-6 + 0.0875, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kAllToAll, 8e9, {.members = 8, .nodes = 2, .per_node = 4}),
              8.4e-6 + 3.4e-6 + 9.6e-6 + 4.0 / 8.5, 1e-9);
}

// Each member sends its whole tensor to the next one.
TEST(CommunicationCost, OfARotationIsThatOfATransfer) {
  EXPECT_NEAR(Seconds(OpKind::kRotate, 8e9, kNode), 8.4e-6 + 3.4e-6 + 0.1, 1e-12);
  EXPECT_NEAR(Seconds(OpKind::kRotate, 8.5e9, {.members = 8, .nodes = 2, .per_node = 4}),
              8.4e-6 + 3.4e-6 + 9.6e-6 + 1.0, 1e-9);
}

// Threads of one machine copy at 8 GB/s each and need 60 us to meet. Two members share an
// all-reduce of 8 MB each. A member reads 8 MB and writes 4 for the sum, then reads 4 and writes 4
// for the other half: 20 MB.
TEST(CommunicationCost, OfThreadsIsTheMemoryThatAMemberTouches) {
  const ProfileRates rates = DeriveProfile(CpuCluster(2, 2)).rates;
  const auto shared = [&](OpKind kind) { return SharedMemorySeconds(rates, kind, 8e6, 2); };
  EXPECT_NEAR(shared(OpKind::kAllReduce), 60e-6 + 20e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kReduceScatter), 60e-6 + 12e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kAllGather), 60e-6 + 8e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kAllToAll), 60e-6 + 16e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kRotate), 60e-6 + 16e6 / 8e9, 1e-12);
  EXPECT_NEAR(shared(OpKind::kRecv), 60e-6 + 16e6 / 8e9, 1e-12);
}

}  // namespace
}  // namespace foretrain
