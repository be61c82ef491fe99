// Golden step times of pipeline schedules on a machine without overheads and with free transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/memory/linked_peak.h"
#include "sim/program/opaque.h"
#include "sim/program/schedules/placement.h"
#include "sim/simulate/simulate.h"
#include "tests/golden_schedules.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

Simulation Play(const Program& program, const SimulateOptions& options) {
  const auto model = CostModel::Make(GpuCluster(1, program.plan.pp), IdealProfile());
  EXPECT_TRUE(model.has_value()) << model.error().message;
  const auto costs = model->CostsOf(program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  auto simulation = Simulate(program, *costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

double FirstStep(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times,
                 bool early) {
  return Play(OpaquePipeline(schedule, shape, times, early),
              {.min_steps = 1, .max_steps = 1, .timeline = false})
      .first_step_s;
}

TEST(PipelineSteps, TakeTheirGoldenTimes) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    EXPECT_NEAR(FirstStep(golden.schedule, golden.shape, times, false), golden.makespan_s, 1e-9)
        << NameOf(golden);
  }
}

// Both neighbours of a rank are the other one, and each sends to its next: m (F + B) of work and
// (p - 1) (F + B) / v of bubble, for whole rounds of micro-batches and for one round of 3.
TEST(PipelineSteps, TakeTheirGoldenTimesInARingOfTwo) {
  const SlotTimes times{1, 1, 1};
  for (const int m : {2, 3, 4, 8}) {
    EXPECT_NEAR(FirstStep(ScheduleKind::kInterleaved, {2, m, 2}, times, false), 3 * m + 1.5, 1e-9)
        << m;
  }
}

// A stage need not wait for the weight gradients of the one after: (p - 1) W less.
TEST(PipelineSteps, GainByInputGradientsThatAreSentEarly) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.early_s == 0) continue;
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    EXPECT_NEAR(FirstStep(golden.schedule, golden.shape, times, true), golden.early_s, 1e-9)
        << NameOf(golden);
  }
}

TEST(PipelineSteps, AgreeWithTheClosedFormOfTheSchedule) {
  for (const ScheduleKind schedule :
       {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = p; m <= 12; m += 3) {
        EXPECT_NEAR(FirstStep(schedule, {p, m}, {1, 1.5, 0.5}, false),
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

// In issue order and in simulated time.
TEST(PipelineSteps, HoldAsManyActivationsAsTheScheduleKeepsInFlight) {
  const auto activations = static_cast<std::size_t>(Category::kActivations);
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    SCOPED_TRACE(NameOf(golden));
    const Program program = OpaquePipeline(golden.schedule, golden.shape, {1, 1, 1}, false);
    const int share = Placement(golden.schedule, golden.shape.p, golden.shape.vpp).ChunksOfShare();
    const auto units = [&](std::int64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(kOpaqueUnitBytes * share);
    };
    std::vector<double> planned;
    std::vector<double> timed(program.ranks.size(), 0);
    for (const RankProgram& rank : program.ranks) {
      planned.push_back(units(LinkedPeak(rank).bytes[activations]));
    }
    for (const MemorySample& sample :
         Play(program, {.min_steps = 1, .max_steps = 1}).timeline.memory) {
      if (sample.category != Category::kActivations) continue;
      double& most = timed[static_cast<std::size_t>(sample.rank)];
      most = std::max(most, units(sample.bytes));
    }
    EXPECT_EQ(planned, golden.peaks);
    EXPECT_EQ(timed, golden.peaks);
  }
}

}  // namespace
}  // namespace foretrain
