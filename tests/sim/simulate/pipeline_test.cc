// Golden step times of pipeline schedules on a machine without overheads and with free transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/memory/linked_peak.h"
#include "sim/program/opaque.h"
#include "sim/program/schedules/schedule.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

Simulation Play(const Program& program, const SimulateOptions& options) {
  const auto model = CostModel::Make(GpuCluster(1, program.plan.pp), IdealProfile());
  EXPECT_TRUE(model.has_value()) << model.error().message;
  const auto costs = model->CostsOf(program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  auto simulation = Simulate(program, *costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

double FirstStep(ScheduleKind schedule, int p, int m, const SlotTimes& times, bool early) {
  return Play(OpaquePipeline(schedule, {p, m}, times, early),
              {.min_steps = 1, .max_steps = 1, .timeline = false})
      .first_step_s;
}

struct Golden {
  SlotTimes times;
  int p;
  int m;
  double gpipe;
  double one_f_one_b;
  double zb_h1;
};

// GPipe and 1F1B: (m + p - 1)(F + I + W). ZB-H1: m (F + I + W) + (p - 1)(F + I - W).
TEST(PipelineSteps, TakeTheirGoldenTimes) {
  const Golden goldens[] = {{{1, 1, 1}, 4, 8, 33, 33, 27},
                            {{1, 1.2, 0.8}, 4, 8, 33, 33, 28.2},
                            {{1, 1, 1}, 8, 32, 117, 117, 103},
                            {{1, 1.2, 0.8}, 8, 32, 117, 117, 105.8}};
  for (const auto& [times, p, m, gpipe, one_f_one_b, zb_h1] : goldens) {
    EXPECT_NEAR(FirstStep(ScheduleKind::kGpipe, p, m, times, false), gpipe, 1e-9);
    EXPECT_NEAR(FirstStep(ScheduleKind::k1f1b, p, m, times, false), one_f_one_b, 1e-9);
    EXPECT_NEAR(FirstStep(ScheduleKind::kZbH1, p, m, times, false), zb_h1, 1e-9);
  }
}

// A stage need not wait for the weight gradients of the one after: (p - 1) W less.
TEST(PipelineSteps, GainByInputGradientsThatAreSentEarly) {
  const SlotTimes ones{1, 1, 1};
  EXPECT_NEAR(FirstStep(ScheduleKind::kGpipe, 4, 8, ones, true), 30.0, 1e-9);
  EXPECT_NEAR(FirstStep(ScheduleKind::k1f1b, 4, 8, ones, true), 30.0, 1e-9);
  EXPECT_NEAR(FirstStep(ScheduleKind::kZbH1, 4, 8, ones, true), 27.0, 1e-9);
}

TEST(PipelineSteps, AgreeWithTheClosedFormOfTheSchedule) {
  for (const ScheduleKind schedule :
       {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = p; m <= 12; m += 3) {
        EXPECT_NEAR(FirstStep(schedule, p, m, {1, 1.5, 0.5}, false),
                    Makespan(schedule, {p, m}, {1, 1.5, 0.5, 0}), 1e-9)
            << Name(schedule) << " p " << p << " m " << m;
      }
    }
  }
}

// The first rank works from the first op of a step to its last, so steps do not overlap there.
TEST(PipelineSteps, RepeatWithThePeriodOfTheFirstRank) {
  const Simulation simulation =
      Play(OpaquePipeline(ScheduleKind::k1f1b, {4, 8}, {1, 1, 1}, false), {});
  EXPECT_TRUE(simulation.stable);
  EXPECT_NEAR(simulation.step_s, 33.0, 1e-9);
  for (const RankSummary& rank : simulation.ranks) {
    EXPECT_NEAR(rank.compute_s, 24.0, 1e-9);
    EXPECT_NEAR(rank.idle_s, 9.0, 1e-9);
  }
}

// In issue order and in simulated time: min(m, p - r) micro-batches in flight on rank r, m under
// GPipe and p everywhere under ZB-H1.
TEST(PipelineSteps, HoldAsManyActivationsAsTheScheduleKeepsInFlight) {
  const auto activations = static_cast<std::size_t>(Category::kActivations);
  const auto peaks = [&](ScheduleKind schedule, int p, int m) {
    const Program program = OpaquePipeline(schedule, {p, m}, {1, 1, 1}, false);
    std::vector<std::int64_t> units;
    std::vector<std::int64_t> timed(program.ranks.size(), 0);
    for (const RankProgram& rank : program.ranks) {
      units.push_back(LinkedPeak(rank).bytes[activations] / kOpaqueUnitBytes);
    }
    for (const MemorySample& sample :
         Play(program, {.min_steps = 1, .max_steps = 1}).timeline.memory) {
      if (sample.category != Category::kActivations) continue;
      std::int64_t& most = timed[static_cast<std::size_t>(sample.rank)];
      most = std::max(most, sample.bytes / kOpaqueUnitBytes);
    }
    EXPECT_EQ(units, timed) << Name(schedule);
    return units;
  };
  EXPECT_THAT(peaks(ScheduleKind::kGpipe, 4, 8), testing::Each(8));
  EXPECT_THAT(peaks(ScheduleKind::k1f1b, 4, 8), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(ScheduleKind::kZbH1, 4, 8), testing::Each(4));
  EXPECT_THAT(peaks(ScheduleKind::kGpipe, 8, 32), testing::Each(32));
  EXPECT_THAT(peaks(ScheduleKind::k1f1b, 8, 32), ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(peaks(ScheduleKind::kZbH1, 8, 32), testing::Each(8));
}

}  // namespace
}  // namespace foretrain
