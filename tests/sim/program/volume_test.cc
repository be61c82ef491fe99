// Volume of each kind of data parallelism: elements of the tensors that its collectives move.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "sim/program/ir/program.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

using Volumes = std::map<std::string, double>;  // by op and group, in units of the parameters

constexpr int kMicroBatches = 3;

Plan FourRanks() {
  Plan plan;
  plan.dp = 4;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 4 * kMicroBatches;
  return plan;
}

// Bytes that rank 0 contributes to (all-gather: holds after) each collective, relative to all its
// parameters in fp32. Scalars are left out.
Volumes VolumesOf(const Plan& plan) {
  ModelSpec model = SmallGpt();
  model.tied_embeddings = false;
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << Describe(plan) << ": " << program.error().message;
  if (!program.has_value()) return {};
  const RankProgram& rank = program->ranks[0];
  double parameters = 0;
  for (const Bucket& bucket : rank.buckets) parameters += static_cast<double>(bucket.elements);
  Volumes volumes;
  for (const OpRef ref : OpRefs(*program, rank)) {
    const Op& op = OpAt(*program, rank, ref);
    if (!IsCollective(op.kind) || op.shape.elements == 1) continue;
    volumes[std::string(Name(op.kind)) + "." + std::string(Name(op.group))] +=
        static_cast<double>(op.shape.elements) / parameters;
  }
  std::string text;
  for (const auto& [what, volume] : volumes) text += "  " + what + " " + std::to_string(volume);
  std::printf("%-40s%s\n", Describe(plan).c_str(), text.c_str());
  return volumes;
}

auto Is(const Volumes& expected) {
  std::vector<testing::Matcher<std::pair<const std::string, double>>> entries;
  for (const auto& [what, volume] : expected) {
    entries.push_back(testing::Pair(what, testing::DoubleNear(volume, 1e-9)));
  }
  return testing::UnorderedElementsAreArray(entries);
}

// A ring moves (n - 1) / n of each value once, and twice for an all-reduce. G = 3 micro-batches.
TEST(Volumes, OfEachZeroStageAreThoseOfItsDefinition) {
  Plan plan = FourRanks();
  EXPECT_THAT(VolumesOf(plan), Is({{"all_reduce.dp", 1}}));
  plan.zero_stage = 1;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 1}, {"all_gather.shard", 1}}));
  plan.zero_stage = 2;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 3}, {"all_gather.shard", 1}}));
  plan.zero_stage = 3;
  // Per micro-batch: every block forward, and all but the embedding backward, whose backward reads
  // no parameters. SmallGpt's two tables are 32 x 16 and 8 x 16.
  double parameters = 0;
  const auto program = Compile(
      [] {
        ModelSpec model = SmallGpt();
        model.tied_embeddings = false;
        return model;
      }(),
      plan);
  ASSERT_TRUE(program.has_value());
  for (const Bucket& bucket : program->ranks[0].buckets) {
    parameters += static_cast<double>(bucket.elements);
  }
  const double tables = (32 + 8) * 16;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 3},
                                   {"all_gather.shard", 3 * (2 - tables / parameters)}}));
}

// Blocks that are gathered together take fewer collectives and move the same volume. A model that
// may stay whole completely moves the same as under ZeRO-2.
TEST(Volumes, OfGathersTogetherAreThoseOfGathersApart) {
  Plan plan = FourRanks();
  plan.zero_stage = 3;
  const Volumes apart = VolumesOf(plan);
  ModelSpec model = SmallGpt();
  model.tied_embeddings = false;
  const auto gathers = [&] {
    const auto program = Compile(model, plan);
    EXPECT_TRUE(program.has_value()) << Describe(plan);
    const auto& step = program->ranks[0].step;
    return std::count_if(step.begin(), step.end(), [](const Instruction& instruction) {
      return instruction.key.kind == InstructionKind::kAllGather;
    });
  };
  // Blocks 0 to 5 forward, 5 to 1 backward, 3 times.
  EXPECT_EQ(gathers(), 3 * 11);
  plan.gather_bytes = 1'000'000'000;
  // The embedding, which no backward reads, stays apart.
  EXPECT_EQ(gathers(), 3 * 3);
  // Apart from the padding of each bucket they are the same.
  EXPECT_NEAR(VolumesOf(plan).at("all_gather.shard"), apart.at("all_gather.shard"), 0.01);
  plan.gather_bytes = 0;
  plan.unsharded_bytes = 1'000'000'000;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 3}, {"all_gather.shard", 1}}));
}

