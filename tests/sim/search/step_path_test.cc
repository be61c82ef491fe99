#include "sim/search/evaluate/step_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/config/schedule/placement.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

constexpr std::array kSchedules = {ScheduleKind::kGpipe,       ScheduleKind::k1f1b,
                                   ScheduleKind::kInterleaved, ScheduleKind::kZbH1,
                                   ScheduleKind::kZbH2,        ScheduleKind::kZbV,
                                   ScheduleKind::kDualPipe,    ScheduleKind::kDualPipeV};

std::vector<std::vector<int>> OneClass(const Placement& placement, int p) {
  return std::vector<std::vector<int>>(
      static_cast<std::size_t>(p), std::vector<int>(static_cast<std::size_t>(placement.chunks())));
}

TEST(StepPath, IsAsLongAsTheLongestPathAndCountsWhatLiesOnIt) {
  for (const ScheduleKind schedule : kSchedules) {
    const PipelineShape shape{4, 8, schedule == ScheduleKind::kInterleaved ? 2 : 1};
    const Placement placement(schedule, shape.p, shape.vpp);
    const double share = placement.ChunksOfShare();
    const SlotTimes times{1.0, 1.1, 0.9, 0.05};
    const double f = 1.0 / share, i = 1.1 / share, w = 0.9 / share;
    const std::vector<PassSeconds> seconds = {{f, i + w, i, w, f, i + w}};
    const StepPath way =
        FindStepPath(schedule, shape, OneClass(placement, shape.p), seconds, times.send_s);
    EXPECT_NEAR(way.seconds, LongestPath(schedule, shape, times), 1e-9) << Name(schedule);
    double sum = way.sends * times.send_s;
    for (std::size_t pass = 0; pass < kChunkPassCount; ++pass) {
      sum += way.passes[0][pass] * seconds[0][pass];
    }
    EXPECT_NEAR(sum, way.seconds, 1e-9) << Name(schedule);
  }
}

Plan PlanOfShape(ScheduleKind schedule, int m) {
  Plan plan;
  plan.pp = 4;
  plan.schedule = schedule;
  plan.vpp = schedule == ScheduleKind::kInterleaved ? 2 : 1;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = m;
  return plan;
}
ModelSpec EightLayers() {
  ModelSpec model = SmallGpt();
  model.layers = 8;
  return model;
}

// The time of a step of many micro-batches is derived from steps of few.
TEST(PipelineForm, TakesAsLongForManyMicroBatchesAsItsLongestWay) {
  for (const ScheduleKind schedule : kSchedules) {
    const Plan plan = PlanOfShape(schedule, 96);
    PipelineForm pipeline(EightLayers(), plan);
    std::vector<PassSeconds> times;
    for (std::size_t c = 0; c < pipeline.classes().size(); ++c) {
      const double more = 1 + 0.13 * static_cast<double>(c);
      times.push_back({more, 2 * more, 1.1 * more, 0.9 * more, more, 2 * more});
    }
    std::vector<std::vector<int>> classes;
    for (const PipelineForm::Rank& rank : pipeline.ranks()) classes.push_back(rank.chunks);
    const double exact = FindStepPath(schedule, {4, 96, plan.vpp}, classes, times, 0.03).seconds;
    const double found = pipeline.Makespan(times, 0.03);
    EXPECT_LE(found, exact * 1.01) << Name(schedule);
    EXPECT_GE(found, exact * 0.97) << Name(schedule);
  }
}

// Narayanan et al. 2019: rank r of 1F1B holds p - r micro-batches, GPipe's all m.
TEST(PipelineForm, KnowsHowManyMicroBatchesARankHolds) {
  for (const auto& [schedule, first] :
       {std::pair{ScheduleKind::k1f1b, 4}, std::pair{ScheduleKind::kGpipe, 32}}) {
    const PipelineForm pipeline(EightLayers(), PlanOfShape(schedule, 32));
    // Rank 2 holds the blocks of rank 1 and never more of them.
    EXPECT_TRUE(pipeline.ranks()[2].moments.empty());
    for (const int r : {0, 1, 3}) {
      int max = 0;
      for (const Moment& moment : pipeline.ranks()[static_cast<std::size_t>(r)].moments) {
        if (moment.pass == kB) max = std::max(max, moment.in_flight[0]);
      }
      EXPECT_EQ(max, schedule == ScheduleKind::kGpipe ? first : first - r);
    }
  }
}

// The embedding is first, the head last, and all other stages are alike.
TEST(PipelineForm, TellsApartStagesThatHoldUnlikeBlocks) {
  const PipelineForm pipeline(EightLayers(), PlanOfShape(ScheduleKind::k1f1b, 8));
  ASSERT_EQ(pipeline.classes().size(), 3U);
  EXPECT_TRUE(pipeline.classes()[0].embedding);
  EXPECT_FALSE(pipeline.classes()[1].embedding || pipeline.classes()[1].head);
  EXPECT_TRUE(pipeline.classes()[2].head);
  for (const ChunkClass& chunk : pipeline.classes()) EXPECT_EQ(chunk.layers[0], 2);
}

}  // namespace
}  // namespace foretrain
