// A plan changes who computes what and when, never what is computed: every plan trains the same
// model as one rank does. All runs have poisoned memory, so that a use of what is dead shows as
// NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "kernels/cpu/cpu_device.h"
#include "training.h"

namespace foretrain {
namespace {

// fp32 sums of 128 tokens in another order: 2^-24 * sqrt(128) = 7e-7 of the terms' size, and some
// more through 4 layers.
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 5e-5;

struct Case {
  const char* name;
  Plan plan;
};
void PrintTo(const Case& one, std::ostream* out) { *out << Describe(one.plan); }

Plan With(void (*change)(Plan&)) {
  Plan plan = TinyPlan();
  change(plan);
  return plan;
}

void Chunked(Plan& plan, ScheduleKind schedule) {
  plan.pp = 2;
  plan.schedule = schedule;
  plan.vpp = schedule == ScheduleKind::kInterleaved ? 2 : 1;
}

constexpr auto kRing = ContextParallelKind::kRing;
constexpr auto kAllGather = ContextParallelKind::kAllGather;
constexpr auto kAllToAll = ContextParallelKind::kAllToAll;

// The sequence is shared out among ranks.
std::vector<Case> ContextCases() {
  return {
      {"Cp2AllGather", With([](Plan& p) { p.cp = 2, p.cp_kind = kAllGather; })},
      {"Cp4AllGather", With([](Plan& p) { p.cp = 4, p.cp_kind = kAllGather; })},
      {"Cp2Ring", With([](Plan& p) { p.cp = 2, p.cp_kind = kRing; })},
      {"Cp4Ring", With([](Plan& p) { p.cp = 4, p.cp_kind = kRing; })},
      {"Cp2AllToAll", With([](Plan& p) { p.cp = 2, p.cp_kind = kAllToAll; })},
      {"Cp2AllGatherMicroBatch2",
       With([](Plan& p) { p.cp = 2, p.cp_kind = kAllGather, p.micro_batch = 2; })},
      {"Cp4RingMicroBatch2", With([](Plan& p) { p.cp = 4, p.cp_kind = kRing, p.micro_batch = 2; })},
      {"Cp2AllToAllMicroBatch2",
       With([](Plan& p) { p.cp = 2, p.cp_kind = kAllToAll, p.micro_batch = 2; })},
      {"Cp2Tp2AllGather", With([](Plan& p) { p.cp = p.tp = 2, p.cp_kind = kAllGather; })},
      {"Cp2Tp2Ring", With([](Plan& p) { p.cp = p.tp = 2, p.cp_kind = kRing; })},
      {"Cp2Pp2AllGatherRecompute", With([](Plan& p) {
         p.cp = p.pp = 2, p.cp_kind = kAllGather, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp2Pp2RingZbH1",
       With([](Plan& p) { p.cp = p.pp = 2, p.cp_kind = kRing, p.schedule = ScheduleKind::kZbH1; })},
      {"Cp2Pp2AllToAllZbV", With([](Plan& p) {
         Chunked(p, ScheduleKind::kZbV);
         p.cp = 2, p.cp_kind = kAllToAll;
       })},
      {"Cp2Pp2RingDualPipe", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipe);
         p.cp = 2, p.cp_kind = kRing;
       })},
      {"Cp2Dp2AllGatherZero1",
       With([](Plan& p) { p.cp = p.dp = 2, p.cp_kind = kAllGather, p.zero_stage = 1; })},
      {"Cp2Dp2RingZero3Recompute", With([](Plan& p) {
         p.cp = p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp4RingRecompute", With([](Plan& p) { p.cp = 4, p.recompute = RecomputeKind::kFull; })},
      {"Cp2AllToAllZero3Recompute", With([](Plan& p) {
         p.cp = 2, p.cp_kind = kAllToAll, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp4RingSelective",
       With([](Plan& p) { p.cp = 4, p.recompute = RecomputeKind::kSelective; })},
      {"Cp2AllGatherSelectiveZbH1", With([](Plan& p) {
         p.cp = p.pp = 2, p.cp_kind = kAllGather, p.schedule = ScheduleKind::kZbH1;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Cp2AllToAllSelective", With([](Plan& p) {
         p.cp = 2, p.cp_kind = kAllToAll, p.recompute = RecomputeKind::kSelective;
       })},
      {"Cp2Tp2RingSequenceParallelVocabParallel",
       With([](Plan& p) { p.cp = p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; })},
      {"Cp2Tp2AllGatherSequenceParallel", With([](Plan& p) {
         p.cp = p.tp = 2, p.cp_kind = kAllGather, p.sequence_parallel = true;
         p.micro_batch = 2, p.tp_tiles = 2, p.loss_chunks = 3;
       })},
      {"Cp2AllToAllMlpTilesZero2", With([](Plan& p) {
         p.cp = p.dp = 2, p.cp_kind = kAllToAll, p.mlp_tiles = 3, p.zero_stage = 2;
       })},
      {"Cp2Dp2RingHsdp", With([](Plan& p) { p.cp = p.dp = 2, p.zero_stage = 3, p.replicas = 2; })},
      {"Cp2Dp2Tp2Pp2RingZero1",
       With([](Plan& p) { p.cp = p.dp = p.tp = p.pp = 2, p.cp_kind = kRing, p.zero_stage = 1; })},
  };
}

std::vector<Case> Cases() {
  return {
      {"MicroBatch2", With([](Plan& p) { p.micro_batch = 2; })},
      {"Recompute", With([](Plan& p) { p.recompute = RecomputeKind::kFull; })},
      {"Dp2", With([](Plan& p) { p.dp = 2; })},
      {"Dp4", With([](Plan& p) { p.dp = 4; })},
      {"Dp2Zero1", With([](Plan& p) { p.dp = 2, p.zero_stage = 1; })},
      {"Dp4Zero3", With([](Plan& p) { p.dp = 4, p.zero_stage = 3; })},
      {"Dp4Zero2", With([](Plan& p) { p.dp = 4, p.zero_stage = 2; })},
      {"Dp2Pp2Zero2ZbH1", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 2, p.schedule = ScheduleKind::kZbH1;
       })},
      {"Dp2Pp2Zero2DualPipeV", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 2, p.schedule = ScheduleKind::kDualPipeV;
       })},
      {"Dp4Zero1Replicas", With([](Plan& p) { p.dp = 4, p.zero_stage = 1, p.replicas = 2; })},
      {"Dp4Pp2Zero2Replicas",
       With([](Plan& p) { p.dp = 4, p.pp = 2, p.zero_stage = 2, p.replicas = 2; })},
      {"Dp4Tp2Zero3Replicas",
       With([](Plan& p) { p.dp = 4, p.tp = 2, p.zero_stage = 3, p.replicas = 2; })},
      {"Dp2Zero3Prefetch0",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.prefetch_depth = 0; })},
      {"Dp2Pp2Zero3Prefetch3",
       With([](Plan& p) { p.dp = 2, p.pp = 2, p.zero_stage = 3, p.prefetch_depth = 3; })},
      {"Dp2EachMicroBatch",
       With([](Plan& p) { p.dp = 2, p.reduction_time = ReductionTime::kMicroBatch; })},
      {"Dp4Pp2Zero1EachMicroBatch", With([](Plan& p) {
         p.dp = 4, p.pp = 2, p.zero_stage = 1, p.reduction_time = ReductionTime::kMicroBatch;
       })},
      {"Dp2Zero3Recompute",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; })},
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Pp2Gpipe", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kGpipe; })},
      {"Pp2", With([](Plan& p) { p.pp = 2; })},
      {"Pp4", With([](Plan& p) { p.pp = 4; })},
      {"Pp4ZbH1", With([](Plan& p) { p.pp = 4, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp3", With([](Plan& p) { p.pp = 3; })},
      {"Pp2Recompute", With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; })},
      {"Dp2Tp2", With([](Plan& p) { p.dp = 2, p.tp = 2; })},
      {"Dp2Pp2", With([](Plan& p) { p.dp = 2, p.pp = 2; })},
      {"Tp2Pp2", With([](Plan& p) { p.tp = 2, p.pp = 2; })},
      {"Dp2Tp2Pp2", With([](Plan& p) { p.dp = 2, p.tp = 2, p.pp = 2; })},
      {"Dp2Tp2Pp2Zero1", With([](Plan& p) { p.dp = 2, p.tp = 2, p.pp = 2, p.zero_stage = 1; })},
      {"Dp2Pp2Zero3", With([](Plan& p) { p.dp = 2, p.pp = 2, p.zero_stage = 3; })},
      {"Dp2Pp2Zero1ZbH1", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 1, p.schedule = ScheduleKind::kZbH1;
       })},
      {"Pp2Interleaved", With([](Plan& p) { Chunked(p, ScheduleKind::kInterleaved); })},
      {"Pp2ZbH2", With([](Plan& p) { Chunked(p, ScheduleKind::kZbH2); })},
      {"Pp2ZbV", With([](Plan& p) { Chunked(p, ScheduleKind::kZbV); })},
      {"Pp2DualPipeV", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipeV); })},
      {"Pp2DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe); })},
      {"Pp4DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.pp = 4; })},
      {"Tp2Pp2InterleavedRecompute", With([](Plan& p) {
         Chunked(p, ScheduleKind::kInterleaved);
         p.tp = 2, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Pp2ZbVZero1", With([](Plan& p) {
         Chunked(p, ScheduleKind::kZbV);
         p.dp = 2, p.zero_stage = 1;
       })},
      {"Dp2Pp2InterleavedZero3", With([](Plan& p) {
         Chunked(p, ScheduleKind::kInterleaved);
         p.dp = 2, p.zero_stage = 3;
       })},
      {"Dp2Pp2DualPipeVZero3", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipeV);
         p.dp = 2, p.zero_stage = 3;
       })},
      {"Tp2Pp2DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.tp = 2; })},
      {"Tp2Pp2DualPipeVRecompute", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipeV);
         p.tp = 2, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Pp2DualPipeZero1", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipe);
         p.dp = 2, p.zero_stage = 1;
       })},
      {"Pp3Uneven", With([](Plan& p) {
         p.pp = 3, p.stage_layers = {1, 2, 1};
       })},
      {"Dp2Tp2Pp2Zero3Recompute", With([](Plan& p) {
         p.dp = 2, p.tp = 2, p.pp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"Tp2Vocab", With([](Plan& p) { p.tp = 2, p.vocab_parallel = true; })},
      {"Dp2Tp2VocabPp2Zero1",
       With([](Plan& p) { p.tp = p.dp = p.pp = 2, p.zero_stage = 1, p.vocab_parallel = true; })},
      {"Tp2VocabDp2Zero3",
       With([](Plan& p) { p.tp = 2, p.dp = 2, p.zero_stage = 3, p.vocab_parallel = true; })},
      {"Tp2Sequence", With([](Plan& p) { p.tp = 2, p.sequence_parallel = true; })},
      {"Tp2SequenceVocab",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; })},
      {"Tp2SequencePp2Dp2Zero1",
       With([](Plan& p) { p.tp = p.pp = p.dp = 2, p.zero_stage = 1, p.sequence_parallel = true; })},
      {"Tp2SequenceVocabPp2ZbH1", With([](Plan& p) {
         p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1;
         p.sequence_parallel = p.vocab_parallel = true;
       })},
      {"Tp2SequenceDp2Zero3Selective", With([](Plan& p) {
         p.tp = p.dp = 2, p.zero_stage = 3, p.sequence_parallel = true;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Selective", With([](Plan& p) { p.recompute = RecomputeKind::kSelective; })},
      {"Pp2ZbH1Selective", With([](Plan& p) {
         p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.recompute = RecomputeKind::kSelective;
       })},
      {"Pp2RecomputeOneLayer",
       With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull, p.recompute_layers = 1; })},
      {"LossChunks3", With([](Plan& p) { p.loss_chunks = 3; })},
      {"Dp2Zero3Gpipe2LossChunks2", With([](Plan& p) {
         p.dp = p.pp = 2, p.zero_stage = 3, p.schedule = ScheduleKind::kGpipe, p.loss_chunks = 2;
       })},
      {"Tp2VocabLossChunks4",
       With([](Plan& p) { p.tp = 2, p.vocab_parallel = true, p.loss_chunks = 4; })},
      {"Tp2SequenceLossChunks4",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = true, p.loss_chunks = 4; })},
      {"Tp2SequenceVocabLossChunks3Pp2ZbH1", With([](Plan& p) {
         p.tp = p.pp = 2, p.sequence_parallel = p.vocab_parallel = true, p.loss_chunks = 3;
         p.schedule = ScheduleKind::kZbH1;
       })},
      {"MlpTiles3", With([](Plan& p) { p.mlp_tiles = 3; })},
      {"MlpTiles3Recompute",
       With([](Plan& p) { p.mlp_tiles = 3, p.recompute = RecomputeKind::kFull; })},
      {"Tp2SequenceMlpTiles2Selective", With([](Plan& p) {
         p.tp = 2, p.sequence_parallel = true, p.mlp_tiles = 2;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Tp2TpTiles3MlpTiles2", With([](Plan& p) { p.tp = 2, p.tp_tiles = 3, p.mlp_tiles = 2; })},
      {"Tp2Pp2DualPipeVSequenceVocabLossChunks2", With([](Plan& p) {
         p.tp = p.pp = 2, p.schedule = ScheduleKind::kDualPipeV;
         p.sequence_parallel = p.vocab_parallel = true, p.loss_chunks = 2, p.tp_tiles = 2;
         p.recompute = RecomputeKind::kSelective, p.recompute_layers = 1;
       })},
      {"Tp2SequenceTpTiles3",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = true, p.tp_tiles = 3; })},
  };
}

