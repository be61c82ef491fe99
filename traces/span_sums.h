// Coarse summary of a long run's timeline. Consecutive spans of a queue are summed in blocks, so
// that the whole run can be drawn before any span is read; memory levels are kept at some moments.
// Stored as an attachment of the run (docs/store.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "traces/timeline.h"

namespace foretrain {

// Kind of work as drawn: the pass for compute, the kind of transfer for the rest.
enum class Work : std::uint8_t {
  kForward,
  kBackward,
  kUpdate,  // separate weight gradients, and the optimizer
  kRecompute,
  kCollective,
  kPointToPoint,
  kCopy,
  kHost,
  kUnnamed,  // compute without an op id
};
inline constexpr int kWorkCount = 9;

// O(1), for any value of `op`.
Work WorkOf(OpId op, OpClass op_class);

struct SpanBlock {
  std::int64_t start_ns = 0;  // start of its first span
  std::int64_t end_ns = 0;    // latest end so far; never decreases from block to block
  std::int32_t spans = 0;
  std::array<float, kWorkCount> busy_ns{};  // by Work, summed

  bool operator==(const SpanBlock&) const = default;
};

// Blocks of one queue of one rank, by time.
struct TrackSums {
  int rank = 0;
  Queue queue = Queue::kCompute;
  std::vector<SpanBlock> blocks{};

  bool operator==(const TrackSums&) const = default;
};

struct SpanSums {
  std::vector<TrackSums> tracks{};  // by (rank, queue)
  // Live memory of each rank at some moments, as samples of those moments, by (rank, time). To read
  // a part of the run's memory samples, start at the moment before it.
  std::vector<MemorySample> levels{};

  std::int64_t Spans() const;
  // Approximate number of spans in [start_ns, end_ns): a block counts by the share of its time
  // inside. O(blocks inside + tracks log).
  std::int64_t SpansIn(double start_ns, double end_ns) const;

  // Levels of the latest moment of `rank` not after `time_ns`; empty if there is none.
  std::span<const MemorySample> LevelsBefore(int rank, std::int64_t time_ns) const;
};

// Runs with fewer spans are drawn from the spans themselves.
inline constexpr std::int64_t kMinSummedSpans = 250'000;
// Name of the attachment that holds a run's sums.
inline constexpr std::string_view kSumsAttachment = "span_sums";

// Builds the sums from spans sorted by (rank, queue, start) and memory samples sorted by (rank,
// time).
class SpanSummer {
 public:
  // `spans`: expected number. Up to 9.6 million spans a block holds 32; beyond that more, so that
  // memory and drawing time stay bounded. A block ends early, from a quarter of its size on, if a
  // gap as long as itself follows, so that gaps stay visible.
  explicit SpanSummer(std::int64_t spans);

  void Add(int rank, Queue queue, std::int64_t start_ns, std::int64_t end_ns, Work work);
  void Add(const MemorySample& sample);
  SpanSums Take();

 private:
  void TakeLevels();

  std::int32_t max_;
  SpanSums sums_;
  // For the current rank: live bytes after the samples so far, the last sample, and the number of
  // samples since levels were taken.
  std::map<std::pair<Category, Space>, std::int64_t> live_;
  std::optional<MemorySample> last_;
  std::int64_t since_ = 0;
};

// Packs the sums with a checksum, and back. Errors: kCorruptInput, damaged or in an unknown layout;
// the sums must then be computed again.
std::string PackSums(const SpanSums& sums);
Result<SpanSums> UnpackSums(std::string_view bytes);

}  // namespace foretrain
