// Training through the plugin, whose kernels are its own PTX executed on the CPU, compared with the
// CPU's kernels.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/config/plan/plan.h"
#include "tests/cuda/plugin.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

// The kernels add the same fp32 products in another order; 16-bit numbers are rounded in another.
constexpr double kFp32Tolerance = 1e-6, kBf16Tolerance = 1e-3;

void ExpectTrainsAsOnTheCpu(const ModelSpec& model, const Plan& plan, double tolerance) {
  TrainingOptions options;
  options.steps = 2;
  options.learning_rate = 1e-3F;  // larger ones make more of a rounding
  const Trained expected = TrainTiny(model, plan, options);
  options.api = &CudaPlugin();
  const Trained actual = TrainTiny(model, plan, options);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], tolerance * expected.losses[step])
        << "step " << step;
  }
}

// ---- plans

class PlansOnCuda : public testing::TestWithParam<Case> {};

TEST_P(PlansOnCuda, TrainAsOnTheCpu) {
  Plan plan = GetParam().plan;
  plan.global_batch = 4;
  plan.clip_norm = 0.5;
  ExpectTrainsAsOnTheCpu(TinyGpt(), plan, kFp32Tolerance);
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
  return kept;
}

INSTANTIATE_TEST_SUITE_P(Plans, PlansOnCuda, testing::ValuesIn(PlansWithEachFeature()),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- presets

class PresetsOnCuda : public testing::TestWithParam<Preset> {
 protected:
  void Check(Precision precision, double tolerance) {
    ModelSpec model = ModelFor(GetParam(), TinyGpt());
    model.layers = 2;
    Plan plan = ToyPlan(GetParam(), model, 2);
    plan.global_batch = 2 * std::int64_t{plan.dp};
    plan.precision = precision;
    const auto valid = ValidatePlan(plan, model);
    if (!valid.has_value()) {
      GTEST_SKIP() << "preset " << GetParam().name
                   << " has no such plan of two ranks: " << valid.error().message
                   << "; every other preset runs";
    }
    ExpectTrainsAsOnTheCpu(model, plan, tolerance);
  }
};

TEST_P(PresetsOnCuda, TrainInFp32AsOnTheCpu) { Check(Precision::kFp32, kFp32Tolerance); }
TEST_P(PresetsOnCuda, TrainInBf16AsOnTheCpu) { Check(Precision::kBf16, kBf16Tolerance); }

INSTANTIATE_TEST_SUITE_P(Presets, PresetsOnCuda, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