struct Family {
  const char* name;
  ModelSpec model;
  double clip_norm;
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::vector<Family> Families() {
  return {{"Gpt", TinyGpt(true), 0.0},
          {"GptUntiedClipped", TinyGpt(false), 0.5},
          {"GptClipped", TinyGpt(true), 0.5},
          {"LlamaClipped", TinyLlama(), 0.5}};
}

class Equality : public testing::TestWithParam<std::tuple<Family, Case>> {};

TEST_P(Equality, LossesAndGradientsAreThoseOfOneRank) {
  const auto& [family, one] = GetParam();
  Plan single = TinyPlan();
  single.clip_norm = family.clip_norm;
  Plan plan = one.plan;
  plan.clip_norm = family.clip_norm;
  const Trained expected = TrainTiny(family.model, single);
  const Trained actual = TrainTiny(family.model, plan);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_NEAR(expected.losses[0], std::log(256.0), 0.2) << "an untrained model guesses";
  EXPECT_LT(expected.losses.back(), expected.losses[0] - 0.3) << "it does not learn";
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], kLossTolerance * expected.losses[step])
        << "step " << step;
  }
  ASSERT_EQ(actual.squared_norms.size(), family.clip_norm > 0 ? expected.losses.size() : 0U);
  for (std::size_t step = 0; step < actual.squared_norms.size(); ++step) {
    EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                10 * kLossTolerance * expected.squared_norms[step])
        << "step " << step;
  }
  // Of one step, before Adam's division by small moments enlarges differences.
  TrainingOptions first;
  first.steps = 1;
  EXPECT_LT(LargestDifference(TrainTiny(family.model, single, first).gradients,
                              TrainTiny(family.model, plan, first).gradients),
            kGradientTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Equality, testing::Combine(testing::ValuesIn(Families()), testing::ValuesIn(Cases())),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
    });

