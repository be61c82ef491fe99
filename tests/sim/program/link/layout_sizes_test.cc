#include "sim/program/lower/layout/layout_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// Programs use whole layouts; layouts of sizes alone must agree with them in everything but
// offsets.
TEST(LayoutSizes, AreThoseOfWholeLayouts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RealisticPlan drawn = RealisticPlanOf(seed);
    const ParameterSizes sizes = SizesOf(drawn.model, drawn.plan);
    for (int pp = 0; pp < drawn.plan.pp; ++pp) {
      const Stage stage = StageOf(drawn.model, drawn.plan, pp);
      const BucketLayout whole = LayOutBuckets(drawn.model, drawn.plan, stage, {.pp = pp});
      const BucketLayout of_sizes = LayOutSizes(sizes, drawn.plan, stage, {.pp = pp});
      EXPECT_FALSE(whole.places.empty());
      EXPECT_TRUE(of_sizes.places.empty());
      EXPECT_EQ(of_sizes.tied_bucket, whole.tied_bucket);
      EXPECT_EQ(of_sizes.buckets_of_block, whole.buckets_of_block);
      ASSERT_EQ(of_sizes.buckets.size(), whole.buckets.size());
      using Place = std::pair<int, std::int64_t>;
      std::set<Place> tensors;  // a shared table has two ranges in one place
      for (const auto& block : whole.ranges) {
        for (const ParameterRange& range : block) {
          if (range.bucket >= 0) tensors.emplace(range.bucket, range.offset);
        }
      }
      for (std::size_t i = 0; i < whole.buckets.size(); ++i) {
        const Bucket &a = whole.buckets[i], &b = of_sizes.buckets[i];
        EXPECT_EQ(b.elements, a.elements);
        EXPECT_EQ(b.used, a.used);
        EXPECT_EQ(b.decayed, a.decayed);
        EXPECT_EQ(b.tensors, a.tensors);
        EXPECT_EQ(a.tensors, std::ranges::count(tensors, static_cast<int>(i), &Place::first));
        EXPECT_EQ(b.shards, a.shards);
        EXPECT_EQ(b.experts, a.experts);
        EXPECT_EQ(b.frozen, a.frozen);
        EXPECT_EQ(of_sizes.own_row_gradients[i].begin, whole.own_row_gradients[i].begin);
        EXPECT_EQ(of_sizes.own_row_gradients[i].end, whole.own_row_gradients[i].end);
        ASSERT_EQ(of_sizes.counted[i].size(), whole.counted[i].size());
        for (std::size_t r = 0; r < whole.counted[i].size(); ++r) {
          EXPECT_EQ(of_sizes.counted[i][r].begin, whole.counted[i][r].begin);
          EXPECT_EQ(of_sizes.counted[i][r].end, whole.counted[i][r].end);
        }
      }
      for (std::size_t block = 0; block < whole.ranges.size(); ++block) {
        ASSERT_EQ(of_sizes.ranges[block].size(), whole.ranges[block].size());
        for (std::size_t i = 0; i < whole.ranges[block].size(); ++i) {
          EXPECT_EQ(of_sizes.ranges[block][i].bucket, whole.ranges[block][i].bucket);
          EXPECT_EQ(of_sizes.ranges[block][i].offset, whole.ranges[block][i].offset);
          EXPECT_EQ(of_sizes.ranges[block][i].elements, whole.ranges[block][i].elements);
        }
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
