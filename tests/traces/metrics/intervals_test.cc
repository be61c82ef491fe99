#include "traces/metrics/intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(IntervalSet, MergesOverlappingAndTouchingIntervals) {
  // [1,4) and [3,6) overlap, [6,7) touches, [9,9) is empty, [10,12) contains [11,12).
  const IntervalSet set({{3, 6}, {1, 4}, {9, 9}, {10, 12}, {6, 7}, {11, 12}, {15, 14}});
  EXPECT_THAT(set.intervals(), ElementsAre(Interval{1, 7}, Interval{10, 12}));
  EXPECT_EQ(set.Length(), 6 + 2);
}

TEST(IntervalSet, MeasuresAnyWindow) {
  const IntervalSet set({{1, 7}, {10, 12}});
  EXPECT_EQ(set.LengthIn(0, 20), 8);
  EXPECT_EQ(set.LengthIn(3, 5), 2);    // inside the first
  EXPECT_EQ(set.LengthIn(5, 11), 3);   // 5..7 and 10..11
  EXPECT_EQ(set.LengthIn(7, 10), 0);   // the gap
  EXPECT_EQ(set.LengthIn(-9, 1), 0);   // before
  EXPECT_EQ(set.LengthIn(12, 99), 0);  // after
  EXPECT_EQ(set.LengthIn(5, 5), 0);
  EXPECT_EQ(IntervalSet().LengthIn(0, 5), 0);
}

TEST(IntervalSet, Unites) {
  const IntervalSet a({{0, 4}, {6, 8}, {20, 30}});
  const IntervalSet b({{3, 7}, {8, 9}, {25, 26}});
  EXPECT_THAT(a.United(b).intervals(), ElementsAre(Interval{0, 9}, Interval{20, 30}));
  EXPECT_EQ(IntervalSet().United(a).Length(), 4 + 2 + 10);
}

TEST(IntervalSet, FindsTheGapsOfAWindow) {
  const IntervalSet set({{2, 4}, {6, 8}});
  EXPECT_THAT(set.GapsIn(0, 10), ElementsAre(Interval{0, 2}, Interval{4, 6}, Interval{8, 10}));
  EXPECT_THAT(set.GapsIn(3, 7), ElementsAre(Interval{4, 6}));
  EXPECT_THAT(set.GapsIn(5, 6), ElementsAre(Interval{5, 6}));
  EXPECT_THAT(set.GapsIn(2, 4), IsEmpty());
  EXPECT_THAT(IntervalSet().GapsIn(1, 3), ElementsAre(Interval{1, 3}));
  EXPECT_THAT(IntervalSet().GapsIn(3, 3), IsEmpty());
}

// Compared with marking each of 64 ns.
TEST(IntervalSet, AgreesWithCountingNanoseconds) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    std::array<std::vector<Interval>, 2> lists;
    std::array<std::array<bool, 64>, 2> marks{};
    for (std::size_t side = 0; side < 2; ++side) {
      for (auto n = random() % 9; n > 0; --n) {
        const std::int64_t start = static_cast<std::int64_t>(random() % 60);
        const std::int64_t end =
            std::min<std::int64_t>(64, start + static_cast<std::int64_t>(random() % 12));
        lists[side].push_back({start, end});
        for (std::int64_t t = start; t < end; ++t) marks[side][static_cast<std::size_t>(t)] = true;
      }
    }
    const IntervalSet a(lists[0]);
    const IntervalSet b(lists[1]);
    const std::int64_t from = static_cast<std::int64_t>(random() % 32);
    const std::int64_t to = from + static_cast<std::int64_t>(random() % 32);
    std::int64_t in_a = 0;
    std::int64_t either = 0;
    for (std::int64_t t = from; t < to; ++t) {
      const auto i = static_cast<std::size_t>(t);
      in_a += marks[0][i];
      either += marks[0][i] || marks[1][i];
    }
    ASSERT_EQ(a.LengthIn(from, to), in_a);
    ASSERT_EQ(a.United(b).LengthIn(from, to), either);
    std::int64_t gaps = 0;
    for (const Interval& gap : a.GapsIn(from, to)) gaps += gap.end_ns - gap.start_ns;
    ASSERT_EQ(gaps, to - from - in_a);
  }
}

}  // namespace
}  // namespace foretrain