INSTANTIATE_TEST_SUITE_P(ContextPlans, Equality,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(ContextCases())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

// Each rank has one key head, of four.
INSTANTIATE_TEST_SUITE_P(
    ContextPlansOfManyKeyHeads, Equality,
    testing::Combine(testing::Values(Families()[1], Families()[2]),
                     testing::Values(Case{"Cp4AllToAll",
                                          With([](Plan& p) { p.cp = 4, p.cp_kind = kAllToAll; })},
                                     Case{"Cp2Tp2Pp2AllToAllRecompute", With([](Plan& p) {
                                            p.cp = p.tp = p.pp = 2, p.cp_kind = kAllToAll;
                                            p.recompute = RecomputeKind::kFull;
                                          })})),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
    });
// Four shares of 65 of 257 tokens: the last has 62 and 3 rows of padding, which stay zero.
TEST(Equality, HoldsWithAVocabularyThatRanksCannotShareEvenly) {
  for (const bool tied : {true, false}) {
    ModelSpec model = TinyGpt(tied);
    model.vocab = 257;
    Plan plan = TinyPlan();
    plan.clip_norm = 0.5;
    TrainingOptions first;
    first.steps = 1;
    const Trained expected = TrainTiny(model, plan);
    const Trained gradients = TrainTiny(model, plan, first);
    plan.tp = 4;
    plan.vocab_parallel = true;
    for (const bool more : {false, true}) {
      plan.sequence_parallel = more;
      plan.loss_chunks = more ? 3 : 1;
      plan.pp = more ? 2 : 1;
      const Trained actual = TrainTiny(model, plan);
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(actual.losses[step], expected.losses[step],
                    kLossTolerance * expected.losses[step])
            << Describe(plan) << " step " << step;
        EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                    10 * kLossTolerance * expected.squared_norms[step])
            << Describe(plan) << " step " << step;
      }
      EXPECT_LT(LargestDifference(gradients.gradients, TrainTiny(model, plan, first).gradients),
                kGradientTolerance)
          << Describe(plan);
    }
  }
}

