// The compare view as a whole, frame by frame, without a display.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <limits>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/sample_run.h"
#include "ui/view/desktop/input.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using ui::FrameRecord;

class Screen : public HeadlessFrames {};

void ExpectNoNonsense(const FrameRecord& record) {
  for (const std::string& label : record.labels) {
    EXPECT_THAT(label, Not(HasSubstr("nan"))) << label;
    EXPECT_THAT(label, Not(HasSubstr("inf"))) << label;
  }
}

TEST_F(Screen, ShowsLanesNumbersAndPanels) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  Open(input);
  const FrameRecord& record = Frame();
  for (const char* text : {"rank 0", "stage 1", "drift", "memory", "activations", "predicted",
                           "measured", "forward", "slower than forecast", "F0"}) {
    EXPECT_TRUE(Shows(record, text)) << text;
  }
  EXPECT_GT(record.spans, 0U);
  EXPECT_GT(record.folded_columns, 0U);
  EXPECT_THAT(record.tooltip, IsEmpty());
}

TEST_F(Screen, ShowsCountersOfGpusUntilTheyAreSwitchedOff) {
  const CompareInput plain = SampleInput({.layers = 4, .micro_batches = 4});
  Open(plain);
  EXPECT_FALSE(Shows(Frame(), "SM active"));
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4, .counters = true});
  Open(input);
  for (const char* text : {"SM active", "100.0 %", "NVLink out", "300 GB/s", "1.98 GHz"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
  EXPECT_FALSE(Shows(Frame(), "PCIe out"));
  const ui::Box graph = screen_->layout().lane_boxes.at(0).counters.at(0).box;
  // The first reading, of 4 ms, is 90 %. Rank 0's step begins with it.
  const FrameRecord& record = MoveTo(XOf(1e6), (graph.y0 + graph.y1) / 2);
  ASSERT_FALSE(record.tooltip.empty());
  EXPECT_EQ(record.tooltip[0], "SM active");
  EXPECT_THAT(record.tooltip, Contains("reading of: 4.00 ms"));
  EXPECT_FALSE(Shows(Type('p'), "SM active"));
  EXPECT_TRUE(Shows(Type('P'), "SM active"));
}

TEST_F(Screen, TellsWhatLiesUnderTheMouse) {
  const CompareInput input = TwoRanks();
  Open(input);
  const FrameRecord& record = MoveTo(XOf(170.0), YOf(0, 2));
  ASSERT_FALSE(record.tooltip.empty());
  EXPECT_EQ(record.tooltip[0], "mlp");
  EXPECT_THAT(record.tooltip, Contains("error: +40.0 ns, +40.0 %"));
  EXPECT_THAT(MoveTo(XOf(170.0), 5.0F).tooltip, IsEmpty());
}

TEST_F(Screen, RestoresTheViewAfterZoomingInAndOut) {
  const CompareInput input = TwoRanks();
  Open(input);
  const ui::Viewport before = state().viewport;
  MoveTo(XOf(120.0), YOf(1, 0));
  for (int i = 0; i < 8; ++i) Wheel(1.0F);
  EXPECT_LT(state().viewport.LengthNs(), 0.2 * before.LengthNs());
  for (int i = 0; i < 8; ++i) Wheel(-1.0F);
  EXPECT_NEAR(state().viewport.start_ns, before.start_ns, 1e-6);
  EXPECT_NEAR(state().viewport.end_ns, before.end_ns, 1e-6);
}

TEST_F(Screen, MovesWithTheMouseButtonHeld) {
  const CompareInput input = TwoRanks();
  Open(input);
  const ui::Viewport before = state().viewport;
  const float y = YOf(0, 2);
  MoveTo(500.0F, y);
  DragTo(414.0F, y);
  // 86 of 860 columns to the left: a tenth of the view later.
  ASSERT_EQ(screen_->layout().Columns(), 860);
  EXPECT_NEAR(state().viewport.start_ns, before.start_ns + before.LengthNs() / 10, 1e-6);
  EXPECT_NEAR(state().viewport.LengthNs(), before.LengthNs(), 1e-6);
}

TEST_F(Screen, MeasuresWithShiftAndShowsTheLength) {
  const CompareInput input = TwoRanks();
  Open(input);
  MoveTo(XOf(0.0), YOf(0, 2));
  DragTo(XOf(200.0), YOf(0, 2), /*shift=*/true);
  ASSERT_TRUE(state().measure.has_value());
  EXPECT_TRUE(Shows(Frame(), "200 ns"));
}

TEST_F(Screen, SelectsByClickAndGoesToTheCounterpartByKey) {
  const CompareInput input = TwoRanks();
  Open(input);
  Click(XOf(170.0), YOf(0, 2));
  ASSERT_TRUE(state().selected.has_value());
  EXPECT_EQ(state().selected->side, ui::Side::kMeasured);
  Type('m');
  EXPECT_EQ(state().selected->side, ui::Side::kPredicted);
}

TEST_F(Screen, TellsEverythingOfTheSelectedSpan) {
  const CompareInput input = TwoRanks();
  Open(input);
  Click(XOf(170.0), YOf(0, 2));
  const ui::FrameRecord& record = MoveTo(5.0F, 5.0F);
  for (const char* text : {"mlp", "+40.0 ns, +40.0 %", "100 ns into the step", "counterpart starts",
                           "gemm", "op id"}) {
    EXPECT_TRUE(Shows(record, text)) << text;
  }
}

TEST_F(Screen, ShowsTheCriticalPathAndSaysWhatItIsMadeOf) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  Open(input);
  const std::size_t before = Frame().rectangles;
  EXPECT_GT(Type('c').rectangles, before);
  EXPECT_THAT(screen_->Chips(), Contains(HasSubstr("measured critical path")));
  Type('c');
  EXPECT_THAT(screen_->Chips(), Contains(HasSubstr("predicted critical path")));
}

