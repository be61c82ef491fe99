#include "ui/view_model/schedules/schedule_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/schedule/schedule_csv.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Plan TwoRanks(ScheduleKind schedule = ScheduleKind::k1f1b) {
  Plan plan;
  plan.pp = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  plan.schedule = schedule;
  return plan;
}

// 1F1B of two ranks and four micro-batches:
//   rank 0  0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3
//   rank 1  1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
class EditorTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(editor_.Follow(plan_).has_value()); }
  std::string Row(int rank) const {
    return RowsOf(editor_.draft())[static_cast<std::size_t>(rank)];
  }

  Plan plan_ = TwoRanks();
  ScheduleEditor editor_;
};

TEST_F(EditorTest, StartsFromTheSchedulesOfThePlan) {
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3");
  EXPECT_FALSE(editor_.IsEdited());
  EXPECT_EQ(editor_.Applied(plan_), plan_);
  // 3 (4 + 1) units, of which each rank works 12.
  EXPECT_EQ(editor_.Describe(),
            "works: 15 units, bubble 20.0 %, at most 2 live activations on rank 0");
  const std::vector<EditedCell> cells = editor_.CellsOf(1);
  ASSERT_EQ(cells.size(), 8U);
  EXPECT_DOUBLE_EQ(cells[0].start, 1);
  EXPECT_EQ(cells[0].label, "F0");
  EXPECT_EQ(cells[1].hue, Hue::kBackward);
  EXPECT_DOUBLE_EQ(editor_.Length(), 15);
}

// The third forward comes before the first backward: GPipe's beginning.
TEST_F(EditorTest, MovesAPassWhileItIsDraggedAndChecksEachPlace) {
  editor_.Begin({0, 3});
  EXPECT_TRUE(editor_.IsDragging());
  editor_.DragTo(2.1);
  EXPECT_EQ(Row(0), "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3");
  EXPECT_TRUE(editor_.report().Works());
  EXPECT_TRUE(editor_.CellsOf(0)[2].dragged);
  // Nothing is applied before the drop.
  editor_.DragTo(-1);
  EXPECT_EQ(Row(0), "0F2,0F0,0F1,0B0,0B1,0F3,0B2,0B3");
  editor_.DragTo(1e6);
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0B1,0F3,0B2,0B3,0F2");
  EXPECT_FALSE(editor_.report().Works());
  editor_.DragTo(2.1);
  editor_.Drop();
  EXPECT_FALSE(editor_.IsDragging());
  EXPECT_EQ(editor_.report().peak_live, (std::vector<int>{3, 1}));

  const Plan edited = editor_.Applied(plan_);
  EXPECT_EQ(edited.schedule, ScheduleKind::kCustom);
  EXPECT_TRUE(ValidatePlan(edited).has_value());
  EXPECT_EQ(RowsOf(edited.slots.draft())[0], "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3");
  // The plan that it led to is the one it follows.
  ASSERT_TRUE(editor_.Follow(edited).has_value());
  EXPECT_FALSE(editor_.IsEdited());
  EXPECT_TRUE(editor_.Undo());
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3");
  EXPECT_TRUE(editor_.IsEdited());
}

TEST_F(EditorTest, PutsADragBack) {
  editor_.Begin({0, 0});
  editor_.DragTo(100);
  editor_.Cancel();
  EXPECT_FALSE(editor_.IsEdited());
  EXPECT_FALSE(editor_.CanUndo());
}

TEST_F(EditorTest, KeepsAScheduleThatDoesNotWorkAndSaysWhy) {
  editor_.Shift({0, 2}, -2);  // 0B0 before both forwards
  EXPECT_EQ(Row(0), "0B0,0F0,0F1,0F2,0B1,0F3,0B2,0B3");
  EXPECT_EQ(editor_.Describe(),
            "order: rank 0, cell 1 (0B0) comes before rank 0, cell 2 (0F0), which it needs");
  EXPECT_EQ(editor_.Applied(plan_), plan_);
  const std::vector<EditedCell> cells = editor_.CellsOf(0);
  EXPECT_TRUE(cells[0].faulty);
  EXPECT_TRUE(cells[1].faulty);
  EXPECT_FALSE(cells[2].faulty);
  // Without times the passes lie one after the other.
  EXPECT_DOUBLE_EQ(cells[1].start, 2);
  // A second move mends it.
  editor_.Shift({0, 0}, 2);
  EXPECT_FALSE(editor_.IsEdited());
}