bool SameBits(const Trained& a, const Trained& b) {
  bool same = a.losses == b.losses;
  for (const auto& [name, tensor] : a.parameters) {
    same = same && tensor.values == b.parameters.at(name).values;
  }
  return same && !a.losses.empty();
}

// What only moves or repeats work leaves every bit in place.
TEST(EqualityToTheBit, HoldsForSchedulesRecomputationAndShardedMoments) {
  const ModelSpec model = TinyGpt();
  Plan pipeline = TinyPlan();
  pipeline.pp = 2;
  const Trained one_f_one_b = TrainTiny(model, pipeline);
  Plan other = pipeline;
  other.schedule = ScheduleKind::kGpipe;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other.schedule = ScheduleKind::kZbH1;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other = pipeline;
  other.recompute = RecomputeKind::kFull;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));

  other.recompute = RecomputeKind::kSelective;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other.schedule = ScheduleKind::kZbH1;
  other.recompute_layers = 1;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));

  Plan data_parallel = TinyPlan();
  data_parallel.dp = 4;
  Plan zero1 = data_parallel;
  zero1.zero_stage = 1;
  EXPECT_TRUE(SameBits(TrainTiny(model, data_parallel), TrainTiny(model, zero1)));
}

// Who keeps the sum of a micro-batch changes no bit of it: whole on all ranks, or in shards.
TEST(EqualityToTheBit, HoldsForAllZeroStagesThatSumEachMicroBatch) {
  for (const bool tied : {false, true}) {
    Plan plan = TinyPlan();
    plan.dp = plan.pp = 2;
    plan.reduction_time = ReductionTime::kMicroBatch;
    const Trained whole = TrainTiny(TinyGpt(tied), plan);
    for (const int zero : {1, 2, 3}) {
      plan.zero_stage = zero;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
    }
    for (const int depth : {0, 2, 5}) {
      plan.prefetch_depth = depth;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
    }
  }
}

