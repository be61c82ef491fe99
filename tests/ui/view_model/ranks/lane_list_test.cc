#include "ui/view_model/ranks/lane_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "ui/view_model/ranks/lane_keys.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;

// Eight ranks in two stages: 0 to 3 and 4 to 7. Rank r computes 100 + 10 r ns, but rank 2 takes
// 400.
RunView EightRanks() {
  std::vector<Span> spans;
  for (int rank = 0; rank < 8; ++rank) {
    const std::int64_t length = rank == 2 ? 400 : 100 + 10 * rank;
    spans.push_back(ComputeSpan({.rank = rank}, 0, length));
  }
  RunView run = RunOfSpans(std::move(spans));
  run.metrics.pipelines = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  return run;
}

class LaneLists : public testing::Test {
 protected:
  std::vector<int> RanksOf(const LaneOrder& order) const {
    std::vector<int> ranks;
    for (const LaneRow& row : ArrangeLanes(model_, order).rows) {
      ranks.push_back(model_.lanes[row.lane].rank);
    }
    return ranks;
  }

  CompareInput input_{.measured = EightRanks()};
  CompareModel model_ = ModelOf(input_);
};

TEST_F(LaneLists, AreAllLanesByRankAtFirst) {
  EXPECT_THAT(RanksOf({}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(LaneLists, StartWithTheRankThatComputesTheLongest) {
  EXPECT_THAT(RanksOf({.sort = LaneSort::kSlowestFirst}), ElementsAre(2, 7, 6, 5, 4, 3, 1, 0));
}

TEST_F(LaneLists, ShowTheSlowestOfAGroupForAllOfIt) {
  const LaneList list = ArrangeLanes(model_, {.grouped = true});
  ASSERT_EQ(list.rows.size(), 2U);
  EXPECT_EQ(list.rows[0], (LaneRow{.lane = 2, .stands_for = 4, .group = 0, .closed = true}));
  EXPECT_EQ(list.rows[1], (LaneRow{.lane = 7, .stands_for = 4, .group = 4, .closed = true}));
  EXPECT_EQ(list.places[2], 0U);
  EXPECT_EQ(list.places[3], std::nullopt);
  EXPECT_EQ(DescribeRow(model_, list.rows[0]),
            "rank 2 stands for 4 ranks of stage 0: it computes the longest");
}

TEST_F(LaneLists, ShowAllOfAGroupThatIsExpanded) {
  LaneOrder order{.grouped = true};
  ToggleGroup(4, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(2, 4, 5, 6, 7));
  const LaneList list = ArrangeLanes(model_, order);
  EXPECT_TRUE(list.rows[1].heads);
  EXPECT_FALSE(list.rows[2].heads);
  order.sort = LaneSort::kSlowestFirst;
  EXPECT_THAT(RanksOf(order), ElementsAre(2, 7, 6, 5, 4));
  ToggleGroup(4, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(2, 7));
}

TEST_F(LaneLists, StartWithPinnedRanksInTheirOrder) {
  LaneOrder order;
  TogglePin(6, order);
  TogglePin(1, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(6, 1, 0, 2, 3, 4, 5, 7));
  // A pinned rank is no longer part of what its group's representative stands for.
  order.grouped = true;
  const LaneList list = ArrangeLanes(model_, order);
  ASSERT_EQ(list.rows.size(), 4U);
  EXPECT_EQ(list.rows[3].stands_for, 3);
  TogglePin(6, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(1, 2, 7));
}

TEST_F(LaneLists, KeepWhatStandsAboveALaneThatIsMoved) {
  LaneOrder order;
  MoveRank(model_, ArrangeLanes(model_, order), 7, 2, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(0, 1, 7, 2, 3, 4, 5, 6));
  MoveRank(model_, ArrangeLanes(model_, order), 0, 3, order);
  EXPECT_THAT(RanksOf(order), ElementsAre(1, 7, 0, 2, 3, 4, 5, 6));
  EXPECT_THAT(order.pinned, ElementsAre(1, 7, 0));
}

// A forecast of two ranks for 2,032: rank 0 for all but the last 1,016.
TEST(LaneListOfAForecast, SaysForHowManyRanksEachLaneStands) {
  RunView run = RunOfSpans({ComputeSpan({.rank = 0}, 0, 10), ComputeSpan({.rank = 1016}, 0, 10)});
  run.stands_for_rank.assign(1016, 0);
  run.stands_for_rank.insert(run.stands_for_rank.end(), 1016, 1016);
  const CompareInput input{.predicted = std::move(run)};
  const CompareModel model = ModelOf(input);
  const LaneList list = ArrangeLanes(model, {.grouped = true});
  ASSERT_EQ(list.rows.size(), 2U);
  EXPECT_EQ(list.rows[1].stands_for, 1016);
  EXPECT_FALSE(list.rows[1].closed);
  EXPECT_EQ(DescribeRow(model, list.rows[1]), "rank 1016 stands for 1,016 ranks");
}

TEST_F(LaneLists, AreGroupedBySimulatedRankToo) {
  input_.predicted = EightRanks();
  input_.predicted->stands_for_rank = {0, 0, 2, 2, 4, 4, 4, 4};
  model_ = ModelOf(input_);
  EXPECT_THAT(RanksOf({.grouped = true}), ElementsAre(1, 2, 7));
}

// 65 lanes are one more than are shown one by one at first.
TEST(LaneListOfManyRanks, IsGroupedAtFirst) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 65; ++rank) spans.push_back(ComputeSpan({.rank = rank}, 0, 10));
  const CompareInput many{.measured = RunOfSpans(std::move(spans))};
  const CompareModel model = ModelOf(many);
  EXPECT_TRUE(StartOf(model).order.grouped);
  const CompareInput few = TwoRanks();
  EXPECT_FALSE(StartOf(ModelOf(few)).order.grouped);
}

TEST_F(LaneLists, ExpandTheGroupOfALaneThatIsAskedFor) {
  ViewState state = StartOf(model_);
  state.order.grouped = true;
  const auto list = std::make_shared<const LaneList>(ArrangeLanes(model_, state.order));
  const Layout layout = MakeLayout(model_, {0, 0, 800, 320}, 1.0F, 0.0F, 0, false, list);
  ScrollToLane(layout, 5, state);
  EXPECT_EQ(state.reveal, 5U);
  EXPECT_TRUE(RevealLane(*list, state));
  EXPECT_THAT(RanksOf(state.order), ElementsAre(2, 4, 5, 6, 7));
  EXPECT_FALSE(RevealLane(*list, state));
}

class LaneInput : public LaneLists {
 protected:
  void Place() {
    list_ = std::make_shared<const LaneList>(ArrangeLanes(model_, state_.order));
    layout_ = MakeLayout(model_, {0, 0, 1000, 600}, 1.0F, state_.scroll, 0, false, list_);
  }
  void Press(float x, float y) {
    Update(model_, layout_, {.x = x, .y = y, .down = true, .pressed = true}, state_);
  }
  void Release(float x, float y, float dy = 0.0F) {
    Update(model_, layout_, {.x = x, .y = y, .dy = dy, .down = true}, state_);
    Update(model_, layout_, {.x = x, .y = y, .released = true}, state_);
  }
  static float X(const Box& box) { return (box.x0 + box.x1) / 2; }
  static float Y(const Box& box) { return (box.y0 + box.y1) / 2; }

  ViewState state_ = StartOf(model_);
  std::shared_ptr<const LaneList> list_;
  Layout layout_;
};

TEST_F(LaneInput, ClicksOpenAGroupAndPinALane) {
  state_.order.grouped = true;
  Place();
  const Box group = layout_.lane_boxes[1].group;
  Press(X(group), Y(group));
  EXPECT_THAT(RanksOf(state_.order), ElementsAre(2, 4, 5, 6, 7));
  Place();
  EXPECT_TRUE(layout_.lane_boxes[2].group.IsEmpty());
  const Box pin = layout_.lane_boxes[2].pin;
  Press(X(pin), Y(pin));
  EXPECT_THAT(RanksOf(state_.order), ElementsAre(5, 2, 4, 6, 7));
}

TEST_F(LaneInput, ADraggedNameMovesItsLaneAndAClickChoosesItsMemory) {
  Place();
  const float x = 20.0F, height = layout_.lane_height;
  const float from = layout_.lanes.y0 + 2.2F * height;
  Press(x, from);
  EXPECT_EQ(state_.drag, Drag::kLane);
  Release(x, layout_.lanes.y0 + 0.1F * height, -2.1F * height);
  EXPECT_THAT(RanksOf(state_.order), ElementsAre(2, 0, 1, 3, 4, 5, 6, 7));
  Place();
  Press(x, layout_.lanes.y0 + 1.2F * height);
  Release(x, layout_.lanes.y0 + 1.2F * height);
  EXPECT_EQ(state_.memory_lane, 0U);
}

// The overview shows the step of 400 ns; the view has 100 ns of it.
TEST_F(LaneInput, TheOverviewMovesTheView) {
  Place();
  ASSERT_FALSE(layout_.overview.IsEmpty());
  state_.viewport = {0.0, 100.0};
  const float width = layout_.plot_x1 - layout_.plot_x0;
  Press(layout_.plot_x0 + 0.5F * width, Y(layout_.overview));
  EXPECT_NEAR(state_.viewport.start_ns, 150.0, 1.0);
  Release(layout_.plot_x0 + 0.75F * width, Y(layout_.overview), 1.0F);
  EXPECT_NEAR(state_.viewport.start_ns, 250.0, 1.0);
  EXPECT_NEAR(state_.viewport.end_ns, 350.0, 1.0);
  EXPECT_EQ(state_.undo.size(), 1U);
}

TEST_F(LaneInput, KeysGroupSortAndPin) {
  Place();
  Update(model_, layout_, {.typed = {U'r'}}, state_);
  EXPECT_TRUE(state_.order.grouped);
  Update(model_, layout_, {.typed = {U'L'}}, state_);
  EXPECT_EQ(state_.order.sort, LaneSort::kSlowestFirst);
  state_.selected = SpanRef{Side::kMeasured, 3};
  state_.selected_lane = 3;
  Update(model_, layout_, {.typed = {U'v'}}, state_);
  EXPECT_THAT(state_.order.pinned, ElementsAre(3));
}

}  // namespace
}  // namespace foretrain::ui
