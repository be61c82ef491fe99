#include "sim/program/schedules/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "sim/config/schedule/placement.h"
#include "sim/program/schedules/ring.h"
#include "tests/golden_schedules.h"

namespace foretrain {
namespace {

using testing::ElementsAreArray;

constexpr std::array kSchedules = {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1,
                                   ScheduleKind::kZbH2};

// "F0 F1 B0 B1"; I and W are the halves of a backward, ' marks the next step.
std::string Spell(const std::vector<Slot>& slots) {
  std::string text;
  for (const Slot& slot : slots) {
    if (!text.empty()) text += ' ';
    text += slot.pass == Pass::kForward         ? 'F'
            : slot.pass == Pass::kBackward      ? 'B'
            : slot.pass == Pass::kBackwardInput ? 'I'
                                                : 'W';
    text += std::to_string(slot.micro_batch);
    if (slot.for_next_step) text += '\'';
  }
  return text;
}

// Maximum number of chunks of micro-batches whose forward is done and whose activations are needed
// until the whole backward is done. In units of a rank's share.
double PeakLive(const std::vector<Slot>& slots, int chunks) {
  int live = 0;
  int peak = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Pass pass = slots[i].pass;
    if (pass == Pass::kForward) peak = std::max(peak, ++live);
    if (pass == Pass::kBackward || pass == Pass::kBackwardWeight) --live;
  }
  EXPECT_EQ(live, 0);
  return static_cast<double>(peak) / chunks;
}

std::vector<double> Peaks(ScheduleKind schedule, const PipelineShape& shape) {
  const Placement placement(schedule, shape.p, shape.vpp);
  std::vector<double> peaks;
  for (int rank = 0; rank < shape.p; ++rank) {
    peaks.push_back(PeakLive(MakeSlots(schedule, shape, rank), placement.ChunksOfShare()));
  }
  return peaks;
}

TEST(Schedule, GpipeRunsAllForwardsThenAllBackwardsInAscendingOrder) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Spell(GpipeSlots({3, 3}, rank)), "F0 F1 F2 B0 B1 B2");
  }
}

