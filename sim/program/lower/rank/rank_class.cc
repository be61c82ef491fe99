#include "sim/program/lower/rank/rank_class.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "sim/program/ir/groups.h"
#include "sim/program/lower/gradients/gradient_norm.h"
#include "sim/program/lower/gradients/partial_gradients.h"
#include "sim/program/lower/rank/rank_builder.h"

namespace foretrain {
namespace {

using Key = std::vector<std::int64_t>;

// Tells ranks of a stage apart, by the part of each bucket that they update, count into the norm
// and sum over tensor parallelism.
Key SizesOf(const LowerContext& context) {
  Key key = {context.at.pp};
  for (int i = 0; i < static_cast<int>(context.layout.buckets.size()); ++i) {
    const Bucket& bucket = context.BucketAt(i);
    const ShardRange shard = ShardOf(bucket);
    const ShardRange own_rows = OwnRowGradients(context, i);
    key.push_back(shard.end - shard.begin);
    key.push_back(std::clamp(bucket.decayed, shard.begin, shard.end) - shard.begin);
    key.push_back(own_rows.end - own_rows.begin);
    for (const ShardRange& range : HeadGradients(context, i)) {
      key.push_back(range.end - range.begin);
    }
    const std::vector<ShardRange> counted = CountedGradients(context, i);
    key.push_back(static_cast<std::int64_t>(counted.size()));
    for (const ShardRange& range : counted) key.push_back(range.end - range.begin);
  }
  return key;
}

struct HashOfKey {
  std::size_t operator()(const Key& key) const {
    StableHash hash;
    for (const std::int64_t part : key) hash.Add(part);
    return static_cast<std::size_t>(hash.Value());
  }
};

// Gives equal keys equal numbers, in the order of their first ranks.
class Numbers {
 public:
  std::int32_t Of(Key key) {
    const auto next = static_cast<std::int32_t>(numbers_.size());
    return numbers_.try_emplace(std::move(key), next).first->second;
  }

 private:
  std::unordered_map<Key, std::int32_t, HashOfKey> numbers_;
};

// Whether SizesOf reads the same of both layouts, but for their shards.
bool HasEqualSizes(const BucketLayout& a, const BucketLayout& b) {
  const auto bucket = [](const Bucket& x) {
    return std::tuple(x.elements, x.used, x.decayed, x.tensors, x.frozen, x.experts, x.shards);
  };
  const auto place = [](const ParameterPlace& x) {
    return std::tuple(x.bucket, x.counted, x.offset, x.copies,
                      (x.row_end - x.row_begin) * (x.col_end - x.col_begin));
  };
  const auto range = [](const ShardRange& x) { return std::pair(x.begin, x.end); };
  return std::ranges::equal(a.buckets, b.buckets, {}, bucket, bucket) &&
         std::ranges::equal(a.places, b.places, {}, place, place) &&
         std::ranges::equal(a.own_row_gradients, b.own_row_gradients, {}, range, range);
}

// Layouts of one stage. Ranks with equal sizes share one, which saves memory and time.
class StageLayouts {
 public:
  StageLayouts(const ModelSpec& model, const Plan& plan, const Stage& stage)
      : model_(model), plan_(plan), stage_(stage) {}

  std::size_t NumberOf(const RankCoordinates& at) {
    const auto [found, is_new] = of_variant_.try_emplace(VariantOf(plan_, at), layouts_.size());
    if (!is_new) return found->second;
    BucketLayout layout = LayOutBuckets(model_, plan_, stage_, at);
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      if (HasEqualSizes(layouts_[i], layout)) return found->second = i;
    }
    layouts_.push_back(std::move(layout));
    return found->second;
  }
  BucketLayout& At(std::size_t number) { return layouts_[number]; }

 private:
  const ModelSpec& model_;
  const Plan& plan_;
  const Stage& stage_;
  std::map<LayoutVariant, std::size_t> of_variant_;
  std::vector<BucketLayout> layouts_;
};

// Initial classes of the ranks of stage `pp`, ascending: ranks with equal sizes share a class.
void AddClassesOfStage(const ModelSpec& model, const Plan& plan, int pp, Numbers& numbers,
                       std::vector<std::int32_t>& classes) {
  const Stage stage = StageOf(model, plan, pp);
  StageLayouts layouts(model, plan, stage);
  // SizesOf depends on this key alone, and few ranks of a stage differ in it.
  std::map<std::tuple<std::size_t, int, int, int>, std::int32_t> known;
  for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
    const std::size_t number = layouts.NumberOf(at);
    const DataPlace place = DataPlaceOf(plan, at);
    const int expert_place = plan.DealsExperts() ? ExpertPlaceOf(plan, at) : 0;
    const auto [found, is_new] =
        known.try_emplace({number, place.shard, place.replica, expert_place});
    if (is_new) {
      MoveShards(plan, at, layouts.At(number));
      found->second = numbers.Of(SizesOf({model, plan, stage, layouts.At(number), at}));
    }
    classes.push_back(found->second);
  }
}

