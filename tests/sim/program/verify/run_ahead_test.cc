// The limit on run-ahead never stops a program, because sends and receives are exempt from it.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "sim/program/ir/program.h"
#include "tests/sim/models.h"
#include "tests/sim/program/draft.h"
#include "tests/sim/program/verify/refusals.h"
#include "tests/sim/random_plans.h"

namespace foretrain {
namespace {

// Both ranks send, compute three times and receive: each receive comes four ops after the send, and
// the other rank's send waits for it.
Draft TwoWhoSendFirst() {
  Draft draft(2);
  for (int rank = 0; rank < 2; ++rank) {
    const int out = draft.Temporary(rank, 256), in = draft.Temporary(rank, 256);
    draft.Add(rank, Queue::kCompute, {Writes(out)});
    draft.Send(rank, rank == 0, Reads(out));
    for (int i = 0; i < 3; ++i) draft.Add(rank, Queue::kCompute, {Changes(draft.State(rank, 256))});
    draft.Recv(rank, rank == 1, Writes(in));
    draft.Add(rank, Queue::kCompute, {Reads(in)});
  }
  Link(draft.program);
  return draft;
}

TEST(RunAhead, LeavesOutSendsAndReceives) {
  EXPECT_EQ(Refusal(TwoWhoSendFirst().program, 1), "accepted");
}

// Eight layers, all but the first with four experts, routed without a capacity: hosts read counts
// in each forward and each recomputation.
ModelSpec Experts() {
  ModelSpec model = SmallGpt();
  model.layers = 8;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 8;
  model.first_dense_layers = 1;
  return model;
}

struct Shape {
  ScheduleKind schedule;
  int pp;
  int vpp;
  int micro_batches;
};

// With rounds of more micro-batches than stages, the last rank's sends to the first wait for
// receives that come several passes later: 8 = 2 rounds of 4 on 3 stages, 10 = 2 of 5 on 4.
constexpr Shape kShapes[] = {
    {ScheduleKind::kGpipe, 4, 1, 9},       {ScheduleKind::k1f1b, 4, 1, 9},
    {ScheduleKind::kInterleaved, 2, 2, 6}, {ScheduleKind::kInterleaved, 2, 4, 8},
    {ScheduleKind::kInterleaved, 3, 2, 8}, {ScheduleKind::kInterleaved, 4, 2, 10},
    {ScheduleKind::kInterleaved, 4, 2, 7}, {ScheduleKind::kInterleaved, 4, 2, 16},
    {ScheduleKind::kZbH1, 4, 1, 9},        {ScheduleKind::kZbH2, 4, 1, 9},
    {ScheduleKind::kZbV, 4, 1, 9},         {ScheduleKind::kDualPipe, 4, 1, 16},
    {ScheduleKind::kDualPipeV, 4, 1, 16},  {ScheduleKind::kPipeDream2bw, 4, 1, 9},
};

TEST(RunAhead, StopsNoScheduleWhoseHostsReadCounts) {
  for (const Shape& one : kShapes) {
    for (const RecomputeKind recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
      Plan plan;
      plan.sequence = 8;
      plan.micro_batch = 1;
      plan.dp = plan.ep = 2;
      plan.pp = one.pp;
      plan.vpp = one.vpp;
      plan.schedule = one.schedule;
      plan.global_batch = 2 * one.micro_batches;
      plan.recompute = recompute;
      SCOPED_TRACE(Describe(plan));
      const auto program = Compile(Experts(), plan);
      ASSERT_TRUE(program.has_value()) << program.error().message;
      EXPECT_EQ(Refusal(*program, 1), "accepted");
    }
  }
}

TEST(RunAhead, StopsNoRandomPlan) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(std::to_string(i) + ": " + Describe(planned));
    const auto program = Compile(planned.model, planned.plan, {.ranks = RankChoice::kFirst});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_EQ(Refusal(*program, 1), "accepted");
  }
}

}  // namespace
}  // namespace foretrain
