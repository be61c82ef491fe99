#include "sim/program/lower/rank/rank_class.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/sim/models.h"

namespace foretrain {
namespace {

Plan Sharded() {
  Plan plan;
  plan.dp = 4;
  plan.zero_stage = 1;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  return plan;
}

std::size_t CountOf(const std::vector<std::int32_t>& representatives) {
  return std::set<std::int32_t>(representatives.begin(), representatives.end()).size();
}

// One of the four shards holds the border between decayed parameters and others, so it differs.
TEST(RankClass, TellsShardsApart) {
  const auto classes = Representatives(SmallGpt(), Sharded(), RankChoice::kClasses);
  EXPECT_GT(CountOf(classes), 1U);
}

// A class plays 2 passes of each block for each of 8,000 micro-batches, more than all classes
// together may.
TEST(RankClass, IsTheStageIfClassesWouldPlayTooManyPasses) {
  Plan plan = Sharded();
  plan.global_batch *= 8000;
  const auto classes = Representatives(SmallGpt(), plan, RankChoice::kClasses);
  EXPECT_EQ(classes, Representatives(SmallGpt(), plan, RankChoice::kFirst));
  EXPECT_EQ(CountOf(classes), 1U);
}

}  // namespace
}  // namespace foretrain
