// The plan and what-if views, clicked and dragged without a display.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <thread>

#include "tests/ui/headless_frames.h"
#include "tests/ui/planning_samples.h"
#include "tests/ui/sample_run.h"
#include "ui/view/screens/plan_screen.h"
#include "ui/view/screens/what_if_screen.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

class PlanningScreens : public HeadlessFrames {
 protected:
  void OpenView(const std::string& name, const ui::PlanSetup& setup = SampleSetup()) {
    OpenDesktop({});
    whole_->state().plan_start.setup = setup;
    ASSERT_TRUE(whole_->Show(name).has_value());
    Settle();
  }
  // Draws frames until nothing is in progress.
  const ui::FrameRecord& Settle() {
    Frame();
    Frame();
    while (whole_->IsMoving()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Frame();
    }
    return Frame();
  }
  ui::PlanScreen& Plan() { return dynamic_cast<ui::PlanScreen&>(whole_->screen()); }
  ui::WhatIfScreen& WhatIf() { return dynamic_cast<ui::WhatIfScreen&>(whole_->screen()); }
  // Makes the batch of the what-if view larger.
  void DragBatch() {
    const ui::Point at = MiddleOf("global batch");
    MoveTo(at.x, at.y);
    DragTo(at.x + 60, at.y);
    Settle();
  }
  void Search() {
    ClickOn("Search");
    Settle();
    ASSERT_NE(Plan().search().found(), nullptr);
  }
};

TEST_F(PlanningScreens, SearchFillsTableAndPlot) {
  OpenView("plan");
  EXPECT_TRUE(Shows(last_, "Choose a model"));
  Search();
  EXPECT_TRUE(Shows(last_, "gpt2-124m on 1x4xH100"));
  // The number of compared plans: there is no room for all of the text next to the title, so it is
  // shortened.
  EXPECT_THAT(last_.labels, Contains(testing::MatchesRegex("[0-9].*\\.\\.\\.")));
  EXPECT_TRUE(Shows(last_, "peak memory of a device"));
  EXPECT_TRUE(Shows(last_, "memory by stage"));
  EXPECT_EQ(Plan().view().selected, 0U);
}

TEST_F(PlanningScreens, ARowOfTheTableIsThePlanOfThePlot) {
  OpenView("plan");
  Search();
  ASSERT_GT(Plan().view().rows.size(), 1U);
  ClickOn("plan 2");
  EXPECT_EQ(Plan().view().selected, 1U);
  EXPECT_EQ(Plan().view().hovered, 1U);
}

TEST_F(PlanningScreens, KeepsTheFrontOfEachTrainerInThePlot) {
  OpenView("plan");
  Search();
  EXPECT_TRUE(Plan().view().scatter.others.empty());
  Plan().view().setup.trainer = "fsdp";
  Search();
  ASSERT_EQ(Plan().view().scatter.others.size(), 1U);
  EXPECT_EQ(Plan().view().scatter.others[0].setup.trainer, "foretrain");
  EXPECT_FALSE(Plan().view().scatter.others[0].points.empty());
  EXPECT_TRUE(Shows(last_, "fsdp"));
  // Another batch has other fronts.
  Plan().view().setup.global_batch = 32;
  Search();
  EXPECT_TRUE(Plan().view().scatter.others.empty());
}

TEST_F(PlanningScreens, AHeaderSortsTheTable) {
  OpenView("plan");
  Search();
  ClickOn("step");
  ClickOn("step");
  Frame();
  EXPECT_EQ(Plan().view().order, (ui::PlanOrder{ui::PlanColumn::kStep, true}));
  const auto sorted = Sorted(*Plan().search().found(), Plan().view().order);
  EXPECT_EQ(Plan().view().rows, sorted);
}

TEST_F(PlanningScreens, TellsWhyOthersLostAndComparesTwoThatArePinned) {
  OpenView("plan");
  Search();
  ClickOn("why not others");
  Frame();
  EXPECT_TRUE(Shows(last_, "plans were dropped"));
  ClickOn("selected plan");
  Frame();
  ClickOn("Pin");
  ClickOn("plan 2");
  Frame();
  ClickOn("Pin");
  EXPECT_EQ(Plan().view().kept.size(), 2U);
  Frame();
  ClickOn("pinned (2)");
  Settle();
  ASSERT_NE(Plan().view().difference, nullptr);
  EXPECT_FALSE(Plan().view().difference->effects.empty());
  EXPECT_TRUE(Shows(last_, "What makes the second differ"));
  Frame();
  Frame();
  EXPECT_TRUE(Shows(last_, "step time"));
  EXPECT_TRUE(Shows(last_, "device memory"));
}