// All groups of all ranks, each once, and the numbers of each rank's groups.
struct Groups {
  std::vector<std::vector<int>> members;
  std::vector<std::vector<std::int32_t>> of_rank;
};

// True for pairs with a pipeline neighbour. A rank is in two such groups of a kind, so members are
// not marked.
bool IsPairOfNeighbours(GroupKind kind) {
  return kind == GroupKind::kNext || kind == GroupKind::kPrev;
}

Groups AllGroups(const ModelSpec& model, const Plan& plan) {
  Groups groups;
  groups.of_rank.resize(static_cast<std::size_t>(plan.World()));
  std::vector<int> known(groups.of_rank.size(), -1);  // last kind whose group the rank has
  for (int number = 0; number < kGroupKindCount; ++number) {
    const auto kind = static_cast<GroupKind>(number);
    for (int pp = 0; pp < plan.pp; ++pp) {
      for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
        const auto rank = static_cast<std::size_t>(RankOf(plan, at));
        if (known[rank] == number) continue;
        std::vector<int> members = GroupMembers(plan, at, kind, model.kv_heads);
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

// Classes that occur in the group, sorted, each once.
Key ClassesIn(const std::vector<int>& members, const std::vector<std::int32_t>& classes) {
  Key found;
  for (const int member : members) found.push_back(classes[static_cast<std::size_t>(member)]);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Number of classes that kMaxClassPasses allows.
std::int64_t MaxClasses(const ModelSpec& model, const Plan& plan) {
  const std::int64_t blocks = model.AllLayers() / plan.pp + 1;
  const std::int64_t passes = 2 * blocks * plan.MicroBatches();
  return std::max<std::int64_t>(plan.pp, kMaxClassPasses / passes);
}

std::int64_t CountOf(const std::vector<std::int32_t>& classes) {
  return classes.empty() ? 0 : *std::max_element(classes.begin(), classes.end()) + 1;
}

// Splits classes until the ranks of each meet the same classes in all their groups (partition
// refinement). It starts from equal sizes and stops when a round splits none. Then ranks of a class
// always wait for the same classes, so one of them can stand for all. Rounds never join classes, so
// it gives up, with an empty result, once there are more than `max`.
std::vector<std::int32_t> Refined(const ModelSpec& model, const Plan& plan,
                                  std::vector<std::int32_t> classes, std::int64_t max) {
  if (CountOf(classes) > max) return {};
  const Groups groups = AllGroups(model, plan);
  for (;;) {
    if (CountOf(classes) > max) return {};
    Numbers meetings, parts;
    std::vector<std::int32_t> meeting, finer;
    for (const auto& members : groups.members)
      meeting.push_back(meetings.Of(ClassesIn(members, classes)));
    for (std::size_t rank = 0; rank < classes.size(); ++rank) {
      Key key = {classes[rank]};
      for (const std::int32_t group : groups.of_rank[rank]) {
        key.push_back(meeting[static_cast<std::size_t>(group)]);
      }
      finer.push_back(parts.Of(std::move(key)));
    }
    if (finer == classes) return classes;
    classes = std::move(finer);
  }
}

}  // namespace

// The first rank of each class represents it, so results do not depend on the order of refinement.
std::vector<std::int32_t> Representatives(const ModelSpec& model, const Plan& plan,
                                          RankChoice choice) {
  std::vector<std::int32_t> representatives;
  if (choice == RankChoice::kAll) return representatives;
  std::vector<std::int32_t> classes;
  if (choice == RankChoice::kClasses) {
    Numbers numbers;
    for (int pp = 0; pp < plan.pp; ++pp) AddClassesOfStage(model, plan, pp, numbers, classes);
    classes = Refined(model, plan, std::move(classes), MaxClasses(model, plan));
  }
  if (classes.empty()) {
    const auto stage = static_cast<std::size_t>(plan.World() / plan.pp);
    for (int pp = 0; pp < plan.pp; ++pp) classes.resize(classes.size() + stage, pp);
  }
  std::vector<std::int32_t> first_of;
  for (std::size_t rank = 0; rank < classes.size(); ++rank) {
    const auto number = static_cast<std::size_t>(classes[rank]);
    if (number == first_of.size()) first_of.push_back(static_cast<std::int32_t>(rank));
    representatives.push_back(first_of[number]);
  }
  return representatives;
}

}  // namespace foretrain