// With LoRA, frozen parameters are neither reduced nor gathered after an update; ZeRO-3 gathers all
// parameters that a pass reads.
TEST(Volumes, OfAdaptersAreTheirsAlone) {
  Plan plan = FourRanks();
  plan.method = TrainingMethod::kLora;
  plan.zero_stage = 3;
  ModelSpec model = SmallGpt();
  model.tied_embeddings = false;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value());
  double all = 0, trained = 0;
  for (const Bucket& bucket : program->ranks[0].buckets) {
    all += static_cast<double>(bucket.elements);
    if (!bucket.frozen) trained += static_cast<double>(bucket.elements);
  }
  // All but the embedding is read again in the backward.
  const double tables = (32 + 8) * 16;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 3 * trained / all},
                                   {"all_gather.shard", 3 * (2 - tables / all)}}));
  // Shards of adapters have 64 elements, also if nothing else is sharded.
  plan.zero_stage = 1;
  const auto whole = Compile(model, plan);
  ASSERT_TRUE(whole.has_value());
  all = trained = 0;
  for (const Bucket& bucket : whole->ranks[0].buckets) {
    all += static_cast<double>(bucket.elements);
    if (bucket.frozen) {
      EXPECT_EQ(bucket.shards, 1);
      EXPECT_EQ(bucket.gradients, -1);
      EXPECT_EQ(bucket.moment1, -1);
    } else {
      EXPECT_EQ(bucket.shards, 4);
      trained += static_cast<double>(bucket.elements);
    }
  }
  EXPECT_THAT(VolumesOf(plan),
              Is({{"reduce_scatter.shard", trained / all}, {"all_gather.shard", trained / all}}));
  plan.zero_stage = 0;
  EXPECT_NEAR(VolumesOf(plan)["all_reduce.dp"], trained / all, 0.01);
}

TEST(Volumes, OfSumsAfterEachMicroBatchAreThatManyTimesTheOnes) {
  Plan plan = FourRanks();
  plan.reduction_time = ReductionTime::kMicroBatch;
  EXPECT_THAT(VolumesOf(plan), Is({{"all_reduce.dp", 3}}));
  plan.zero_stage = 1;
  EXPECT_THAT(VolumesOf(plan), Is({{"reduce_scatter.shard", 3}, {"all_gather.shard", 1}}));
}

// Two replicas of two shards: the shard, a half, is reduced over the replicas once per step.
TEST(Volumes, OfReplicasAddOneSumOfTheShard) {
  Plan plan = FourRanks();
  plan.replicas = 2;
  plan.zero_stage = 1;
  const Volumes zero1 = {
      {"reduce_scatter.shard", 1}, {"all_reduce.replica", 0.5}, {"all_gather.shard", 1}};
  EXPECT_THAT(VolumesOf(plan), Is(zero1));
  plan.zero_stage = 2;
  const Volumes zero2 = {
      {"reduce_scatter.shard", 3}, {"all_reduce.replica", 0.5}, {"all_gather.shard", 1}};
  EXPECT_THAT(VolumesOf(plan), Is(zero2));
}

// Shards are multiples of 16 elements: 1 byte each, and a scale of 4 bytes per 256 started.
TEST(Volumes, OfQuantizedGathersShrinkWithTheFormat) {
  Plan plan = FourRanks();
  plan.zero_stage = 3;
  const double whole = VolumesOf(plan)["all_gather.shard"];
  plan.gather_format = GatherFormat::kBf16;
  EXPECT_NEAR(VolumesOf(plan)["all_gather.shard"], whole / 2, 1e-9);
  for (const GatherFormat format : {GatherFormat::kFp8, GatherFormat::kInt8}) {
    plan.gather_format = format;
    const double ratio = VolumesOf(plan)["all_gather.shard"] / whole;
    EXPECT_GE(ratio, 0.25 * (1 + 4.0 / 256));
    EXPECT_LT(ratio, 0.25 * (1 + 4.0 / 64));  // the smallest bucket has short blocks
  }
}

}  // namespace
}  // namespace foretrain