TEST_F(EditorTest, NamesTheDeadlockThatAMoveMakes) {
  // Rank 1 wants its second forward first; rank 0 sends it after the first backward.
  editor_.Open(
      *ParseSchedule("0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", "s"));
  ASSERT_TRUE(editor_.report().Works());
  editor_.Shift({1, 2}, -1);
  EXPECT_THAT(editor_.Describe(),
              HasSubstr("deadlock: rank 0, cell 2 (0B0) waits for rank 1, cell 3 (1B0)"));
}

TEST_F(EditorTest, ForgetsEditsOfAnotherSchedule) {
  editor_.Shift({0, 3}, -1);
  ASSERT_TRUE(editor_.Follow(plan_).has_value());
  EXPECT_TRUE(editor_.IsEdited());
  Plan longer = plan_;
  longer.global_batch = 8;
  ASSERT_TRUE(editor_.Follow(longer).has_value());
  EXPECT_FALSE(editor_.IsEdited());
  EXPECT_EQ(editor_.draft().ranks[0].size(), 16U);
  const auto none = editor_.Follow(TwoRanks(ScheduleKind::kPipeDream2bw));
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("its steps overlap"));
}

TEST(ScheduleEditor, MovesPairsAsOne) {
  Plan plan = TwoRanks(ScheduleKind::kDualPipeV);
  ScheduleEditor editor;
  ASSERT_TRUE(editor.Follow(plan).has_value());
  const auto& actions = editor.draft().ranks[0];
  int pair = 0;
  while (!actions[static_cast<std::size_t>(pair)].paired) ++pair;
  const std::size_t size = actions.size();
  // By its second half, to the front and to the end.
  for (const double unit : {-1.0, 1e6}) {
    editor.Begin({0, pair + 1});
    editor.DragTo(unit);
    const auto& moved = editor.draft().ranks[0];
    ASSERT_EQ(moved.size(), size);
    const std::size_t at = unit < 0 ? 0 : size - 2;
    EXPECT_TRUE(moved[at].paired);
    EXPECT_EQ(moved[at + 1].pass, Pass::kBackward);
    editor.Cancel();
  }
  // Nothing comes between the two of a pair.
  for (double unit = 0; unit < editor.Length(); unit += 0.25) {
    editor.Begin({0, 0});
    editor.DragTo(unit);
    const auto& moved = editor.draft().ranks[0];
    for (std::size_t i = 0; i + 1 < size; ++i) {
      if (!moved[i].paired) continue;
      EXPECT_EQ(moved[i + 1].pass, Pass::kBackward) << unit;
    }
    editor.Cancel();
  }
  EXPECT_FALSE(editor.IsEdited());
}

TEST(Moved, PutsPassesAmongTheOthers) {
  const auto row = [](int first, int count, int to) {
    const auto actions = ParseSchedule("0F0,0F1,0F2,0F3\n", "s")->ranks[0];
    std::string text;
    for (const ScheduleAction& action : Moved(actions, first, count, to)) {
      text += std::to_string(action.micro_batch);
    }
    return text;
  };
  EXPECT_EQ(row(0, 1, 0), "0123");
  EXPECT_EQ(row(0, 1, 2), "1203");
  EXPECT_EQ(row(0, 1, 3), "1230");
  EXPECT_EQ(row(3, 1, 0), "3012");
  EXPECT_EQ(row(1, 2, 0), "1203");
  EXPECT_EQ(row(1, 2, 2), "0312");
  EXPECT_EQ(row(0, 4, 0), "0123");
}

}  // namespace
}  // namespace foretrain::ui
