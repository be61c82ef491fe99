// Places buffers in one address range as their lives begin and end. Leaves out when that is and who
// may share with whom: link_layout.h.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

inline constexpr std::int64_t kArenaAlignment = 256;
// Where direct reads and writes of a disk begin and end.
inline constexpr std::int64_t kPageAlignment = 4096;

// Bytes that a buffer takes there: at least one unit of `alignment` > 0. For bytes >= 0.
std::int64_t AlignedBytes(std::int64_t bytes, std::int64_t alignment);

// Queues as one bit a lane (link_step.h).
using LaneSet = std::uint32_t;

// Which of several free ranges a buffer goes to.
enum class Fit {
  kSmallest,  // that holds it; of equals, first one that its queue alone used last, so that the
              // reuse waits for nothing, then the one that has been free for longest, then the
              // lowest
  kLowest,
  kHighest,  // and there to its upper end
};

// Free ranges lie in pools, between which no range passes: who wants two groups of buffers never to
// share memory takes and gives from two pools. Neighbouring free ranges of a pool are one. All
// sizes are rounded up to `alignment`. An operation costs O(free ranges of the pool).
class ArenaPlanner {
 public:
  // `alignment` > 0.
  explicit ArenaPlanner(int pools, std::int64_t alignment = kArenaAlignment)
      : alignment_(alignment), pools_(static_cast<std::size_t>(pools)) {}

  // Address of a range of `bytes` for an op of `lane`: in a free range that holds it, or, where
  // none does, at the end of the arena, which grows.
  std::int64_t Take(std::int64_t bytes, int pool, std::uint8_t lane, Fit fit);

  // Gives back what Take gave. `used_by`: lanes of the accesses that a next user of the range must
  // wait for; `when`: a number that grows with time.
  void Give(std::int64_t begin, std::int64_t bytes, int pool, LaneSet used_by, std::int32_t when);

  // Memory that nobody has used.
  std::int64_t TakeFresh(std::int64_t bytes);

  // End of the highest range ever taken.
  std::int64_t HighWater() const { return top_; }

 private:
  struct FreeRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    LaneSet used_by = 0;
    std::int32_t when = 0;  // the latest of its parts

    std::int64_t Size() const { return end - begin; }
  };
  using Ranges = std::vector<FreeRange>;  // sorted by address

  static Ranges::iterator FindSmallest(Ranges& ranges, std::int64_t size, std::uint8_t lane);
  static Ranges::iterator Find(Ranges& ranges, std::int64_t size, std::uint8_t lane, Fit fit);
  std::int64_t Aligned(std::int64_t bytes) const { return AlignedBytes(bytes, alignment_); }
  Ranges& PoolAt(int pool) { return pools_[static_cast<std::size_t>(pool)]; }

  std::int64_t alignment_;
  std::vector<Ranges> pools_;
  std::int64_t top_ = 0;
};

}  // namespace foretrain
