// Places buffers in one address range, best fit first, as their lives begin and end in issue order.
// Leaves out when that is: link_layout.cc.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

inline constexpr std::int64_t kArenaAlignment = 256;

// Queues as one bit a lane (link_step.h).
using LaneSet = std::uint32_t;

// Free ranges lie in pools, between which no range passes: a caller who wants two groups of buffers
// never to share memory takes and gives from two pools. Neighbouring free ranges of a pool are one.
// An operation costs O(free ranges of the pool).
class ArenaPlanner {
 public:
  explicit ArenaPlanner(int pools) : pools_(static_cast<std::size_t>(pools)) {}

  // Address of a range of `bytes`, rounded up to 256: the smallest free range that holds it; of
  // several, first one that `lane` alone used last, so that the reuse waits for nothing, then the
  // one that has been free for longest, then the lowest. The arena grows where none holds it.
  std::int64_t Take(std::int64_t bytes, int pool, std::uint8_t lane);

  // Gives back what Take gave. `used_by`: lanes of the accesses that a next user of the range must
  // wait for; `when`: a number that grows with time.
  void Give(std::int64_t begin, std::int64_t bytes, int pool, LaneSet used_by, std::int32_t when);

  // End of the highest range ever taken.
  std::int64_t HighWater() const { return top_; }

 private:
  struct FreeRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    LaneSet used_by = 0;
    std::int32_t when = 0;  // the latest of its parts
  };
  std::int64_t Grow(std::vector<FreeRange>& ranges, std::int64_t bytes);

  std::vector<std::vector<FreeRange>> pools_;  // each sorted by address
  std::int64_t top_ = 0;
};

}  // namespace foretrain