TEST(EqualityToTheBit, HoldsForALossScaleThatIsAPowerOfTwo) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 2;
  plan.clip_norm = 0.5;
  const Trained plain = TrainTiny(TinyLlama(), plan);
  plan.loss_scale = 1024;
  const Trained scaled = TrainTiny(TinyLlama(), plan);
  EXPECT_TRUE(SameBits(plain, scaled));
  EXPECT_EQ(plain.squared_norms, scaled.squared_norms);
}

TEST(EqualityToTheBit, HoldsForFusedOps) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    Plan plan = TinyPlan();
    plan.tp = 2;
    plan.sequence_parallel = true;
    plan.recompute = RecomputeKind::kFull;
    const Trained apart = TrainTiny(model, plan);
    plan.fuse = true;
    EXPECT_TRUE(SameBits(apart, TrainTiny(model, plan)));
  }
}

TEST(EqualityToTheBit, HoldsFromRunToRunUnderRandomDelays) {
  struct Jitter : FaultInjector {
    Fault At(int rank, std::int64_t step, std::int32_t op) override {
      const std::uint64_t mixed =
          (salt + static_cast<std::uint64_t>(rank * 131 + step * 17 + op)) * 0x9e3779b97f4a7c15U;
      Fault fault{Fault::Kind::kDelay};
      // One op in sixteen starts up to 130 us late.
      fault.delay_ns = mixed >> 60 == 0 ? static_cast<std::int64_t>(mixed >> 40 & 0x1ffff) : 0;
      return fault;
    }
    std::uint64_t salt = 0;
  };
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.dp = plan.tp = plan.pp = 2;
  plan.zero_stage = 1;
  plan.clip_norm = 0.5;
  const Trained undisturbed = TrainTiny(model, plan);
  for (std::uint64_t run = 1; run <= 3; ++run) {
    Jitter jitter;
    jitter.salt = run * 1000;
    TrainingOptions options;
    options.faults = &jitter;
    EXPECT_TRUE(SameBits(undisturbed, TrainTiny(model, plan, options))) << "run " << run;
  }
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoisonWhereTensorsAreUsedInParts) {
  TrainingOptions plain;
  plain.poison = false;
  Plan plan = TinyPlan();
  plan.tp = plan.pp = 2;
  plan.schedule = ScheduleKind::kZbH1;
  plan.sequence_parallel = plan.vocab_parallel = true;
  plan.loss_chunks = 3;
  plan.tp_tiles = 2;
  plan.recompute = RecomputeKind::kSelective;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoison) {
  TrainingOptions plain;
  plain.poison = false;
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
  plan.gather_format = GatherFormat::kInt8;
  plan.moments = MomentFormat::kInt8;
  plan.loss_scale = 64;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
  plan.zero_stage = 2;
  plan.gather_format = GatherFormat::kFp32;
  plan.optimizer = OptimizerKind::kSgd;
  plan.moments = MomentFormat::kFp32;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoisonWhereSequencesAreSharedOut) {
  TrainingOptions plain;
  plain.poison = false;
  for (const Case& one : ContextCases()) {
    EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), one.plan), TrainTiny(TinyLlama(), one.plan, plain)))
        << one.name;
  }
}

