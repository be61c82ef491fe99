// The panel under the lanes of Compare and Time, used without a display.
#include "ui/view/dock/dock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <string>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/planning_samples.h"
#include "tests/ui/sample_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

class DockPanel : public HeadlessFrames {
 protected:
  void Open(const CompareInput& input) {
    OpenDesktop(input);
    Frame();
  }

  // Two ranks in a store whose run 2 has forecast 1.
  void OpenStored() {
    Open(TwoRanks());
    std::vector<RunInfo> runs(2);
    runs[0].id = 1;
    runs[1].id = 2;
    runs[1].forecast = 1;
    whole_->state().session.SetStore({.path = "/runs/my runs.db", .run = 2}, runs);
  }

  // To the nanosecond, which a mouse on whole pixels does not reach.
  void MeasureBetween(double from_ns, double to_ns) {
    Compare().state().measure = ui::Measure{from_ns, to_ns};
    State().Open(ui::DockTab::kRange);
    Frame();
    Frame();
  }

  ui::DockState& State() { return whole_->state().dock; }
  static std::string Clipboard() { return ImGui::GetClipboardText(); }
};

TEST_F(DockPanel, OpensWithDetailsOfTheSelectedSpan) {
  Open(TwoRanks());
  EXPECT_FALSE(State().open);
  Click(XOf(170.0), YOf(0, 2));
  EXPECT_TRUE(State().open);
  EXPECT_TRUE(Shows(Frame(), "op id"));
  // It takes its place from the lanes and covers nothing.
  EXPECT_LE(Compare().layout().window.y1, MiddleOf("Selection").y);
}

TEST_F(DockPanel, StaysHiddenOnceItWasHidden) {
  Open(TwoRanks());
  Click(XOf(170.0), YOf(0, 2));
  ClickOn("hide (I)");
  EXPECT_FALSE(Shows(Frame(), "op id"));
  Click(XOf(50.0), YOf(0, 2));
  EXPECT_FALSE(State().open);
  EXPECT_TRUE(Shows(Type('i'), "op id"));
  EXPECT_FALSE(Shows(Type('I'), "op id"));
  ClickOn("Selection");
  EXPECT_TRUE(Shows(Frame(), "op id"));
}

TEST_F(DockPanel, ZoomsByADoubleClickAlthoughItOpensBetweenTheClicks) {
  Open(SampleInput({.stages = 4, .layers = 4, .micro_batches = 4}));
  const float x = XOf(Compare().model().extent.end_ns / 2), y = YOf(2, 2);
  MoveTo(x, y);
  ASSERT_TRUE(state().hovered.has_value() && state().hovered->span.has_value());
  const ui::SpanRef span = *state().hovered->span;
  Click(x, y);
  Click(x, y);
  const Span& zoomed = Compare().model().SpanOf(span);
  EXPECT_EQ(state().selected, span);
  EXPECT_LT(state().viewport.LengthNs(),
            30.0 * static_cast<double>(zoomed.end_ns - zoomed.start_ns));
}

TEST_F(DockPanel, SumsTheWholeStepAndAMeasuredRange) {
  Open(TwoRanks());
  ClickOn("Range");
  Frame();
  // Rank 0: 100 + 140 ns and a send of 50 ns; rank 1: 90 + 110 ns.
  EXPECT_TRUE(Shows(last_, "mlp forward"));
  EXPECT_TRUE(Shows(last_, "440 ns"));
  EXPECT_TRUE(Shows(last_, "490 ns"));
  MeasureBetween(100.0, 200.0);
  // [100, 200): 100 and 50 ns on rank 0, 90 on rank 1.
  EXPECT_TRUE(Shows(Frame(), "190 ns"));
  EXPECT_TRUE(Shows(last_, "240 ns"));
  ClickOn("by class");
  Frame();
  EXPECT_TRUE(Shows(last_, "pp_comm"));
  ClickOn("predicted");
  Frame();
  EXPECT_FALSE(Shows(last_, "pp_comm"));
  EXPECT_TRUE(Shows(last_, "200 ns"));
}

TEST_F(DockPanel, OpensWithTheTableOfARangeThatIsDragged) {
  Open(TwoRanks());
  MoveTo(XOf(100.0), YOf(0, 2));
  DragTo(XOf(200.0), YOf(0, 2), /*shift=*/true);
  Frame();
  EXPECT_TRUE(State().open);
  EXPECT_EQ(State().tab, ui::DockTab::kRange);
  EXPECT_TRUE(Shows(Frame(), "mlp forward"));
}

TEST_F(DockPanel, ShowsTheOpsOfARankThatIsClicked) {
  Open(TwoRanks());
  ClickOn("Range");
  ClickOn("by rank");
  Frame();
  EXPECT_TRUE(Shows(last_, "exposed comm"));
  ClickOn("rank 1");
  Frame();
  Frame();
  EXPECT_EQ(State().rank, 1);
  EXPECT_TRUE(Shows(last_, "200 ns"));
  EXPECT_FALSE(Shows(last_, "440 ns"));
  ClickOn("all ranks");
  Frame();
  EXPECT_TRUE(Shows(Frame(), "440 ns"));
}

