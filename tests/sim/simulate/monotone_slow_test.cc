// A faster machine never makes a plan slower. This holds exactly where ops do not slow one another
// down. Otherwise, a transfer that starts sooner may overlap compute and slow it down. If other ops
// wait for that compute, the step may get longer by part of the overlap.
#include <gtest/gtest.h>

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/random_plans.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

constexpr std::uint64_t kPlans = 60;

// A machine large enough for any of the plans. It has two devices per node, so that groups cross
// nodes.
ClusterSpec Machine(const Plan& plan) {
  ClusterSpec cluster = GpuCluster((plan.World() + 1) / 2, 2);
  cluster.device.memory_bytes_per_s = 1e11;
  cluster.network_bytes_per_s = 1e9;
  return cluster;
}

void ExpectNotSlower(const char* what, void (*improve)(ClusterSpec&)) {
  for (std::uint64_t i = 0; i < kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(std::string(what) + ": " + Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    if (!program.has_value()) continue;
    ClusterSpec cluster = Machine(planned.plan);
    const SimulateOptions apart{.contention = false, .timeline = false};
    const SimulateOptions together{.timeline = false};
    const double before = Play(*program, cluster, apart).step_s;
    const double crowded_before = Play(*program, cluster, together).step_s;
    improve(cluster);
    EXPECT_LE(Play(*program, cluster, apart).step_s, before * (1 + 1e-4));
    EXPECT_LE(Play(*program, cluster, together).step_s, crowded_before * 1.01);
  }
}

TEST(BetterMachines, WithFasterLinksAreNotSlower) {
  ExpectNotSlower("links x 10", [](ClusterSpec& c) { c.device.link_bytes_per_s *= 10; });
}
TEST(BetterMachines, WithAFasterNetworkAreNotSlower) {
  ExpectNotSlower("network x 10", [](ClusterSpec& c) { c.network_bytes_per_s *= 10; });
}
TEST(BetterMachines, WithFasterPcieAreNotSlower) {
  ExpectNotSlower("PCIe x 4", [](ClusterSpec& c) { c.device.pcie_bytes_per_s *= 4; });
}
TEST(BetterMachines, WithFasterMemoryAreNotSlower) {
  ExpectNotSlower("memory x 4", [](ClusterSpec& c) { c.device.memory_bytes_per_s *= 4; });
}

}  // namespace
}  // namespace foretrain
