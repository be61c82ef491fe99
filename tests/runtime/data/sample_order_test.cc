#include "runtime/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace foretrain {
namespace {

TEST(SampleOrder, ReadsOneSourceInOrderAgainAndAgain) {
  const SampleOrder order({{.samples = 3}}, /*shuffled=*/false, 0);
  EXPECT_EQ(order.At(0), (SamplePlace{0, 0, 0}));
  EXPECT_EQ(order.At(2), (SamplePlace{0, 2, 0}));
  EXPECT_EQ(order.At(7), (SamplePlace{0, 1, 2}));
}

TEST(SampleOrder, ShufflesEachEpochInAnotherWay) {
  constexpr std::int64_t kSamples = 1000;
  const SampleOrder order({{.samples = kSamples}}, /*shuffled=*/true, 5);
  std::vector<std::int64_t> first, second;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    first.push_back(order.At(i).sample);
    second.push_back(order.At(kSamples + i).sample);
    EXPECT_EQ(order.At(i).epoch, 0);
    EXPECT_EQ(order.At(kSamples + i).epoch, 1);
  }
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), kSamples);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), kSamples);
  EXPECT_NE(first, second);
  EXPECT_NE(first, std::vector(order.At(0).sample, kSamples));
  const SampleOrder again({{.samples = kSamples}}, true, 5),
      other({{.samples = kSamples}}, true, 6);
  EXPECT_EQ(again.At(17), order.At(17));
  int equal = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) equal += other.At(i) == order.At(i) ? 1 : 0;
  // One place in common is expected; ten have a chance of 1e-7.
  EXPECT_LT(equal, 10);
}

// In every prefix of n samples, across a period's end too, a source is less than the number of
// sources away from n times its share, plus the period's rounding.
TEST(SampleOrder, KeepsTheWeightsInEveryPrefix) {
  const std::vector<double> weights{0.7, 0.2, 0.07, 0.03};
  std::vector<OrderedSource> sources;
  for (const double weight : weights) sources.push_back({.samples = 10, .weight = weight});
  const SampleOrder order(sources, false, 0);
  std::vector<double> counts(weights.size(), 0);
  for (std::int64_t i = 0; i < 3 * SampleOrder::kPeriod / 2; ++i) {
    ++counts[static_cast<std::size_t>(order.At(i).source)];
    for (std::size_t s = 0; s < weights.size(); ++s) {
      ASSERT_LT(std::fabs(counts[s] - weights[s] * static_cast<double>(i + 1)), 5.0) << i;
    }
  }
}

// Each source reads its own samples in order, whatever lies between them.
TEST(SampleOrder, ContinuesEachSourceAcrossPeriods) {
  const SampleOrder order({{.samples = 1'000'000, .weight = 2}, {.samples = 7, .weight = 1}}, false,
                          0);
  std::vector<std::int64_t> next{0, 0};
  for (std::int64_t i = 0; i < 2 * SampleOrder::kPeriod + 100; ++i) {
    const SamplePlace at = order.At(i);
    const std::int64_t samples = at.source == 0 ? 1'000'000 : 7;
    const std::int64_t expected = next[static_cast<std::size_t>(at.source)]++;
    ASSERT_EQ(at.sample, expected % samples) << i;
    ASSERT_EQ(at.epoch, expected / samples) << i;
  }
}

TEST(SampleOrder, HasNoPlaceForATinyWeight) {
  const SampleOrder order({{.samples = 1, .weight = 1}, {.samples = 1, .weight = 1e-9}}, false, 0);
  EXPECT_EQ(order.PerPeriod(0), SampleOrder::kPeriod);
  EXPECT_EQ(order.PerPeriod(1), 0);
}

}  // namespace
}  // namespace foretrain
