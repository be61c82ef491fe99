// Layers with experts: their rows, products and traffic, and how expert parallelism distributes
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "sim/cost/step_flops.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/bucket_layout.h"
#include "sim/program/ops/op_work.h"
#include "tests/sim/models.h"
#include "tests/sim/random_plans.h"
#include "tests/support/bind_counts.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

// SmallGpt (width 16, 4 layers) with 4 experts of 8, 2 a token, behind one dense layer.
ModelSpec Experts() {
  ModelSpec model = SmallGpt();
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 8;
  model.first_dense_layers = 1;
  return model;
}

Plan Small() {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  return plan;
}

Block Build(const Plan& plan, Pass pass) {
  return BuildBlock({Experts(), plan, false}, {.kind = BlockKind::kExpertLayer, .pass = pass});
}

const Op& Find(const Block& block, const std::string& name) {
  for (const Op& op : block.ops) {
    if (op.name == name) return op;
  }
  ADD_FAILURE() << "no op " << name;
  return block.ops.front();
}

// 8 tokens of 2 experts: 16 rows; with 1.25 times 4 rows each has room for 5, never for more than
// the 8 tokens.
TEST(ExpertLayer, HasARowForEachPairOrForItsCapacity) {
  Plan plan = Small();
  EXPECT_EQ(Find(Build(plan, Pass::kForward), "experts.up").shape.rows, 16);
  plan.capacity_factor = 1.25;
  const Block block = Build(plan, Pass::kForward);
  EXPECT_EQ(Find(block, "experts.up").shape.rows, 4 * 5);
  EXPECT_EQ(Find(block, "experts.up").shape.capacity, 5);
  EXPECT_EQ(OperandsOf(block, Find(block, "experts.up"))[2].slot, kNoSlot) << "no counts";
  plan.capacity_factor = 100;
  EXPECT_EQ(Find(Build(plan, Pass::kForward), "experts.up").shape.rows, 4 * 8);
}

// up: [16, 16] x 4 of [8, 16]: 2 * 16 * 8 * 16 flop; 16 * 16 + 16 * 8 rows and 4 * 8 * 16 weights.
// Its weight gradient moves the same.
TEST(ExpertLayer, HasTheWorkOfItsRowsAndOfAllExpertsWeights) {
  const OpWork up = WorkOf(Find(Build(Small(), Pass::kForward), "experts.up"));
  EXPECT_EQ(up.flop, 2 * 16 * 8 * 16);
  EXPECT_EQ(up.bytes, 4 * (16 * 16 + 16 * 8 + 4 * 8 * 16));
  const OpWork grad = WorkOf(Find(Build(Small(), Pass::kBackward), "experts.up.weight_grad"));
  EXPECT_EQ(grad.flop, up.flop);
  EXPECT_EQ(grad.bytes, up.bytes);
  // One row of 16 elements per pair, read and written, and its source.
  const OpWork gather = WorkOf(Find(Build(Small(), Pass::kForward), "experts.gather"));
  EXPECT_EQ(gather.bytes, 4 * (2 * 16 * 16 + 16));
}

std::map<std::string, std::int64_t> Collectives(const Plan& plan, Pass pass) {
  std::map<std::string, std::int64_t> elements;
  for (const Op& op : Build(plan, pass).ops) {
    if (IsCommunication(op.kind)) {
      elements[std::string(Name(op.kind)) + " " + std::string(Name(op.group))] += op.shape.elements;
    }
  }
  return elements;
}

// 4 experts with 5 rows of 16 each: 320 elements a message, two each way.
TEST(ExpertLayer, SendsItsRowsTwiceEachWay) {
  Plan plan = Small();
  plan.dp = plan.ep = 2;
  plan.global_batch = 2;
  plan.capacity_factor = 1.25;
  EXPECT_THAT(Collectives(plan, Pass::kForward), ElementsAre(Pair("all_to_all ep", 640)));
  EXPECT_THAT(Collectives(plan, Pass::kBackward), ElementsAre(Pair("all_to_all ep", 640)));
  plan.tp = 2;
  EXPECT_THAT(Collectives(plan, Pass::kForward),
              ElementsAre(Pair("all_reduce tp", 2 * 8 * 16), Pair("all_to_all ep", 640)));
}

std::int64_t BytesOf(const Block& block, const std::string& slot) {
  for (const TensorSlot& one : block.slots) {
    if (one.name == slot) return one.bytes;
  }
  ADD_FAILURE() << "no slot " << slot;
  return 0;
}

