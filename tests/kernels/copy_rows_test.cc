// Copies of columns between rows of different widths.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CopyRowsTest : public KernelTest {};

TEST_P(CopyRowsTest, CopiesColumnsBetweenRowsOfUnlikeWidth) {
  const Floats from = Random(7 * 5, 1);
  Floats to(7 * 9, kNan);
  Run(api_.copy_rows, FtCopyRows{from.data() + 1, to.data() + 4, 7, 3, 5, 9, FT_F32});
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t row = i / 9, col = i % 9;
    if (col < 4 || col >= 7) {
      EXPECT_TRUE(std::isnan(to[i])) << i;
    } else {
      EXPECT_EQ(to[i], from[row * 5 + 1 + col - 4]) << i;
    }
  }
}

FT_TEST_ALL_VARIANTS(CopyRowsTest);

}  // namespace
}  // namespace foretrain::test
