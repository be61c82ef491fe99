#include "tests/support/opaque.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "sim/config/schedule/placement.h"
#include "tests/golden_schedules.h"
#include "tests/sim/program/virtual_clock.h"

namespace foretrain {
namespace {

using testing::ElementsAreArray;

// Maximum activation units alive at once, in issue order.
std::vector<std::int64_t> PeakUnits(const Program& program) {
  std::vector<std::int64_t> peaks;
  for (const RankProgram& rank : program.ranks) {
    std::int64_t peak = 0;
    for (std::int32_t op = 0; op < rank.op_count; ++op) {
      peak = std::max(peak, std::count_if(rank.buffers.begin(), rank.buffers.end(), [op](auto& b) {
                        return b.category == Category::kActivations && b.first_op <= op &&
                               op <= b.last_op;
                      }));
    }
    peaks.push_back(peak);
  }
  return peaks;
}

TEST(OpaquePipeline, HoldsThePublishedNumberOfActivations) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    const int share = Placement(golden.schedule, golden.shape.p, golden.shape.vpp).ChunksOfShare();
    const Program program = OpaquePipeline(golden.schedule, golden.shape, {1, 1, 1}, false);
    std::vector<double> peaks;
    for (const std::int64_t units : PeakUnits(program)) {
      peaks.push_back(static_cast<double>(units) / share);
    }
    EXPECT_THAT(peaks, ElementsAreArray(golden.peaks)) << NameOf(golden);
  }
}

TEST(OpaquePipeline, TakesTheGoldenTimes) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    const Program program = OpaquePipeline(golden.schedule, golden.shape, times, false);
    EXPECT_NEAR(Play(program, 0).end_s, golden.makespan_s, 1e-9) << NameOf(golden);
  }
}

// p = 4, m = 8, F = I = W = 1: the last rank sends its first input gradient after I; the others
// follow one I later each instead of one B, which saves (p - 1) W = 3 of 33.
TEST(OpaquePipeline, SendsTheInputGradientBeforeTheWeightGradientEnds) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.early_s == 0) continue;
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    const Program program = OpaquePipeline(golden.schedule, golden.shape, times, true);
    EXPECT_NEAR(Play(program, 0).end_s, golden.early_s, 1e-9) << NameOf(golden);
  }
}

// A shape that the schedule accepts.
PipelineShape RandomShape(ScheduleKind schedule, std::mt19937& random) {
  PipelineShape shape{1 + static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 14)};
  if (schedule == ScheduleKind::kInterleaved) {
    shape.vpp = 1 + static_cast<int>(random() % 3);
    shape.m = shape.p * (1 + static_cast<int>(random() % 3));
  } else if (schedule == ScheduleKind::kDualPipeV) {
    shape.m += 2 * shape.p - 1;
  } else if (schedule == ScheduleKind::kDualPipe) {
    shape.p = 2 * (1 + shape.p / 2);
    shape.m = 2 * (shape.p + shape.m / 2);
  }
  return shape;
}

TEST(OpaquePipeline, WaitsForNoMemoryButInPairs) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.3, 2);
  constexpr int kSchedules = static_cast<int>(ScheduleKind::kPipeDream);
  for (int i = 0; i < 60 * kSchedules; ++i) {
    const auto schedule = static_cast<ScheduleKind>(i % kSchedules);
    const PipelineShape shape = RandomShape(schedule, random);
    SlotTimes t{time(random), time(random), time(random)};
    t.send_s = std::uniform_real_distribution<double>(0, 0.3)(random);
    const Program program = OpaquePipeline(schedule, shape, t, false);
    const double played_s = Play(program, t.send_s).end_s;
    const double makespan_s = Makespan(schedule, shape, t);
    SCOPED_TRACE(Describe(program.plan) + " F " + std::to_string(t.forward_s) + " I " +
                 std::to_string(t.input_s) + " W " + std::to_string(t.weight_s) + " send " +
                 std::to_string(t.send_s));
    if (schedule == ScheduleKind::kDualPipe || schedule == ScheduleKind::kDualPipeV) {
      // A pair receives two tensors at once, and the second may wait for memory. In a layout where
      // no op waits for memory, pairs take their makespan too.
      EXPECT_GE(played_s, makespan_s - 1e-9);
      EXPECT_LE(played_s, makespan_s * 1.03);
    } else {
      EXPECT_NEAR(played_s, makespan_s, 1e-9);
    }
  }
}

