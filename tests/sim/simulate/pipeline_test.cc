// Golden step times of pipeline schedules, on a machine without overheads and with free transfers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/config/schedule/placement.h"
#include "sim/memory/peak_memory.h"
#include "sim/simulate/simulate.h"
#include "tests/golden_schedules.h"
#include "tests/sim/cost/profiles.h"
#include "tests/support/opaque.h"

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

// In a ring of two, both neighbours of a rank are the other rank. m (F + B) of work and (p - 1) (F
// + B) / v of bubble, for whole rounds of micro-batches and for one round of 3.
TEST(PipelineSteps, TakeTheirGoldenTimesInARingOfTwo) {
  const SlotTimes times{1, 1, 1};
  for (const int m : {2, 3, 4, 8}) {
    EXPECT_NEAR(FirstStep(ScheduleKind::kInterleaved, {2, m, 2}, times, false), 3 * m + 1.5, 1e-9)
        << m;
  }
}

// A stage does not wait for the weight gradients of the next one: (p - 1) W less.
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

// In a ring of two, each rank is the other's next and previous one.
TEST(PipelineSteps, AgreeWithTheClosedFormOnARingOfTwo) {
  for (const int vpp : {2, 3, 4}) {
    for (const int m : {2, 4, 6, 8, 12, 32}) {
      const PipelineShape shape{2, m, vpp};
      EXPECT_NEAR(FirstStep(ScheduleKind::kInterleaved, shape, {1, 1.5, 0.5}, false),
                  Makespan(ScheduleKind::kInterleaved, shape, {1, 1.5, 0.5, 0}), 1e-9)
          << "m " << m << " vpp " << vpp;
    }
  }
}

// The first rank works from the first op of a step to the last, so steps do not overlap there.
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

// Rank 0 is never idle: 8 * 3. The first step also fills the pipeline. Rank 0 starts its first
// backward after 4 forwards and 3 backwards, at 10, and then alternates with forwards. The 8th ends
// at 10 + 8 * 2 + 7.
TEST(PipelineSteps, NeverDrainWhereTheyOverlap) {
  const Program program = OpaquePipeline(ScheduleKind::kPipeDream, {4, 8}, {1, 1, 1}, false);
  const Simulation simulation = Play(program, {});
  EXPECT_TRUE(simulation.stable);
  EXPECT_NEAR(simulation.step_s, 24.0, 1e-9);
  EXPECT_NEAR(simulation.first_step_s, 33.0, 1e-9);
  for (const RankSummary& rank : simulation.ranks) {
    EXPECT_NEAR(rank.compute_s, 24.0, 1e-9);
    EXPECT_NEAR(rank.idle_s, 0.0, 1e-9);
  }
  // The step of a span is the step of its batch. Each complete step has each op of each rank once.
  std::map<std::pair<int, int>, std::int64_t> spans;  // by rank and step
  for (const Span& span : simulation.timeline.spans) ++spans[{span.rank, span.step}];
  EXPECT_EQ(spans.size(), 4U * static_cast<std::size_t>(simulation.steps));
  for (const auto& [key, count] : spans) {
    EXPECT_EQ(count, program.ranks[static_cast<std::size_t>(key.first)].op_count);
  }
}

// Checked in issue order and in simulated time.
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
      double& max = timed[static_cast<std::size_t>(sample.rank)];
      max = std::max(max, units(sample.bytes));
    }
    EXPECT_EQ(planned, golden.peaks);
    EXPECT_EQ(timed, golden.peaks);
  }
}

}  // namespace
}  // namespace foretrain
