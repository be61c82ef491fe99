#include "sim/program/link/arena.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/result.h"

namespace foretrain {
namespace {

// Whether an op of `lane` that takes the range would wait for another lane.
bool Waits(LaneSet used_by, std::uint8_t lane) { return (used_by & ~(LaneSet{1} << lane)) != 0; }

}  // namespace

std::int64_t AlignedBytes(std::int64_t bytes, std::int64_t alignment) {
  FT_CHECK(bytes >= 0);
  return std::max<std::int64_t>(CeilDiv(bytes, alignment), 1) * alignment;
}

ArenaPlanner::Ranges::iterator ArenaPlanner::FindSmallest(Ranges& ranges, std::int64_t size,
                                                          std::uint8_t lane) {
  // One pass without early exit: an exact fit further up beats a larger range below, and ties are
  // decided by who used the range last.
  const auto order = [lane](const FreeRange& range) {
    return std::pair(Waits(range.used_by, lane), range.when);
  };
  auto best = ranges.end();
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    const std::int64_t holds = range->Size();
    if (holds < size || holds > min) continue;
    if (holds == min && best != ranges.end() && order(*range) >= order(*best)) continue;
    best = range;
    min = holds;
  }
  return best;
}

ArenaPlanner::Ranges::iterator ArenaPlanner::Find(Ranges& ranges, std::int64_t size,
                                                  std::uint8_t lane, Fit fit) {
  const auto holds = [size](const FreeRange& range) { return range.Size() >= size; };
  if (fit == Fit::kSmallest) return FindSmallest(ranges, size, lane);
  if (fit == Fit::kLowest) return std::find_if(ranges.begin(), ranges.end(), holds);
  const auto found = std::find_if(ranges.rbegin(), ranges.rend(), holds);
  return found == ranges.rend() ? ranges.end() : std::prev(found.base());
}

std::int64_t ArenaPlanner::TakeFresh(std::int64_t bytes) {
  const std::int64_t begin = top_;
  top_ += Aligned(bytes);
  return begin;
}

// Best case: a free range of the pool holds the buffer. If none does and the last free range
// touches the end of the arena, that range grows, so only the missing bytes are added. Otherwise
// the buffer goes to fresh memory.
std::int64_t ArenaPlanner::Take(std::int64_t bytes, int pool, std::uint8_t lane, Fit fit) {
  Ranges& ranges = PoolAt(pool);
  const std::int64_t size = Aligned(bytes);
  const auto found = Find(ranges, size, lane, fit);
  if (found != ranges.end()) {
    const std::int64_t begin = fit == Fit::kHighest ? found->end - size : found->begin;
    if (fit == Fit::kHighest) {
      found->end -= size;
    } else {
      found->begin += size;
    }
    if (found->Size() == 0) ranges.erase(found);
    return begin;
  }
  if (!ranges.empty() && ranges.back().end == top_) {
    const std::int64_t begin = ranges.back().begin;
    ranges.pop_back();
    top_ = begin + size;
    return begin;
  }
  return TakeFresh(size);
}

// Merges the freed range with its neighbours, so that two adjacent ranges are never both in the
// pool. A merged range keeps the union of lanes and the latest time of its parts: a next user waits
// for all of them.
void ArenaPlanner::Give(std::int64_t begin, std::int64_t bytes, int pool, LaneSet used_by,
                        std::int32_t when) {
  Ranges& ranges = PoolAt(pool);
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
  // The new range may close the gap between its two neighbours; then three become one.
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
