#include "ui/view_model/panels/counter_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::IsEmpty;

constexpr Box kWindow{0, 0, 1600, 900};

// Two ranks, whose measured step begins at 1,000 ns of the run. Rank 0 has SM activity and NVLink
// rates; its PCIe does nothing, and its fp32 pipes have no row. Rank 1 has no counters.
CompareInput InputWithCounters() {
  CompareInput input = TwoRanks();
  input.measured->gpu_counters = std::make_shared<const std::vector<GpuCounter>>(
      GpuCountersOf(std::vector<Counter>{{"gpu_sm_activity", 0, -1, 1000, 0.25},
                                         {"gpu_sm_activity", 0, -1, 1100, 0.75},
                                         {"gpu_nvlink_tx_bytes_per_s", 0, -1, 1000, 2e11},
                                         {"gpu_nvlink_tx_bytes_per_s", 0, -1, 1200, 1e11},
                                         {"gpu_pcie_tx_bytes_per_s", 0, -1, 1000, 0.0},
                                         {"gpu_fp32_activity", 0, -1, 1000, 0.5}}));
  return input;
}

TEST(CounterRows, AreTheMainSeriesOfARankThatAreNotAlwaysZero) {
  const CompareInput input = InputWithCounters();
  const auto counters = CountersOf(*input.measured, 0);
  ASSERT_EQ(counters.size(), 2U);
  EXPECT_EQ(counters[0]->series.title, "SM active");
  EXPECT_EQ(counters[1]->series.title, "NVLink out");
  EXPECT_EQ(TopOf(*counters[0]), 1.0);
  EXPECT_EQ(TopOf(*counters[1]), 2e11);
  EXPECT_THAT(CountersOf(*input.measured, 1), IsEmpty());
  EXPECT_THAT(CountersOf(*input.predicted, 0), IsEmpty());
}

// Columns of 50 ns from 950: before the first reading, two columns of the first, then the second.
TEST(CounterRows, FoldReadingsIntoColumns) {
  const CompareInput input = InputWithCounters();
  const GpuCounter& counter = *CountersOf(*input.measured, 0)[0];
  const auto columns = FoldCounter(counter, 950, 1150, 4);
  ASSERT_EQ(columns.size(), 4U);
  EXPECT_TRUE(columns[0].IsEmpty());
  EXPECT_EQ(columns[1].high, 0.25);
  EXPECT_EQ(columns[2].high, 0.25);
  EXPECT_EQ(columns[3].low, 0.75);
  // Both readings in one column.
  const auto one = FoldCounter(counter, 1000, 1200, 1);
  EXPECT_EQ(one[0].low, 0.25);
  EXPECT_EQ(one[0].high, 0.75);
  // The last reading holds as long as the one before it, to 1,200 ns: the end of the first column.
  const auto late = FoldCounter(counter, 1150, 1250, 2);
  EXPECT_FALSE(late[0].IsEmpty());
  EXPECT_TRUE(late[1].IsEmpty());
  EXPECT_THAT(FoldCounter(counter, 0, 1, 0), IsEmpty());
}

TEST(CounterRows, LieBeneathTheStripsOfTheirLane) {
  const CompareInput input = InputWithCounters();
  for (const LaneRows rows : {LaneRows::kMerged, LaneRows::kQueues}) {
    const CompareModel model = ModelOf(input, {.rows = rows});
    const Layout layout = MakeLayout(model, kWindow, 1.0F, 0.0F, 0, /*counters=*/true);
    const LaneBox& lane = layout.lane_boxes.at(0);
    ASSERT_EQ(lane.counters.size(), 2U);
    for (const StripBox& strip : lane.strips) {
      EXPECT_LE(strip.box.y1, lane.counters[0].box.y0);
    }
    EXPECT_LE(lane.error.y1, lane.counters[0].box.y0);
    EXPECT_LT(lane.counters[0].box.y1, lane.counters[1].box.y0);
    EXPECT_LE(lane.counters[1].box.y1, lane.box.y1);
    EXPECT_THAT(layout.lane_boxes.at(1).counters, IsEmpty());
    const Layout without = MakeLayout(model, kWindow, 1.0F, 0.0F, 0, /*counters=*/false);
    EXPECT_THAT(without.lane_boxes.at(0).counters, IsEmpty());
  }
  // Runs without counters lose no height to them.
  const CompareInput plain = TwoRanks();
  const CompareModel none = ModelOf(plain);
  EXPECT_EQ(MakeLayout(none, kWindow, 1.0F, 0.0F, 0, true).lane_height,
            MakeLayout(none, kWindow, 1.0F, 0.0F, 0, false).lane_height);
}

// Displayed time 50 is 1,050 ns of the run: the first reading, which holds for 100 ns.
TEST(CounterRows, TellTheValueUnderTheMouse) {
  const CompareInput input = InputWithCounters();
  const CompareModel model = ModelOf(input);
  const Layout layout = MakeLayout(model, kWindow, 1.0F, 0.0F, 0, true);
  const Viewport view{-100.0, 300.0};
  const auto x_of = [&](double time_ns) {
    return layout.plot_x0 + static_cast<float>(view.ToX(time_ns, layout.plot_x1 - layout.plot_x0));
  };
  const auto text_at = [&](std::size_t counter, double time_ns) {
    const Box& box = layout.lane_boxes.at(0).counters.at(counter).box;
    return HoverOfCounter(model, layout, view, x_of(time_ns), (box.y0 + box.y1) / 2);
  };
  const auto sm = text_at(0, 50);
  ASSERT_TRUE(sm.has_value());
  EXPECT_EQ(sm->title, "SM active");
  EXPECT_EQ(sm->subtitle, "GPU of rank 0");
  ASSERT_EQ(sm->lines.size(), 2U);
  EXPECT_EQ(sm->lines[0].value, "25.0 %");
  EXPECT_EQ(sm->lines[1].value, "100 ns");
  const auto link = text_at(1, 250);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->lines[0].value, "100 GB/s");
  EXPECT_EQ(link->lines.back().value, "200 GB/s");
  EXPECT_EQ(text_at(0, -50)->lines[0].value, "no reading here");
  const Box& strip = layout.lane_boxes.at(0).strips.at(0).box;
  EXPECT_FALSE(
      HoverOfCounter(model, layout, view, x_of(50), (strip.y0 + strip.y1) / 2).has_value());
}

}  // namespace
}  // namespace foretrain::ui
