// The desktop around the views, frame by frame, without a display.
#include "ui/view/desktop/desktop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <chrono>
#include <thread>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/many_spans.h"
#include "tests/ui/sample_run.h"
#include "ui/view/screens/view_table.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

class DesktopFrames : public HeadlessFrames {
 protected:
  // Draws frames until the requested model is shown.
  void SettleModel() {
    while (whole_->state().session.IsBuilding()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Frame();
    }
  }
};

TEST_F(DesktopFrames, ShowsRailNumbersAndWhatIsLoaded) {
  OpenDesktop(SampleInput({.layers = 4, .micro_batches = 4}));
  whole_->state().session.SetStore({.path = "some/runs.db"}, {});
  const ui::FrameRecord& record = Frame();
  for (const char* text : {"Compare", "step time", "tokens/s", "bubble", "peak memory", "coverage",
                           "median of 3", "aligned at step start", "some/runs.db", "rank 0"}) {
    EXPECT_TRUE(Shows(record, text)) << text;
  }
}

TEST_F(DesktopFrames, SaysWhichRunIsMissing) {
  CompareInput input = TwoRanks();
  input.predicted.reset();
  OpenDesktop(input);
  EXPECT_TRUE(Shows(Frame(), "measurement alone"));
  EXPECT_TRUE(Shows(Frame(), "not predicted"));
  input = TwoRanks();
  input.measured.reset();
  OpenDesktop(input);
  EXPECT_TRUE(Shows(Frame(), "forecast alone"));
  EXPECT_TRUE(Shows(Frame(), "not measured"));
  OpenDesktop({});
  EXPECT_TRUE(Shows(Frame(), "There is no run to show."));
  EXPECT_TRUE(Shows(Frame(), "no store is open"));
}

// Two measured runs are set against one another: nothing on the screen may call either a forecast.
TEST_F(DesktopFrames, CallsAMeasuredRunBesideAnotherTheBaseline) {
  CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  input.predicted->is_measurement = true;
  OpenDesktop(input);
  for (const char* view : {"compare", "time", "memory", "ranks"}) {
    whole_->state().navigation.GoTo(view);
    Frame();
    const ui::FrameRecord& record = Frame();
    EXPECT_TRUE(Shows(record, "baseline")) << view;
    for (const std::string& label : record.labels) {
      EXPECT_THAT(label, Not(HasSubstr("predicted"))) << view;
      EXPECT_THAT(label, Not(HasSubstr("forecast"))) << view;
    }
  }
}

TEST_F(DesktopFrames, ShowsOtherRunsWhole) {
  OpenDesktop(TwoRanks());
  Compare().state().viewport = {1e2, 2e2};
  whole_->state().TakeStore(
      ui::Prepare({.path = "other.db", .input = SampleInput({.layers = 4})}, {}, false));
  Frame();
  SettleModel();
  Frame();
  EXPECT_EQ(state().viewport, ui::Fitted(Compare().model().extent));
}

TEST_F(DesktopFrames, ShowsTheHelpCardAndChangesTheme) {
  OpenDesktop(TwoRanks());
  EXPECT_TRUE(Shows(Type('?'), "Keys and mouse"));
  EXPECT_FALSE(Shows(Type('?'), "Keys and mouse"));
  EXPECT_TRUE(Shows(ClickOn("? help"), "Keys and mouse"));
  EXPECT_FALSE(Shows(ClickOn("? help"), "Keys and mouse"));
  const ui::Colour dark = whole_->ground();
  Type('t');
  EXPECT_NE(whole_->ground(), dark);
}

TEST_F(DesktopFrames, GoesToEachViewByClickAndByKey) {
  OpenDesktop(TwoRanks());
  for (const ui::ViewEntry& entry : ui::ViewTable()) {
    ClickOn(entry.title);
    EXPECT_EQ(whole_->view(), entry.name);
  }
  for (const ui::ViewEntry& entry : ui::ViewTable()) {
    Type(static_cast<char>(entry.key));
    EXPECT_EQ(whole_->view(), entry.name);
    whole_->state().navigation.GoTo(entry.name);
    Frame();
    EXPECT_EQ(whole_->view(), entry.name);
  }
}

// 30,000 spans on each side.
CompareInput LongInput() {
  return {.predicted = ManySpans(30'000, 1), .measured = ManySpans(30'000, 2)};
}

TEST_F(DesktopFrames, KeepsThePictureOfLongRunsUntilTheyAreAlignedAnew) {
  OpenDesktop(LongInput());
  const ui::CompareModel* const before = &Compare().model();
  Type('k');
  // Nothing is taken before the next frame.
  EXPECT_EQ(&Compare().model(), before);
  EXPECT_TRUE(whole_->IsMoving());
  EXPECT_TRUE(Shows(last_, "aligned at step start"));
  EXPECT_TRUE(Shows(last_, "aligning..."));
  SettleModel();
  EXPECT_TRUE(Shows(last_, "wall clock"));
  EXPECT_FALSE(Shows(last_, "aligning..."));
}

TEST_F(DesktopFrames, BuildsWhatIsChosenLastOfLongRuns) {
  OpenDesktop(LongInput());
  Type('q');
  Type('k');
  Type('x');
  SettleModel();
  EXPECT_EQ(Compare().model().options,
            (ui::CompareOptions{.alignment = ui::Alignment::kWarp, .rows = ui::LaneRows::kQueues}));
}

TEST_F(DesktopFrames, KeepsWhatIsBeingBuiltWhereTheRunIsReadAnew) {
  OpenDesktop(LongInput());
  Type('k');
  whole_->state().TakeStore(ui::Prepare({.input = LongInput()}, {}, /*same_run=*/true));
  Frame();
  SettleModel();
  EXPECT_EQ(Compare().model().options.alignment, ui::Alignment::kWallClock);
}

TEST_F(DesktopFrames, GoesToARankOfLongRunsOnceItsStepIsThere) {
  OpenDesktop(LongInput());
  whole_->state().navigation.GoTo(ui::RankPlace{.rank = 5, .step = 0});
  Frame();
  SettleModel();
  Frame();
  EXPECT_EQ(Compare().model().options.measured_step, 0);
  EXPECT_EQ(Compare().model().lanes[state().memory_lane].rank, 5);
  EXPECT_FALSE(whole_->state().navigation.place().has_value());
}

TEST(ViewTable, NamesTheViewsThereAre) {
  const auto unknown = ui::FindView("pie");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("\"pie\""));
  for (const ui::ViewEntry& entry : ui::ViewTable()) {
    EXPECT_THAT(unknown.error().message, HasSubstr(std::string(entry.name)));
  }
}

}  // namespace
}  // namespace foretrain