// Mean time of a step in a long run; the first steps fill the pipeline.
double PeriodOf(const Program& program, double send_s) {
  constexpr int kFirst = 6, kLast = 30;
  return (Play(program, send_s, kLast).end_s - Play(program, send_s, kFirst).end_s) /
         (kLast - kFirst);
}

// Steps of p micro-batches or a multiple, so that the period is one step, with different send
// times.
TEST(OpaquePipeline, NeverDrainsWhereStepsOverlap) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> time(0.3, 2);
  for (int i = 0; i < 60; ++i) {
    const int p = 1 + static_cast<int>(random() % 5);
    const PipelineShape shape{p, p * (1 + static_cast<int>(random() % 3))};
    SlotTimes t{time(random), time(random), time(random)};
    if (i % 2 == 1) t.send_s = std::uniform_real_distribution<double>(0, 2)(random);
    const Program program = OpaquePipeline(ScheduleKind::kPipeDream, shape, t, false);
    const double makespan_s = Makespan(ScheduleKind::kPipeDream, shape, t);
    EXPECT_NEAR(PeriodOf(program, t.send_s), makespan_s, 1e-9)
        << Describe(program.plan) << " F " << t.forward_s << " I " << t.input_s << " W "
        << t.weight_s << " send " << t.send_s;
  }
}

// If the input gradient is sent early, the first backwards start earlier; no rank idles in either
// case.
TEST(OpaquePipeline, OfPipeDreamTakesTheWorkOfARank) {
  for (const bool early : {false, true}) {
    const Program program = OpaquePipeline(ScheduleKind::kPipeDream, {4, 8}, {1, 1, 1}, early);
    EXPECT_NEAR(PeriodOf(program, 0), 24, 1e-9);
  }
}

// p = 4, m = 12, which 4, 3, 2 and 1 divide: each rank has exactly as many buffers as micro-batches
// in flight.
TEST(OpaquePipeline, OfPipeDreamKeepsWhatIsInFlight) {
  const Program program = OpaquePipeline(ScheduleKind::kPipeDream, {4, 12}, {1, 1, 1}, false);
  for (int r = 0; r < 3; ++r) {
    std::int64_t kept = 0, received = 0;
    for (const Buffer& buffer : program.ranks[static_cast<std::size_t>(r)].buffers) {
      if (!buffer.persistent) continue;
      ++(buffer.category == Category::kActivations ? kept : received);
    }
    EXPECT_EQ(kept, 4 - r);
    EXPECT_EQ(received, r == 0 ? 0 : r == 1 ? 4 : 3);  // one more than kept
  }
  EXPECT_EQ(PeakUnits(program)[3], 1);
}

TEST(OpaquePipeline, IsVerifiedForEveryShapeWhoseStepsOverlap) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = p; m <= 64; m = m < 20 ? m + 1 : m + 5) {
      OpaquePipeline(ScheduleKind::kPipeDream, {p, m}, {1, 1, 1}, false);
    }
  }
}

// Every shape that a schedule accepts; OpaquePipeline verifies its result.
TEST(OpaquePipeline, IsVerifiedForEveryShape) {
  for (int p = 1; p <= 16; p = p < 6 ? p + 1 : p + 2) {
    for (int m = 1; m <= 64; m = m < 12 ? m + 1 : m + 7) {
      OpaquePipeline(ScheduleKind::kZbH2, {p, m}, {1, 1, 1}, false);
      OpaquePipeline(ScheduleKind::kZbV, {p, m}, {1, 1, 1}, false);
      if (m >= 2 * p) OpaquePipeline(ScheduleKind::kDualPipeV, {p, m}, {1, 1, 1}, false);
      if (p % 2 == 0 && m % 2 == 0 && m >= 2 * p)
        OpaquePipeline(ScheduleKind::kDualPipe, {p, m}, {1, 1, 1}, false);
      if (m % std::max(1, m / p) == 0)
        OpaquePipeline(ScheduleKind::kInterleaved, {p, m, 2}, {1, 1, 1}, false);
    }
  }
}

}  // namespace
}  // namespace foretrain
