// The time view, used without a display.
#include "ui/view/screens/time_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/sample_run.h"

namespace foretrain {
namespace {

class TimeView : public HeadlessFrames {
 protected:
  void Show(const CompareInput& input) {
    OpenDesktop(input);
    ASSERT_TRUE(whole_->Show("time").has_value());
    Frame();
    Frame();
  }
};

TEST_F(TimeView, LeadsFromPredictedToMeasuredAndListsOps) {
  Show(TwoRanks());
  const ui::FrameRecord& record = Frame();
  // GEMM +20 ns and dependency wait +20 ns of a step of 200 ns.
  for (const char* text :
       {"from predicted to measured", "GEMM", "dependency wait", "+20.0 ns  +10.0 %",
        "mlp  forward", "send  forward", "62.5 %", "50.0 %", "of step error"}) {
    EXPECT_TRUE(Shows(record, text)) << text;
  }
}

TEST_F(TimeView, FiltersByAnOpAndGoesToCompare) {
  Show(TwoRanks());
  EXPECT_FALSE(whole_->state().selection.op_filter().has_value());
  ClickOn("mlp  forward");
  Frame();
  ASSERT_TRUE(whole_->state().selection.op_filter().has_value());
  EXPECT_EQ(whole_->state().selection.op_filter()->op, "mlp");
  EXPECT_EQ(whole_->state().selection.op_filter()->pass, Pass::kForward);
  EXPECT_EQ(whole_->state().selection.op_filter()->op_class, OpClass::kGemm);
  ClickOn("Show in Compare");
  Frame();
  EXPECT_EQ(whole_->view(), "compare");
  EXPECT_TRUE(whole_->state().selection.op_filter().has_value());
}

TEST_F(TimeView, SortsByAHeader) {
  Show(TwoRanks());
  auto& screen = dynamic_cast<ui::TimeScreen&>(whole_->screen());
  ASSERT_EQ(screen.groups().groups.size(), 2U);
  const float send = MiddleOf("send  forward").y;
  EXPECT_LT(send, MiddleOf("mlp  forward").y);
  ClickOn("op");  // by name, ascending
  Frame();
  EXPECT_GT(MiddleOf("send  forward").y, MiddleOf("mlp  forward").y);
}

TEST_F(TimeView, ShowsOneRunAloneByItsParts) {
  CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  input.predicted.reset();
  Show(input);
  EXPECT_TRUE(Shows(Frame(), "parts"));
  EXPECT_FALSE(Shows(Frame(), "from predicted to measured"));
  EXPECT_TRUE(Shows(Frame(), "attn.core"));
}

TEST_F(TimeView, TellsTheBubbleByCauseWhileNoOpIsChosen) {
  Show(SampleInput({.stages = 2, .layers = 4, .micro_batches = 4}));
  for (const char* text : {"bubble by cause", "warm-up", "cool-down", "imbalance", "transfers"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
  ClickOn("attn.core  forward");
  EXPECT_FALSE(Shows(Frame(), "bubble by cause"));
  ClickOn("Clear filter");
  EXPECT_TRUE(Shows(Frame(), "bubble by cause"));
}

TEST_F(TimeView, SaysWhereThereIsNothing) {
  CompareInput input;
  input.measured = RunView{};
  Show(input);
  EXPECT_TRUE(Shows(Frame(), "There is no step whose time could be told"));
}

TEST_F(TimeView, ShowsCausesOnceTheyAreKnown) {
  Show(TwoRanks());
  whole_->state().services.explain = [](const StoreRequest&, std::int32_t) -> Result<Explanation> {
    Explanation explanation;
    explanation.attribution = Attribution{
        .predicted_s = 200e-9, .measured_s = 240e-9, .shares = {{GapClass::kGemm, 30e-9, 0.0}}};
    return explanation;
  };
  Frame();
  for (int i = 0; i < 1000 && whole_->IsMoving(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Frame();
  }
  ClickOn("cause");
  const ui::FrameRecord& record = Frame();
  EXPECT_TRUE(Shows(record, "+30.0 ns  +15.0 %"));
  EXPECT_TRUE(Shows(record, "unexplained"));
}

TEST_F(TimeView, SaysWhyThereAreNoCauses) {
  Show(TwoRanks());
  whole_->state().services.explain = [](const StoreRequest&, std::int32_t) -> Result<Explanation> {
    return Fail(ErrorCode::kUnsupported, "this plan cannot be compiled");
  };
  Frame();
  for (int i = 0; i < 1000 && whole_->IsMoving(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Frame();
  }
  ClickOn("cause");
  EXPECT_TRUE(Shows(Frame(), "this plan cannot be compiled"));
}

}  // namespace
}  // namespace foretrain
