#include "sim/validate/kernels/fit_terms.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

// seconds = a + b * size, which has both terms visible in the data.
std::vector<double> Fit(const std::vector<double>& sizes, const std::vector<double>& log_s) {
  const std::vector<TermGuess> guesses = {{.value = 1, .known_to = 3}, {.value = 1, .known_to = 3}};
  return FitTerms(
      guesses,
      [&](std::span<const double> terms, std::span<double> out) {
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = std::log(terms[0] + terms[1] * sizes[i]);
        }
      },
      log_s);
}

TEST(FitTerms, FindsTheTermsOfExactData) {
  std::vector<double> sizes, log_s;
  for (double size = 1; size < 1e4; size *= 1.5) {
    sizes.push_back(size);
    log_s.push_back(std::log(20 + 0.3 * size));
  }
  const std::vector<double> terms = Fit(sizes, log_s);
  EXPECT_NEAR(terms[0], 20, 0.5);
  EXPECT_NEAR(terms[1], 0.3, 0.01);
}

// One row in ten is three times too slow; the loss grows only as a logarithm.
TEST(FitTerms, IgnoresOutliers) {
  std::vector<double> sizes, log_s;
  for (int i = 0; i < 60; ++i) {
    sizes.push_back(std::pow(1.2, i));
    log_s.push_back(std::log(20 + 0.3 * sizes.back()) + (i % 10 == 0 ? std::log(3.0) : 0));
  }
  const std::vector<double> terms = Fit(sizes, log_s);
  EXPECT_NEAR(terms[0], 20, 1);
  EXPECT_NEAR(terms[1], 0.3, 0.02);
}

TEST(FitTerms, KeepsATermBelowItsMaximum) {
  const std::vector<TermGuess> guesses = {{.value = 0.5, .max = 1}};
  const std::vector<double> terms = FitTerms(
      guesses,
      [](std::span<const double> at, std::span<double> out) {
        for (double& x : out) x = std::log(at[0]);
      },
      std::vector<double>(20, std::log(3.0)));
  EXPECT_EQ(terms[0], 1);
}

}  // namespace
}  // namespace foretrain
