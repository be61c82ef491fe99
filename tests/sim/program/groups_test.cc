#include "sim/program/ir/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two of each degree: rank = 8 pp + 4 dp + 2 cp + tp.
Plan TwoOfEach() {
  Plan plan;
  plan.pp = plan.dp = plan.cp = plan.tp = 2;
  return plan;
}
constexpr RankCoordinates kEleven{.pp = 1, .dp = 0, .cp = 1, .tp = 1};  // 8 + 2 + 1

TEST(Groups, NumberRanksTensorThenContextThenDataThenPipeline) {
  EXPECT_EQ(RankOf(TwoOfEach(), kEleven), 11);
  std::vector<int> ranks;
  for (const RankCoordinates& at : RanksOfStage(TwoOfEach(), 1)) {
    ranks.push_back(RankOf(TwoOfEach(), at));
  }
  EXPECT_THAT(ranks, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

TEST(Groups, HoldTheRanksThatDifferInTheirOwnCoordinates) {
  const Plan plan = TwoOfEach();
  const auto members = [&](GroupKind kind) { return GroupMembers(plan, kEleven, kind); };
  EXPECT_THAT(members(GroupKind::kNone), IsEmpty());
  EXPECT_THAT(members(GroupKind::kTp), ElementsAre(10, 11));
  EXPECT_THAT(members(GroupKind::kCp), ElementsAre(9, 11));
  EXPECT_THAT(members(GroupKind::kDp), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(members(GroupKind::kShard), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(members(GroupKind::kReplica), ElementsAre(11));
  EXPECT_THAT(members(GroupKind::kEnds), ElementsAre(3, 11));
  EXPECT_THAT(members(GroupKind::kPrev), ElementsAre(3, 11));
  EXPECT_THAT(members(GroupKind::kNext), IsEmpty());
  EXPECT_THAT(members(GroupKind::kDpPp), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(members(GroupKind::kTpPp), ElementsAre(2, 3, 10, 11));
  EXPECT_EQ(members(GroupKind::kWorld).size(), 16U);
}

// Six tensor-parallel ranks and two key/value heads: 0 1 2 have the first one. With as many heads
// as ranks each has its own.
TEST(Groups, OfCopiesHaveTheSameHeadOfKeysAndValues) {
  Plan plan;
  plan.tp = 6;
  plan.dp = 2;
  const RankCoordinates at{.dp = 1, .tp = 4};
  EXPECT_THAT(GroupMembers(plan, at, GroupKind::kKvCopies, 2), ElementsAre(9, 10, 11));
  EXPECT_THAT(GroupMembers(plan, {.tp = 2}, GroupKind::kKvCopies, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(GroupMembers(plan, at, GroupKind::kKvCopies, 1), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(GroupMembers(plan, at, GroupKind::kKvCopies, 6), IsEmpty());
  EXPECT_THAT(GroupMembers(plan, at, GroupKind::kKvCopies, 12), IsEmpty());
}

// Six data-parallel ranks in two replicas: ranks 0 1 2 share one set of shards, 3 4 5 the other.
TEST(Groups, OfReplicasHoldOneOfEachSetOfShards) {
  Plan plan;
  plan.dp = 6;
  plan.replicas = 2;
  const RankCoordinates four{.dp = 4};
  EXPECT_THAT(GroupMembers(plan, four, GroupKind::kShard), ElementsAre(3, 4, 5));
  EXPECT_THAT(GroupMembers(plan, four, GroupKind::kReplica), ElementsAre(1, 4));
  EXPECT_EQ(DataPlaceOf(plan, four).shard, 1);
  EXPECT_EQ(DataPlaceOf(plan, four).replica, 1);
}

// Four ranks a stage: e = 0..3, one tensor-parallel rank each.
TEST(Groups, DealExpertsToNeighboursOfAStage) {
  Plan plan;
  plan.dp = plan.cp = plan.pp = 2;
  plan.ep = 2;
  const RankCoordinates six{.pp = 1, .dp = 1, .cp = 0};  // e = 2
  EXPECT_THAT(GroupMembers(plan, six, GroupKind::kEp), ElementsAre(6, 7));
  EXPECT_THAT(GroupMembers(plan, six, GroupKind::kExpertDp), ElementsAre(4, 6));
}

// dp 2, tp 2: whole experts on each tensor-parallel rank (f = 0..3), or halves of them (e = 0, 1).
TEST(Groups, DealExpertsOverTensorParallelRanksWhereExpertsAreNotSplit) {
  Plan plan;
  plan.dp = plan.tp = plan.ep = 2;
  const RankCoordinates two{.dp = 1, .tp = 0};
  EXPECT_THAT(GroupMembers(plan, two, GroupKind::kEp), ElementsAre(0, 2));
  EXPECT_THAT(GroupMembers(plan, two, GroupKind::kExpertDp), ElementsAre(2));
  plan.expert_tp = 1;
  EXPECT_THAT(GroupMembers(plan, two, GroupKind::kEp), ElementsAre(2, 3));
  EXPECT_THAT(GroupMembers(plan, two, GroupKind::kExpertDp), ElementsAre(0, 2));
}

// Under DualPipe ranks 1 and 2 of four hold the same two stages, and so do 0 and 3.
TEST(Groups, JoinBothHoldersOfAStageUnderDualPipe) {
  Plan plan;
  plan.pp = 4;
  plan.dp = 2;
  plan.schedule = ScheduleKind::kDualPipe;
  EXPECT_EQ(plan.DataParallel(), 4);
  EXPECT_EQ(plan.Shards(), 4);
  const RankCoordinates five{.pp = 2, .dp = 1};
  EXPECT_THAT(GroupMembers(plan, five, GroupKind::kDp), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(DataPlaceOf(plan, five).shard, 3);
  EXPECT_THAT(GroupMembers(plan, five, GroupKind::kExpertDp), ElementsAre(2, 3, 4, 5));
  plan.replicas = 2;
  EXPECT_THAT(GroupMembers(plan, five, GroupKind::kShard), ElementsAre(4, 5));
  EXPECT_THAT(GroupMembers(plan, five, GroupKind::kReplica), ElementsAre(3, 5));
  plan.pp = 1;  // alone, a rank has no partner
  EXPECT_EQ(plan.DataParallel(), 2);
}

// For any sizes, the groups of a kind contain each rank once, and all members agree on them.
TEST(Groups, PartitionTheRanks) {
  for (int mask = 0; mask < 64; ++mask) {
    Plan plan;
    const auto size = [mask](int bit, int more) { return (mask >> bit & 1) != 0 ? more : 1; };
    plan.tp = size(0, 2), plan.cp = size(1, 3), plan.dp = size(2, 4), plan.pp = size(3, 4);
    plan.schedule = size(4, 2) == 2 ? ScheduleKind::kDualPipe : ScheduleKind::k1f1b;
    plan.ep = size(2, 2), plan.replicas = size(2, 2), plan.expert_tp = size(5, 2) - 1;
    std::set<int> ranks;
    for (int pp = 0; pp < plan.pp; ++pp) {
      for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
        ranks.insert(RankOf(plan, at));
        for (int kind = 1; kind < kGroupKindCount; ++kind) {
          const auto group = static_cast<GroupKind>(kind);
          if (!MembersAreAlike(group)) continue;
          // A single key/value head that one rank has to itself.
          if (group == GroupKind::kKvCopies && plan.tp == 1) continue;
          const std::vector<int> members = GroupMembers(plan, at, group, /*kv_heads=*/1);
          ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
          ASSERT_EQ(std::count(members.begin(), members.end(), RankOf(plan, at)), 1);
          for (const int member : members) {
            const int tp = member % plan.tp, cp = member / plan.tp % plan.cp;
            const int dp = member / plan.tp / plan.cp % plan.dp;
            const RankCoordinates other{member / (plan.tp * plan.cp * plan.dp), dp, cp, tp};
            ASSERT_EQ(GroupMembers(plan, other, group, /*kv_heads=*/1), members) << Name(group);
          }
        }
      }
    }
    EXPECT_EQ(static_cast<int>(ranks.size()), plan.World());
    EXPECT_EQ(*ranks.rbegin(), plan.World() - 1);
  }
}

}  // namespace
}  // namespace foretrain