// Dropless: 8 tokens of 2 experts are 16 rows of 16 numbers, sent and expected. Two members may
// send all their tokens twice, to both experts here: capacity for 32. Counts of 2 members and 4
// experts.
TEST(ExpertLayer, HasRoomForAllThatMayComeWithoutACapacity) {
  Plan plan = Small();
  plan.dp = plan.ep = 2;
  plan.global_batch = 2;
  EXPECT_THAT(Collectives(plan, Pass::kForward),
              ElementsAre(Pair("all_gather ep", 8), Pair("all_to_all_v ep", 2 * 16 * 16)));
  EXPECT_EQ(BytesOf(Build(plan, Pass::kForward), "dispatched"), 32 * 16 * 4);
  plan.expert_headroom = 1.5;
  EXPECT_EQ(BytesOf(Build(plan, Pass::kForward), "dispatched"), 24 * 16 * 4);
  // Each of four members has one expert, so a token arrives at most once: 4 * 8.
  plan.dp = plan.ep = 4;
  plan.expert_headroom = 0;
  plan.global_batch = 4;
  EXPECT_EQ(BytesOf(Build(plan, Pass::kForward), "dispatched"), 32 * 16 * 4);
}

// In 8 bits, 16 of the 24 rows of capacity are expected: 16 numbers each as they arrive, 8 after
// the activation, and the gradients of both.
TEST(ExpertLayer, CastsTheRowsThatAreExpected) {
  Plan plan = Small();
  plan.dp = plan.ep = 2;
  plan.global_batch = 2;
  plan.expert_headroom = 1.5;
  plan.precision = Precision::kFp8;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    int casts = 0;
    for (const Op& op : Build(plan, pass).ops) {
      if (op.kind != OpKind::kQuantize || op.shape.members == 0) continue;
      ++casts;
      EXPECT_EQ(op.shape.elements, 24 * op.shape.cols) << op.name;
      EXPECT_EQ(WorkOf(op).flop, 2.0 * 16 * static_cast<double>(op.shape.cols)) << op.name;
    }
    EXPECT_EQ(casts, 2) << (pass == Pass::kForward ? "forward" : "backward");
  }
}

// Whole experts: each of two tensor-parallel ranks distributes its own 4 tokens, 8 rows, and needs
// no all-reduce.
TEST(ExpertLayer, HasNoSumOverTensorParallelRanksWhereExpertsAreWhole) {
  Plan plan = Small();
  plan.tp = plan.ep = 2;
  plan.sequence_parallel = true;
  plan.expert_tp = 1;
  plan.capacity_factor = 1;
  EXPECT_THAT(Collectives(plan, Pass::kForward),
              ElementsAre(Pair("all_gather tp", 8 * 16), Pair("all_to_all ep", 2 * 8 * 16),
                          Pair("reduce_scatter tp", 8 * 16)))
      << "attention's alone";
}

// A token's GEMMs: q, k, v, out 4 * 16 * 16; dense MLP 2 * 16 * 64, with experts a router of 4 * 16
// and two of 2 * 16 * 8; head 16 * 32. Attention: 8 * 9 pairs' 2 GEMMs of 16, backward 5.
TEST(StepFlops, CountTheExpertsThatATokenPasses) {
  const double attention = 2.0 * 8 * 9 * 16 / 2 * (2 + 5);
  const double each = 4 * 16 * 16;
  const double gemms = 8.0 * 6 * (4 * each + 2 * 16 * 64 + 3 * (4 * 16 + 2 * 2 * 16 * 8) + 16 * 32);
  EXPECT_EQ(FlopsOfStep(Experts(), Small()).model, gemms + 4 * attention);
  Plan roomy = Small();
  roomy.capacity_factor = 2;
  EXPECT_EQ(FlopsOfStep(Experts(), roomy).model, gemms + 4 * attention) << "padding is no work";
  EXPECT_GT(FlopsOfStep(Experts(), roomy).hardware, gemms + 4 * attention);
}

// dp 4, ep 2: ranks 0 and 2 hold experts 0 and 1, ranks 1 and 3 the others.
TEST(ExpertBuckets, LieApartAndHoldTheExpertsOfTheRank) {
  Plan plan = Small();
  plan.dp = 4;
  plan.ep = 2;
  plan.global_batch = 4;
  plan.capacity_factor = 1;
  plan.zero_stage = 1;
  const ModelSpec model = Experts();
  for (int dp = 0; dp < 4; ++dp) {
    const BucketLayout layout = LayOutBuckets(model, plan, StageOf(model, plan, 0), {.dp = dp});
    std::set<std::string> experts;
    std::int64_t elements = 0;
    for (const ParameterPlace& place : layout.places) {
      const Bucket& bucket = layout.buckets[static_cast<std::size_t>(place.bucket)];
      const auto at = place.name.find(".experts.");
      EXPECT_EQ(bucket.experts, at != std::string::npos) << place.name;
      if (!bucket.experts) continue;
      experts.insert(place.name.substr(at + 9, 1));
      elements += place.rows * place.cols;
      EXPECT_EQ(bucket.shards, 2);
      EXPECT_EQ(bucket.shard, dp / 2);
    }
    const std::string first = std::to_string(dp % 2 * 2), second = std::to_string(dp % 2 * 2 + 1);
    EXPECT_THAT(experts, ElementsAre(first, second));
    EXPECT_EQ(elements, 3 * 2 * 2 * 16 * 8);
  }
}

