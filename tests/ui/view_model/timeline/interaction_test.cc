#include "ui/view_model/timeline/interaction.h"

#include "ui/view_model/runs/search.h"

#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

constexpr Box kWindow{0, 0, 1600, 900};

class Interaction : public testing::Test {
 protected:
  void Type(char32_t key) {
    InputFrame input;
    input.typed = {key};
    Update(model_, layout_, input, state_);
  }

  void MoveTo(float x, float y, InputFrame input = {}) {
    input.x = x;
    input.y = y;
    input.dx = x - x_;
    input.dy = y - y_;
    x_ = x;
    y_ = y;
    Update(model_, layout_, input, state_);
  }

  float XOf(double time_ns) const {
    return layout_.plot_x0 + static_cast<float>(state_.viewport.ToX(time_ns, layout_.Columns()));
  }
  // y within the measured compute strip of lane 0.
  float MeasuredY() const { return layout_.lane_boxes[0].strips[2].box.y0 + 3; }

  void Press(bool shift = false) {
    InputFrame input;
    input.down = input.pressed = true;
    input.shift = shift;
    MoveTo(x_, y_, input);
  }
  void Drag(float x, float y) {
    InputFrame input;
    input.down = true;
    MoveTo(x, y, input);
  }
  void Release() {
    InputFrame input;
    input.released = true;
    MoveTo(x_, y_, input);
  }

  CompareInput input_ = TwoRanks();
  CompareModel model_ = ModelOf(input_);
  Layout layout_ = MakeLayout(model_, kWindow, 1.0F, 0.0F, 0);
  ViewState state_ = StartOf(model_);
  float x_ = 0.0F;
  float y_ = 0.0F;
};

TEST_F(Interaction, StartsWithTheWholeStep) {
  // [0, 350) with 1.5 % at both ends.
  EXPECT_DOUBLE_EQ(state_.viewport.start_ns, -5.25);
  EXPECT_DOUBLE_EQ(state_.viewport.end_ns, 355.25);
}

TEST_F(Interaction, ZoomsAtTheMouseAndBack) {
  const Viewport before = state_.viewport;
  const float x = XOf(100.0);
  InputFrame nearer;
  nearer.wheel = 3.0F;
  MoveTo(x, MeasuredY(), nearer);
  // 1.25^3 = 1.953 times closer.
  EXPECT_NEAR(state_.viewport.LengthNs(), before.LengthNs() / 1.953125, 1e-9);
  EXPECT_NEAR(XOf(100.0), x, 1e-3);
  InputFrame farther;
  farther.wheel = -3.0F;
  MoveTo(x, MeasuredY(), farther);
  EXPECT_NEAR(state_.viewport.start_ns, before.start_ns, 1e-9);
  EXPECT_NEAR(state_.viewport.end_ns, before.end_ns, 1e-9);
}

TEST_F(Interaction, DragsTimeByPixels) {
  MoveTo(XOf(100.0), MeasuredY());
  Press();
  ASSERT_EQ(layout_.Columns(), 1460);
  Drag(x_ - 146.0F, y_);
  // 146 of 1,460 columns: a tenth of 360.5 ns.
  EXPECT_NEAR(state_.viewport.start_ns, -5.25 + 36.05, 1e-9);
  Release();
  EXPECT_FALSE(state_.selected.has_value());
}

TEST_F(Interaction, SelectsWhatIsClicked) {
  MoveTo(XOf(170.0), MeasuredY());
  ASSERT_TRUE(state_.hovered.has_value());
  Press();
  Release();
  ASSERT_TRUE(state_.selected.has_value());
  EXPECT_EQ(model_.SpanOf(*state_.selected).end_ns, 1240);
  // A click outside the spans clears the selection and selects the lane of the memory panel.
  MoveTo(20.0F, layout_.lane_boxes[1].box.y0 + 10);
  Press();
  Release();
  EXPECT_FALSE(state_.selected.has_value());
  EXPECT_EQ(state_.memory_lane, 1U);
}

TEST_F(Interaction, ZoomsToASpanOnDoubleClick) {
  InputFrame twice;
  twice.double_clicked = twice.down = twice.pressed = true;
  MoveTo(XOf(170.0), MeasuredY(), twice);
  // The span [100, 240) in the middle fifth: 700 ns around 170.
  EXPECT_DOUBLE_EQ(state_.viewport.start_ns, -180.0);
  EXPECT_DOUBLE_EQ(state_.viewport.end_ns, 520.0);
  Type(U'u');
  EXPECT_DOUBLE_EQ(state_.viewport.end_ns, 355.25);
}

TEST_F(Interaction, MeasuresWithShift) {
  MoveTo(XOf(50.0), MeasuredY());
  Press(/*shift=*/true);
  Drag(XOf(250.0), MeasuredY());
  Release();
  ASSERT_TRUE(state_.measure.has_value());
  EXPECT_NEAR(state_.measure->from_ns, 50.0, 0.1);
  EXPECT_NEAR(state_.measure->to_ns, 250.0, 0.1);
  EXPECT_DOUBLE_EQ(state_.viewport.start_ns, -5.25);
  InputFrame escape;
  escape.escape = true;
  MoveTo(x_, y_, escape);
  EXPECT_FALSE(state_.measure.has_value());
}