TEST_F(DockPanel, CopiesTablesAsTextAndCsv) {
  Open(TwoRanks());
  ClickOn("Range");
  Frame();
  ClickOn("Copy");
  EXPECT_THAT(Clipboard(), HasSubstr("mlp forward   gemm"));
  EXPECT_THAT(Clipboard(), HasSubstr("490 ns"));
  EXPECT_TRUE(Shows(Frame(), "copied"));
  ClickOn("CSV");
  EXPECT_THAT(Clipboard(), HasSubstr("op,class,spans,time,mean,of the range,bytes\n"));
  Click(XOf(170.0), YOf(0, 2));
  Frame();
  ClickOn("CSV");
  EXPECT_THAT(Clipboard(), HasSubstr("op,mlp\n"));
  EXPECT_THAT(Clipboard(), HasSubstr("class,gemm\n"));
}

TEST_F(DockPanel, CopiesTheCommandThatPrintsTheTable) {
  OpenStored();
  ClickOn("Range");
  Frame();
  ClickOn("Copy command");
  EXPECT_EQ(Clipboard(), "foretrain analyze --store '/runs/my runs.db' --run 2 --step 0 --by op");
  MeasureBetween(100.0, 200.0);
  ClickOn("by class");
  Frame();
  ClickOn("Copy command");
  EXPECT_THAT(Clipboard(), HasSubstr("--run 2 --step 0 --by class --window 100ns..200ns"));
  ClickOn("predicted");
  Frame();
  ClickOn("Copy command");
  EXPECT_THAT(Clipboard(), HasSubstr("--run 1 --step 0"));
  Click(XOf(170.0), YOf(0, 2));
  Frame();
  ClickOn("Copy command");
  EXPECT_THAT(Clipboard(), HasSubstr("--run 2 --step 0 --by op --window 100ns..240ns --rank 0"));
}

TEST_F(DockPanel, SaysWhyThereIsNoCommand) {
  Open(TwoRanks());
  ClickOn("Range");
  Frame();
  const ui::Point at = MiddleOf("Copy command");
  ImGui::SetClipboardText("before");
  Click(at.x, at.y);
  EXPECT_EQ(Clipboard(), "before");
  ASSERT_FALSE(last_.tooltip.empty());
  EXPECT_THAT(last_.tooltip.back(), HasSubstr("the run is in no store"));
}

TEST_F(DockPanel, ListsWhatASearchFindsAndGoesThere) {
  Open(TwoRanks());
  Type('/');
  Frame();
  EXPECT_TRUE(State().open);
  for (const char c : std::string("mlp")) Type(c);
  EXPECT_TRUE(Shows(Frame(), "1 of 4"));
  ClickOn("found 2");
  Frame();
  EXPECT_EQ(state().found_at, 2U);
  EXPECT_EQ(state().selected, state().found[2]);
  EXPECT_TRUE(Shows(Frame(), "3 of 4"));
  ClickOn("Copy");
  EXPECT_THAT(Clipboard(), HasSubstr("mlp"));
}

TEST_F(DockPanel, IsAsHighAsItsEdgeIsDragged) {
  Open(TwoRanks());
  ClickOn("Range");
  Frame();
  const float before = Compare().layout().window.y1;
  const ui::Viewport view = state().viewport;
  MoveTo(500.0F, before);
  DragTo(500.0F, before - 60.0F);
  Frame();
  EXPECT_NEAR(Compare().layout().window.y1, before - 60.0F, 2.0F);
  EXPECT_EQ(state().viewport, view);
  // Not higher than the lanes can do without.
  MoveTo(500.0F, Compare().layout().window.y1);
  DragTo(500.0F, 60.0F);
  Frame();
  EXPECT_GT(Compare().layout().lanes.Height(), 40.0F);
}

TEST_F(DockPanel, IsSharedByTimeWhichGoesToCompareForAFind) {
  Open(TwoRanks());
  MeasureBetween(100.0, 200.0);
  ASSERT_TRUE(whole_->Show("time").has_value());
  Frame();
  EXPECT_TRUE(Shows(Frame(), "240 ns"));
  Type('/');
  Frame();
  for (const char c : std::string("send")) Type(c);
  Frame();
  ClickOn("found 0");
  Frame();
  Frame();
  EXPECT_EQ(whole_->view(), "compare");
  ASSERT_TRUE(state().selected.has_value());
  EXPECT_EQ(Compare().model().SpanOf(*state().selected).op_class, OpClass::kPpComm);
}

TEST_F(DockPanel, NamesTensorsOfAnOpWhosePlanIsStored) {
  const ui::Scenario scenario = SampleScenario("gpt2-124m", "1x2xh100-80gb-sxm", 1, 1, 1, 2, 64);
  CompareInput input = TwoRanks();
  input.measured->setting = std::make_shared<const RunSetting>(
      RunSetting{scenario.model, scenario.cluster, scenario.machine.profile, scenario.plan});
  Open(input);
  Click(XOf(170.0), YOf(0, 2));
  for (int i = 0; i < 3000 && whole_->IsMoving(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Frame();
  }
  for (const char* text : {"inputs", "outputs", "from "}) EXPECT_TRUE(Shows(Frame(), text)) << text;
  ClickOn("Copy");
  EXPECT_THAT(Clipboard(), HasSubstr("inputs"));
}

}  // namespace
}  // namespace foretrain
