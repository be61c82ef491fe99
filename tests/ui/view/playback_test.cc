// Stepping through a step in Compare and What-if, with keys and mouse, without a display.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/planning_samples.h"
#include "ui/view/desktop/input.h"
#include "ui/view/screens/what_if_screen.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

class PlaybackView : public HeadlessFrames {
 protected:
  // Presses and releases a key.
  const ui::FrameRecord& Press(int key) {
    ImGui::GetIO().KeysDown[key] = true;
    Frame();
    ImGui::GetIO().KeysDown[key] = false;
    return Frame();
  }
  void Settle() {
    Frame();
    while (whole_->IsMoving()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Frame();
    }
    Frame();
  }
  ui::WhatIfScreen& WhatIf() { return dynamic_cast<ui::WhatIfScreen&>(whole_->screen()); }
};

// Measured ops of TwoRanks start and end at 0, 100, 110, 150, 200, 240 and 350 ns.
TEST_F(PlaybackView, StepsThroughCompareWithTheArrowKeys) {
  OpenDesktop(TwoRanks());
  Frame();
  const std::size_t before = Frame().rectangles;
  Press(ui::kKeyRight);
  Press(ui::kKeyRight);
  EXPECT_TRUE(state().play.on);
  EXPECT_DOUBLE_EQ(state().play.at_ns, 100);
  // The panel opens with the queues, and the ops of the moment are outlined.
  EXPECT_EQ(whole_->state().dock.tab, ui::DockTab::kPlay);
  EXPECT_TRUE(Shows(Frame(), "100 ns of 350 ns"));
  EXPECT_TRUE(Shows(last_, "mlp, layer 1"));
  EXPECT_TRUE(Shows(last_, "starts"));
  EXPECT_GT(last_.rectangles, before);
  Press(ui::kKeyLeft);
  EXPECT_DOUBLE_EQ(state().play.at_ns, 0);
  Press(ui::kKeyEnd);
  EXPECT_DOUBLE_EQ(state().play.at_ns, 350);
  Press(ui::kKeyHome);
  EXPECT_DOUBLE_EQ(state().play.at_ns, 0);
  Press(ui::kKeyEscape);
  EXPECT_FALSE(state().play.on);
}

TEST_F(PlaybackView, PlaysAndPausesWithSpaceAndButtons) {
  OpenDesktop(TwoRanks());
  Frame();
  Type(' ');
  EXPECT_TRUE(state().play.playing);
  EXPECT_TRUE(whole_->IsMoving());
  const double at = state().play.at_ns;
  Frame();
  EXPECT_GT(state().play.at_ns, at);
  ClickOn("pause");
  EXPECT_FALSE(state().play.playing);
  ClickOn("next >");
  EXPECT_DOUBLE_EQ(state().play.at_ns, 100);
  ClickOn("< back");
  EXPECT_DOUBLE_EQ(state().play.at_ns, 0);
  ClickOn("predicted");
  ClickOn("end >|");
  EXPECT_DOUBLE_EQ(state().play.at_ns, 300);
  ClickOn("rank 0");
  ClickOn("< back");
  EXPECT_DOUBLE_EQ(state().play.at_ns, 200);
}

TEST_F(PlaybackView, CopiesTheMoment) {
  OpenDesktop(TwoRanks());
  Frame();
  Press(ui::kKeyRight);
  Press(ui::kKeyRight);
  ClickOn("Copy");
  EXPECT_THAT(ImGui::GetClipboardText(), HasSubstr("mlp, layer 1, forward mb 1"));
}

// The same keys; a panel under the timeline instead of a tab.
TEST_F(PlaybackView, StepsThroughWhatIf) {
  OpenDesktop({});
  whole_->state().plan_start.setup = SampleSetup();
  ASSERT_TRUE(whole_->Show("what-if").has_value());
  Settle();
  Press(ui::kKeyRight);
  Press(ui::kKeyRight);
  EXPECT_EQ(WhatIf().workbench().panel(), ui::WhatIfPanel::kPlay);
  EXPECT_TRUE(WhatIf().state().play.on);
  EXPECT_GT(WhatIf().state().play.at_ns, 0);
  EXPECT_TRUE(Shows(Frame(), "queue"));
  EXPECT_TRUE(Shows(last_, "live tensors"));
  EXPECT_TRUE(Shows(last_, "parameters"));
  const double at = WhatIf().state().play.at_ns;
  ClickOn("next >");
  EXPECT_GT(WhatIf().state().play.at_ns, at);
}

TEST_F(PlaybackView, LeavesTheKeysToATextField) {
  OpenDesktop(TwoRanks());
  Frame();
  Type('/');
  Frame();
  Type(' ');
  EXPECT_FALSE(state().play.on);
}

}  // namespace
}  // namespace foretrain
