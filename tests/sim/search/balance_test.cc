#include "sim/search/space/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace foretrain {
namespace {

using testing::ElementsAre;

TEST(BalanceLayers, DealsEvenlyWhereEndsWeighNothing) {
  EXPECT_THAT(BalanceLayers(8, 4, 0, 1, 0), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(BalanceLayers(10, 4, 0, 1, 0), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(BalanceLayers(5, 1, 1, 1, 1), ElementsAre(5));
}

// 12 layers and a head of 3: 15 over 4 stages are 4, 4, 4 and 0 + 3, and each has a layer.
TEST(BalanceLayers, GivesTheStageWithTheHeadFewerLayers) {
  EXPECT_THAT(BalanceLayers(12, 4, 0, 1, 3), ElementsAre(3, 4, 4, 1));
  EXPECT_THAT(BalanceLayers(12, 2, 0, 1, 4), ElementsAre(8, 4));
  // A head longer than all layers leaves it one.
  EXPECT_THAT(BalanceLayers(6, 3, 0, 1, 100), ElementsAre(2, 3, 1));
}

double Longest(const std::vector<int>& layers, double embedding_s, double head_s) {
  double longest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    longest = std::max(
        longest, layers[i] + (i == 0 ? embedding_s : 0) + (i + 1 == layers.size() ? head_s : 0));
  }
  return longest;
}

// Shortest longest stage over every distribution of `layers` to the stages from `stage` on.
double Best(std::vector<int>& layers, std::size_t stage, int left, double embedding_s,
            double head_s) {
  if (stage + 1 == layers.size()) {
    layers[stage] = left;
    return Longest(layers, embedding_s, head_s);
  }
  double best = std::numeric_limits<double>::infinity();
  const int behind = static_cast<int>(layers.size() - stage) - 1;
  for (int n = 1; n <= left - behind; ++n) {
    layers[stage] = n;
    best = std::min(best, Best(layers, stage + 1, left - n, embedding_s, head_s));
  }
  return best;
}

TEST(BalanceLayers, IsAsShortAsAnyDeal) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> weight(0, 5);
  for (int i = 0; i < 300; ++i) {
    const int stages = 1 + static_cast<int>(random() % 4);
    const int layers = stages + static_cast<int>(random() % 9);
    const double embedding_s = weight(random), head_s = weight(random);
    const std::vector<int> dealt = BalanceLayers(layers, stages, embedding_s, 1, head_s);
    int sum = 0;
    for (const int n : dealt) {
      EXPECT_GE(n, 1);
      sum += n;
    }
    EXPECT_EQ(sum, layers);
    std::vector<int> any(static_cast<std::size_t>(stages));
    EXPECT_NEAR(Longest(dealt, embedding_s, head_s), Best(any, 0, layers, embedding_s, head_s),
                1e-9)
        << layers << " layers, " << stages << " stages, " << embedding_s << " " << head_s;
  }
}

}  // namespace
}  // namespace foretrain