TEST_F(Screen, NamesBubblesByTheirCause) {
  const CompareInput input = SampleInput({.stages = 4, .layers = 4, .micro_batches = 4});
  Open(input);
  EXPECT_TRUE(Shows(Frame(), "waits for") || Shows(Frame(), "communication"));
}

TEST_F(Screen, SearchesAndGoesToWhatItFinds) {
  const CompareInput input = TwoRanks();
  Open(input);
  Type('/');
  Frame();
  for (const char c : std::string("mlp")) Type(c);
  EXPECT_TRUE(Shows(Frame(), "1 of 4"));
  EXPECT_TRUE(state().selected.has_value());
  EXPECT_TRUE(state().searching);
  ImGui::GetIO().KeysDown[ui::kKeyEscape] = true;
  Frame();
  ImGui::GetIO().KeysDown[ui::kKeyEscape] = false;
  Frame();
  EXPECT_FALSE(state().searching);
}

TEST_F(Screen, LetsOpsOutsideTheFilterStepBack) {
  CompareInput input;
  input.measured = RunOfSpans(
      {ComputeSpan({}, 0, 100), ComputeSpan({.op = 1, .pass = Pass::kBackward}, 100, 200)});
  Open(input);
  desktop_->selection.FilterOps(ui::OpFilter{.name = "backward", .pass = Pass::kBackward});
  const ui::Image image = Pixels();
  const ui::Box strip = screen_->layout().lane_boxes.at(0).strips.at(0).box;
  const auto pixel = [&](double time_ns) {
    const auto x = static_cast<std::size_t>(XOf(time_ns));
    const auto y = static_cast<std::size_t>(strip.y1 - 4);
    return image.pixels[y * static_cast<std::size_t>(image.width) + x];
  };
  EXPECT_NE(pixel(20.0), ui::DarkTheme().Of(ui::Hue::kForward));
  EXPECT_EQ(pixel(120.0), ui::DarkTheme().Of(ui::Hue::kBackward));
  EXPECT_THAT(screen_->Chips(), Contains("filter: backward"));
}

