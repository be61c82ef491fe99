#include "sim/program/opaque.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "sim/program/schedules/schedule.h"
#include "tests/sim/program/virtual_clock.h"

namespace foretrain {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr std::array<ScheduleKind, 3> kSchedules = {ScheduleKind::kGpipe, ScheduleKind::k1f1b,
                                                    ScheduleKind::kZbH1};
constexpr SlotTimes kUnit{1, 1, 1};

// Most activation units alive at once, in issue order.
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
  const auto peaks = [](ScheduleKind schedule, int p, int m) {
    return PeakUnits(OpaquePipeline(schedule, {p, m}, kUnit, false));
  };
  EXPECT_THAT(peaks(ScheduleKind::kGpipe, 4, 8), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks(ScheduleKind::k1f1b, 4, 8), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(ScheduleKind::kZbH1, 4, 8), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(peaks(ScheduleKind::kGpipe, 8, 32), Each(32));
  EXPECT_THAT(peaks(ScheduleKind::k1f1b, 8, 32), ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(peaks(ScheduleKind::kZbH1, 8, 32), Each(8));
}

TEST(OpaquePipeline, TakesTheGoldenTimes) {
  for (const auto& [p, m] : {std::pair(4, 8), std::pair(8, 32)}) {
    for (const SlotTimes& times : {kUnit, SlotTimes{1, 1.2, 0.8}}) {
      for (const ScheduleKind schedule : kSchedules) {
        const Program program = OpaquePipeline(schedule, {p, m}, times, false);
        EXPECT_NEAR(Play(program, 0).end_s,
                    Makespan(schedule, {p, m}, {times.forward_s, times.input_s, times.weight_s, 0}),
                    1e-9)
            << Describe(program.plan);
      }
    }
  }
}

// p = 4, m = 8, F = I = W = 1: the last rank gives its first input gradient after I; the others
// follow one I later each instead of one B, which saves (p - 1) W = 3 of 33.
TEST(OpaquePipeline, SendsTheInputGradientBeforeTheWeightGradientEnds) {
  EXPECT_NEAR(Play(OpaquePipeline(ScheduleKind::kGpipe, {4, 8}, kUnit, true), 0).end_s, 30, 1e-9);
  EXPECT_NEAR(Play(OpaquePipeline(ScheduleKind::k1f1b, {4, 8}, kUnit, true), 0).end_s, 30, 1e-9);
  EXPECT_NEAR(Play(OpaquePipeline(ScheduleKind::kZbH1, {4, 8}, kUnit, true), 0).end_s, 27, 1e-9);
}

TEST(OpaquePipeline, WaitsForNoMemory) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.3, 2);
  for (int i = 0; i < 200; ++i) {
    const ScheduleKind schedule = kSchedules[static_cast<std::size_t>(i % 3)];
    const int p = 1 + static_cast<int>(random() % 6);
    const int m = 1 + static_cast<int>(random() % 14);
    const SlotTimes t{time(random), time(random), time(random)};
    const double send_s = std::uniform_real_distribution<double>(0, 0.3)(random);
    const Program program = OpaquePipeline(schedule, {p, m}, t, false);
    EXPECT_NEAR(Play(program, send_s).end_s,
                Makespan(schedule, {p, m}, {t.forward_s, t.input_s, t.weight_s, send_s}), 1e-9)
        << Describe(program.plan) << " p " << p << " m " << m << " " << t.forward_s << " "
        << t.input_s << " " << t.weight_s << " " << send_s;
  }
}

}  // namespace
}  // namespace foretrain
