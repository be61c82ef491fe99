#include "sim/search/space/tune_gathers.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

Plan Sharded() {
  Plan plan;
  plan.dp = 4;
  plan.zero_stage = 3;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  return plan;
}

std::int64_t GathersOf(const ModelSpec& model, const Plan& plan) {
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << Describe(plan);
  std::int64_t count = 0;
  for (const Instruction& instruction : program->ranks[0].step) {
    count += instruction.key.kind == InstructionKind::kAllGather ? 1 : 0;
  }
  return count;
}

constexpr std::int64_t kPlenty = 1'000'000'000;

// If only the number of gathers counts, all layers are gathered at once, and then nothing but the
// updated parameters: one gather per bucket.
TEST(TuneGathers, LeavesOutWhatItHasMemoryFor) {
  const ModelSpec model = SmallGpt();
  const auto seconds = [&](const Plan& plan) -> std::optional<double> {
    return static_cast<double>(GathersOf(model, plan));
  };
  const Plan tuned = TuneGathers(model, Sharded(), kPlenty, seconds);
  EXPECT_GT(tuned.gather_bytes, 0);
  const auto program = Compile(model, tuned);
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(GathersOf(model, tuned), static_cast<int>(program->ranks[0].buckets.size()));
}

TEST(TuneGathers, StaysWithinTheMemory) {
  const ModelSpec model = SmallGpt();
  const auto seconds = [&](const Plan& plan) -> std::optional<double> {
    return static_cast<double>(GathersOf(model, plan));
  };
  const std::int64_t min = PredictFullestRank(model, Sharded()).peak.total;
  for (const std::int64_t more : {0, 5'000, 20'000, 40'000, 80'000}) {
    const Plan tuned = TuneGathers(model, Sharded(), min + more, seconds);
    EXPECT_LE(PredictFullestRank(model, tuned).peak.total, min + more) << more;
    EXPECT_LE(GathersOf(model, tuned), GathersOf(model, Sharded())) << more;
  }
}

TEST(TuneGathers, KeepsThePlanWhereNothingIsFaster) {
  const auto always = [](const Plan&) -> std::optional<double> { return 1.0; };
  EXPECT_EQ(TuneGathers(SmallGpt(), Sharded(), kPlenty, always), Sharded());
  const auto unknown = [](const Plan&) -> std::optional<double> { return std::nullopt; };
  EXPECT_EQ(TuneGathers(SmallGpt(), Sharded(), kPlenty, unknown), Sharded());
}

TEST(TuneGathers, LeavesAChosenWayAlone) {
  EXPECT_TRUE(MayTuneGathers(Sharded()));
  Plan plan = Sharded();
  plan.gather_bytes = 1;
  EXPECT_FALSE(MayTuneGathers(plan));
  plan = Sharded();
  plan.prefetch_depth = 0;
  EXPECT_FALSE(MayTuneGathers(plan));
  plan = Sharded();
  plan.zero_stage = 2;
  EXPECT_FALSE(MayTuneGathers(plan));
  plan = Sharded();
  plan.dp = 1;
  EXPECT_FALSE(MayTuneGathers(plan));
}

}  // namespace
}  // namespace foretrain
