#include "tests/cuda/training.h"

#include <gtest/gtest.h>

#include "tests/cuda/plugin.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {

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

void ExpectPresetTrainsAsOnTheCpu(const Preset& preset, Precision precision, double tolerance) {
  ModelSpec model = ModelFor(preset, TinyGpt());
  model.layers = 2;
  Plan plan = ToyPlan(preset, model, 2);
  plan.global_batch = 2 * std::int64_t{plan.dp};
  plan.precision = precision;
  const auto valid = ValidatePlan(plan, model);
  if (!valid.has_value()) {
    GTEST_SKIP() << "preset " << preset.name
                 << " has no such plan of two ranks: " << valid.error().message
                 << "; every other preset runs";
  }
  ExpectTrainsAsOnTheCpu(model, plan, tolerance);
}

}  // namespace foretrain
