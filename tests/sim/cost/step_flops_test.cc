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
  for (const std::int64_t window : {0, 3}) {
    ModelSpec model = SmallGpt();
    model.attention_window = window;
    const StepFlops one = FlopsOfStep(model, plan);
    EXPECT_GT(one.model, 0);
    EXPECT_GT(one.hardware, one.model);
    for (const ContextParallelKind kind :
         {ContextParallelKind::kRing, ContextParallelKind::kAllGather,
          ContextParallelKind::kAllToAll}) {
      plan.cp_kind = kind;
      for (const int cp : {2, 4}) {
        plan.cp = cp;
        EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model, one.model) << Name(kind) << cp;
        EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).hardware, one.hardware) << Name(kind) << cp;
      }
    }
    plan.cp = 1;
  }
}

// Of 3 layers the second sees all of 8 tokens, the others 3: 36 and 1 + 2 + 6 * 3 = 21 pairs of
// each head, at 2 + 5 GEMMs of 2 head_dim.
TEST(StepFlops, CountTheWindowOfEachLayer) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  model.layers = 3;
  const double whole = FlopsOfStep(model, plan).model;
  model.attention_window = 3;
  model.global_attention_every = 2;
  const auto widths = static_cast<double>(model.heads * model.head_dim);
  EXPECT_DOUBLE_EQ(whole - FlopsOfStep(model, plan).model, 2 * (36 - 21) * 7 * 2 * widths);
}

}  // namespace
}  // namespace foretrain