TEST(EqualityToTheBit, HoldsForRecomputedPartsOfAttention) {
  for (const ContextParallelKind kind : {kRing, kAllGather, kAllToAll}) {
    Plan plan = TinyPlan();
    plan.cp = 2;
    plan.cp_kind = kind;
    const Trained kept = TrainTiny(TinyGpt(), plan);
    plan.recompute = RecomputeKind::kFull;
    EXPECT_TRUE(SameBits(kept, TrainTiny(TinyGpt(), plan))) << Name(kind);
    plan.recompute = RecomputeKind::kSelective;
    EXPECT_TRUE(SameBits(kept, TrainTiny(TinyGpt(), plan))) << Name(kind);
  }
}

// The measured peak is the live bytes of the program: equal where one queue does all the work, and
// never more than the arena holds.
TEST(MeasuredMemory, StaysWithinTheArena) {
  std::vector<Case> cases = Cases();
  for (Case& one : ContextCases()) cases.push_back(std::move(one));
  for (const Case& one : cases) {
    auto program = Compile(TinyGpt(), one.plan);
    ASSERT_TRUE(program.has_value());
    const Trained trained = TrainTiny(TinyGpt(), one.plan);
    ASSERT_EQ(trained.summary.peak_bytes.size(), program->ranks.size());
    for (std::size_t rank = 0; rank < program->ranks.size(); ++rank) {
      EXPECT_LE(trained.summary.peak_bytes[rank], program->ranks[rank].arena_bytes[0]) << one.name;
      EXPECT_GT(trained.summary.peak_bytes[rank], program->ranks[rank].arena_bytes[0] / 2)
          << one.name;
    }
  }
}

}  // namespace
}  // namespace foretrain
