// Tokens chosen by their logits, against probabilities by hand.
#include "runtime/generation/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace foretrain {
namespace {

constexpr int kDraws = 20'000;

// Share of each id in kDraws draws.
std::array<double, 4> Shares(const std::array<float, 4>& logits, const Sampling& sampling) {
  std::array<double, 4> shares{};
  for (int i = 0; i < kDraws; ++i) {
    const auto token = ChooseToken(logits, sampling, i);
    EXPECT_TRUE(token.has_value());
    shares.at(static_cast<std::size_t>(*token)) += 1;
  }
  for (double& share : shares) share /= kDraws;
  return shares;
}

// Four standard deviations of a share p of n draws: sqrt(p (1 - p) / n).
void ExpectShares(const std::array<double, 4>& shares, const std::array<double, 4>& expected) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double p = expected.at(i);
    EXPECT_NEAR(shares.at(i), p, 4 * std::sqrt(p * (1 - p) / kDraws)) << i;
  }
}

// Probabilities 0.1, 0.5, 0.1 and 0.3, in no order.
const std::array<float, 4> kLogits = {std::log(0.1F), std::log(0.5F), std::log(0.1F),
                                      std::log(0.3F)};

TEST(Sampling, TakesTheLargestLogitAtTemperatureZero) {
  EXPECT_EQ(*ChooseToken(kLogits, Sampling(), 0), 1);
  EXPECT_EQ(*ChooseToken(std::array{1.0F, 3.0F, 3.0F}, Sampling(), 0), 1) << "the first of two";
}

TEST(Sampling, DrawsByProbability) {
  ExpectShares(Shares(kLogits, {.temperature = 1}), {0.1, 0.5, 0.1, 0.3});
}

// Probabilities to the power 1 / 0.5: 0.01, 0.25, 0.01 and 0.09 of 0.36.
TEST(Sampling, DividesLogitsByTheTemperature) {
  ExpectShares(Shares(kLogits, {.temperature = 0.5}),
               {0.01 / 0.36, 0.25 / 0.36, 0.01 / 0.36, 0.09 / 0.36});
}

TEST(Sampling, KeepsTheMostProbableTokens) {
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_k = 2}), {0, 0.5 / 0.8, 0, 0.3 / 0.8});
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_k = 1}), {0, 1, 0, 0});
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_k = 9}), {0.1, 0.5, 0.1, 0.3});
  // 0.5 reaches 0.4 alone; 0.5 and 0.3 reach 0.6; with one token of 0.1 they reach 0.85, and of
  // two equal ones the smaller id comes first.
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_p = 0.4}), {0, 1, 0, 0});
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_p = 0.6}), {0, 0.5 / 0.8, 0, 0.3 / 0.8});
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_p = 0.85}),
               {0.1 / 0.9, 0.5 / 0.9, 0, 0.3 / 0.9});
  // The limit of probability counts within the two kept tokens: 0.625 reaches 0.6.
  ExpectShares(Shares(kLogits, {.temperature = 1, .top_k = 2, .top_p = 0.6}), {0, 1, 0, 0});
}

TEST(Sampling, DrawsTheSameTokensForOneSeed) {
  std::vector<std::int32_t> first, again, other;
  for (int i = 0; i < 64; ++i) {
    first.push_back(*ChooseToken(kLogits, {.temperature = 1, .seed = 3}, i));
    again.push_back(*ChooseToken(kLogits, {.temperature = 1, .seed = 3}, i));
    other.push_back(*ChooseToken(kLogits, {.temperature = 1, .seed = 4}, i));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Sampling, IsNotUpsetByLargeLogits) {
  const std::array<float, 2> logits = {1e30F, -1e30F};
  EXPECT_EQ(*ChooseToken(logits, {.temperature = 0.1}, 5), 0);
}

TEST(Sampling, RefusesLogitsThatAreNotFinite) {
  const std::array<float, 2> logits = {1, std::numeric_limits<float>::quiet_NaN()};
  const auto token = ChooseToken(logits, Sampling(), 7);
  ASSERT_FALSE(token.has_value());
  EXPECT_EQ(token.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(token.error().message, testing::HasSubstr("position 7: the logit of token 1 is nan"));
}

}  // namespace
}  // namespace foretrain
