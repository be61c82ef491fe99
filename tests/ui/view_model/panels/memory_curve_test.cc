#include "ui/view_model/panels/memory_curve.h"

#include <gtest/gtest.h>

namespace foretrain::ui {
namespace {

// Parameters 100 from 0; activations 0 -> 40 at 10 -> 70 at 20 -> 30 at 30; another rank besides.
Timeline Sampled() {
  Timeline timeline;
  timeline.world = 2;
  timeline.memory = {{0, 100, 0, Category::kParameters, Space::kDevice},
                     {10, 40, 0, Category::kActivations, Space::kDevice},
                     {20, 55, 0, Category::kActivations, Space::kDevice},
                     {20, 70, 0, Category::kActivations, Space::kDevice},
                     {30, 30, 0, Category::kActivations, Space::kDevice},
                     {5, 999, 0, Category::kStaging, Space::kPinned},
                     {5, 7, 1, Category::kActivations, Space::kDevice}};
  SortTimeline(timeline);
  return timeline;
}

TEST(MemoryCurve, AddsCategoriesUp) {
  const MemoryCurve curve(Sampled(), 0, Space::kDevice);
  ASSERT_EQ(curve.levels().size(), 4U);  // the two samples at 20 count as one moment
  EXPECT_EQ(curve.At(-1.0).total_bytes, 0);
  EXPECT_EQ(curve.At(10.0).total_bytes, 140);
  EXPECT_EQ(curve.At(25.0).total_bytes, 170);
  EXPECT_EQ(curve.At(25.0).parts[static_cast<std::size_t>(Category::kActivations)], 70);
}

TEST(MemoryCurve, KnowsThePeakOfAWindow) {
  const MemoryCurve curve(Sampled(), 0, Space::kDevice);
  EXPECT_EQ(curve.PeakIn(0.0, 100.0).total_bytes, 170);
  EXPECT_EQ(curve.PeakIn(0.0, 100.0).time_ns, 20);
  EXPECT_EQ(curve.PeakIn(0.0, 20.0).total_bytes, 140);   // a window ends before its end
  EXPECT_EQ(curve.PeakIn(40.0, 50.0).total_bytes, 130);  // what lives on from before
}

TEST(MemoryCurve, FoldsToTheFullestMomentOfAColumn) {
  const MemoryCurve curve(Sampled(), 0, Space::kDevice);
  const std::vector<MemoryColumn> columns = curve.Fold(0.0, 50.0, 2);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].max.total_bytes, 170);
  EXPECT_EQ(columns[0].min_bytes, 100);
  EXPECT_EQ(columns[1].max.total_bytes, 170);  // until 30
  EXPECT_EQ(columns[1].min_bytes, 130);
}

TEST(MemoryCurve, OfNoSamplesIsEmpty) {
  const MemoryCurve curve(Sampled(), 5, Space::kDevice);
  EXPECT_TRUE(curve.empty());
  EXPECT_TRUE(curve.Fold(0.0, 10.0, 5).empty());
  EXPECT_EQ(curve.PeakIn(0.0, 10.0).total_bytes, 0);
}

}  // namespace
}  // namespace foretrain::ui
