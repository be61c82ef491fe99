// Editing a schedule in What-if by dragging its passes, without a display.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/io/file_system.h"
#include "base/units.h"
#include "sim/config/schedule/schedule_csv.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/planning_samples.h"
#include "ui/view/screens/what_if_screen.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

class SchedulePanelTest : public HeadlessFrames {
 protected:
  // Shows a plan with two stages and four micro-batches in What-if.
  void OpenPanel() {
    OpenDesktop({});
    whole_->state().plan_start.setup = SampleSetup();
    ASSERT_TRUE(whole_->Show("what-if").has_value());
    Settle();
    ui::Scenario scenario = *WhatIf().scenario();
    scenario.plan.tp = scenario.plan.dp = 1;
    scenario.plan.pp = 2;
    scenario.plan.micro_batch = 1;
    scenario.plan.global_batch = 4;
    scenario.plan.zero_stage = 0;
    scenario.plan.sequence_parallel = scenario.plan.vocab_parallel = false;
    scenario.plan.schedule = ScheduleKind::k1f1b;
    scenario.plan.vpp = 1;
    whole_->state().selection.Pin(
        {"two stages", scenario.model, scenario.cluster, scenario.plan, scenario.machine});
    Settle();
    ClickOn("passes");
    Settle();
    ASSERT_EQ(WhatIf().engine().problem(), "");
  }
  void Settle() {
    Frame();
    while (whole_->IsMoving()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Frame();
    }
    Frame();
  }
  ui::Point Middle(const ActionPlace& place) {
    const auto box = WhatIf().schedule().BoxOf(place);
    EXPECT_TRUE(box.has_value());
    if (!box) return {};
    return {(box->x0 + box->x1) / 2, (box->y0 + box->y1) / 2};
  }
  // From one pass to just before another.
  void DragPass(const ActionPlace& from, const ActionPlace& to) {
    const ui::Point at = Middle(from);
    const auto box = WhatIf().schedule().BoxOf(to);
    ASSERT_TRUE(box.has_value());
    MoveTo(at.x, at.y);
    DragTo(box->x0 + 1, at.y);
    Settle();
  }
  std::string Row(int rank) {
    return RowsOf(WhatIf().schedule().editor().draft())[static_cast<std::size_t>(rank)];
  }
  ui::WhatIfScreen& WhatIf() { return dynamic_cast<ui::WhatIfScreen&>(whole_->screen()); }
};

TEST_F(SchedulePanelTest, SimulatesTheScheduleThatAPassIsDraggedTo) {
  OpenPanel();
  EXPECT_TRUE(Shows(Frame(), "works: 15 units"));
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3");
  DragPass({0, 3}, {0, 2});
  EXPECT_EQ(Row(0), "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3");
  ASSERT_NE(WhatIf().engine().shown(), nullptr);
  const Plan& plan = WhatIf().engine().shown()->request.scenario.plan;
  EXPECT_EQ(plan.schedule, ScheduleKind::kCustom);
  EXPECT_EQ(RowsOf(plan.slots.draft())[0], Row(0));
  EXPECT_NE(WhatIf().engine().simulated(), nullptr);
  EXPECT_TRUE(Shows(Frame(), "at most 3 live activations"));
  // Z takes the change of the plan back.
  Type('z');
  Settle();
  EXPECT_EQ(WhatIf().scenario()->plan.schedule, ScheduleKind::k1f1b);
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3");
}

TEST_F(SchedulePanelTest, SaysWhatIsWrongAndKeepsTheLastScheduleThatWorked) {
  OpenPanel();
  DragPass({0, 2}, {0, 0});
  EXPECT_TRUE(Shows(Frame(), "order: rank 0, cell 1 (0B0) comes before"));
  EXPECT_EQ(WhatIf().scenario()->plan.schedule, ScheduleKind::k1f1b);
  ClickOn("Take back");
  EXPECT_TRUE(Shows(Frame(), "works: 15 units"));
}

TEST_F(SchedulePanelTest, MovesTheClickedPassByKeys) {
  OpenPanel();
  const ui::Point at = Middle({0, 3});
  Click(at.x, at.y);
  Type(',');
  EXPECT_EQ(Row(0), "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3");
  Type('.');
  EXPECT_EQ(Row(0), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3");
}

TEST_F(SchedulePanelTest, SavesAndOpensFiles) {
  OpenPanel();
  DragPass({0, 3}, {0, 2});
  const std::string path = testing::TempDir() + "/edited.csv";
  WhatIf().schedule().file() = path;
  Frame();
  ClickOn("Save CSV");
  EXPECT_EQ(WhatIf().schedule().note(), "saved " + path);
  PosixFileSystem files;
  auto text = ReadFile(files, path, kMiB);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3\n"));

  ASSERT_TRUE(WriteFileAtomically(files, path,
                                  "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
                                  "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n")
                  .has_value());
  ClickOn("Open file");
  Settle();
  EXPECT_EQ(Row(0), "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3");
  EXPECT_EQ(WhatIf().scenario()->plan.schedule, ScheduleKind::kCustom);
  WhatIf().schedule().file() = testing::TempDir() + "/none.csv";
  Frame();
  ClickOn("Open file");
  EXPECT_THAT(WhatIf().schedule().note(), HasSubstr("none.csv"));
  EXPECT_EQ(Row(0), "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3");
}

// A file with other ranks than the plan does not become its schedule.
TEST_F(SchedulePanelTest, ShowsWhyAFileIsNotOfThePlan) {
  OpenPanel();
  const std::string path = testing::TempDir() + "/one.csv";
  PosixFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, path, "0F0,0B0\n").has_value());
  WhatIf().schedule().file() = path;
  Frame();
  ClickOn("Open file");
  Settle();
  EXPECT_THAT(WhatIf().engine().problem(), HasSubstr("it has 1 ranks; use pp 1"));
}

}  // namespace
}  // namespace foretrain