TEST_F(PlanningScreens, SaysWhatWouldFitWhereNothingDoes) {
  ui::PlanSetup setup = SampleSetup();
  setup.model = "gpt2-1.5b";
  setup.gpu = "v100-16gb-sxm2";
  setup.devices_per_node = 1;
  setup.constraints = {{"zero_stage", "0"},
                       {"micro_batch", "16"},
                       {"recompute", "none"},
                       {"offload_optimizer", "none"},
                       {"offload_activations", "none"}};
  OpenView("plan", setup);
  ClickOn("Search");
  Settle();
  EXPECT_TRUE(Shows(last_, "No plan fits") || Shows(last_, "gpt2-1.5b")) << "nothing was said";
}

TEST_F(PlanningScreens, HandsAPlanToWhatIf) {
  OpenView("plan");
  Search();
  ClickOn("What if");
  Settle();
  EXPECT_EQ(whole_->view(), "what-if");
  ASSERT_TRUE(WhatIf().scenario().has_value());
  EXPECT_EQ(WhatIf().scenario()->model.name, "gpt2-124m");
  EXPECT_TRUE(Shows(last_, "step time"));
}

TEST_F(PlanningScreens, WhatIfStartsFromAPlanOfItsOwn) {
  OpenView("what-if");
  ASSERT_TRUE(WhatIf().scenario().has_value());
  EXPECT_EQ(WhatIf().scenario()->plan.World(), 4);
  EXPECT_TRUE(Shows(last_, "stage 0"));
  EXPECT_TRUE(Shows(last_, "peak memory"));
}

// The run's own model, machine and measured rates, not the defaults of the views.
TEST_F(PlanningScreens, StartFromTheRunThatIsOpen) {
  const ui::Scenario of = SampleScenario("gpt2-355m", "1x4xa100-80gb-sxm", 2, 2, 1, 8, 512);
  CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  input.measured->setting = std::make_shared<const RunSetting>(
      RunSetting{of.model, of.cluster, of.machine.profile, of.plan});
  OpenDesktop(input);
  ASSERT_TRUE(whole_->Show("what-if").has_value());
  Settle();
  ASSERT_TRUE(WhatIf().scenario().has_value());
  EXPECT_EQ(WhatIf().scenario()->model.name, of.model.name);
  EXPECT_EQ(WhatIf().scenario()->plan, of.plan);
  ASSERT_TRUE(whole_->Show("plan").has_value());
  Settle();
  EXPECT_EQ(Plan().view().setup.model, of.model.name);
  EXPECT_EQ(Plan().view().setup.gpu, "a100-80gb-sxm");
  EXPECT_EQ(Plan().view().setup.devices_per_node, 4);
  EXPECT_EQ(Plan().view().sequence_text, "512");
  ClickOn("devices a node");
  Plan().view().setup.devices_per_node = 8;
  ClickOn("From the open run");
  EXPECT_EQ(Plan().view().setup.devices_per_node, 4);
}

TEST_F(PlanningScreens, ADragOfASliderChangesPlanAndNumbers) {
  OpenView("what-if");
  const double before = WhatIf().engine().shown()->stats.step_s;
  const auto batch = WhatIf().scenario()->plan.global_batch;
  const ui::Point at = MiddleOf("global batch");
  MoveTo(at.x, at.y);
  DragTo(at.x + 60, at.y);
  Settle();
  EXPECT_NE(WhatIf().scenario()->plan.global_batch, batch);
  EXPECT_NE(WhatIf().engine().shown()->stats.step_s, before);
  ClickOn("Back to pinned");
  Settle();
  EXPECT_EQ(WhatIf().scenario()->plan.global_batch, batch);
  EXPECT_DOUBLE_EQ(WhatIf().engine().shown()->stats.step_s, before);
}

TEST_F(PlanningScreens, TheFrameThatTurnsAnOptionShowsItsAnswer) {
  OpenView("what-if");
  const double before = WhatIf().engine().shown()->stats.step_s;
  WhatIf().SetPatience(std::chrono::hours(1));
  const ui::Point at = MiddleOf("global batch");
  MoveTo(at.x, at.y);
  ImGui::GetIO().MouseDown[0] = true;
  Frame();
  ImGui::GetIO().MousePos.x = at.x + 60;
  Frame();
  EXPECT_NE(WhatIf().engine().shown()->stats.step_s, before);
  EXPECT_EQ(WhatIf().engine().shown()->request.scenario.plan.global_batch,
            WhatIf().scenario()->plan.global_batch);
  ImGui::GetIO().MouseDown[0] = false;
  Settle();
}