TEST_F(Screen, GoesToARankAndStepAsAnotherViewAsks) {
  const CompareInput input = SampleInput({.layers = 2, .micro_batches = 2, .steps = 3});
  Open(input);
  desktop_->navigation.GoTo(ui::RankPlace{.rank = 1, .step = 2});
  Frame();
  EXPECT_EQ(screen_->model().Of(ui::Side::kMeasured).step, 2);
  EXPECT_EQ(screen_->model().lanes[state().memory_lane].rank, 1);
}

TEST_F(Screen, MovesWhileAKeyIsHeld) {
  const CompareInput input = TwoRanks();
  Open(input);
  const double before = state().viewport.start_ns;
  ImGui::GetIO().KeysDown[ui::kKeyD] = true;
  Frame();
  Frame();
  ImGui::GetIO().KeysDown[ui::kKeyD] = false;
  EXPECT_GT(state().viewport.start_ns, before);
}

TEST_F(Screen, ChangesStepRowsAndAlignment) {
  const CompareInput input = SampleInput({.layers = 2, .micro_batches = 2, .steps = 3});
  Open(input);
  const std::int32_t median = screen_->model().Of(ui::Side::kMeasured).step;
  Type(median < 2 ? '.' : ',');
  EXPECT_NE(screen_->model().Of(ui::Side::kMeasured).step, median);
  EXPECT_THAT(screen_->Chips(), Contains(HasSubstr("one of 3")));
  EXPECT_TRUE(Shows(Type('q'), "send+1"));
  Type('k');
  EXPECT_THAT(screen_->Chips(), Contains("wall clock"));
  Type('x');
  EXPECT_THAT(screen_->Chips(), Contains("warped to measured starts"));
  Frame();
}

TEST_F(Screen, ShowsNewerRunsInTheSamePlace) {
  const CompareInput before = SampleInput({.layers = 2, .micro_batches = 2, .steps = 1});
  const CompareInput after = SampleInput({.layers = 2, .micro_batches = 2, .steps = 2});
  Open(before);
  screen_->state().viewport = {1e6, 2e6};
  desktop_->TakeStore(ui::Prepare({.input = after}, {}, /*same_run=*/true));
  Frame();
  EXPECT_THAT(screen_->Chips(), Contains(HasSubstr("of 2")));
  EXPECT_EQ(state().viewport, (ui::Viewport{1e6, 2e6}));
}

TEST_F(Screen, IsSafeWithoutRuns) {
  const CompareInput nothing;
  Open(nothing);
  for (const char key : {'f', 'm', ']', '[', '.', 'q', 'g', 'u'}) ExpectNoNonsense(Type(key));
  Click(500.0F, 300.0F);
  Wheel(5.0F);
}

TEST_F(Screen, ShowsOneRunAlone) {
  CompareInput input = TwoRanks();
  input.predicted.reset();
  Open(input);
  EXPECT_TRUE(Shows(Frame(), "rank 0"));
  EXPECT_FALSE(Shows(Frame(), "slower than forecast"));
  input = TwoRanks();
  input.measured.reset();
  Open(input);
  EXPECT_TRUE(Shows(Frame(), "rank 0"));
  EXPECT_FALSE(Shows(Frame(), "slower than forecast"));
}

