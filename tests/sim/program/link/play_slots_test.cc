// Slots of stages with different times, by hand calculation.
#include "sim/program/schedules/play_slots.h"

#include <gtest/gtest.h>

#include <vector>

namespace foretrain {
namespace {

ChunkTimes Times(double forward_s, double backward_s, double early_s) {
  ChunkTimes times;
  times.forward = {forward_s, forward_s};
  times.backward = {backward_s, early_s};
  return times;
}

// Two ranks, two micro-batches, F 1 and 2, B 3 and 4, sends take 0.5.
// rank 1: F0 1.5 to 3.5, B0 to 7.5, F1 (arrived 2.5) to 9.5, B1 to 13.5.
// rank 0: B0 from 8 to 11, B1 from 14 to 17.
TEST(PlaySlots, WaitsForUnlikeStages) {
  const std::vector<ChunkTimes> times = {Times(1, 3, 3), Times(2, 4, 4)};
  const PlayedSlots played = PlaySlots(ScheduleKind::k1f1b, {2, 2, 1}, times, {0.5});
  EXPECT_DOUBLE_EQ(played.end_s, 17);
  ASSERT_EQ(played.spans.size(), 2U);
  ASSERT_EQ(played.spans[1].size(), 4U);
  EXPECT_DOUBLE_EQ(played.spans[1][0].start_s, 1.5);
  EXPECT_DOUBLE_EQ(played.spans[1][2].ready_s, 2.5);
  EXPECT_DOUBLE_EQ(played.spans[1][2].start_s, 7.5);
  EXPECT_DOUBLE_EQ(played.spans[1][3].end_s, 13.5);
  EXPECT_DOUBLE_EQ(played.spans[0][2].start_s, 8);
  EXPECT_DOUBLE_EQ(played.spans[0][3].start_s, 14);
}

// The same, but rank 1's backward has its output after 1: it arrives at 3.5 + 1 + 0.5 = 5 for
// micro-batch 0 and at 9.5 + 1.5 = 11 for 1. Rank 0: B0 5 to 8, B1 11 to 14; rank 1 ends at 13.5.
TEST(PlaySlots, SendsWhatIsReadyEarly) {
  const std::vector<ChunkTimes> times = {Times(1, 3, 3), Times(2, 4, 1)};
  const PlayedSlots played = PlaySlots(ScheduleKind::k1f1b, {2, 2, 1}, times, {0.5});
  EXPECT_DOUBLE_EQ(played.spans[0][2].start_s, 5);
  EXPECT_DOUBLE_EQ(played.spans[0][3].start_s, 11);
  EXPECT_DOUBLE_EQ(played.spans[1][3].end_s, 13.5);
  EXPECT_DOUBLE_EQ(played.end_s, 14);
}

}  // namespace
}  // namespace foretrain
