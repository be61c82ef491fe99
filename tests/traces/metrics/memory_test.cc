#include "traces/metrics/memory.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

MemorySample At(std::int64_t time_ns, Category category, std::int64_t bytes, int rank = 0,
                Space space = Space::kDevice) {
  return {.time_ns = time_ns,
          .bytes = bytes,
          .rank = static_cast<std::int16_t>(rank),
          .category = category,
          .space = space};
}

std::int64_t Part(const std::array<std::int64_t, kCategoryCount>& parts, Category category) {
  return parts[static_cast<std::size_t>(category)];
}

// time          0     10    20    30    40
// parameters  100   100   100   100   100
// activations       50    80    20    80
// gradients                     40
// sum         100   150   180   160   180: the first 180 is at 20.
Timeline Picture() {
  Timeline timeline;
  timeline.memory = {At(0, Category::kParameters, 100),  At(10, Category::kActivations, 50),
                     At(20, Category::kActivations, 80), At(30, Category::kActivations, 20),
                     At(30, Category::kGradients, 40),   At(40, Category::kGradients, 0),
                     At(40, Category::kActivations, 80)};
  return timeline;
}

TEST(MemoryPeaks, FindTheFirstFullestMomentAndItsParts) {
  const auto peaks = MemoryPeaks(Picture());
  ASSERT_EQ(peaks.size(), 1U);
  EXPECT_EQ(peaks[0].step, -1);
  EXPECT_EQ(peaks[0].time_ns, 20);
  EXPECT_EQ(peaks[0].bytes, 180);
  EXPECT_EQ(Part(peaks[0].parts, Category::kParameters), 100);
  EXPECT_EQ(Part(peaks[0].parts, Category::kActivations), 80);
  EXPECT_EQ(Part(peaks[0].parts, Category::kGradients), 0);
  EXPECT_EQ(Part(peaks[0].max, Category::kGradients), 40);
  EXPECT_EQ(Part(peaks[0].max_time_ns, Category::kGradients), 30);
}

// The window 25..35 starts with 180 live, all sampled before it.
TEST(MemoryPeaks, OfAWindowAreSeededWithWhatIsLiveAtItsStart) {
  Timeline timeline = Picture();
  timeline.steps = {{.start_ns = 5, .end_ns = 15, .step = 0},
                    {.start_ns = 25, .end_ns = 35, .step = 1},
                    {.start_ns = 30, .end_ns = 40, .step = 2},
                    {.start_ns = 99, .end_ns = 120, .step = 3}};
  const auto peaks = MemoryPeaks(timeline);
  ASSERT_EQ(peaks.size(), 5U);
  EXPECT_EQ(peaks[1].bytes, 150);
  EXPECT_EQ(peaks[1].time_ns, 10);
  EXPECT_EQ(peaks[2].bytes, 180);
  EXPECT_EQ(peaks[2].time_ns, 25);
  EXPECT_EQ(peaks[3].bytes, 160);  // the sample at 40 is outside
  EXPECT_EQ(peaks[4].bytes, 180);  // long after the last sample
  EXPECT_EQ(peaks[4].time_ns, 99);
}

// At 10 a buffer of 60 moves between categories: at no time are both live.
TEST(MemoryPeaks, TakeAllChangesOfOneMomentTogether) {
  Timeline timeline;
  timeline.memory = {At(0, Category::kActivations, 60), At(10, Category::kGradients, 60),
                     At(10, Category::kActivations, 0)};
  const auto peaks = MemoryPeaks(timeline);
  ASSERT_EQ(peaks.size(), 1U);
  EXPECT_EQ(peaks[0].bytes, 60);
  EXPECT_EQ(peaks[0].time_ns, 0);
}

TEST(MemoryPeaks, KeepRanksAndSpacesApart) {
  Timeline timeline;
  timeline.memory = {At(0, Category::kParameters, 5, 0, Space::kDevice),
                     At(1, Category::kStaging, 7, 0, Space::kPinned),
                     At(0, Category::kParameters, 9, 1, Space::kDevice)};
  const auto peaks = MemoryPeaks(timeline);
  ASSERT_EQ(peaks.size(), 3U);
  EXPECT_EQ(peaks[0].bytes, 5);
  EXPECT_EQ(peaks[1].space, Space::kPinned);
  EXPECT_EQ(peaks[1].bytes, 7);
  EXPECT_EQ(peaks[2].rank, 1);
  EXPECT_EQ(peaks[2].bytes, 9);
}

TEST(MemoryPeaks, PartsSumToThePeakOfRandomTimelines) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    for (const MemoryPeak& peak : MemoryPeaks(RandomTimeline(random, 3, 200))) {
      ASSERT_EQ(std::accumulate(peak.parts.begin(), peak.parts.end(), std::int64_t{0}), peak.bytes);
      for (std::size_t c = 0; c < peak.parts.size(); ++c) {
        ASSERT_LE(peak.parts[c], peak.max[c]);
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
