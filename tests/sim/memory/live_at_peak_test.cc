#include "sim/memory/live_at_peak.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/memory/peak_memory.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

// op           0    1    2    3
// activations  |--- 40 ---|
// activations       |--- 40 ---|
// gradients         |- 30 |
// workspace                   |50|
// state 100: op 1 holds 210. All ops are of blocks of one name: both activations are alike.
TEST(LiveAtPeak, ListsWhatIsHeldAtTheFullestOpLargestFirst) {
  HandMade made(1);
  for (int i = 0; i < 4; ++i) made.Add(0, Queue::kCompute, 1.0, "op" + std::to_string(i));
  made.AddBuffer(0, 40, Category::kActivations, {0, 2});
  made.AddBuffer(0, 40, Category::kActivations, {1, 3});
  made.AddBuffer(0, 30, Category::kGradients, {1, 2});
  made.AddBuffer(0, 9, Category::kWorkspace, {3});
  made.AddBuffer(0, 100, Category::kParameters, {}, /*persistent=*/true);
  for (Block& block : made.program.blocks) block.name = "layer";
  const LiveAtPeak live = FindLiveAtPeak(made.program, 0);
  EXPECT_EQ(live.total_bytes, 210);
  EXPECT_EQ(live.at.rfind("op1 of ", 0), 0U) << live.at;
  ASSERT_EQ(live.tensors.size(), 3U);
  EXPECT_EQ(live.tensors[0].bytes, 100);
  EXPECT_TRUE(live.tensors[0].since.empty());
  EXPECT_EQ(live.tensors[1].count, 2);
  EXPECT_EQ(live.tensors[1].bytes, 80);
  EXPECT_EQ(live.tensors[1].category, Category::kActivations);
  EXPECT_EQ(live.tensors[1].since.rfind("op0 of ", 0), 0U) << live.tensors[1].since;
  EXPECT_EQ(live.tensors[1].until.rfind("op3 of ", 0), 0U) << live.tensors[1].until;
  EXPECT_EQ(live.tensors[2].bytes, 30);
}

TEST(LiveAtPeak, SumsToThePeakOfACompiledPlanAndNamesItsTensors) {
  const auto catalogue = BuiltInCatalogue();
  const auto model = ResolveModel("gpt2-124m", "test", *catalogue);
  ASSERT_TRUE(model.has_value());
  Plan plan;
  plan.pp = 2;
  plan.sequence = 64;
  plan.global_batch = 4;
  plan.micro_batch = 1;
  const auto program = Compile(model->model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const LiveAtPeak live = FindLiveAtPeak(*program, rank);
    EXPECT_EQ(live.total_bytes, LinkedPeak(program->ranks[rank]).total);
    std::int64_t sum = 0;
    bool moments = false;
    for (const LiveTensors& tensors : live.tensors) {
      sum += tensors.bytes;
      moments = moments || tensors.name.starts_with("first moment of ");
      EXPECT_EQ(tensors.since.empty(), tensors.until.empty());
    }
    EXPECT_EQ(sum, live.total_bytes);
    EXPECT_TRUE(moments);
  }
}

std::vector<std::string> NamesOfMoments(const Program& program, std::size_t rank) {
  std::vector<std::string> names;
  for (const LiveTensors& tensors : FindLiveAtPeak(program, rank).tensors) {
    if (tensors.name.starts_with("first moment")) {
      names.push_back(fmt::format("{} x {}", tensors.count, tensors.name));
    }
  }
  return names;
}

// Every block has a bucket of its own. At width 768 the table of 50,257 tokens is the largest, then
// come a layer, the 1,024 positions and the last norm.
TEST(LiveAtPeak, TellsBucketsApartByWhatTheyHold) {
  const auto catalogue = BuiltInCatalogue();
  const auto model = ResolveModel("gpt2-124m", "test", *catalogue);
  ASSERT_TRUE(model.has_value());
  Plan plan;
  plan.pp = 2;
  plan.sequence = 64;
  plan.global_batch = 4;
  plan.micro_batch = 1;
  plan.bucket_bytes = 1;
  const auto program = Compile(model->model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_THAT(NamesOfMoments(*program, 0), testing::ElementsAre("6 x first moment of layers 1-6",
                                                                "1 x first moment of token table",
                                                                "1 x first moment of embedding"));
  EXPECT_THAT(NamesOfMoments(*program, 1),
              testing::ElementsAre("6 x first moment of layers 7-12",
                                   "1 x first moment of token table", "1 x first moment of head"));
}

TEST(LiveAtPeak, TellsExpertsFromTheLayersTheyAreIn) {
  const auto catalogue = BuiltInCatalogue();
  auto model = ResolveModel("mixtral-8x7b", "test", *catalogue);
  ASSERT_TRUE(model.has_value());
  model->model.layers = 2;
  Plan plan;
  plan.dp = 2;
  plan.ep = 2;
  plan.sequence = 64;
  plan.global_batch = 4;
  plan.micro_batch = 1;
  const auto program = Compile(model->model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto names = NamesOfMoments(*program, 0);
  EXPECT_THAT(names, testing::Contains(testing::HasSubstr("first moment of experts of layer")));
  EXPECT_THAT(names, testing::Contains(testing::HasSubstr("first moment of layer")));
}

}  // namespace
}  // namespace foretrain
