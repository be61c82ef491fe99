#include "sim/validate/run_network.h"

#include <gtest/gtest.h>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/network/fabric.h"
#include "sim/cost/profile/derive_profile.h"

namespace foretrain {
namespace {

// 8 nodes of 8 H100 on 50 GB/s a device.
ClusterSpec EightNodes() {
  return MakeCluster(FindGpu(BuiltInCatalogue().value(), "h100").value(), 8, 8, 50e9).value();
}

RunFamily Family() {
  RunFamily family;
  family.gather_bytes_per_s = {{2, 200e9}, {8, 150e9}};
  family.network_hop_s = 1e-4;
  family.slow_launch_s = 2e-4;
  return family;
}

PublishedRun Measured(double reduce, double gather) {
  PublishedRun run;
  run.all_reduce_bytes_per_s = reduce;
  run.all_gather_bytes_per_s = run.reduce_scatter_bytes_per_s = gather;
  return run;
}

TEST(RunNetwork, LeavesARowWithoutMeasurementsAsItIs) {
  ClusterSpec cluster = EightNodes();
  SetMeasuredNetwork(PublishedRun{}, Family(), cluster);
  EXPECT_EQ(cluster, EightNodes());
}

// 1 GiB gathered at 150 GB/s takes 7.16 ms, of which 7 hops take 0.7. The rest moves it at 166 GB/s
// a node, 20.8 a device.
TEST(RunNetwork, TakesHopsOutOfTheRateThatAJobMeasured) {
  ClusterSpec cluster = EightNodes();
  SetMeasuredNetwork(Measured(200e9, 150e9), Family(), cluster);
  ASSERT_EQ(cluster.measured_network.size(), 2U);
  EXPECT_EQ(cluster.measured_network[0].nodes, 2);
  EXPECT_EQ(cluster.measured_network[1].nodes, 8);
  const double bytes = 1 << 30;
  EXPECT_NEAR(cluster.measured_network[1].gather_bytes_per_s, bytes / (bytes / 150e9 - 7e-4) / 8,
              1);
  EXPECT_EQ(cluster.network_latency_s, 1e-4);
  EXPECT_EQ(cluster.member_launch_s, 0);
  EXPECT_TRUE(ValidateCluster(cluster).has_value());
}

// Gathers at a fifth of the usual rate mark a job whose hosts are busy.
TEST(RunNetwork, GivesSlowJobsHostTimeForEachMember) {
  ClusterSpec cluster = EightNodes();
  SetMeasuredNetwork(Measured(60e9, 30e9), Family(), cluster);
  EXPECT_EQ(cluster.member_launch_s, 2e-4);
}

// Between 2 and 8 nodes the rate of 4 is the geometric mean; beyond them it is constant.
TEST(RunNetwork, InterpolatesRatesBetweenNumbersOfNodes) {
  ClusterSpec cluster = EightNodes();
  cluster.measured_network = {{2, 40e9, 20e9}, {8, 10e9, 5e9}};
  const Fabric fabric = MakeFabric(cluster, DeriveProfile(cluster, {}).rates);
  EXPECT_NEAR(MeasuredNetworkRate(fabric, 4, true), 20e9, 1);
  EXPECT_NEAR(MeasuredNetworkRate(fabric, 4, false), 10e9, 1);
  EXPECT_NEAR(MeasuredNetworkRate(fabric, 64, true), 10e9, 1);
  cluster.measured_network.clear();
  EXPECT_EQ(MeasuredNetworkRate(MakeFabric(cluster, DeriveProfile(cluster, {}).rates), 4, true), 0);
}

}  // namespace
}  // namespace foretrain