TEST(BindCounts, GivesOpsTheRowsOfTheStepAndLeavesMemoryAsItIs) {
  Plan plan = Small();
  plan.dp = plan.ep = 2;
  plan.global_batch = 2;
  const auto program = Compile(Experts(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_FALSE(BindCounts(*program, {}).has_value());
  // Member 0 has 16 pairs for experts 0, 0, 10, 6; member 1 for 5, 3, 8, 0. Rank 1 has experts 2
  // and 3, for which 24 rows come.
  std::vector<RouterCounts> counts;
  for (const int rank : {0, 1}) {
    for (const int block : {2, 3, 4}) {
      counts.push_back({rank, block, 0, "", {0, 0, 10, 6, 5, 3, 8, 0}});
    }
  }
  const auto bound = BindCounts(*program, counts);
  ASSERT_TRUE(bound.has_value()) << bound.error().message;
  EXPECT_EQ(bound->hash, program->hash);
  for (const Instruction& instruction : bound->ranks[1].step) {
    const Block& block = bound->blocks[static_cast<std::size_t>(instruction.block)];
    if (block.name != "expert_layer.forward") continue;
    EXPECT_EQ(Find(block, "experts.dispatch").shape.elements, 16 * 16);
    EXPECT_EQ(Find(block, "experts.up").shape.rows, 24);
    EXPECT_EQ(Find(block, "experts.gelu").shape.rows, 24);
    EXPECT_EQ(Find(block, "experts.return").shape.elements, 24 * 16);
  }
  counts.front().counts.pop_back();
  const auto refused = BindCounts(*program, counts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("7 counts of pairs, not 8"));
}

// Two multi-token prediction (MTP) layers share the head's block, and each has its own routing. On
// member 1, with experts 2 and 3, 10 + 6 + 8 rows arrive for the first layer and 0 + 1 + 7 + 8 for
// the second.
TEST(BindCounts, GivesEachRouterOfABlockItsOwnRows) {
  Plan plan = Small();
  plan.dp = plan.ep = 2;
  plan.global_batch = 2;
  ModelSpec model = Experts();
  model.norm = NormKind::kRmsNorm;
  model.positions = PositionKind::kRope;
  model.predict_ahead = 2;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  std::vector<RouterCounts> counts;
  const auto head = static_cast<int>(model.layers) + 1;
  for (const int rank : {0, 1}) {
    for (int block = 2; block < head; ++block) {
      counts.push_back({rank, block, 0, "", {4, 4, 4, 4, 4, 4, 4, 4}});
    }
    counts.push_back({rank, head, 0, "ahead.1.", {8, 7, 0, 1, 0, 1, 7, 8}});
    counts.push_back({rank, head, 0, "ahead.", {0, 0, 10, 6, 5, 3, 8, 0}});
  }
  const auto bound = BindCounts(*program, counts);
  ASSERT_TRUE(bound.has_value()) << bound.error().message;
  int heads = 0;
  for (const Instruction& instruction : bound->ranks[1].step) {
    const Block& block = bound->blocks[static_cast<std::size_t>(instruction.block)];
    const InstructionKey& key = instruction.key;
    if (key.kind != InstructionKind::kBlock || key.pass != Pass::kForward || key.block != head) {
      continue;
    }
    ++heads;
    EXPECT_EQ(Find(block, "ahead.experts.up").shape.rows, 24);
    EXPECT_EQ(Find(block, "ahead.experts.return").shape.elements, 24 * 16);
    EXPECT_EQ(Find(block, "ahead.1.experts.up").shape.rows, 16);
    EXPECT_EQ(Find(block, "ahead.1.experts.return").shape.elements, 16 * 16);
  }
  EXPECT_EQ(heads, 1);
  counts.pop_back();
  const auto refused = BindCounts(*program, counts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("ahead.experts."));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("no counts of pairs"));
}

// The tests with random plans cover all kinds of expert parallelism.
TEST(RandomPlans, DrawEveryWayToDealExperts) {
  std::map<std::string, int> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto [model, plan] = RandomPlannedModel(i);
    if (model.experts == 0) continue;
    const bool dropless = plan.capacity_factor == 0;
    seen["ep with a capacity"] += plan.ep > 1 && !dropless;
    seen["dropless ep"] += plan.ep > 1 && dropless;
    seen["headroom"] += plan.expert_headroom > 0;
    seen["pieces"] += plan.moe_pieces > 1;
    seen["whole experts"] += plan.ExpertsSpanTp();
    seen["whole experts over ep"] += plan.ExpertsSpanTp() && plan.ep > plan.dp * plan.cp;
    seen["held once under ZeRO-3"] +=
        plan.zero_stage == 3 && plan.DealsExperts() && plan.ExpertHolders() == 1 && plan.dp > 1;
    seen["groups"] += model.expert_groups > 0;
    seen["balance"] += model.balance_tokens > 0;
  }
  for (const auto& [what, count] : seen) EXPECT_GT(count, 3) << what;
}

}  // namespace
}  // namespace foretrain
