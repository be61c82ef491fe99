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

// 10 GiB in segments, 1.1 of context, groups tp and world at 0.25 each, 32 MiB of workspace.
TEST(MemoryFigure, ShowsWhatNvidiaSmiCounts) {
  EXPECT_NEAR(GibFromBytes(ShownBytes({}, SmallPlan(), 10 * kGiB)), 10 + 1.1 + 0.5 + 1.0 / 32,
              1e-6);
}

// tp 2, pp 2, dp 2: tensor, two neighbours, data and world.
TEST(DeviceOverhead, CountsACommunicatorForEachGroup) {
  Plan plan = SmallPlan();
  EXPECT_EQ(CommunicatorsOf(plan), 2);
  plan.pp = plan.dp = 2;
  EXPECT_EQ(CommunicatorsOf(plan), 5);
  EXPECT_EQ(DeviceOverheadOf({}, Plan{}, false).communicators, 0);
  ClusterSpec host;
  host.is_cpu = true;
  EXPECT_EQ(DeviceOverheadOf(host, plan, true).Total(), 0);
}

}  // namespace
}  // namespace foretrain
