#include "sim/program/lower/rank_class.h"

#include <algorithm>
#include <map>

#include "sim/program/groups.h"
#include "sim/program/lower/gradient_norm.h"
#include "sim/program/lower/own_row_gradients.h"
#include "sim/program/lower/rank_builder.h"

namespace foretrain {
namespace {

using Key = std::vector<std::int64_t>;

// What ranks of a stage differ in: what of each bucket they update, count into the norm and sum
// over tensor parallelism.
Key SizesOf(const LowerContext& context) {
  Key key = {context.at.pp};
  for (int i = 0; i < static_cast<int>(context.layout.buckets.size()); ++i) {
    const Bucket& bucket = context.BucketAt(i);
    const ShardRange shard = ShardOf(bucket);
    const ShardRange own_rows = OwnRowGradients(context, i);
    key.push_back(shard.end - shard.begin);
    key.push_back(std::clamp(bucket.decayed, shard.begin, shard.end) - shard.begin);
    key.push_back(own_rows.end - own_rows.begin);
    const std::vector<ShardRange> counted = CountedGradients(context, i);
    key.push_back(static_cast<std::int64_t>(counted.size()));
    for (const ShardRange& range : counted) key.push_back(range.end - range.begin);
  }
  return key;
}

// Numbers equal keys alike, in the order of their first ranks.
std::vector<std::int32_t> Numbered(const std::vector<Key>& keys) {
  std::map<Key, std::int32_t> numbers;
  std::vector<std::int32_t> classes;
  for (const Key& key : keys) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    classes.push_back(numbers.try_emplace(key, next).first->second);
  }
  return classes;
}

// All groups of all ranks, each once, and the numbers of each rank's.
struct Groups {
  std::vector<std::vector<int>> members;
  std::vector<std::vector<std::int32_t>> of_rank;
};

// Members of these pairs have others as well.
bool IsPairOfNeighbours(GroupKind kind) {
  return kind == GroupKind::kNext || kind == GroupKind::kPrev;
}

Groups AllGroups(const Plan& plan) {
  Groups groups;
  groups.of_rank.resize(static_cast<std::size_t>(plan.World()));
  std::vector<int> known(groups.of_rank.size(), -1);  // kinds whose group the rank has
  for (int number = 0; number < kGroupKindCount; ++number) {
    const auto kind = static_cast<GroupKind>(number);
    for (int pp = 0; pp < plan.pp; ++pp) {
      for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
        const auto rank = static_cast<std::size_t>(RankOf(plan, at));
        if (known[rank] == number) continue;
        std::vector<int> members = GroupMembers(plan, at, kind);
        if (members.empty()) continue;
        const auto group = static_cast<std::int32_t>(groups.members.size());
        if (IsPairOfNeighbours(kind)) {
          groups.of_rank[rank].push_back(group);
        } else {
          for (const int member : members) {
            known[static_cast<std::size_t>(member)] = number;
            groups.of_rank[static_cast<std::size_t>(member)].push_back(group);
          }
        }
        groups.members.push_back(std::move(members));
      }
    }
  }
  return groups;
}

// Classes that occur in the group.
Key ClassesIn(const std::vector<int>& members, const std::vector<std::int32_t>& classes) {
  Key found;
  for (const int member : members) found.push_back(classes[static_cast<std::size_t>(member)]);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Parts classes until their ranks meet the same classes in each group.
std::vector<std::int32_t> Refined(const Plan& plan, std::vector<std::int32_t> classes) {
  const Groups groups = AllGroups(plan);
  for (;;) {
    std::vector<Key> in_group;
    for (const auto& members : groups.members) in_group.push_back(ClassesIn(members, classes));
    const std::vector<std::int32_t> meeting = Numbered(in_group);
    std::vector<Key> keys;
    for (std::size_t rank = 0; rank < classes.size(); ++rank) {
      Key key = {classes[rank]};
      for (const std::int32_t group : groups.of_rank[rank]) {
        key.push_back(meeting[static_cast<std::size_t>(group)]);
      }
      keys.push_back(std::move(key));
    }
    std::vector<std::int32_t> finer = Numbered(keys);
    if (finer == classes) return classes;
    classes = std::move(finer);
  }
}

}  // namespace

std::vector<std::int32_t> Representatives(const ModelSpec& model, const Plan& plan,
                                          RankChoice choice) {
  std::vector<std::int32_t> representatives;
  if (choice == RankChoice::kAll) return representatives;
  std::vector<Key> keys;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    std::map<LayoutVariant, BucketLayout> layouts;
    for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
      if (choice == RankChoice::kFirst) {
        keys.push_back({pp});
        continue;
      }
      const auto [found, is_new] = layouts.try_emplace(VariantOf(plan, at));
      BucketLayout& layout = found->second;
      if (is_new) layout = LayOutBuckets(model, plan, stage, at);
      MoveShards(plan, at, layout);
      keys.push_back(SizesOf({model, plan, stage, layout, at}));
    }
  }
  std::vector<std::int32_t> classes = Numbered(keys);
  if (choice == RankChoice::kClasses) classes = Refined(plan, std::move(classes));
  std::vector<std::int32_t> first_of;
  for (std::size_t rank = 0; rank < classes.size(); ++rank) {
    const auto number = static_cast<std::size_t>(classes[rank]);
    if (number == first_of.size()) first_of.push_back(static_cast<std::int32_t>(rank));
    representatives.push_back(first_of[number]);
  }
  return representatives;
}

}  // namespace foretrain
