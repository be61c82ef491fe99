// Layers with experts: their rows, products and traffic, and how expert parallelism deals them out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "sim/cost/step_flops.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/stage.h"
#include "tests/sim/models.h"

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
  // A row a pair of 16 elements, read and written, and its source.
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

}  // namespace
}  // namespace foretrain