TEST_F(PlanningScreens, WhatIfShowsTheSentenceOfABrokenRule) {
  OpenView("what-if");
  ui::Scenario broken = *WhatIf().scenario();
  broken.plan.vpp = 3;
  broken.plan.schedule = ScheduleKind::k1f1b;
  whole_->state().selection.Pin({"broken", broken.model, broken.cluster, broken.plan});
  Settle();
  EXPECT_TRUE(Shows(last_, "Not possible: "));
  EXPECT_TRUE(Shows(last_, "stage 0"));  // the last legal picture
}

TEST_F(PlanningScreens, WheelZoomsAtTheMouseAndFFitsAgain) {
  OpenView("what-if");
  const ui::Box lanes = WhatIf().layout().lanes;
  MoveTo(WhatIf().layout().plot_x0 + 60, (lanes.y0 + lanes.y1) / 2);
  const double whole_ns = WhatIf().state().viewport.LengthNs();
  for (int i = 0; i < 5; ++i) Wheel(1);
  // 1.25 times a notch.
  EXPECT_NEAR(WhatIf().state().viewport.LengthNs(), whole_ns / std::pow(1.25, 5), 1.0);
  Type('f');
  EXPECT_NEAR(WhatIf().state().viewport.LengthNs(), whole_ns, 0.01 * whole_ns);
}

// Clicks, drags, wheels and keys at random places.
TEST_F(PlanningScreens, LiveThroughTwoThousandFramesOfRandomInput) {
  for (const char* name : {"plan", "what-if"}) {
    OpenView(name);
    std::mt19937 engine(7);
    const auto upto = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
    ImGuiIO& io = ImGui::GetIO();
    for (int frame = 0; frame < 1000; ++frame) {
      io.MousePos = {static_cast<float>(upto(1000)), static_cast<float>(upto(700))};
      io.MouseDown[0] = upto(3) == 0;
      if (upto(8) == 0) io.MouseWheel = static_cast<float>(upto(5) - 2);
      if (upto(6) == 0) io.AddInputCharacter(static_cast<unsigned>(32 + upto(90)));
      Frame();
      // Stays in the current view: others have their own tests.
      if (whole_->view() != name) {
        ASSERT_TRUE(whole_->Show(name).has_value());
      }
    }
    io.MouseDown[0] = false;
    Frame();
  }
}

TEST_F(PlanningScreens, WhatIfUndoesAndListsChanges) {
  OpenView("what-if");
  const foretrain::Plan before = WhatIf().scenario()->plan;
  DragBatch();
  const foretrain::Plan after = WhatIf().scenario()->plan;
  ASSERT_NE(before, after);
  Type('z');
  EXPECT_EQ(WhatIf().scenario()->plan, before);
  Type('y');
  EXPECT_EQ(WhatIf().scenario()->plan, after);
  ClickOn("Undo");
  Settle();
  EXPECT_EQ(WhatIf().scenario()->plan, before);
  ClickOn("history");
  Frame();
  Frame();
  EXPECT_TRUE(Shows(last_, "global batch 16 to "));
  ClickOn("change 2");
  Settle();
  EXPECT_EQ(WhatIf().scenario()->plan, after);
}

TEST_F(PlanningScreens, WhatIfExplainsTheDifferenceFromThePinnedPlan) {
  OpenView("what-if");
  ClickOn("difference");
  Settle();
  EXPECT_TRUE(Shows(last_, "The plan is the pinned one"));
  DragBatch();
  ASSERT_TRUE(WhatIf().workbench().difference().has_value());
  ASSERT_EQ(WhatIf().workbench().difference()->effects.size(), 1U);
  EXPECT_TRUE(Shows(last_, "global batch 16 to "));
  const ui::ExplainedDifference& explained = *WhatIf().workbench().difference();
  EXPECT_EQ(explained.after.step_s, WhatIf().engine().shown()->stats.step_s);
}

TEST_F(PlanningScreens, WhatIfSweepsADimension) {
  OpenView("what-if");
  ClickOn("sweep");
  Settle();
  ASSERT_TRUE(WhatIf().workbench().sweep().has_value());
  EXPECT_EQ(WhatIf().workbench().sweep()->field, ui::SweptField::kSequence);
  EXPECT_TRUE(Shows(last_, "device-hours for"));
  ClickOn("GPUs");
  Settle();
  EXPECT_EQ(WhatIf().workbench().sweep()->field, ui::SweptField::kDevices);
}

TEST_F(PlanningScreens, WhatIfShowsThePinnedTimelineAboveTheOther) {
  OpenView("what-if");
  const float top = WhatIf().layout().axis.y0;
  ClickOn("both");
  Settle();
  EXPECT_GT(WhatIf().layout().axis.y0, top + 100.0F);
  const auto stages = std::count(last_.labels.begin(), last_.labels.end(), "stage 0");
  EXPECT_EQ(stages, 2);
}

}  // namespace
}  // namespace foretrain
