#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/program/ir/program.h"
#include "tests/sim/models.h"
#include "tests/sim/random_plans.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

Plan TinyPlan() {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  return plan;
}

int Count(const RankProgram& rank, InstructionKind kind, Pass pass) {
  int count = 0;
  for (const Instruction& i : rank.step) count += i.key.kind == kind && i.key.pass == pass;
  return count;
}

TEST(Compile, AcceptsEveryRandomPlan) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(std::to_string(i) + ": " + Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    ASSERT_EQ(program->ranks.size(), static_cast<std::size_t>(planned.plan.World()));
  }
}

TEST(Compile, RunsEachBlockForwardAndBackwardOncePerMicroBatch) {
  Plan plan = TinyPlan();
  plan.pp = 2;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  // Stage 0: embedding and layers 1, 2; stage 1: layers 3, 4 and head. 3 blocks, 8 micro-batches.
  for (const RankProgram& rank : program->ranks) {
    EXPECT_EQ(Count(rank, InstructionKind::kBlock, Pass::kForward), 24);
    EXPECT_EQ(Count(rank, InstructionKind::kBlock, Pass::kBackward), 24);
    EXPECT_EQ(Count(rank, InstructionKind::kSend, rank.pp == 0 ? Pass::kForward : Pass::kBackward),
              8);
    EXPECT_EQ(Count(rank, InstructionKind::kRecv, rank.pp == 0 ? Pass::kBackward : Pass::kForward),
              8);
  }
}

TEST(Compile, SplitsEveryLayersBackwardUnderZbH1AndLeavesTheEmbeddingOnlyItsWeightHalf) {
  Plan plan = TinyPlan();
  plan.pp = 2;
  plan.schedule = ScheduleKind::kZbH1;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const RankProgram& first = program->ranks[0];
  EXPECT_EQ(Count(first, InstructionKind::kBlock, Pass::kBackward), 0);
  EXPECT_EQ(Count(first, InstructionKind::kBlock, Pass::kBackwardInput), 16);
  EXPECT_EQ(Count(first, InstructionKind::kBlock, Pass::kBackwardWeight), 24);
}

TEST(Compile, ReducesEachBucketOnceAndBeforeTheOptimizer) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.bucket_bytes = 1;  // each block is a bucket; the tied table is one more
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (const RankProgram& rank : program->ranks) {
    EXPECT_EQ(Count(rank, InstructionKind::kAllReduce, Pass::kUpdate),
              static_cast<int>(rank.buckets.size()));
    EXPECT_EQ(Count(rank, InstructionKind::kOptimizerStep, Pass::kUpdate),
              static_cast<int>(rank.buckets.size()));
  }
}

TEST(Compile, OverlapsGradientSumsWithTheBackwardThatFollows) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.bucket_bytes = 1;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value());
  // Some gradient reduction is issued before the last backward instruction.
  const auto& step = program->ranks[0].step;
  std::size_t first_sum = step.size(), last_backward = 0;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].key.kind == InstructionKind::kAllReduce) first_sum = std::min(first_sum, i);
    if (step[i].key.pass == Pass::kBackward) last_backward = i;
  }
  EXPECT_LT(first_sum, last_backward);
}

TEST(Compile, MakesZero1GathersPrecedeTheNextStepsForwardByAnEdgeAcrossSteps) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const RankProgram& rank = program->ranks[0];
  const auto refs = OpRefs(*program, rank);
  int across = 0;
  for (const Edge& edge : rank.edges) {
    const Instruction& from =
        rank.step[static_cast<std::size_t>(refs[static_cast<std::size_t>(edge.from)].instruction)];
    const Instruction& to =
        rank.step[static_cast<std::size_t>(refs[static_cast<std::size_t>(edge.to)].instruction)];
    across += edge.distance == 1 && from.key.kind == InstructionKind::kAllGather &&
              to.key.kind == InstructionKind::kBlock && to.key.pass == Pass::kForward;
  }
  EXPECT_GT(across, 0);
}

TEST(Compile, KeepsAtMostTwoGatheredBlocksLiveUnderZero3) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  ModelSpec model = SmallGpt();
  model.tied_embeddings = false;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const RankProgram& rank = program->ranks[0];
  // A block has at most two buckets (the head: norm and weight are one under ZeRO-3 untied).
  int max = 0;
  for (std::int32_t op = 0; op < rank.op_count; ++op) {
    int live = 0;
    for (const Buffer& buffer : rank.buffers) {
      live += buffer.category == Category::kCommunication && buffer.first_op <= op &&
              op <= buffer.last_op;
    }
    max = std::max(max, live);
  }
  EXPECT_EQ(max, 2);
}

TEST(Compile, GivesEveryInstructionOfARankItsOwnId) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    const auto program = Compile(planned.model, planned.plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    for (const RankProgram& rank : program->ranks) {
      std::set<OpId> ids;
      for (const Instruction& instruction : rank.step) {
        EXPECT_TRUE(ids.insert(PackId(instruction.key)).second)
            << Describe(PackId(instruction.key));
      }
    }
  }
}

TEST(Compile, IsAFunctionOfItsInput) {
  const PlannedModel planned = RandomPlannedModel(7);
  const auto a = Compile(planned.model, planned.plan);
  const auto b = Compile(planned.model, planned.plan);
  ASSERT_TRUE(a.has_value());
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(a->hash, b->hash);
  Plan other = planned.plan;
  other.global_batch *= 2;
  const auto c = Compile(planned.model, other);
  ASSERT_TRUE(c.has_value());
  EXPECT_NE(a->hash, c->hash);
}

TEST(Compile, RefusesAPlanWhoseMicroBatchDoesNotDivide) {
  Plan plan = TinyPlan();
  plan.micro_batch = 3;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(program.error().message, HasSubstr("micro"));
}

}  // namespace
}  // namespace foretrain
