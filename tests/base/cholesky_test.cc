#include "base/numeric/cholesky.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// [[4, 2], [2, 5]] = L L^T with L = [[2, 0], [1, 2]].
// [4 2; 2 5] [1; 2] = [8; 12].
TEST(Cholesky, SolvesASystem) {
  const auto factor = Cholesky::Of({4, 0, 2, 5}, 2);
  ASSERT_TRUE(factor.has_value());
  std::vector<double> b = {8, 12};
  factor->Solve(b);
  EXPECT_THAT(b, ElementsAre(DoubleNear(1, 1e-12), DoubleNear(2, 1e-12)));
}

// L y = [2; 5]: y = [1; 2]. |y|^2 = 5 = [2 5] [4 2; 2 5]^-1 [2; 5].
TEST(Cholesky, ForwardGivesTheQuadraticForm) {
  const auto factor = Cholesky::Of({4, 0, 2, 5}, 2);
  ASSERT_TRUE(factor.has_value());
  std::vector<double> b = {2, 5};
  factor->Forward(b);
  EXPECT_THAT(b, ElementsAre(DoubleNear(1, 1e-12), DoubleNear(2, 1e-12)));
}

TEST(Cholesky, RefusesAMatrixThatIsNotPositiveDefinite) {
  EXPECT_FALSE(Cholesky::Of({1, 0, 2, 1}, 2).has_value());
  EXPECT_FALSE(Cholesky::Of({0}, 1).has_value());
}

}  // namespace
}  // namespace foretrain
