#include "sim/validate/memory_figure.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/memory/device_overhead.h"

namespace foretrain {
namespace {

ModelSpec SmallModel() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 8;
  model.heads = 4;
  model.vocab = 128;
  return model;
}

Plan SmallPlan() {
  Plan plan;
  plan.tp = 2;
  plan.sequence = 16;
  plan.micro_batch = plan.global_batch = 1;
  return plan;
}

// 6 s b V / t = 6 * 16 * 128 / 2.
TEST(MemoryFigure, KeepsLogitsOfAnEagerLossTwice) {
  SystemOptions system;
  system.fused_loss = false;
  EXPECT_EQ(KeptByKernels(SmallModel(), SmallPlan(), system), 6144);
}

// 10 GiB in segments, 1.1 of context, groups tp and world on one node at 0.25 each, 32 MiB of
// workspace; two groups of the system's own.
TEST(MemoryFigure, ShowsWhatNvidiaSmiCounts) {
  ClusterSpec cluster;
  cluster.devices_per_node = 2;
  SystemOptions system;
  const double shown = GibFromBytes(ShownBytes(cluster, SmallPlan(), system, 10 * kGiB));
  EXPECT_NEAR(shown, 10 + 1.1 + 0.5 + 1.0 / 32, 1e-6);
  system.own_communicators = 2;
  EXPECT_NEAR(GibFromBytes(ShownBytes(cluster, SmallPlan(), system, 10 * kGiB)), shown + 0.5, 1e-6);
}

// 2 x 2 x 2 ranks on nodes of 2: tensor parallelism stays on one, the neighbours in the pipeline,
// data parallelism and the world do not. 544 MB each between nodes.
TEST(DeviceOverhead, CountsACommunicatorForEachGroup) {
  ClusterSpec cluster;
  cluster.nodes = 4;
  cluster.devices_per_node = 2;
  Plan plan = SmallPlan();
  EXPECT_EQ(CommunicatorsOf(cluster, plan).all, 2);
  EXPECT_EQ(CommunicatorsOf(cluster, plan).between_nodes, 0);
  plan.pp = plan.dp = 2;
  EXPECT_EQ(CommunicatorsOf(cluster, plan).all, 5);
  const DeviceOverhead overhead = DeviceOverheadOf(cluster, plan, 0, false);
  const int far = CommunicatorsOf(cluster, plan).between_nodes;
  EXPECT_GE(far, 3);
  EXPECT_NEAR(static_cast<double>(overhead.communicators), far * 544e6 + (5 - far) * 0.25 * kGiB,
              8.0);
  EXPECT_EQ(DeviceOverheadOf({}, Plan{}, 4, false).communicators, 0);
  ClusterSpec host;
  host.is_cpu = true;
  EXPECT_EQ(DeviceOverheadOf(host, plan, 0, true).Total(), 0);
}

}  // namespace
}  // namespace foretrain
