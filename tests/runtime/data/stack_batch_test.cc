#include "runtime/data/stack_batch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace foretrain {
namespace {

using Ids = std::vector<std::int32_t>;

// Two samples of tokens 1 to 6 and 11 to 16, of which the last is a target only. The encoder reads
// two of five; the decoder predicts three, each from the one before.
TEST(StackBatch, DealsTheTokensOfSamplesToBothStacks) {
  Ids ids = {1, 2, 3, 4, 5, 11, 12, 13, 14, 15}, targets = {2, 3, 4, 5, 6, 12, 13, 14, 15, 16};
  DealToStacks({2, 3}, ids, targets);
  EXPECT_EQ(ids, (Ids{0, 3, 4, 0, 13, 14, 1, 2, 11, 12}));
  EXPECT_EQ(targets, (Ids{3, 4, 5, 13, 14, 15, -1, -1, -1, -1}));
}

// A first stage loads ids alone, a last one targets alone.
TEST(StackBatch, LeavesAnEmptySideEmpty) {
  Ids ids = {1, 2, 3}, targets = {2, 3, 4}, none;
  DealToStacks({1, 2}, ids, none);
  DealToStacks({1, 2}, none, targets);
  EXPECT_EQ(ids, (Ids{0, 2, 1}));
  EXPECT_EQ(targets, (Ids{2, 3, -1}));
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace foretrain
