// Holds the closed form to its word: it prices the instructions that a compiled step has, from
// their own descriptions, and no others.
#include "sim/search/evaluate/state_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/cost/profile/derive_profile.h"
#include "sim/memory/host_memory.h"
#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/step_description.h"
#include "sim/search/evaluate/block_table.h"
#include "tests/sim/random_plans.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// Priced elsewhere: passes of blocks (BlockTable), sends with their receives, and copies of
// activations (ChunkCosts). Loads of batches are off the way and have no price.
bool IsPricedWithBlocks(const InstructionKey& key) {
  const bool transfer = key.kind == InstructionKind::kSend || key.kind == InstructionKind::kRecv;
  return key.kind == InstructionKind::kBlock || key.kind == InstructionKind::kLoadBatch ||
         key.pass == Pass::kNone || (transfer && key.pass != Pass::kUpdate);
}

struct Counted {
  std::map<InstructionKind, int> kinds;
  int tied = 0, compared = 0;
};

// Keys of blocks of the rank's whole step and of its priced outline.
void Compare(const PlannedModel& planned, int pp, BlockTimes& times, Counted& counted) {
  const auto& [model, plan] = planned;
  const RankCoordinates at{.pp = pp};
  const Stage stage = StageOf(model, plan, pp);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, at);
  const LowerContext context{model, plan, stage, layout, at};
  std::set<std::string> emitted, priced;
  for (const SkeletonStep& step : LowerStep(context)) {
    if (IsPricedWithBlocks(step.key)) continue;
    emitted.insert(step.rule->describe(context, step.key).block);
    ++counted.kinds[step.key.kind];
  }
  for (const PricedStep& step : PriceSteps(context, times, Outlined::kAll).steps) {
    priced.insert(step.name);
    EXPECT_TRUE(step.spans_stages || step.seconds > 0) << step.name;
  }
  EXPECT_EQ(priced, emitted);
  // The two parts that a search prices separately are the outline's steps, each once.
  const auto keys_of = [](const Skeleton& skeleton) {
    std::vector<InstructionKey> keys;
    for (const SkeletonStep& step : skeleton) {
      if (step.key.pass != Pass::kUpdate) keys.push_back(step.key);
    }
    return keys;
  };
  EXPECT_EQ(keys_of(OutlineStep(context, /*update=*/false)), keys_of(OutlineStep(context)));
  counted.tied += layout.tied_bucket >= 0 ? 1 : 0;
  ++counted.compared;
}

TEST(StateCosts, PriceEveryInstructionOfAStepAndNoOther) {
  const RealisticPlan machine = RealisticPlanOf(3);
  const auto costs = CostModel::Make(machine.cluster, DeriveProfile(machine.cluster));
  ASSERT_TRUE(costs.has_value());
  Counted counted;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    // One micro-batch adds to no other.
    if (planned.plan.MicroBatches() == 1) continue;
    SCOPED_TRACE(std::to_string(i) + ": " + Describe(planned));
    BlockTimes times(*costs, AllPlanFields());
    for (int pp = 0; pp < planned.plan.pp; ++pp) Compare(planned, pp, times, counted);
  }
  EXPECT_GT(counted.compared, 500);
  EXPECT_GT(counted.tied, 20);
  for (const InstructionKind kind :
       {InstructionKind::kAllGather, InstructionKind::kReduceScatter, InstructionKind::kAllReduce,
        InstructionKind::kHeadReduce, InstructionKind::kScalarReduce, InstructionKind::kNorm,
        InstructionKind::kOptimizerStep, InstructionKind::kAmend, InstructionKind::kHostRead,
        InstructionKind::kCopyIn, InstructionKind::kCopyOut, InstructionKind::kNvmeRead,
        InstructionKind::kNvmeWrite, InstructionKind::kAccumulate, InstructionKind::kKeep,
        InstructionKind::kBalance}) {
    EXPECT_GT(counted.kinds[kind], 0) << Name(kind);
  }
}

