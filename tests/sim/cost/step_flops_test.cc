#include "sim/cost/step_flops.h"

#include <gtest/gtest.h>

#include "tests/sim/models.h"

namespace foretrain {
namespace {

// Ranks that share out a sequence have as many pairs of queries and keys between them as one has.
TEST(StepFlops, AreThoseOfOneRankHoweverSequencesAreSharedOut) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 2;
  plan.global_batch = 8;
  plan.recompute = RecomputeKind::kFull;
  const StepFlops one = FlopsOfStep(SmallGpt(), plan);
  EXPECT_GT(one.model, 0);
  EXPECT_GT(one.hardware, one.model);
  for (const ContextParallelKind kind :
       {ContextParallelKind::kRing, ContextParallelKind::kAllGather,
        ContextParallelKind::kAllToAll}) {
    plan.cp_kind = kind;
    for (const int cp : {2, 4}) {
      plan.cp = cp;
      EXPECT_DOUBLE_EQ(FlopsOfStep(SmallGpt(), plan).model, one.model) << Name(kind) << cp;
      EXPECT_DOUBLE_EQ(FlopsOfStep(SmallGpt(), plan).hardware, one.hardware) << Name(kind) << cp;
    }
  }
}

}  // namespace
}  // namespace foretrain
