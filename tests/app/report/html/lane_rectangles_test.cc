#include "app/report/html/lane_rectangles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "app/report/html/memory_levels.h"
#include "tests/app/report/html/random_run.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// `spans` spans of 6 ns, one each 10 ns, on the compute queue of rank 0.
Timeline Regular(int spans) {
  Timeline timeline;
  for (std::int64_t i = 0; i < spans; ++i) {
    timeline.spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, 10 * i, 10 * i + 6));
  }
  return timeline;
}

TEST(LaneRectangles, AreTheSpansIfThereIsRoom) {
  const Timeline timeline = Regular(20);
  const auto lanes = LanesOf(timeline, {0}, {.window = {0, 200}, .max_rectangles = 20});
  ASSERT_THAT(lanes, SizeIs(1));
  ASSERT_THAT(lanes[0].rectangles, SizeIs(20));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(lanes[0].rectangles[i].span, &timeline.spans[i]);
    EXPECT_EQ(lanes[0].rectangles[i].busy_ns, 6);
  }
}

// 1,000 spans in 10,000 ns and room for 40. The detailed window has 20 of them, which stay; the
// others share 20 pieces of 500 ns, two of which the window cuts off the first span of.
TEST(LaneRectangles, SumNeighboursOutsideTheDetailedWindow) {
  const Timeline timeline = Regular(1000);
  const auto lanes = LanesOf(
      timeline, {0}, {.window = {0, 10'000}, .detail = {5'000, 5'200}, .max_rectangles = 40});
  ASSERT_THAT(lanes, SizeIs(1));
  std::int64_t spans = 0, busy_ns = 0, single = 0, end_ns = 0;
  for (const LaneRectangle& rectangle : lanes[0].rectangles) {
    EXPECT_GE(rectangle.start_ns, end_ns) << "rectangles overlap";
    end_ns = rectangle.end_ns;
    spans += rectangle.spans;
    busy_ns += rectangle.busy_ns;
    if (rectangle.span == nullptr) continue;
    ++single;
    EXPECT_GE(rectangle.start_ns, 5'000);
    EXPECT_LT(rectangle.start_ns, 5'200);
  }
  EXPECT_EQ(spans, 1000);
  EXPECT_EQ(busy_ns, 6000);
  EXPECT_EQ(single, 20);
  EXPECT_LE(lanes[0].rectangles.size(), 40U);
  EXPECT_EQ(lanes[0].rectangles.front().spans, 50);
}

// Every tenth span is a backward of 90 ns, the others are forwards of 5: a rectangle with a
// backward shows it, though most of its spans are forwards.
TEST(LaneRectangles, HaveTheKindOfWorkThatTakesMost) {
  Timeline timeline;
  const OpId forward = PackId({.pass = Pass::kForward, .block = 1}, 0);
  const OpId backward = PackId({.pass = Pass::kBackward, .block = 1}, 0);
  for (std::int64_t i = 0; i < 100; ++i) {
    const bool last = i % 10 == 9;
    timeline.spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, 100 * i,
                                    100 * i + (last ? 90 : 5), last ? backward : forward));
  }
  const auto lanes = LanesOf(timeline, {0}, {.window = {0, 10'000}, .max_rectangles = 10});
  ASSERT_THAT(lanes, SizeIs(1));
  // No lane has less than 16.
  EXPECT_THAT(lanes[0].rectangles, SizeIs(16));
  int backwards = 0;
  for (const LaneRectangle& rectangle : lanes[0].rectangles) {
    const bool has = rectangle.busy_ns > 5 * rectangle.spans;
    EXPECT_EQ(rectangle.work, has ? Work::kBackward : Work::kForward) << rectangle.start_ns;
    backwards += has ? 1 : 0;
  }
  EXPECT_EQ(backwards, 10);
}

TEST(LaneRectangles, OfARandomRunKeepEachSpanAndTheLimit) {
  std::mt19937_64 random(7);
  const Timeline timeline = RandomRun(random, 4, 5'000);
  for (const std::int64_t max : {1'000, 5'000, 50'000}) {
    const auto lanes = LanesOf(timeline, ShownRanks(timeline, 4),
                               {.window = {-1'000'000'000, 1'000'000'000},
                                .detail = {10'000, 40'000},
                                .max_rectangles = max});
    std::int64_t spans = 0, rectangles = 0;
    for (const Lane& lane : lanes) {
      rectangles += std::ssize(lane.rectangles);
      for (const LaneRectangle& rectangle : lane.rectangles) spans += rectangle.spans;
    }
    EXPECT_EQ(spans, std::ssize(timeline.spans));
    EXPECT_LE(rectangles, max + 16 * std::ssize(lanes));
  }
}

TEST(ShownRanks, HaveTheFirstAndTheLast) {
  Timeline timeline;
  for (int rank = 0; rank < 100; ++rank)
    timeline.steps.push_back({.rank = static_cast<std::int16_t>(rank)});
  EXPECT_THAT(ShownRanks(timeline, 4), ElementsAre(0, 33, 66, 99));
  EXPECT_THAT(ShownRanks(timeline, 100), SizeIs(100));
}

// A saw tooth of 1,000 teeth whose highest is in the middle.
TEST(MemoryLevels, KeepThePeakWhenMomentsAreThinnedOut) {
  Timeline timeline;
  for (std::int64_t i = 0; i < 1000; ++i) {
    timeline.memory.push_back({.time_ns = 10 * i, .bytes = i == 500 ? 9'000 : 1'000});
    timeline.memory.push_back({.time_ns = 10 * i + 5, .bytes = 100});
  }
  const auto levels = LevelsOf(timeline, {0}, 50);
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_LE(levels[0].moments.size(), 50U);
  std::int64_t peak = 0;
  for (const LiveMoment& moment : levels[0].moments) {
    peak = std::max(peak, moment.bytes[static_cast<std::size_t>(Category::kActivations)]);
  }
  EXPECT_EQ(peak, 9'000);
}

// Samples of one moment are one moment, and each space has its own levels.
TEST(MemoryLevels, AreOfEachSpaceAndMoment) {
  Timeline timeline;
  timeline.memory = {{.time_ns = 5, .bytes = 10, .category = Category::kParameters},
                     {.time_ns = 5, .bytes = 20, .category = Category::kGradients},
                     {.time_ns = 6, .bytes = 7, .space = Space::kHost},
                     {.time_ns = 9, .bytes = 0, .category = Category::kGradients}};
  const auto levels = LevelsOf(timeline, {0}, 50);
  ASSERT_THAT(levels, SizeIs(2));
  EXPECT_EQ(levels[0].space, Space::kDevice);
  ASSERT_THAT(levels[0].moments, SizeIs(2));
  EXPECT_EQ(levels[0].moments[0].bytes[static_cast<std::size_t>(Category::kGradients)], 20);
  EXPECT_EQ(levels[0].moments[1].bytes[static_cast<std::size_t>(Category::kParameters)], 10);
  EXPECT_EQ(levels[0].moments[1].bytes[static_cast<std::size_t>(Category::kGradients)], 0);
  EXPECT_EQ(levels[1].space, Space::kHost);
}

}  // namespace
}  // namespace foretrain
