// Compares passes of chunks with the whole program. Each pass takes equally long, to the
// nanosecond. The pipeline does too, except for what the pass simulation ignores.
#include "sim/simulate/pass_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"

namespace foretrain {
namespace {

// First start and last end of one rank's compute ops in one pass of one micro-batch.
using PassKey = std::tuple<int, Pass, int>;  // rank, pass, micro-batch
using PassEnds = std::pair<std::int64_t, std::int64_t>;

std::map<PassKey, PassEnds> ComputedPasses(const Timeline& timeline) {
  std::map<PassKey, PassEnds> passes;
  for (const Span& span : timeline.spans) {
    const InstructionKey key = UnpackId(span.op);
    const bool counts =
        span.step == 0 && span.queue == Queue::kCompute && key.kind == InstructionKind::kBlock;
    if (!counts) continue;
    const auto [found, is_new] =
        passes.try_emplace({span.rank, key.pass, key.micro_batch}, span.start_ns, span.end_ns);
    if (is_new) continue;
    found->second.first = std::min(found->second.first, span.start_ns);
    found->second.second = std::max(found->second.second, span.end_ns);
  }
  return passes;
}

// Transfers do not slow down compute that runs at the same time.
const SimulateOptions kApart{.contention = false};

class SimulatePassesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto catalogue = BuiltInCatalogue();
    ASSERT_TRUE(catalogue.has_value());
    model_ = ResolveModel("gpt2-124m", "test", *catalogue)->model;
    const auto cluster = ParseCluster("1x4xh100-sxm", *catalogue);
    ASSERT_TRUE(cluster.has_value());
    auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
    ASSERT_TRUE(costs.has_value());
    costs_.emplace(*std::move(costs));
    plan_.pp = 4;
    plan_.sequence = 1024;
    plan_.micro_batch = 8;
    plan_.global_batch = 64;
    plan_.precision = Precision::kBf16;
  }

  ModelSpec model_;
  std::optional<CostModel> costs_;
  Plan plan_;
};

TEST_F(SimulatePassesTest, TakesAsLongForEachPassAsTheWholeProgram) {
  for (const ScheduleKind schedule :
       {ScheduleKind::k1f1b, ScheduleKind::kGpipe, ScheduleKind::kZbH1}) {
    for (const RecomputeKind recompute : {RecomputeKind::kNone, RecomputeKind::kSelective}) {
      plan_.schedule = schedule;
      plan_.recompute = recompute;
      SCOPED_TRACE(Describe(plan_));
      const auto passes = SimulatePasses(model_, plan_, *costs_);
      ASSERT_TRUE(passes.has_value()) << passes.error().message;
      const auto forecast =
          MakeForecast(model_, plan_, *costs_, {.ranks = RankChoice::kFirst, .simulate = kApart});
      ASSERT_TRUE(forecast.has_value());
      auto whole = ComputedPasses(forecast->simulation.timeline);
      int compared = 0;
      for (int rank = 0; rank < plan_.pp; ++rank) {
        for (const SlotSpan& span : passes->slots.spans[static_cast<std::size_t>(rank)]) {
          // The first micro-batch of a step writes gradients instead of adding to them, and waits
          // for its ids.
          if (span.slot.micro_batch == 0) continue;
          const auto& ops = passes->OpsOf(rank, span.slot);
          if (ops.empty()) continue;
          double begin_s = ops.front().start_s, end_s = 0;
          for (const PassOp& op : ops) {
            begin_s = std::min(begin_s, op.start_s);
            end_s = std::max(end_s, op.end_s);
          }
          const PassEnds& ends = whole[{rank, span.slot.pass, span.slot.micro_batch}];
          EXPECT_NEAR(static_cast<double>(ends.second - ends.first), (end_s - begin_s) * 1e9, 2.0)
              << "rank " << rank << " micro-batch " << span.slot.micro_batch;
          ++compared;
        }
      }
      EXPECT_GT(compared, 0);
    }
  }
}

TEST_F(SimulatePassesTest, EndsWhenTheWholeProgramDoes) {
  for (const ScheduleKind schedule :
       {ScheduleKind::k1f1b, ScheduleKind::kGpipe, ScheduleKind::kZbH1}) {
    plan_.schedule = schedule;
    SCOPED_TRACE(Describe(plan_));
    const auto passes = SimulatePasses(model_, plan_, *costs_);
    ASSERT_TRUE(passes.has_value());
    const auto forecast =
        MakeForecast(model_, plan_, *costs_, {.ranks = RankChoice::kFirst, .simulate = kApart});
    ASSERT_TRUE(forecast.has_value());
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max(), end_ns = 0;
    for (const auto& [key, ends] : ComputedPasses(forecast->simulation.timeline)) {
      begin_ns = std::min(begin_ns, ends.first);
      end_ns = std::max(end_ns, ends.second);
    }
    const double whole_s = static_cast<double>(end_ns - begin_ns) * 1e-9;
    // At its ends, the step waits for launches of the first ops and writes gradients without
    // adding.
    EXPECT_NEAR(passes->slots.end_s, whole_s, 0.005 * whole_s);
  }
}

// 2 chunks of 1 layer per rank and 4 micro-batches: 16 forward passes on 2 ranks.
TEST_F(SimulatePassesTest, PlaysEachChunkOnceAndAllItsMicroBatches) {
  model_.layers = 4;
  plan_.pp = 2;
  plan_.schedule = ScheduleKind::kInterleaved;
  plan_.vpp = 2;
  plan_.micro_batch = 16;
  const auto passes = SimulatePasses(model_, plan_, *costs_);
  ASSERT_TRUE(passes.has_value()) << passes.error().message;
  EXPECT_EQ(passes->chunks.size(), 4U);
  int forwards = 0;
  for (const auto& rank : passes->slots.spans) {
    for (const SlotSpan& span : rank) {
      forwards += span.slot.pass == Pass::kForward;
      EXPECT_FALSE(passes->OpsOf(0, span.slot).empty());
    }
  }
  EXPECT_EQ(forwards, 16);
}

TEST_F(SimulatePassesTest, RefusesSchedulesWhoseStepsOverlap) {
  plan_.schedule = ScheduleKind::kPipeDream;
  const auto passes = SimulatePasses(model_, plan_, *costs_);
  ASSERT_FALSE(passes.has_value());
}

}  // namespace
}  // namespace foretrain
