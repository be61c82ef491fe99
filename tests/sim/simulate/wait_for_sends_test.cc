#include "sim/program/link/system_waits.h"

#include <gtest/gtest.h>

#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

// Seconds of two stages with two micro-batches: F 1, B 2, each transfer 0.5.
double StepOf(ScheduleKind schedule, bool waits) {
  Program program = OpaquePipeline(schedule, {2, 2, 1}, {1, 1, 1, 0}, false);
  if (waits) WaitForSends(program);
  DeviceProfile profile = IdealProfile();
  profile.rates.link_bytes_per_s.value = 2 * 256;
  const auto costs = CostModel::Make(GpuCluster(1, 2), profile);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  ProgramCosts of = *costs->CostsOf(program);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (const Instruction& instruction : program.ranks[r].step) {
      const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
      for (std::size_t op = 0; op < block.ops.size(); ++op) {
        if (!IsCommunication(block.ops[op].kind)) continue;
        const auto row = of.row_of[r][static_cast<std::size_t>(instruction.first_op) + op];
        of.seconds[static_cast<std::size_t>(row) * of.levels.size()] = 0.5;
      }
    }
  }
  of.demand.clear();
  const auto simulation =
      Simulate(program, of, {.min_steps = 1, .max_steps = 1, .timeline = false});
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? simulation->first_step_s : 0;
}

// Without waiting for sends:
//   rank 0  F 0-1,     F 1-2,     B 5-7,     B 8-10
//   rank 1  F 1.5-2.5, B 2.5-4.5, F 4.5-5.5, B 5.5-7.5
// Waiting for sends:
//   rank 0  F 0-1,     F 1.5-2.5, B 5-7,     B 8.5-10.5
//   rank 1  F 1.5-2.5, B 2.5-4.5, F 5-6,     B 6-8
TEST(WaitForSends, PutsTransfersBetweenPasses) {
  EXPECT_NEAR(StepOf(ScheduleKind::k1f1b, false), 10.0, 1e-9);
  EXPECT_NEAR(StepOf(ScheduleKind::k1f1b, true), 10.5, 1e-9);
}

TEST(WaitForSends, LeavesSchedulesThatSendDuringTheirPasses) {
  EXPECT_EQ(StepOf(ScheduleKind::kZbH1, true), StepOf(ScheduleKind::kZbH1, false));
}

// No two ranks wait for each other, for any number of stages and micro-batches.
TEST(WaitForSends, NeverMakesACircle) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const int micro_batches : {stages, 2 * stages, 3 * stages}) {
      for (const auto& [schedule, chunks] :
           {std::pair{ScheduleKind::kGpipe, 1}, std::pair{ScheduleKind::k1f1b, 1},
            std::pair{ScheduleKind::kInterleaved, 2}, std::pair{ScheduleKind::kInterleaved, 4}}) {
        Program program =
            OpaquePipeline(schedule, {stages, micro_batches, chunks}, {1, 1, 1, 0}, true);
        WaitForSends(program);
        const auto costs = CostModel::Make(GpuCluster(1, stages), IdealProfile());
        ASSERT_TRUE(costs.has_value()) << costs.error().message;
        const auto simulation = Simulate(program, *costs->CostsOf(program));
        EXPECT_TRUE(simulation.has_value())
            << stages << " stages, " << micro_batches << " micro-batches, " << chunks
            << " chunks: " << simulation.error().message;
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
