// Models with features of published models train the same under every plan.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "kernels/cpu/cpu_device.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/equality/feature_models.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// One plan of each kind that affects a layer's ops.
std::vector<Case> LayerCases() {
  return {
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Tp4", With([](Plan& p) { p.tp = 4; })},
      {"Tp4Dp2Zero2VocabParallel", With([](Plan& p) {
         p.tp = 4, p.dp = p.zero_stage = 2, p.vocab_parallel = p.sequence_parallel = true;
       })},
      {"Tp4GradientsAway", With([](Plan& p) {
         p.tp = 4, p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Tp4OptimizerAway",
       With([](Plan& p) { p.tp = 4, p.offload_optimizer = OffloadTarget::kHost; })},
      {"Tp2TilesSelective", With([](Plan& p) {
         p.tp = p.tp_tiles = 2, p.mlp_tiles = 3, p.recompute = RecomputeKind::kSelective;
       })},
      {"Tp2SequenceParallelVocabParallelChunks", With([](Plan& p) {
         p.tp = 2, p.sequence_parallel = p.vocab_parallel = true, p.loss_chunks = 3;
       })},
      {"Tp2SequenceParallelFullRecompute", With([](Plan& p) {
         p.tp = 2, p.sequence_parallel = true, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Zero3FullRecomputeMlpTiles", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull, p.mlp_tiles = 2;
       })},
      {"Dp2Zero2MicroBatch2", With([](Plan& p) { p.dp = 2, p.micro_batch = 2, p.zero_stage = 2; })},
      {"Pp2ZbH1Tp2", With([](Plan& p) { p.pp = p.tp = 2, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp2DualPipe",
       With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe, p.tp = 2; })},
      {"Cp2Ring", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpRing; })},
      {"Cp2AllToAllSelective", With([](Plan& p) {
         p.cp = 2, p.cp_kind = kCpAllToAll, p.recompute = RecomputeKind::kSelective;
       })},
      {"OffloadedFused", With([](Plan& p) {
         p.offload_activations = p.offload_optimizer = OffloadTarget::kHost;
         p.fuse = FusionKind::kAll;
       })},
  };
}

class Features : public testing::TestWithParam<std::tuple<FeatureModel, Case>> {};

TEST_P(Features, TrainAsOneRankDoes) {
  const auto& [feature, one] = GetParam();
  if (const auto valid = ValidatePlan(one.plan, feature.model); !valid) {
    GTEST_SKIP() << "not a plan of this model: " << valid.error().message;
  }
  Plan single = TinyPlan(), plan = one.plan;
  single.clip_norm = plan.clip_norm = 0.5;
  // From some weights roundings of a squared norm grow to 1.04e-4 of it within four steps.
  ExpectTrainsAlike(feature.model, single, plan, /*learns=*/0.1, /*seed=*/6);
}

INSTANTIATE_TEST_SUITE_P(Plans, Features,
                         testing::Combine(testing::ValuesIn(FeatureModels()),
                                          testing::ValuesIn(LayerCases())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::get<1>(test.param).name;
                         });

