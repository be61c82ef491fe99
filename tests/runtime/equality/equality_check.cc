#include "tests/runtime/equality/equality_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/training.h"

namespace foretrain {

void ExpectTrainsAlike(const ModelSpec& model, const Plan& expected_plan, const Plan& plan,
                       double learns, std::uint64_t seed) {
  TrainingOptions options;
  options.seed = seed;
  const Trained expected = TrainTiny(model, expected_plan, options);
  const Trained actual = TrainTiny(model, plan, options);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_FALSE(expected.losses.empty());
  // MTP predictions start as random guesses too; the last tokens of a sequence have no target.
  const auto sequence = static_cast<double>(plan.sequence);
  double mtp_loss = 0;
  for (int depth = 1; depth <= model.predict_ahead; ++depth) {
    mtp_loss +=
        model.predict_weight / static_cast<double>(model.predict_ahead) * (1 - depth / sequence);
  }
  // Logits near 0 have a log-sum-exp of ln 256, of which a z-loss adds the weighted square.
  const double guess = std::log(256.0);
  ASSERT_NEAR(expected.losses[0], (1 + mtp_loss) * (guess + model.z_loss * guess * guess), 0.2)
      << "an untrained model guesses";
  EXPECT_LT(expected.losses.back(), expected.losses[0] - learns) << "it does not learn";
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], kLossTolerance * expected.losses[step])
        << "step " << step;
  }
  ASSERT_EQ(actual.squared_norms.size(), plan.clip_norm > 0 ? expected.losses.size() : 0U);
  for (std::size_t step = 0; step < actual.squared_norms.size(); ++step) {
    EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                10 * kLossTolerance * expected.squared_norms[step])
        << "step " << step;
  }
  TrainingOptions first = options;
  first.steps = 1;
  EXPECT_LT(LargestDifference(TrainTiny(model, expected_plan, first).gradients,
                              TrainTiny(model, plan, first).gradients),
            kGradientTolerance);
}

}  // namespace foretrain
