#include "ui/view_model/timeline/layout.h"

#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"

namespace foretrain::ui {
namespace {

constexpr Box kWindow{0, 0, 1600, 900};

// Each span is found by a hit test at its middle.
void ExpectEachSpanHitsItself(const CompareModel& model, LaneRows rows) {
  const Layout layout = MakeLayout(model, kWindow, 1.0F, 0.0F, 0);
  std::size_t hits = 0;
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) {
      const Row& row = model.lanes[lane.lane].rows[Index(strip.side)][strip.row];
      for (std::size_t t = 0; t < row.tracks.size(); ++t) {
        const Box box = TrackBox(strip.box, t, row.tracks.size());
        const float y = (box.y0 + box.y1) / 2;
        if (!layout.lanes.Contains(layout.plot_x0, y)) continue;
        for (std::size_t i = 0; i < row.tracks[t].size(); ++i) {
          const Span& span = row.tracks[t].SpanAt(i);
          const SideModel& side = model.Of(strip.side);
          // The span lies in the middle fifth of the screen.
          const Viewport view =
              Around(side.Displayed(span.start_ns), side.Displayed(span.end_ns), model.all);
          const auto hit = HitTest(model, layout, view, (layout.plot_x0 + layout.plot_x1) / 2, y);
          ASSERT_TRUE(hit.has_value());
          ASSERT_EQ(hit->span, (SpanRef{strip.side, row.tracks[t].IndexAt(i)}))
              << "lane " << lane.lane << " row " << row.name << " rows " << static_cast<int>(rows);
          ++hits;
        }
      }
    }
  }
  EXPECT_GT(hits, 500U);
}

TEST(Layout, FindsEachSpanUnderTheMouse) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4, .steps = 1});
  for (const LaneRows rows : {LaneRows::kMerged, LaneRows::kQueues}) {
    ExpectEachSpanHitsItself(ModelOf(input, {.rows = rows}), rows);
  }
}

TEST(Layout, FindsNarrowSpansWithinTwoPixels) {
  CompareInput input;
  // 1 ns in 100,000: a hundredth of a pixel.
  input.measured = RunOfSpans({ComputeSpan({}, 0, 1), ComputeSpan({.op = 1}, 50'000, 50'001),
                               ComputeSpan({.op = 2}, 99'999, 100'000)});
  const CompareModel model = ModelOf(input);
  const Layout layout = MakeLayout(model, kWindow, 1.0F, 0.0F, 0);
  const Viewport view{0.0, 100'000.0};
  const Box strip = layout.lane_boxes.at(0).strips.at(0).box;
  const float x = layout.plot_x0 + static_cast<float>(layout.Columns()) / 2;
  const auto near = HitTest(model, layout, view, x + 1.5F, strip.y0 + 2);
  ASSERT_TRUE(near.has_value());
  EXPECT_EQ(near->span, (SpanRef{Side::kMeasured, 1}));
  const auto far = HitTest(model, layout, view, x + 3.0F, strip.y0 + 2);
  ASSERT_TRUE(far.has_value());
  EXPECT_FALSE(far->span.has_value());
  EXPECT_FALSE(HitTest(model, layout, view, x, layout.axis.y0 + 1).has_value());
}

TEST(Layout, PutsTheForecastAboveTheMeasurementAndItsErrorBelow) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  const Layout layout = MakeLayout(model, kWindow, 1.0F, 0.0F, 0);
  ASSERT_EQ(layout.lane_boxes.size(), 2U);
  const LaneBox& lane = layout.lane_boxes[0];
  ASSERT_EQ(lane.strips.size(), 4U);
  EXPECT_EQ(lane.strips[0].side, Side::kPredicted);
  EXPECT_EQ(lane.strips[2].side, Side::kMeasured);
  EXPECT_LT(lane.strips[0].box.Height(), lane.strips[2].box.Height());
  EXPECT_LE(lane.strips[1].box.y1, lane.strips[2].box.y0);
  EXPECT_LE(lane.strips[3].box.y1, lane.error.y0);
  EXPECT_LE(lane.error.y1, lane.box.y1);
}

TEST(Layout, LeavesPanelsOutOfSmallWindows) {
  const CompareInput input = SampleInput({.layers = 2, .micro_batches = 2});
  const CompareModel model = ModelOf(input);
  EXPECT_FALSE(MakeLayout(model, kWindow, 1.0F, 0.0F, 0).memory.IsEmpty());
  EXPECT_FALSE(MakeLayout(model, kWindow, 1.0F, 0.0F, 0).drift.IsEmpty());
  const Layout low = MakeLayout(model, {0, 0, 1600, 370}, 1.0F, 0.0F, 0);
  EXPECT_TRUE(low.memory.IsEmpty());
  EXPECT_FALSE(low.drift.IsEmpty());
  const Layout lower = MakeLayout(model, {0, 0, 1600, 210}, 1.0F, 0.0F, 0);
  EXPECT_TRUE(lower.drift.IsEmpty());
  EXPECT_FALSE(lower.lanes.IsEmpty());
  const Layout tiny = MakeLayout(model, {0, 0, 1, 1}, 1.0F, 0.0F, 0);
  EXPECT_EQ(tiny.Columns(), 0);
}

TEST(Layout, ScrollsLanesThatDoNotFit) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 64; ++rank) spans.push_back(ComputeSpan({.rank = rank}, 0, 100));
  CompareInput input;
  input.measured = RunOfSpans(spans);
  const CompareModel model = ModelOf(input);
  const Layout top = MakeLayout(model, kWindow, 1.0F, 0.0F, 0);
  EXPECT_GT(top.max_scroll, 0.0F);
  EXPECT_EQ(top.lane_boxes.front().lane, 0U);
  const Layout bottom = MakeLayout(model, kWindow, 1.0F, 1e9F, 0);
  EXPECT_FLOAT_EQ(bottom.scroll, bottom.max_scroll);
  EXPECT_EQ(bottom.lane_boxes.back().lane, 63U);
  EXPECT_FLOAT_EQ(bottom.lane_boxes.back().box.y1, bottom.lanes.y1);
}

TEST(Layout, WidensTheLeastSpanUntilTheRectanglesFit) {
  EXPECT_DOUBLE_EQ(MinColumns(1500, 4, 7000), 3.0);
  // 40 tracks of 1,500 columns: 60,000 / 6,920 columns a span.
  EXPECT_DOUBLE_EQ(MinColumns(1500, 40, 7000), 60'000.0 / 6'920.0);
  EXPECT_GT(MinColumns(1500, 5000, 7000), 1500.0);
}

TEST(Layout, CutsAStripIntoItsTracksWithoutGaps) {
  const Box strip{0, 10, 100, 27};
  EXPECT_FLOAT_EQ(TrackBox(strip, 0, 3).y0, 10.0F);
  EXPECT_FLOAT_EQ(TrackBox(strip, 0, 3).y1, TrackBox(strip, 1, 3).y0);
  EXPECT_FLOAT_EQ(TrackBox(strip, 1, 3).y1, TrackBox(strip, 2, 3).y0);
  EXPECT_FLOAT_EQ(TrackBox(strip, 2, 3).y1, 27.0F);
}

}  // namespace
}  // namespace foretrain::ui
