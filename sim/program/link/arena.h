// Allocates buffers in one address range as their lifetimes begin and end. link/layout.h decides
// the order and who may share memory with whom.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

inline constexpr std::int64_t kArenaAlignment = 256;
// Alignment of direct reads and writes of a disk.
inline constexpr std::int64_t kPageAlignment = 4096;

// `bytes` rounded up to a multiple of `alignment`, at least one unit. Requires bytes >= 0 and
// alignment > 0.
std::int64_t AlignedBytes(std::int64_t bytes, std::int64_t alignment);

// A set of queues: one bit per lane of FlatStep (link/step.h).
using LaneSet = std::uint32_t;

// Rule by which Take picks one of several free ranges.
enum class Fit {
  kSmallest,  // the smallest that holds it; among equals one that only its own queue used last (no
              // wait), then the one free for longest, then the lowest
  kLowest,
  kHighest,  // the highest that holds it, at its upper end
};

// Each free range belongs to a pool, and no range moves between pools: buffers taken from two pools
// never share memory. Adjacent free ranges of a pool are merged. All sizes are rounded up to
// `alignment`. Each operation costs O(free ranges of the pool).
class ArenaPlanner {
 public:
  // Requires `alignment` > 0.
  explicit ArenaPlanner(int pools, std::int64_t alignment = kArenaAlignment)
      : alignment_(alignment), pools_(static_cast<std::size_t>(pools)) {}

  // Returns the address of `bytes` for an op of `lane`: in a free range of the pool that holds
  // them, otherwise at the end of the arena, which grows.
  std::int64_t Take(std::int64_t bytes, int pool, std::uint8_t lane, Fit fit);

  // Returns a range that Take gave. `used_by`: lanes of the accesses that the next user of the
  // range must wait for. `when`: a number that grows with time.
  void Give(std::int64_t begin, std::int64_t bytes, int pool, LaneSet used_by, std::int32_t when);

  // Returns the address of memory that no buffer has used.
  std::int64_t TakeFresh(std::int64_t bytes);

  // End of the highest range ever taken.
  std::int64_t HighWater() const { return top_; }

 private:
  struct FreeRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    LaneSet used_by = 0;
    std::int32_t when = 0;  // latest time at which one of its parts was freed

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