// One bucket of all layers is complete when the first layer's backward ends. Only the embedding's
// backward follows, so nothing hides the bucket's reduction.
TEST(StateCosts, CountTheReductionAfterTheLastLayerAsShown) {
  const RealisticPlan machine = RealisticPlanOf(3);
  const auto costs = CostModel::Make(machine.cluster, DeriveProfile(machine.cluster));
  ASSERT_TRUE(costs.has_value());
  ModelSpec model = machine.model;
  model.layers = 2;
  model.tied_embeddings = true;  // the table has a bucket of its own
  Plan plan;
  plan.dp = 4;
  plan.zero_stage = 1;
  plan.sequence = 128;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  plan.bucket_bytes = std::int64_t{1} << 40;
  BlockTimes times(*costs, AllPlanFields());
  const Stage stage = StageOf(model, plan, 0);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, {});
  ASSERT_EQ(layout.buckets.size(), 2U);
  const UpdateCosts found = UpdateCostsOf({model, plan, stage, layout, {}}, times);
  EXPECT_GT(found.sums_s, 0);
  EXPECT_EQ(found.last_sum_s, found.sums_s);
}

// Both ends hold a copy of the table, whose gradients are summed over them: an all-reduce of all
// elements of its bucket, which takes time on any network.
TEST(StateCosts, HaveTheSumOfTiedEmbeddingsOverTheEndsOfThePipeline) {
  const RealisticPlan machine = RealisticPlanOf(3);
  const auto costs = CostModel::Make(machine.cluster, DeriveProfile(machine.cluster));
  ASSERT_TRUE(costs.has_value());
  ModelSpec model = machine.model;
  model.tied_embeddings = true;
  Plan plan;
  plan.pp = 2;
  plan.sequence = 128;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  BlockTimes times(*costs, AllPlanFields());
  for (int pp = 0; pp < 2; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    const BucketLayout layout = LayOutBuckets(model, plan, stage, {.pp = pp});
    const UpdateCosts found = UpdateCostsOf({model, plan, stage, layout, {.pp = pp}}, times);
    ASSERT_EQ(found.sums_over_stages.size(), 1U);
    const Op& sum = found.sums_over_stages[0].ops.front();
    EXPECT_EQ(sum.group, GroupKind::kEnds);
    EXPECT_EQ(sum.shape.elements,
              layout.buckets[static_cast<std::size_t>(layout.tied_bucket)].elements);
    EXPECT_GT(times.SpanOf(found.sums_over_stages[0], plan), 0);
  }
}

// Each copy takes the kept tensors of one layer and micro-batch. Over NVMe they pass more hops, so
// the slowest one takes at least as long.
TEST(BlockTable, MovesTheActivationsOfALayerThatACopyOfTheCompiledStepMoves) {
  const RealisticPlan machine = RealisticPlanOf(3);
  const auto costs = CostModel::Make(machine.cluster, DeriveProfile(machine.cluster));
  ASSERT_TRUE(costs.has_value());
  ModelSpec model;
  model.layers = 6;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  model.vocab = 1000;
  model.max_sequence = 32;
  Plan plan;
  plan.sequence = 32;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.offload_activations = OffloadTarget::kHost;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const RankProgram& rank = program->ranks.front();
  const auto copies = std::count_if(rank.step.begin(), rank.step.end(), [](const auto& step) {
    return step.key.kind == InstructionKind::kCopyOut;
  });
  ASSERT_GT(copies, 0);
  BlockTimes times(*costs, AllPlanFields());
  BlockTable table(model, times, AllPlanFields());
  const BlockCosts& layer = table.Find(plan, {}, table.KeysOf(plan));
  EXPECT_EQ(CopiedBytesOf(*program, rank).from_device, copies * layer.kept_bytes);
  EXPECT_GT(layer.kept_s, 0);
  plan.offload_activations = OffloadTarget::kNvme;
  EXPECT_GE(table.Find(plan, {}, table.KeysOf(plan)).kept_nvme_s, layer.kept_s);
}

}  // namespace
}  // namespace foretrain
