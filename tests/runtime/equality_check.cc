#include "equality_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "training.h"

namespace foretrain {

void ExpectTrainsAlike(const ModelSpec& model, const Plan& expected_plan, const Plan& plan,
                       double learns) {
  const Trained expected = TrainTiny(model, expected_plan);
  const Trained actual = TrainTiny(model, plan);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_FALSE(expected.losses.empty());
  // Tokens further ahead are guessed likewise, but for the last of a sequence.
  const auto sequence = static_cast<double>(plan.sequence);
  double ahead = 0;
  for (int depth = 1; depth <= model.predict_ahead; ++depth) {
    ahead +=
        model.predict_weight / static_cast<double>(model.predict_ahead) * (1 - depth / sequence);
  }
  ASSERT_NEAR(expected.losses[0], (1 + ahead) * std::log(256.0), 0.2)
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
  TrainingOptions first;
  first.steps = 1;
  EXPECT_LT(LargestDifference(TrainTiny(model, expected_plan, first).gradients,
                              TrainTiny(model, plan, first).gradients),
            kGradientTolerance);
}

}  // namespace foretrain
