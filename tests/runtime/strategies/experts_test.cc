// A mixture of experts trains the same however it is split. Every plan is compared with one rank
// with the same micro-batches, since these determine the balance and what a capacity drops. All
// runs poison dead memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "sim/memory/peak_memory.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

struct Case {
  const char* name;
  void (*change)(Plan& plan);
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

void Chunked(Plan& plan, ScheduleKind schedule) {
  plan.pp = 2;
  plan.schedule = schedule;
  plan.vpp = schedule == ScheduleKind::kInterleaved ? 2 : 1;
}

const Case kCases[] = {
    {"Recompute", [](Plan& p) { p.recompute = RecomputeKind::kFull; }},
    {"Selective", [](Plan& p) { p.recompute = RecomputeKind::kSelective; }},
    {"LossChunks", [](Plan& p) { p.loss_chunks = 3; }},
    {"Dp2", [](Plan& p) { p.dp = 2; }},
    {"Dp2Zero1", [](Plan& p) { p.dp = 2, p.zero_stage = 1; }},
    {"Dp4Zero3Recompute",
     [](Plan& p) { p.dp = 4, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; }},
    {"Tp2", [](Plan& p) { p.tp = 2; }},
    {"Tp2Zero1Dp2", [](Plan& p) { p.tp = p.dp = 2, p.zero_stage = 1; }},
    {"Tp2SequenceParallel", [](Plan& p) { p.tp = 2, p.sequence_parallel = true; }},
    {"Tp2SequenceParallelSelectiveZero3",
     [](Plan& p) {
       p.tp = p.dp = 2, p.sequence_parallel = p.vocab_parallel = true, p.zero_stage = 3;
       p.recompute = RecomputeKind::kSelective, p.tp_tiles = 2;
     }},
    {"Pp2", [](Plan& p) { p.pp = 2; }},
    {"Pp4ZbH1", [](Plan& p) { p.pp = 4, p.schedule = ScheduleKind::kZbH1; }},
    {"Pp2ZbVRecompute",
     [](Plan& p) { Chunked(p, ScheduleKind::kZbV), p.recompute = RecomputeKind::kFull; }},
    {"Pp2DualPipe", [](Plan& p) { Chunked(p, ScheduleKind::kDualPipe); }},
    {"Dp2Pp2InterleavedZero3",
     [](Plan& p) { Chunked(p, ScheduleKind::kInterleaved), p.dp = 2, p.zero_stage = 3; }},
    {"Tp2Pp2ZbH1SelectiveSequenceParallel",
     [](Plan& p) {
       p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.sequence_parallel = true;
       p.recompute = RecomputeKind::kSelective;
     }},
    {"Dp2Tp2Pp2Zero1", [](Plan& p) { p.dp = p.tp = p.pp = 2, p.zero_stage = 1; }},
    {"Dp2Zero2OffloadActivationsGradientsOptimizer",
     [](Plan& p) {
       p.dp = 2, p.zero_stage = 2;
       p.offload_activations = p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
     }},
};

// With expert parallelism.
const Case kExchangeCases[] = {
    {"Ep2", [](Plan& p) { p.dp = p.ep = 2; }},
    {"Ep4", [](Plan& p) { p.dp = p.ep = 4; }},
    {"Dp4Ep2", [](Plan& p) { p.dp = 4, p.ep = 2; }},
    {"Dp4Ep2Zero1", [](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 1; }},
    {"Ep2Zero1", [](Plan& p) { p.dp = p.ep = 2, p.zero_stage = 1; }},
    {"Dp4Ep2Zero3Recompute",
     [](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; }},
    {"Ep2Zero2", [](Plan& p) { p.dp = p.ep = 2, p.zero_stage = 2; }},
    {"Ep2Zero3", [](Plan& p) { p.dp = p.ep = 2, p.zero_stage = 3; }},
    {"Ep2Pieces2", [](Plan& p) { p.dp = p.ep = p.moe_pieces = 2; }},
    {"Ep2Pieces3ZbH1",
     [](Plan& p) { p.dp = p.ep = p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.moe_pieces = 3; }},
    {"Ep2EachMicroBatch",
     [](Plan& p) { p.dp = p.ep = 2, p.reduction_time = ReductionTime::kMicroBatch; }},
    {"Dp4Ep2Zero1EachMicroBatch",
     [](Plan& p) {
       p.dp = 4, p.ep = 2, p.zero_stage = 1, p.reduction_time = ReductionTime::kMicroBatch;
     }},
    {"Ep2Tp2SequenceParallelSelective",
     [](Plan& p) {
       p.dp = p.ep = p.tp = 2, p.sequence_parallel = true;
       p.recompute = RecomputeKind::kSelective;
     }},
    {"Ep2Pp2ZbH1", [](Plan& p) { p.dp = p.ep = p.pp = 2, p.schedule = ScheduleKind::kZbH1; }},
    {"Ep2Pp2DualPipe", [](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.dp = p.ep = 2; }},
    {"Dp4Ep2Tp2Pp2Zero1", [](Plan& p) { p.dp = 4, p.ep = p.tp = p.pp = 2, p.zero_stage = 1; }},
    {"Ep2Zero2OffloadGradientsOptimizer",
     [](Plan& p) {
       p.dp = p.ep = 2, p.zero_stage = 2;
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
     }},
    {"Ep2Zero3OffloadParametersGradients",
     [](Plan& p) {
       p.dp = p.ep = 2, p.zero_stage = 3;
       p.offload_parameters = p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
     }},
    // Experts that one rank holds alone are copied but not gathered.
    {"Ep2Zero3OffloadParametersGatherBucket",
     [](Plan& p) {
       p.dp = p.ep = 2, p.zero_stage = 3, p.gather_bytes = 20'000;
       p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
     }},
    {"Dp4Ep2Zero3OffloadParametersNvmeStream",
     [](Plan& p) {
       p.dp = 4, p.ep = 2, p.zero_stage = 3, p.stream_optimizer = true;
       p.offload_parameters = p.offload_optimizer = OffloadTarget::kNvme;
     }},
};

// The model unchanged, with the other routing, or with little capacity.
struct Family {
  const char* name;
  RouterKind router;
  double capacity_factor;
  double clip_norm;
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

const Family kFamilies[] = {{"DroplessClipped", RouterKind::kTopKSoftmax, 0, 0.5},
                            {"SoftmaxFirstCapacity", RouterKind::kSoftmaxTopK, 0.75, 0}};

class ExpertsEquality : public testing::TestWithParam<std::tuple<Family, Case>> {};

TEST_P(ExpertsEquality, LossesAndGradientsAreThoseOfOneRank) {
  const auto& [family, one] = GetParam();
  ModelSpec model = TinyExperts();
  model.router = family.router;
  Plan single = TinyPlan();
  single.clip_norm = family.clip_norm;
  single.capacity_factor = family.capacity_factor;
  Plan plan = single;
  one.change(plan);
  ExpectTrainsAlike(model, single, plan);
}

INSTANTIATE_TEST_SUITE_P(Plans, ExpertsEquality,
                         testing::Combine(testing::ValuesIn(kFamilies), testing::ValuesIn(kCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

const Family kExchangeFamilies[] = {{"Clipped", RouterKind::kTopKSoftmax, 1.25, 0.5},
                                    {"Plain", RouterKind::kSoftmaxTopK, 0.75, 0}};
INSTANTIATE_TEST_SUITE_P(ExpertParallel, ExpertsEquality,
                         testing::Combine(testing::ValuesIn(kExchangeFamilies),
                                          testing::ValuesIn(kExchangeCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

// Without a capacity ranks exchange exactly the rows that exist.
const Case kDroplessCases[] = {
    {"Ep2", [](Plan& p) { p.dp = p.ep = 2; }},
    {"Ep4", [](Plan& p) { p.dp = p.ep = 4; }},
    {"Ep2Headroom", [](Plan& p) { p.dp = p.ep = 2, p.expert_headroom = 1.9; }},
    {"Dp4Ep2Zero1", [](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 1; }},
    {"Dp4Ep2Zero3Recompute",
     [](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; }},
    {"Ep2Tp2SequenceParallelSelective",
     [](Plan& p) {
       p.dp = p.ep = p.tp = 2, p.sequence_parallel = true;
       p.recompute = RecomputeKind::kSelective;
     }},
    {"Ep2Pp2ZbH1", [](Plan& p) { p.dp = p.ep = p.pp = 2, p.schedule = ScheduleKind::kZbH1; }},
    {"Ep2Pp2DualPipe", [](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.dp = p.ep = 2; }},
    {"Ep2Pieces3", [](Plan& p) { p.dp = p.ep = 2, p.moe_pieces = 3; }},
    {"Ep2Pieces2Pp2DualPipeV",
     [](Plan& p) { Chunked(p, ScheduleKind::kDualPipeV), p.dp = p.ep = p.moe_pieces = 2; }},
    {"Ep2Pieces16ZbH1Selective",
     [](Plan& p) {
       p.dp = p.ep = p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.moe_pieces = 16;
       p.recompute = RecomputeKind::kSelective;
     }},
};
INSTANTIATE_TEST_SUITE_P(DroplessExpertParallel, ExpertsEquality,
                         testing::Combine(testing::Values(kFamilies[0]),
                                          testing::ValuesIn(kDroplessCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

// Ranks route parts of a micro-batch's tokens. Balanced over 4 tokens that stay together,
// everything equals one rank, also with group-limited routing.
const Case kPartCases[] = {
    {"Cp2", [](Plan& p) { p.cp = 2; }},
    {"Cp2Ep2", [](Plan& p) { p.cp = p.ep = 2; }},
    {"Dp2Cp2Ep4Zero3", [](Plan& p) { p.dp = p.cp = 2, p.ep = 4, p.zero_stage = 3; }},
    {"Tp2Whole", [](Plan& p) { p.tp = 2, p.expert_tp = 1; }},
    {"Tp2Ep2Whole", [](Plan& p) { p.tp = p.ep = 2, p.expert_tp = 1; }},
    {"Tp2Ep2WholePieces2Selective",
     [](Plan& p) {
       p.tp = p.ep = p.moe_pieces = 2, p.expert_tp = 1, p.recompute = RecomputeKind::kSelective;
     }},
    {"Tp2Ep2WholeRecompute",
     [](Plan& p) { p.tp = p.ep = 2, p.expert_tp = 1, p.recompute = RecomputeKind::kFull; }},
    {"Dp2Tp2Ep2WholeZero1",
     [](Plan& p) { p.dp = p.tp = p.ep = 2, p.expert_tp = 1, p.zero_stage = 1; }},
    {"Dp2Tp2WholeZero3", [](Plan& p) { p.dp = p.tp = 2, p.expert_tp = 1, p.zero_stage = 3; }},
    {"Dp2Tp2Ep4WholeZero3",
     [](Plan& p) { p.dp = p.tp = 2, p.ep = 4, p.expert_tp = 1, p.zero_stage = 3; }},
    {"Tp2Pp2Ep2WholeZbH1",
     [](Plan& p) { p.tp = p.pp = p.ep = 2, p.expert_tp = 1, p.schedule = ScheduleKind::kZbH1; }},
    {"Tp2Pp2Ep2WholeDualPipe",
     [](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.tp = p.ep = 2, p.expert_tp = 1; }},
    {"Tp2WholeOffloadGradients",
     [](Plan& p) {
       p.tp = 2, p.expert_tp = 1;
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
     }},
    {"Dp2Tp2WholeZero2OffloadGradients",
     [](Plan& p) {
       p.dp = p.tp = 2, p.expert_tp = 1, p.zero_stage = 2;
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
     }},
};

class PartsEquality : public testing::TestWithParam<std::tuple<bool, Case>> {};

TEST_P(PartsEquality, LossesAndGradientsAreThoseOfOneRank) {
  const auto& [shared, one] = GetParam();
  ModelSpec model = TinyExperts();
  model.balance_tokens = 4;
  model.expert_groups = 4;
  model.groups_per_token = 2;
  if (!shared) model.shared_ffn_hidden = 0;
  Plan single = TinyPlan();
  single.clip_norm = 0.5;
  Plan plan = single;
  one.change(plan);
  plan.sequence_parallel = plan.expert_tp == 1;
  ExpectTrainsAlike(model, single, plan);
}

INSTANTIATE_TEST_SUITE_P(Plans, PartsEquality,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kPartCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Shared_" : "Alone_") +
                                  std::get<1>(test.param).name;
                         });

TEST(Experts, SayThatMoreRowsComeThanThereIsRoomFor) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 4;
  plan.expert_headroom = 1;
  const auto program = Compile(TinyExperts(), plan);
  ASSERT_TRUE(program.has_value());
  auto data = TokenData::FromText(TrainingText(), "text", 256, plan);
  RealClock clock;
  auto executor =
      Executor::Make(std::make_shared<const Program>(*program), CpuDeviceApi(), clock, {});
  ASSERT_TRUE(executor.has_value());
  ASSERT_TRUE(FillParameters(**executor, InitialWeights(TinyExperts(), 5)).has_value());
  RecordingSink sink;
  const auto summary = (*executor)->Run(1, **data, sink);
  ASSERT_FALSE(summary.has_value());
  EXPECT_EQ(summary.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(summary.error().message,
              testing::AllOf(testing::HasSubstr("experts.dispatch"),
                             testing::HasSubstr("room for 32 with expert_headroom 1;")));
}

// The whole gradient of the router is scaled, including that of the balance.
TEST(Experts, TrainAlikeUnderAScaledLoss) {
  Plan plan = TinyPlan();
  plan.dp = 4;
  plan.ep = plan.zero_stage = 2;
  plan.capacity_factor = 1.25;
  const Trained expected = TrainTiny(TinyExperts(), plan);
  plan.loss_scale = 1024;
  const Trained actual = TrainTiny(TinyExperts(), plan);
  EXPECT_EQ(actual.losses, expected.losses) << "a power of two scales without rounding";
}

TEST(ExpertsToTheBit, RecomputationSchedulesAndPoisonLeaveEveryBitInPlace) {
  const ModelSpec model = TinyExperts();
  for (const double capacity : {0.0, 1.0}) {
    Plan plan = TinyPlan();
    plan.pp = 2;
    plan.capacity_factor = capacity;
    const Trained expected = TrainTiny(model, plan);
    TrainingOptions plain;
    plain.poison = false;
    EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan, plain)));
    for (const RecomputeKind recompute :
         {RecomputeKind::kNone, RecomputeKind::kSelective, RecomputeKind::kFull}) {
      plan.recompute = recompute;
      plan.schedule = ScheduleKind::kZbH1;
      EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan))) << Describe(plan);
    }
  }
}

TEST(ExpertsToTheBit, PoisonAndSchedulesLeaveExchangesAsTheyAre) {
  ModelSpec model = TinyExperts();
  for (const double capacity : {0.0, 1.0}) {
    Plan plan = TinyPlan();
    plan.dp = plan.tp = 2;
    plan.ep = 4;
    plan.expert_tp = 1;
    plan.sequence_parallel = true;
    plan.moe_pieces = 2;
    plan.capacity_factor = capacity;
    const Trained expected = TrainTiny(model, plan);
    TrainingOptions plain;
    plain.poison = false;
    EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan, plain)));
    plan.recompute = RecomputeKind::kFull;
    EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan)));
    plan.recompute = RecomputeKind::kSelective;
    EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan)));
  }
}

