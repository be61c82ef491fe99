#include "sim/program/link_arena.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "base/checked.h"
#include "base/result.h"

namespace foretrain {
namespace {

std::int64_t Aligned(std::int64_t bytes) {
  return std::max<std::int64_t>(CeilDiv(bytes, kArenaAlignment), 1) * kArenaAlignment;
}

}  // namespace

std::int64_t ArenaPlanner::Grow(std::vector<FreeRange>& ranges, std::int64_t bytes) {
  std::int64_t begin = top_;
  if (!ranges.empty() && ranges.back().end == top_) {
    begin = ranges.back().begin;
    ranges.pop_back();
  }
  top_ = begin + bytes;
  return begin;
}

std::int64_t ArenaPlanner::Take(std::int64_t bytes, int pool, std::uint8_t lane) {
  FT_CHECK(bytes >= 0);
  std::vector<FreeRange>& ranges = pools_[static_cast<std::size_t>(pool)];
  const std::int64_t size = Aligned(bytes);
  const LaneSet own = LaneSet{1} << lane;
  const auto order = [own](const FreeRange& range) {
    const bool waits = (range.used_by & ~own) != 0;
    return std::tuple(range.end - range.begin, waits, range.when);
  };
  auto best = ranges.end();
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    if (range->end - range->begin < size) continue;
    if (best == ranges.end() || order(*range) < order(*best)) best = range;
  }
  if (best == ranges.end()) return Grow(ranges, size);
  const std::int64_t begin = best->begin;
  best->begin += size;
  if (best->begin == best->end) ranges.erase(best);
  return begin;
}

void ArenaPlanner::Give(std::int64_t begin, std::int64_t bytes, int pool, LaneSet used_by,
                        std::int32_t when) {
  std::vector<FreeRange>& ranges = pools_[static_cast<std::size_t>(pool)];
  FreeRange freed{begin, begin + Aligned(bytes), used_by, when};
  const auto join = [&freed](const FreeRange& neighbour) {
    freed.begin = std::min(freed.begin, neighbour.begin);
    freed.end = std::max(freed.end, neighbour.end);
    freed.used_by |= neighbour.used_by;
    freed.when = std::max(freed.when, neighbour.when);
  };
  auto next = std::lower_bound(
      ranges.begin(), ranges.end(), begin,
      [](const FreeRange& range, std::int64_t address) { return range.begin < address; });
  const bool joins_next = next != ranges.end() && next->begin == freed.end;
  if (joins_next) join(*next);
  if (next != ranges.begin() && std::prev(next)->end == freed.begin) {
    const auto previous = std::prev(next);
    join(*previous);
    *previous = freed;
    if (joins_next) ranges.erase(next);
  } else if (joins_next) {
    *next = freed;
  } else {
    ranges.insert(next, freed);
  }
}

}  // namespace foretrain