TEST_F(Interaction, WalksThroughTheWorstErrors) {
  Type(U']');
  ASSERT_TRUE(state_.selected.has_value());
  EXPECT_EQ(state_.worst, 0U);
  EXPECT_EQ(model_.SpanOf(*state_.selected).end_ns, 1240);
  // Its counterpart [100, 200) lies within [100, 240): the view is that of the measured span.
  EXPECT_DOUBLE_EQ(state_.viewport.LengthNs(), 700.0);
  Type(U'[');
  EXPECT_EQ(state_.worst, model_.worst.size() - 1);
  Type(U']');
  EXPECT_EQ(state_.worst, 0U);
}

TEST_F(Interaction, JumpsToTheCounterpartAndBack) {
  Type(U']');
  const SpanRef measured = *state_.selected;
  const Viewport before = state_.viewport;
  Type(U'm');
  ASSERT_TRUE(state_.selected.has_value());
  EXPECT_EQ(state_.selected->side, Side::kPredicted);
  // Middles: measured 170, predicted 150; the counterpart appears where the span was.
  EXPECT_DOUBLE_EQ(state_.viewport.start_ns, before.start_ns - 20.0);
  Type(U'M');
  EXPECT_EQ(state_.selected, measured);
  EXPECT_DOUBLE_EQ(state_.viewport.start_ns, before.start_ns);
}

TEST_F(Interaction, MovesWhileKeysAreHeld) {
  InputFrame held;
  held.right = true;
  held.elapsed_s = 0.05;
  const double length = state_.viewport.LengthNs();
  MoveTo(x_, y_, held);
  // 0.8 screens per second.
  EXPECT_NEAR(state_.viewport.start_ns, -5.25 + 0.8 * 0.05 * length, 1e-9);
  held.right = false;
  held.nearer = true;
  MoveTo(x_, y_, held);
  EXPECT_LT(state_.viewport.LengthNs(), length);
}

TEST_F(Interaction, FitsAndComesBack) {
  const Viewport start = state_.viewport;
  state_.viewport = {100.0, 150.0};
  Type(U'F');
  EXPECT_EQ(state_.viewport, start);
  Type(U'u');
  EXPECT_EQ(state_.viewport, (Viewport{100.0, 150.0}));
}

TEST_F(Interaction, AsksForOtherRowsStepsAndAlignment) {
  Type(U'q');
  EXPECT_EQ(state_.wanted.rows, LaneRows::kQueues);
  Type(U'g');
  EXPECT_EQ(state_.wanted.alignment, Alignment::kMicroBatch);
  Type(U'k');
  EXPECT_EQ(state_.wanted.alignment, Alignment::kWallClock);
  Type(U'x');
  EXPECT_EQ(state_.wanted.alignment, Alignment::kWarp);
  Type(U'g');
  EXPECT_EQ(state_.wanted.alignment, Alignment::kStepStart);
  Type(U'.');  // there is only one step
  EXPECT_EQ(state_.wanted.measured_step, std::nullopt);
}

TEST_F(Interaction, KeepsItsPlaceWhenTheModelChanges) {
  state_.viewport = {100.0, 150.0};
  state_.selected = SpanRef{Side::kMeasured, 1};
  const CompareModel queues = ModelOf(input_, {.rows = LaneRows::kQueues});
  const ViewState kept = CarryOver(model_.options, true, queues, state_);
  EXPECT_EQ(kept.viewport, state_.viewport);
  EXPECT_EQ(kept.selected, state_.selected);
  const CompareModel wall = ModelOf(input_, {.alignment = Alignment::kWallClock});
  EXPECT_EQ(CarryOver(model_.options, true, wall, state_).viewport, Fitted(wall.extent));
  CompareInput fewer = TwoRanks();
  fewer.measured->timeline.spans.resize(1);
  const CompareModel other = ModelOf(fewer);
  const ViewState lost = CarryOver(model_.options, false, other, state_);
  EXPECT_FALSE(lost.selected.has_value());
}

TEST_F(Interaction, AlignsAtTheSelectedOpAlone) {
  Type(U'e');  // nothing is selected
  EXPECT_EQ(state_.wanted.alignment, Alignment::kStepStart);
  state_.selected = SpanRef{Side::kMeasured, 1};
  Type(U'e');
  EXPECT_EQ(state_.wanted.alignment, Alignment::kSelectedOp);
  EXPECT_EQ(state_.wanted.anchor, (Anchor{0, model_.SpanOf({Side::kMeasured, 1}).op}));
}

TEST_F(Interaction, ShowsTheCriticalPathOfEitherSide) {
  Type(U'c');
  EXPECT_EQ(state_.path, Side::kMeasured);
  Type(U'c');
  EXPECT_EQ(state_.path, Side::kPredicted);
  Type(U'c');
  EXPECT_EQ(state_.path, std::nullopt);
}

TEST_F(Interaction, GoesRoundTheFoundSpans) {
  state_.found = FindSpans(model_, "mlp");
  ASSERT_EQ(state_.found.size(), 4U);
  const double length = state_.viewport.LengthNs();
  GoToFound(model_, layout_, 3, state_);
  EXPECT_EQ(state_.selected, state_.found[3]);
  EXPECT_NEAR(state_.viewport.LengthNs(), length, 1e-6);
  Type(U'n');
  EXPECT_EQ(state_.selected, state_.found[0]);
}

TEST_F(Interaction, IgnoresDragsThatBeganOutsideThePlot) {
  const Viewport before = state_.viewport;
  MoveTo(400.0F, layout_.legend.y0 + 5);
  Press();
  Drag(300.0F, layout_.legend.y0 + 5);
  EXPECT_EQ(state_.viewport, before);
}

}  // namespace
}  // namespace foretrain::ui
