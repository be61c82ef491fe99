#include "sim/search/evaluate/block_times.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/blocks/block_builder.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// An op that takes `seconds` on every machine.
void AddOpaque(BlockBuilder& b, const std::string& name, Queue queue, double seconds,
               std::int16_t reads, std::int16_t writes) {
  Op& op = b.Add(OpKind::kOpaque, OpClass::kMemoryBound, name, {In(reads), Out(writes)});
  op.queue = queue;
  op.duration_s = seconds;
}

// compute:  a 1 s            c 4 s   e 16 s     c waits for b and for `early`, and makes y
// ep:             b 2 s              d 8 s      b and d wait for a
// tp:      early 32 s                           waits for nothing
TEST(BlockTimes, CountWaitsForWhatWaitsForComputing) {
  const RealisticPlan drawn = RealisticPlanOf(3);
  const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
  ASSERT_TRUE(costs.has_value());
  BlockTimes times(*costs, AllPlanFields());
  BlockBuilder b("block");
  const std::int16_t of_a = b.Temporary("of_a", 1), of_b = b.Temporary("of_b", 1);
  const std::int16_t of_early = b.Temporary("of_early", 1), other = b.Temporary("other", 1);
  const std::int16_t last = b.Temporary("last", 1);
  const std::int16_t y = b.Slot("y", 1, Category::kActivations, SlotRole::kOutput);
  AddOpaque(b, "early", Queue::kTp, 32, kNoSlot, of_early);
  AddOpaque(b, "a", Queue::kCompute, 1, kNoSlot, of_a);
  AddOpaque(b, "b", Queue::kEp, 2, of_a, of_b);
  b.Add(OpKind::kOpaque, OpClass::kMemoryBound, "c", {In(of_b), In(of_early), Out(y)}).duration_s =
      4;
  AddOpaque(b, "d", Queue::kEp, 8, of_a, other);
  AddOpaque(b, "e", Queue::kCompute, 16, of_a, last);
  const PassCosts figures = times.Of(b.Take(), Plan{});
  const double close = 0.01;  // gaps between ops, of microseconds
  EXPECT_NEAR(figures.compute_s, 1 + 4 + 16, close);
  EXPECT_NEAR(figures.held_s, 1 + 2 + 4 + 16, close);
  EXPECT_NEAR(figures.tail_s, 16, close);
  EXPECT_NEAR(figures.span_s, 32 + 4 + 16, close);
}

}  // namespace
}  // namespace foretrain
