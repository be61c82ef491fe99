// Training through the plugin, whose kernels are its own PTX executed on the CPU, compared with the
// CPU's kernels: plans with each feature, and each preset in fp32 (bf16:
// bf16_presets_nightly_test.cc).
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/config/plan/plan.h"
#include "tests/cuda/training.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

class PlansOnCuda : public testing::TestWithParam<Case> {};

TEST_P(PlansOnCuda, TrainAsOnTheCpu) {
  Plan plan = GetParam().plan;
  plan.global_batch = 4;
  plan.clip_norm = 0.5;
  ExpectTrainsAsOnTheCpu(TinyGpt(), plan, kFp32OnCudaTolerance);
}

// Each kind of parallelism, schedule and offload once.
std::vector<Case> PlansWithEachFeature() {
  const std::set<std::string> names = {"Dp2",
                                       "Pp2ZbV",
                                       "Pp2DualPipeV",
                                       "Pp2Interleaved",
                                       "Dp4Tp2Zero3Replicas",
                                       "Tp2SequencePp2Dp2Zero1",
                                       "Cp4RingRecompute",
                                       "Cp4AllGather",
                                       "Cp2Pp2AllToAllZbV",
                                       "Optimizer",
                                       "Pp3EndsWithoutLayers"};
  std::vector<Case> kept;
  for (const auto& all : {Cases(), ContextCases(), OffloadCases()}) {
    for (const Case& one : all) {
      if (names.contains(one.name)) kept.push_back(one);
    }
  }
  kept.push_back({"Dp2Tp2Zero2Adafactor", With([](Plan& p) {
                    p.dp = p.tp = 2, p.zero_stage = 2, p.optimizer = OptimizerKind::kAdafactor;
                  })});
  kept.push_back({"Cp2Documents", With([](Plan& p) { p.cp = 2, p.documents = true; })});
  return kept;
}

INSTANTIATE_TEST_SUITE_P(Plans, PlansOnCuda, testing::ValuesIn(PlansWithEachFeature()),
                         [](const auto& test) { return std::string(test.param.name); });

class PresetsOnCuda : public testing::TestWithParam<Preset> {};

TEST_P(PresetsOnCuda, TrainInFp32AsOnTheCpu) {
  ExpectPresetTrainsAsOnTheCpu(GetParam(), Precision::kFp32, kFp32OnCudaTolerance);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetsOnCuda, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
