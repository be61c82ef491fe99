#include "sim/config/cluster/cluster_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ClusterSpec Base(std::string_view text = "64x8xa100") {
  return ParseCluster(text, BuiltInCatalogue().value()).value();
}

ClusterSpec Refined(const ClusterOptions& options, std::string_view text = "64x8xa100") {
  ClusterSpec cluster = Base(text);
  const auto done = RefineCluster(options, cluster);
  EXPECT_TRUE(done.has_value()) << done.error().message;
  return cluster;
}

std::string Refusal(const ClusterOptions& options) {
  ClusterSpec cluster = Base();
  const auto done = RefineCluster(options, cluster);
  return done ? "accepted" : done.error().message;
}

TEST(ClusterOptions, LeaveAClusterAsItIs) { EXPECT_EQ(Refined({}), Base()); }

// 8 x 400 Gb/s are 400 GB/s, 50 for each of 8 GPUs; 4 x 200 Gb/s are 100 GB/s, 12.5 each.
TEST(ClusterOptions, ShareAdaptersAmongTheDevicesOfANode) {
  const ClusterSpec eight = Refined({.nic = "8x400Gb"});
  EXPECT_DOUBLE_EQ(eight.network_bytes_per_s, 50e9);
  EXPECT_EQ(eight.adapters_per_node, 8);
  EXPECT_THAT(eight.assumptions, Not(HasSubstr("network ")));
  const ClusterSpec four = Refined({.nic = "4x200Gb/s"});
  EXPECT_DOUBLE_EQ(four.network_bytes_per_s, 12.5e9);
  EXPECT_EQ(four.adapters_per_node, 4);
  EXPECT_DOUBLE_EQ(Refined({.nic = "25GB/s"}).network_bytes_per_s, 25e9);
}

TEST(ClusterOptions, CutTheNetworkAboveALeaf) {
  using Tiers = std::vector<NetworkTier>;
  EXPECT_EQ(Refined({.oversubscription = "2"}).network_tiers, (Tiers{{1, 12.5e9}}));
  EXPECT_THAT(Refined({.oversubscription = "2"}).assumptions, HasSubstr("all that leaves a node"));
  EXPECT_EQ(Refined({.oversubscription = "2@32,8@48"}).network_tiers,
            (Tiers{{32, 12.5e9}, {48, 25e9 / 8}}));
  // Oversubscription applies to the network that --nic sets, in either order of the options.
  EXPECT_EQ(Refined({.nic = "8x400Gb", .oversubscription = "2@32"}).network_tiers,
            (Tiers{{32, 25e9}}));
}

// PCIe 4 carries 2 GB/s per lane and direction, nominal: 32 for 16 lanes. PCIe 3: 1; PCIe 5: 4.
TEST(ClusterOptions, ReadPcieAsGenerationAndLanes) {
  EXPECT_DOUBLE_EQ(Refined({.pcie = "4x16"}).device.pcie_bytes_per_s, 32e9);
  EXPECT_DOUBLE_EQ(Refined({.pcie = "3x16"}).device.pcie_bytes_per_s, 16e9);
  EXPECT_DOUBLE_EQ(Refined({.pcie = "5x8"}).device.pcie_bytes_per_s, 32e9);
}

TEST(ClusterOptions, SetTheHost) {
  const ClusterSpec cluster = Refined({.host_memory = "1TiB", .cpu_cores = "96"});
  EXPECT_EQ(cluster.host_memory_bytes, kTiB);
  EXPECT_EQ(cluster.cores, 96);
  EXPECT_EQ(Refined({.collectives = "Tree"}).collectives, CollectiveAlgorithm::kTree);
}

TEST(ClusterOptions, RefuseByNameAndValue) {
  EXPECT_THAT(Refusal({.nic = "8x400"}), AllOf(HasSubstr("--nic"), HasSubstr("400Gb")));
  EXPECT_THAT(Refusal({.nic = "0x400Gb"}), HasSubstr("--nic"));
  EXPECT_THAT(Refusal({.oversubscription = "0.5"}), HasSubstr("--oversubscription"));
  EXPECT_THAT(Refusal({.oversubscription = "2@0"}), HasSubstr("--oversubscription"));
  EXPECT_THAT(Refusal({.oversubscription = "4@32,2@64"}), HasSubstr("network_tiers"));
  EXPECT_THAT(Refusal({.host_memory = "64G"}), HasSubstr("--host-memory"));
  EXPECT_THAT(Refusal({.cpu_cores = "-1"}), HasSubstr("--cpu-cores"));
  EXPECT_THAT(Refusal({.pcie = "16"}), HasSubstr("--pcie"));
  EXPECT_THAT(Refusal({.pcie = "9x16"}), HasSubstr("--pcie"));
  EXPECT_THAT(Refusal({.collectives = "rings"}),
              AllOf(HasSubstr("\"rings\""), HasSubstr("in-network")));
}

}  // namespace
}  // namespace foretrain