// With capacity for every pair nothing is dropped, and empty rows add nothing.
TEST(ExpertsToTheBit, ACapacityThatHoldsAllRowsIsDropless) {
  const ModelSpec model = TinyExperts();
  Plan plan = TinyPlan();
  const Trained dropless = TrainTiny(model, plan);
  plan.capacity_factor = 100;  // 8 rows an expert and more, at most the 16 tokens
  const Trained roomy = TrainTiny(model, plan);
  for (std::size_t step = 0; step < dropless.losses.size(); ++step) {
    EXPECT_NEAR(roomy.losses[step], dropless.losses[step], kLossTolerance * dropless.losses[step]);
  }
  plan.capacity_factor = 0.5;
  EXPECT_NE(TrainTiny(model, plan).losses.back(), dropless.losses.back());
}

// The balance's gradient reaches the router: with a large weight the experts' loads even out, which
// changes what is learned.
TEST(Experts, TheBalanceChangesWhatTheRouterLearns) {
  ModelSpec model = TinyExperts();
  TrainingOptions first;
  first.steps = 1;
  const Trained balanced = TrainTiny(model, TinyPlan(), first);
  model.balance_weight = 0;
  const Trained free = TrainTiny(model, TinyPlan(), first);
  const auto& with = balanced.gradients.at("layers.1.router.weight").values;
  const auto& without = free.gradients.at("layers.1.router.weight").values;
  EXPECT_NE(with, without);
  EXPECT_EQ(balanced.gradients.at("layers.3.experts.0.mlp.up.weight").values,
            free.gradients.at("layers.3.experts.0.mlp.up.weight").values)
      << "the last layer's experts do not see its router's gradient";
}

TEST(Experts, MeasuredMemoryIsWhatWasPredicted) {
  for (const Case& one : kCases) {
    Plan plan = TinyPlan();
    plan.capacity_factor = 1.25;
    one.change(plan);
    const Trained trained = TrainTiny(TinyExperts(), plan);
    const auto program = Compile(TinyExperts(), plan);
    ASSERT_TRUE(program.has_value());
    for (const RankProgram& rank : program->ranks) {
      const auto peak = PlannedPeak(TinyExperts(), plan, rank.Coordinates());
      EXPECT_LE(trained.summary.peak_bytes[static_cast<std::size_t>(rank.rank)],
                rank.arena_bytes[0])
          << one.name;
      EXPECT_LE(peak.total, rank.arena_bytes[0]) << one.name;
    }
  }
}

}  // namespace
}  // namespace foretrain