TEST_F(Screen, IsSafeForOddTimelines) {
  const std::int64_t far = std::int64_t{1} << 52;
  const std::vector<std::vector<Span>> cases{
      {},
      {ComputeSpan({}, 0, 1)},
      {ComputeSpan({}, 5, 5)},
      {ComputeSpan({}, -1000, -10), ComputeSpan({.op = 1}, -10, -10)},
      {ComputeSpan({}, far, far + 1), ComputeSpan({.op = 1}, far + 1, far + 2)},
      {ComputeSpan({}, 0, 1), ComputeSpan({.op = 1}, far, far + 10)},
      {ComputeSpan({}, 0, 100), ComputeSpan({.op = 1}, 50, 150)},
      {ComputeSpan({.rank = 5}, 0, 100)},
  };
  for (const std::vector<Span>& spans : cases) {
    CompareInput input;
    input.predicted = RunOfSpans(spans);
    input.measured = RunOfSpans(spans);
    Open(input);
    ExpectNoNonsense(MoveTo(500.0F, 200.0F));
    for (const char key : {']', 'm', 'f', 'g', 'q'}) ExpectNoNonsense(Type(key));
    for (int i = 0; i < 12; ++i) Wheel(5.0F);
    ExpectNoNonsense(Frame());
    for (int i = 0; i < 18; ++i) Wheel(-5.0F);
    ExpectNoNonsense(Frame());
  }
}

TEST_F(Screen, IsSafeForAMemoryOnlyRun) {
  CompareInput input;
  input.measured = RunOfSpans({ComputeSpan({}, 0, 100)});
  input.measured->timeline.memory = {{0, 10, 0, Category::kActivations, Space::kHost},
                                     {50, -10, 0, Category::kActivations, Space::kHost}};
  input.measured->device_bytes = 0;
  Open(input);
  EXPECT_TRUE(Shows(Frame(), "rank 0 host"));
  ExpectNoNonsense(Frame());
}

TEST_F(Screen, DrawsTheSamePixelsEachTime) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  Open(input);
  const ui::Image first = Pixels();
  Open(input);
  EXPECT_EQ(Pixels().pixels, first.pixels);
  // Also after the view was elsewhere.
  Wheel(3.0F);
  Type('f');
  ImGui::GetIO().MousePos = {-std::numeric_limits<float>::max(),
                             -std::numeric_limits<float>::max()};
  EXPECT_EQ(Pixels().pixels, first.pixels);
}

TEST_F(Screen, ColoursAnOpThatTookLongerRed) {
  CompareInput input;
  input.predicted = RunOfSpans({ComputeSpan({}, 0, 100), ComputeSpan({.op = 1}, 100, 200)});
  input.measured = RunOfSpans({ComputeSpan({}, 0, 180), ComputeSpan({.op = 1}, 180, 200)});
  Open(input);
  const ui::Image image = Pixels();
  const ui::Box error = screen_->layout().lane_boxes.at(0).error;
  const auto pixel = [&](double time_ns) {
    const auto x = static_cast<std::size_t>(XOf(time_ns));
    const auto y = static_cast<std::size_t>((error.y0 + error.y1) / 2);
    return image.pixels[y * static_cast<std::size_t>(image.width) + x];
  };
  // 80 of 180 and of 100: beyond the error that is drawn at full strength.
  EXPECT_EQ(pixel(100.0), ui::DarkTheme().worse);
  EXPECT_EQ(pixel(190.0), ui::DarkTheme().better);
}

TEST_F(Screen, DrawsSpansInTheColourOfTheirPass) {
  CompareInput input;
  input.measured = RunOfSpans(
      {ComputeSpan({}, 0, 100), ComputeSpan({.op = 1, .pass = Pass::kBackward}, 100, 200)});
  Open(input);
  const ui::Image image = Pixels();
  const ui::Box strip = screen_->layout().lane_boxes.at(0).strips.at(0).box;
  const auto pixel = [&](double time_ns) {
    const auto x = static_cast<std::size_t>(XOf(time_ns));
    const auto y = static_cast<std::size_t>(strip.y1 - 4);
    return image.pixels[y * static_cast<std::size_t>(image.width) + x];
  };
  EXPECT_EQ(pixel(20.0), ui::DarkTheme().Of(ui::Hue::kForward));
  EXPECT_EQ(pixel(120.0), ui::DarkTheme().Of(ui::Hue::kBackward));
}

}  // namespace
}  // namespace foretrain