// Layers with and without experts take turns on every stage; weights multiply the experts' inputs
// before they travel.
TEST(FeaturesWithExperts, TrainAsOneRankDoesWithExpertsOverRanks) {
  const std::vector<Case> cases = {
      {"Ep2", With([](Plan& p) { p.dp = p.ep = 2; })},
      {"Ep2Pp2", With([](Plan& p) { p.dp = p.ep = p.pp = 2; })},
      {"Ep2Pp2Vpp2Zero1", With([](Plan& p) {
         p.dp = p.ep = p.pp = p.vpp = 2;
         p.schedule = ScheduleKind::kInterleaved;
         p.zero_stage = 1;
       })},
      {"Ep2Pieces2SelectiveExperts", With([](Plan& p) {
         p.dp = p.ep = p.moe_pieces = 2;
         p.recompute = RecomputeKind::kSelective;
         p.recompute_modules = BitOf(RecomputeModule::kExperts) | BitOf(RecomputeModule::kNorm);
       })},
      {"Tp2WholeExpertsEp2", With([](Plan& p) {
         p.tp = p.ep = 2, p.expert_tp = 1;
         p.sequence_parallel = true;
       })},
      {"Pp2ZbH1FullRecompute", With([](Plan& p) {
         p.pp = 2, p.schedule = ScheduleKind::kZbH1;
         p.recompute = RecomputeKind::kFull;
       })},
  };
  for (const FeatureModel& feature : FeatureModels()) {
    if (!feature.model.weigh_expert_inputs) continue;
    for (const Case& one : cases) {
      SCOPED_TRACE(std::string(feature.name) + " " + one.name);
      const auto valid = ValidatePlan(one.plan, feature.model);
      ASSERT_TRUE(valid.has_value()) << valid.error().message;
      Plan single = TinyPlan(), plan = one.plan;
      single.clip_norm = plan.clip_norm = 0.5;
      ExpectTrainsAlike(feature.model, single, plan, /*learns=*/0.1, /*seed=*/6);
    }
  }
}

// Stages of the encoder hand on the decoder's rows, and those of the decoder the encoder's output.
TEST(EncoderDecoders, TrainAsOneRankDoes) {
  const std::vector<Case> cases = {
      {"UnevenSequences", With([](Plan& p) { p.encoder_sequence = 11, p.dp = 2; })},
      {"Pp2", With([](Plan& p) { p.pp = 2; })},
      {"Pp4", With([](Plan& p) { p.pp = 4; })},
      {"Pp2Vpp2Tp2VocabParallel", With([](Plan& p) {
         p.pp = p.vpp = p.tp = 2, p.schedule = ScheduleKind::kInterleaved;
         p.vocab_parallel = true;
       })},
      {"Pp2ZbVFullRecompute", With([](Plan& p) {
         p.pp = 2, p.schedule = ScheduleKind::kZbV, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Zero1MicroBatch2Fused", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 1, p.micro_batch = 2, p.fuse = FusionKind::kAll;
       })},
      {"Dp2Zero3SelectiveUneven", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kSelective;
         p.encoder_sequence = 5;
       })},
  };
  for (const FeatureModel& feature : FeatureModels()) {
    if (!feature.model.HasEncoder()) continue;
    for (const Case& one : cases) {
      SCOPED_TRACE(std::string(feature.name) + " " + one.name);
      const auto valid = ValidatePlan(one.plan, feature.model);
      ASSERT_TRUE(valid.has_value()) << valid.error().message;
      Plan single = TinyPlan(), plan = one.plan;
      single.clip_norm = plan.clip_norm = 0.5;
      single.encoder_sequence = plan.encoder_sequence;
      ExpectTrainsAlike(feature.model, single, plan, /*learns=*/0.1, /*seed=*/6);
    }
  }
}

// Adapters leave norms and biases frozen; norms of heads then have no gradient.
TEST(FeaturesWithAdapters, TrainAsOneRankDoes) {
  for (const FeatureModel& feature : FeatureModels()) {
    SCOPED_TRACE(feature.name);
    // These have no adapters.
    if (feature.model.experts > 0 || feature.model.IsLatent() || feature.model.HasEncoder()) {
      continue;
    }
    Plan single = TinyPlan();
    single.method = TrainingMethod::kLora;
    single.lora_rank = 4;
    Plan plan = single;
    plan.tp = feature.model.qk_norm_whole ? 1 : 2;
    plan.recompute = RecomputeKind::kFull;
    ExpectTrainsAlike(feature.model, single, plan, /*learns=*/-1);
  }
}

TEST(MtpFeatures, AreRefusedByNameWhenTheyAreToRun) {
  ModelSpec model = TinyLlama();
  model.rope_scaling = RopeScaling::kYarn;
  auto program = Compile(model, TinyPlan());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  RealClock clock;
  const auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                       CpuDeviceApi(), clock, {});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(executor.error().message.find("rope_scaling is forecast"), std::string::npos)
      << executor.error().message;
}

}  // namespace
}  // namespace foretrain