TEST(Schedule, OneFOneBWarmsUpWithTheRanksBehindAndThenAlternates) {
  EXPECT_EQ(Spell(OneFOneBSlots({3, 4}, 0)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(Spell(OneFOneBSlots({3, 4}, 1)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(Spell(OneFOneBSlots({3, 4}, 2)), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule, OneFOneBWarmsUpWithAllMicroBatchesWhereThereAreFew) {
  EXPECT_EQ(Spell(OneFOneBSlots({4, 2}, 0)), "F0 F1 B0 B1");
  EXPECT_EQ(Spell(OneFOneBSlots({4, 2}, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(Spell(OneFOneBSlots({4, 2}, 3)), "F0 B0 F1 B1");
}

TEST(Schedule, ZbH1OwesOneWeightGradientForEachRankAhead) {
  EXPECT_EQ(Spell(ZbH1Slots({3, 4}, 0)), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(Spell(ZbH1Slots({3, 4}, 1)), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(Spell(ZbH1Slots({3, 4}, 2)), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST(Schedule, ZbH1PaysAllAtTheEndWhereThereAreFewMicroBatches) {
  EXPECT_EQ(Spell(ZbH1Slots({4, 2}, 3)), "F0 I0 F1 I1 W0 W1");
}

TEST(Schedule, PeakLiveActivationsAreThePublishedOnes) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    EXPECT_THAT(Peaks(golden.schedule, golden.shape), ElementsAreArray(golden.peaks))
        << NameOf(golden);
  }
}

TEST(Schedule, PipeDreamAlternatesForEverWithAsManyForwardsAheadAsRanksBehind) {
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    EXPECT_EQ(Spell(MakeSlots(kind, {3, 4}, 0)), "F2 B0 F3 B1 F0' B2 F1' B3");
    EXPECT_EQ(Spell(MakeSlots(kind, {3, 4}, 1)), "F1 B0 F2 B1 F3 B2 F0' B3");
    EXPECT_EQ(Spell(MakeSlots(kind, {3, 4}, 2)), "F0 B0 F1 B1 F2 B2 F3 B3");
  }
}

// Micro-batches that share a buffer are at least `life` apart, across the end of a step too. There
// are no more buffers than the longest row, which is m / (m / life) rounded up.
TEST(Ring, SharesPlacesAmongMicroBatchesThatAreNeverInFlightTogether) {
  for (int m = 1; m <= 64; ++m) {
    for (int life = 1; life <= m; ++life) {
      const Ring ring(m, life);
      std::map<int, int> last;  // by buffer, through three steps
      for (int i = 0; i < 3 * m; ++i) {
        const int place = ring.PlaceOf(i % m);
        ASSERT_GE(place, 0);
        ASSERT_LT(place, ring.Size());
        const auto [found, is_first] = last.try_emplace(place, i);
        ASSERT_TRUE(is_first || i - found->second >= life) << "m " << m << " life " << life;
        found->second = i;
      }
      if (m % life == 0) {
        ASSERT_EQ(ring.Size(), life);
      }
    }
  }
  // 14 in rows of 4, 5 and 5: 5 buffers for 4 in flight.
  EXPECT_EQ(Ring(14, 4).Size(), 5);
}

// Each micro-batch of each chunk has a forward, then its backward or both halves in order, and
// weight gradients are added in ascending order.
void ExpectWhole(ScheduleKind schedule, const PipelineShape& shape) {
  const Placement placement(schedule, shape.p, shape.vpp);
  for (int rank = 0; rank < shape.p; ++rank) {
    SCOPED_TRACE(std::string(Name(schedule)) + " p " + std::to_string(shape.p) + " m " +
                 std::to_string(shape.m) + " v " + std::to_string(shape.vpp) + " rank " +
                 std::to_string(rank));
    std::map<std::pair<int, int>, int> stage;  // by chunk and micro-batch: 1 F, 2 I, 3 done
    std::map<int, int> last_weight;
    for (const Slot& slot : MakeSlots(schedule, shape, rank)) {
      int& done = stage[{slot.chunk, slot.micro_batch}];
      if (slot.pass == Pass::kForward) {
        EXPECT_EQ(done, 0);
        done = 1;
      } else if (slot.pass == Pass::kBackwardInput) {
        EXPECT_EQ(done, 1);
        done = 2;
      } else {
        EXPECT_EQ(done, slot.pass == Pass::kBackward ? 1 : 2);
        done = 3;
        const auto [last, is_first] = last_weight.try_emplace(slot.chunk, slot.micro_batch);
        EXPECT_TRUE(is_first || last->second < slot.micro_batch);
        last->second = slot.micro_batch;
      }
    }
    std::size_t wanted = 0;
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      wanted +=
          static_cast<std::size_t>(placement.MicroBatches(placement.DirectionOf(chunk), shape.m));
    }
    EXPECT_EQ(stage.size(), wanted);
    for (const auto& [key, done] : stage) EXPECT_EQ(done, 3);
  }
}

TEST(Schedule, WithSeveralChunksRunsEachMicroBatchOnceThroughEach) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 14; ++m) {
      ExpectWhole(ScheduleKind::kZbV, {p, m});
      if (m >= 2 * p) ExpectWhole(ScheduleKind::kDualPipeV, {p, m});
      if (p % 2 == 0 && m % 2 == 0 && m >= 2 * p) ExpectWhole(ScheduleKind::kDualPipe, {p, m});
      for (const int v : {1, 2, 3}) {
        if (m % std::max(1, m / p) == 0) ExpectWhole(ScheduleKind::kInterleaved, {p, m, v});
      }
    }
  }
}

TEST(Schedule, EachMicroBatchHasOnePassEachInAscendingOrder) {
  for (const ScheduleKind schedule : kSchedules) {
    for (int p = 1; p <= 5; ++p) {
      for (int m = 1; m <= 7; ++m) {
        for (int rank = 0; rank < p; ++rank) {
          const std::vector<Slot> slots = MakeSlots(schedule, {p, m}, rank);
          std::array<int, kPassCount> next{};
          for (const Slot& slot : slots) {
            EXPECT_EQ(slot.micro_batch, next[static_cast<std::size_t>(slot.pass)]++);
            if (slot.pass == Pass::kBackwardWeight) {
              EXPECT_LT(slot.micro_batch, next[static_cast<std::size_t>(Pass::kBackwardInput)]);
            } else if (slot.pass != Pass::kForward) {
              EXPECT_LT(slot.micro_batch, next[static_cast<std::size_t>(Pass::kForward)]);
            }
          }
          const bool halves = schedule == ScheduleKind::kZbH1 || schedule == ScheduleKind::kZbH2;
          const int passes = halves ? 3 : 2;
          EXPECT_EQ(slots.size(), static_cast<std::size_t>(passes * m));
        }
      }
    }
  }
}

// F = 1, I + W = 2. GPipe, 1F1B: (m + p - 1) * 3 = 33 and 117; interleaved: (m + (p - 1) / v) * 3.
// ZB-H1: 3 m + (p - 1) (F + I - W), so 24 + 3 * 1, 24 + 3 * 1.4, 96 + 7 * 1, 96 + 7 * 1.4.
TEST(Makespan, EqualsTheGoldenFigures) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    EXPECT_NEAR(Makespan(golden.schedule, golden.shape, times), golden.makespan_s, 1e-9)
        << NameOf(golden);
    EXPECT_NEAR(LongestPath(golden.schedule, golden.shape, times), golden.makespan_s, 1e-9)
        << NameOf(golden);
  }
}

// p = 4, m = 8, F + B = 3, send 0.5: rank 0 starts 4 micro-batches in the time that one needs for 4
// forwards, 4 backwards and 6 sends, 15; so 8 take 30. Without sends a rank never idles: 24.
TEST(Makespan, OfPipeDreamIsWhatAStepAddsToALongRun) {
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    EXPECT_NEAR(Makespan(kind, {4, 8}, {1, 1, 1, 0}), 24, 1e-12);
    EXPECT_NEAR(Makespan(kind, {4, 8}, {1, 1, 1, 0.5}), 30, 1e-12);
    EXPECT_NEAR(Makespan(kind, {1, 3}, {1, 1, 1, 0.5}), 9, 1e-12);
  }
}

TEST(Makespan, IsTheWorkOfOneRankWhereThereIsOne) {
  for (const ScheduleKind schedule : kSchedules) {
    EXPECT_NEAR(Makespan(schedule, {1, 5}, {1, 2, 3, 100}), 30, 1e-12);
  }
}

TEST(Makespan, CountsSendsThatNothingHides) {
  // p = 2, m = 2, F = 1, B = 1 + 1, send s. 1F1B: rank 0 ends F0 at 1, rank 1 F0 at 2 + s, B0 at
  // 4 + s; rank 0 gets it at 4 + 2 s, ends B0 at 6 + 2 s; rank 1 ends F1 at 5 + s, B1 at 7 + s;
  // rank 0 ends B1 at 9 + 2 s. GPipe: rank 1 ends F1 at 3 + s, B0 at 5 + s, B1 at 7 + s: the same.
  EXPECT_NEAR(Makespan(ScheduleKind::k1f1b, {2, 2}, {1, 1, 1, 0.25}), 9.5, 1e-12);
  EXPECT_NEAR(Makespan(ScheduleKind::kGpipe, {2, 2}, {1, 1, 1, 0.25}), 9.5, 1e-12);
  // One micro-batch, 4 ranks: there and back over 3 links, 4 * 3 + 6 * 0.5.
  EXPECT_NEAR(Makespan(ScheduleKind::k1f1b, {4, 1}, {1, 1, 1, 0.5}), 15, 1e-12);
  EXPECT_NEAR(Makespan(ScheduleKind::kGpipe, {4, 1}, {1, 1, 1, 0.5}), 15, 1e-12);
}

TEST(Makespan, QueuesSendsThatAreLongerThanThePassesBetweenThem) {
  // GPipe, p = 2, m = 2, F = 1, B = 2, s = 4: F0 arrives at 5, F1 at 9, rank 1 ends F1 at 10, B0 at
  // 12, B1 at 14; B0 arrives at 16, B1 at 20; rank 0 ends B1 at 22.
  EXPECT_NEAR(Makespan(ScheduleKind::kGpipe, {2, 2}, {1, 1, 1, 4}), 22, 1e-12);
  // 1F1B: rank 1 gets F0 at 5, ends F0 at 6, B0 at 8; rank 0 gets B0 at 12. F1 arrives at 9 and
  // ends at 10, B1 at 12, arrives at 16. Rank 0 ends B0 at 14, B1 at 18.
  EXPECT_NEAR(Makespan(ScheduleKind::k1f1b, {2, 2}, {1, 1, 1, 4}), 18, 1e-12);
}

TEST(Makespan, OfZbH1CountsWeightGradientsThatAreLongerThanForwards) {
  // p = 2, m = 2, F = 1, I = 1, W = 3. Rank 1: F0 1-2, I0 2-3, F1 3-4, I1 4-5, W0 5-8, W1 8-11.
  // Rank 0: F0 0-1, F1 1-2, I0 3-4, W0 4-7, I1 7-8, W1 8-11. The chain through the last rank would
  // be 2 * 5 + (1 + 1 - 3) = 9.
  EXPECT_NEAR(Makespan(ScheduleKind::kZbH1, {2, 2}, {1, 1, 3, 0}), 11, 1e-12);
}

}  // namespace
}  // namespace foretrain
