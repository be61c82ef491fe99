#include "sim/validate/memory_figure.h"

#include <gtest/gtest.h>

#include "base/units.h"

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

// 10 GiB in use, a quarter held besides, 1.1 of context, groups tp and world at 0.25 each.
TEST(MemoryFigure, ShowsWhatNvidiaSmiCounts) {
  SystemOptions system;
  system.allocator_slack = 0.25;
  EXPECT_NEAR(GibFromBytes(ShownBytes(SmallPlan(), system, 10 * kGiB)), 12.5 + 1.1 + 0.5, 1e-6);
}

}  // namespace
}  // namespace foretrain
