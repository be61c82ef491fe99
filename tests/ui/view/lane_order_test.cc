// Groups, pins, order and overview of the lanes, with mouse and keyboard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ui/headless_frames.h"
#include "tests/ui/sample_run.h"
#include "tests/ui/text_layout.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

class LaneOrderScreen : public HeadlessFrames {
 protected:
  // Ranks 0 to 3 are stage 0, 4 to 7 stage 1, whose attention is slower.
  void OpenEight() {
    Open(SampleInput({.stages = 2, .replicas = 4, .layers = 4, .micro_batches = 4}));
  }
  std::vector<int> Shown() {
    std::vector<int> ranks;
    for (const ui::LaneRow& row : screen_->layout().list->rows) {
      ranks.push_back(screen_->model().lanes[row.lane].rank);
    }
    return ranks;
  }
};

TEST_F(LaneOrderScreen, GroupsByAButtonAndOpensAGroupByAClick) {
  OpenEight();
  EXPECT_EQ(Shown().size(), 8U);
  ClickOn("groups");
  Frame();
  ASSERT_EQ(Shown().size(), 2U);
  EXPECT_THAT(last_.labels, Contains("4 ranks"));
  EXPECT_THAT(LayoutProblems(last_), IsEmpty());
  const int of_stage_0 = Shown()[0];
  ClickOn("4 ranks of rank " + std::to_string(of_stage_0));
  Frame();
  EXPECT_EQ(Shown().size(), 5U);
  ClickOn("close group of rank 0");
  Frame();
  EXPECT_EQ(Shown().size(), 2U);
}

TEST_F(LaneOrderScreen, ShowsTheSlowestFirst) {
  OpenEight();
  ClickOn("slowest");
  Frame();
  // Stage 1 computes longer.
  std::vector<int> first = Shown();
  first.resize(4);
  EXPECT_THAT(first, testing::Each(testing::Ge(4)));
  ClickOn("slowest");
  Frame();
  EXPECT_EQ(Shown(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(LaneOrderScreen, PinsARankByItsPin) {
  OpenEight();
  ClickOn("pin rank 2");
  Frame();
  EXPECT_EQ(Shown(), (std::vector<int>{2, 0, 1, 3, 4, 5, 6, 7}));
  MoveTo(MiddleOf("pin rank 2").x, MiddleOf("pin rank 2").y);
  Frame();
  EXPECT_THAT(last_.tooltip, Contains(StartsWith("unpin rank 2")));
}

// Rank 6 is in a closed group and below the visible lanes.
TEST_F(LaneOrderScreen, GoesToARankThatIsTyped) {
  OpenEight();
  ClickOn("groups");
  Frame();
  Type('j');
  Frame();
  Type('6');
  Frame();
  Frame();
  const std::vector<int> shown = Shown();
  EXPECT_THAT(shown, Contains(6));
  EXPECT_EQ(state().memory_lane, 6U);
  bool visible = false;
  for (const ui::LaneBox& box : screen_->layout().lane_boxes) visible = visible || box.lane == 6;
  EXPECT_TRUE(visible);
}

TEST_F(LaneOrderScreen, SaysForHowManyRanksALaneStands) {
  OpenEight();
  ClickOn("groups");
  Frame();
  const int rank = Shown()[0];
  const std::string name = "4 ranks of rank " + std::to_string(rank);
  MoveTo(MiddleOf(name).x, MiddleOf(name).y);
  Frame();
  EXPECT_THAT(last_.tooltip, Contains("rank " + std::to_string(rank) +
                                      " stands for 4 ranks of stage 0: it computes the longest"));
}

}  // namespace
}  // namespace foretrain
