#include "base/checked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

TEST(CeilDiv, RoundsUp) {
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(7, 4), 2);
  EXPECT_EQ(CeilDiv(8, 4), 2);
}

TEST(CheckedMul, MultipliesUpToTheLimit) {
  const auto product = CheckedMul("weights", std::int64_t{1} << 28, std::int64_t{1} << 28);
  ASSERT_TRUE(product.has_value());
  EXPECT_EQ(*product, kMaxProduct);
}

TEST(CheckedMul, NamesWhatDoesNotFit) {
  for (const auto& product : {CheckedMul("weights", kMaxProduct, 2), CheckedMul("weights", -1, 2),
                              CheckedMul("weights", INT64_MAX, INT64_MAX)}) {
    ASSERT_FALSE(product.has_value());
    EXPECT_EQ(product.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(product.error().message, testing::HasSubstr("weights"));
  }
}

}  // namespace
}  // namespace foretrain
