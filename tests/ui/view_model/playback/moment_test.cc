#include "ui/view_model/playback/moment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// The measured spans of rank 0, relative to the step: compute [0, 100), [100, 240), a send [100,
// 150).
class MomentTest : public testing::Test {
 protected:
  MomentTest() {
    // Weights of 100 bytes, and activations of 40 from 1,050 to 1,150 in the run's own time.
    input_.measured->timeline.memory = {{0, 100, 0, Category::kParameters},
                                        {1050, 40, 0, Category::kActivations},
                                        {1150, 0, 0, Category::kActivations}};
    model_ = ModelOf(input_);
    rank_ = RankMoments(model_, Side::kMeasured, 0);
  }
  std::vector<QueueText> Queues(double at_ns) const {
    return TextsOf(model_, rank_, rank_.QueuesAt(model_, at_ns), at_ns);
  }

  CompareInput input_ = TwoRanks();
  CompareModel model_;
  RankMoments rank_;
};

TEST_F(MomentTest, TellsWhatRunsOnEachQueueAndComesNext) {
  const std::vector<QueueMoment> queues = rank_.QueuesAt(model_, 50);
  ASSERT_THAT(queues, SizeIs(2));
  EXPECT_EQ(queues[0].queue, "compute");
  ASSERT_TRUE(queues[0].runs.has_value());
  EXPECT_FALSE(queues[0].starts);
  EXPECT_EQ(queues[0].to_go, 1U);
  EXPECT_FALSE(queues[1].runs.has_value());
  ASSERT_TRUE(queues[1].next.has_value());
  EXPECT_EQ(queues[1].to_go, 1U);
  const std::vector<QueueText> texts = Queues(50);
  EXPECT_EQ(texts[0].runs, "mlp, layer 1, forward mb 0");
  EXPECT_EQ(texts[0].since, "50.0 ns");
  EXPECT_EQ(texts[0].left, "50.0 ns");
  EXPECT_EQ(texts[0].next, "mlp, layer 1, forward mb 1 in 50.0 ns");
  EXPECT_EQ(texts[1].runs, "idle");
}

TEST_F(MomentTest, MarksOpsThatStartOrEndNow) {
  const std::vector<QueueMoment> queues = rank_.QueuesAt(model_, 100);
  ASSERT_THAT(queues, SizeIs(2));
  EXPECT_TRUE(queues[0].starts);
  EXPECT_TRUE(queues[0].ended.has_value());
  EXPECT_TRUE(queues[1].starts);
  EXPECT_FALSE(queues[1].next.has_value());
  EXPECT_EQ(Queues(100)[0].since, "starts");
  const std::vector<QueueText> after = Queues(150);
  EXPECT_TRUE(after[1].ends);
  EXPECT_EQ(after[1].since, "ends");
  EXPECT_EQ(after[1].to_go, "0");
}

TEST_F(MomentTest, TellsLiveBytesByCategoryAndWhatChangesNow) {
  const auto texts = [&](double at_ns) {
    std::vector<std::string> lines;
    for (const CategoryText& text : foretrain::ui::TextsOf(*rank_.MemoryAt(model_, at_ns))) {
      lines.push_back(text.name + " " + text.bytes + " " + text.change);
    }
    return lines;
  };
  ASSERT_TRUE(rank_.MemoryAt(model_, 40).has_value());
  EXPECT_THAT(texts(40), ElementsAre("parameters 100 B ", "all 100 B "));
  EXPECT_THAT(texts(50),
              ElementsAre("parameters 100 B ", "activations 40 B +40 B", "all 140 B +40 B"));
  EXPECT_THAT(texts(60), ElementsAre("parameters 100 B ", "activations 40 B ", "all 140 B "));
  EXPECT_THAT(texts(150),
              ElementsAre("parameters 100 B ", "activations 0 B -40 B", "all 100 B -40 B"));
  // The forecast has no samples.
  EXPECT_FALSE(RankMoments(model_, Side::kPredicted, 0).MemoryAt(model_, 50).has_value());
}

}  // namespace
}  // namespace foretrain::ui
