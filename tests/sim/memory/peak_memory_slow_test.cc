#include "sim/memory/peak_memory.h"

#include <gtest/gtest.h>

#include "sim/program/ir/program.h"
#include "tests/sim/random_plans.h"

namespace foretrain {
namespace {

TEST(PeakMemory, EqualsTheLinkedProgramToTheByteOnAThousandRandomPlans) {
  int compared = 0, elsewhere = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(std::to_string(i) + ": " + Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    for (const RankProgram& rank : program->ranks) {
      for (int s = 0; s < kSpaceCount; ++s) {
        const auto space = static_cast<Space>(s);
        const PeakMemory linked = LinkedPeak(rank, space);
        const PeakMemory predicted =
            PlannedPeak(planned.model, planned.plan, rank.Coordinates(), space);
        for (int c = 0; c < kCategoryCount; ++c) {
          ASSERT_EQ(predicted.bytes[static_cast<std::size_t>(c)],
                    linked.bytes[static_cast<std::size_t>(c)])
              << "rank " << rank.rank << ' ' << Name(space) << ' '
              << Name(static_cast<Category>(c));
        }
        ASSERT_EQ(predicted.total, linked.total);
        elsewhere += space != Space::kDevice && linked.total > 0 ? 1 : 0;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(elsewhere, 500);
}

// One layer, hidden 8, sequence 4, micro-batch 1, vocabulary 16, GPT: parameters by hand.
//   layer: norms 4*8, qkv 24*8+24, out 8*8+8, up 32*8+32, down 8*32+8 = 32+216+72+288+264 = 872
//   tables: 16*8 + 4*8 = 160, final norm 16; in all 1048. Buckets pad to 16: the tied table is one
//   of 128, the other 920 -> 928: 1056 elements, 4224 bytes.
TEST(PeakMemory, HoldsParametersGradientsAndTwoMomentsOfEachParameter) {
  ModelSpec model;
  model.layers = 1;
  model.hidden = 8;
  model.heads = 2;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden = 32;
  model.vocab = 16;
  model.max_sequence = 4;
  Plan plan;
  plan.sequence = 4;
  plan.micro_batch = 1;
  plan.global_batch = 1;
  ASSERT_EQ(ParameterCount(model), 1048);
  const PeakMemory peak = PlannedPeak(model, plan, {});
  EXPECT_EQ(peak.bytes[static_cast<std::size_t>(Category::kParameters)], 4224);
  EXPECT_EQ(peak.bytes[static_cast<std::size_t>(Category::kGradients)], 4224);
  EXPECT_EQ(peak.bytes[static_cast<std::size_t>(Category::kOptimizerState)], 2 * 4224);
}

TEST(PeakMemory, ZeroStage3HoldsAShardOfStateOnEachRank) {
  PlannedModel planned = RandomPlannedModel(1);
  Plan plan = planned.plan;
  plan.cp = 1;
  plan.dp = 2;
  plan.global_batch = 2 * plan.micro_batch;
  plan.zero_stage = 0;
  const PeakMemory whole = PlannedPeak(planned.model, plan, {});
  plan.zero_stage = 3;
  const PeakMemory sharded = PlannedPeak(planned.model, plan, {});
  const auto of = [](const PeakMemory& peak, Category category) {
    return peak.bytes[static_cast<std::size_t>(category)];
  };
  // Half of each bucket, and padding of at most 16 elements a bucket and rank.
  const double ratio = static_cast<double>(of(sharded, Category::kOptimizerState)) /
                       static_cast<double>(of(whole, Category::kOptimizerState));
  EXPECT_GE(ratio, 0.5);
  EXPECT_LT(ratio, 0.75);
  EXPECT_LT(of(sharded, Category::kParameters), of(whole, Category::kParameters));
}

}  // namespace
}  // namespace foretrain
