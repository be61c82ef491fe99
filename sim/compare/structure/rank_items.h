// The ops of a forecast and the kernels of a trace as items of an alignment: rank by rank, in lanes
// that each ran in one order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/compare/structure/align.h"
#include "sim/compare/structure/name_topics.h"
#include "traces/timeline.h"

namespace foretrain {

// All compute is one lane, as are copies and each class of communication. Ops of the host have
// none.
inline constexpr int kLanes = kOpClassCount;

// One op or call of one rank: all its spans.
struct Work {
  OpId op = kNoOp;
  std::int64_t start_ns = 0, end_ns = 0;  // of the first span, and of the last
  std::int64_t busy_ns = 0;
  std::int64_t bytes = 0;
  int spans = 0;
  OpClass op_class = OpClass::kMemoryBound;
};

using Lanes = std::array<std::vector<Work>, kLanes>;

// The work of each rank in one step, each lane by start. An instruction that is known as a whole
// alone is left out.
std::map<int, Lanes> WorkByRank(const Timeline& timeline, int step);

// The names of a timeline's ops: each is looked at once, and numbered.
class NameCache {
 public:
  using ReadFacts = NameFacts (*)(std::string_view);

  // Borrows the timeline, whose names must stay.
  NameCache(const Timeline& timeline, ReadFacts read) : timeline_(timeline), read_(read) {}

  struct Entry {
    NameFacts facts{};
    int name = -1;  // equal for equal names; -1: it has none
    int kind = -1;  // equal for equal names in one pass
    int word = -1;  // equal for names in one pass whose last parts are equal, as "residual"
  };
  const Entry& Of(OpId op);

 private:
  const Timeline& timeline_;
  ReadFacts read_;
  std::unordered_map<OpId, Entry> entries_;
  std::map<std::string, int> names_;
  std::map<std::pair<Pass, std::string>, int> kinds_, words_;
};

// One item for each work.
std::vector<AlignedItem> ItemsOf(const std::vector<Work>& works, NameCache& names);

// Kernels, or operators of the host each with all that run within it (operator_calls.h).
struct TracedItems {
  std::vector<AlignedItem> items;
  std::vector<std::size_t> item_of;  // of each work
};
TracedItems TracedItemsOf(const std::vector<Work>& works, NameCache& names);

}  // namespace foretrain
