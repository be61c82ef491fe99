// Collectives within a node in step forecasts: by kernel profiles, or by the model of fabrics.
#include <gtest/gtest.h>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_options.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/measured/hot_kernels.h"
#include "sim/cost/network/communication_cost.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

constexpr std::int64_t kElements = 1 << 24;
constexpr double kBytes = 4.0 * kElements;
constexpr GroupPlace kNode = {.members = 8, .nodes = 1, .per_node = 8};

ClusterSpec Cluster(std::string_view text) {
  return ParseCluster(text, BuiltInCatalogue().value()).value();
}

// Without the spread of the members' arrivals.
double AllReduceSeconds(const ClusterSpec& cluster, const DeviceProfile& profile,
                        const GroupPlace& place) {
  const CostModel model = CostModel::Make(cluster, profile).value();
  return model.CostOf(AllReduceOp(kElements), place).Alone() -
         (place.members - 1) * profile.rates.member_skew_s.value;
}

double Modelled(const ClusterSpec& cluster, const DeviceProfile& profile, const GroupPlace& place) {
  return TimeOfCommunication(MakeFabric(cluster, profile.rates), OpKind::kAllReduce, kBytes, place)
      .seconds;
}

double Hot(const ClusterSpec& cluster, int members, double bytes = kBytes) {
  return HotKernelsOf(cluster.device)
      ->CollectiveSeconds(OpKind::kAllReduce, bytes, members)
      .value();
}

TEST(HotCollectives, ServeGroupsWithinANode) {
  const ClusterSpec cluster = Cluster("2x8xh100");
  const DeviceProfile profile = DeriveProfile(cluster);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(cluster, profile, kNode), Hot(cluster, 8));
  const GroupPlace across = {.members = 16, .nodes = 2, .per_node = 8};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(cluster, profile, across), Modelled(cluster, profile, across));
}

// Pairs of bridged devices form islands; a group of two islands crosses PCIe.
TEST(HotCollectives, DoNotServeGroupsOfSeveralIslands) {
  const ClusterSpec cluster = Cluster("8xh100");
  const DeviceProfile profile = DeriveProfile(cluster);
  GroupPlace islands = kNode;
  islands.islands = 4;
  islands.per_island = 2;
  EXPECT_DOUBLE_EQ(AllReduceSeconds(cluster, profile, islands),
                   Modelled(cluster, profile, islands));
}

TEST(HotCollectives, StatedAlgorithmsAndLatenciesKeepTheModel) {
  ClusterSpec ring = Cluster("8xh100");
  ring.collectives = CollectiveAlgorithm::kRing;
  EXPECT_DOUBLE_EQ(AllReduceSeconds(ring, DeriveProfile(ring), kNode),
                   Modelled(ring, DeriveProfile(ring), kNode));
  ClusterSpec slow = Cluster("8xh100");
  slow.link_latency_s = 1e-5;
  EXPECT_DOUBLE_EQ(AllReduceSeconds(slow, DeriveProfile(slow), kNode),
                   Modelled(slow, DeriveProfile(slow), kNode));
}

// Links at half of their rate act as twice the bytes; a start of twice the time adds the time of
// the smallest tensor once more.
TEST(HotCollectives, FollowTheProfilesLinks) {
  const ClusterSpec cluster = Cluster("8xh100");
  DeviceProfile profile = DeriveProfile(cluster);
  profile.rates.link_bytes_per_s.value /= 2;
  EXPECT_NEAR(AllReduceSeconds(cluster, profile, kNode), Hot(cluster, 8, 2 * kBytes), 1e-12);
  profile = DeriveProfile(cluster);
  profile.rates.link_base_s.value *= 2;
  EXPECT_NEAR(AllReduceSeconds(cluster, profile, kNode), Hot(cluster, 8) + Hot(cluster, 8, 1),
              1e-12);
}

}  // namespace
}  // namespace foretrain
