// The coarse level of a long run's timeline: spans that follow one another on a queue, summed in
// blocks, so that the whole can be drawn before any span is read, and live memory now and then. Leaves out where it is stored
// (docs/store.md: an attachment of the run) and drawing.
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

// What a span does, as pictures tell it apart: its pass where it computes, its kind where it moves
// data.
enum class Work : std::uint8_t {
  kForward,
  kBackward,
  kUpdate,  // weight gradients that run by themselves, and the optimizer
  kRecompute,
  kCollective,
  kPointToPoint,
  kCopy,
  kHost,
  kUnnamed,  // compute without an op
};
inline constexpr int kWorkCount = 9;

// O(1), for any value of `op`.
Work WorkOf(OpId op, OpClass op_class);

struct SpanBlock {
  std::int64_t start_ns = 0;  // of its first span
  std::int64_t end_ns = 0;    // the latest end up to here: neither falls from block to block
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
  // What is live on each rank at some moments, each as samples of that moment, by (rank, time): a
  // stretch of the run's memory samples is read from the moment before it on.
  std::vector<MemorySample> levels{};


  std::int64_t Spans() const;
  // About how many spans run in [start_ns, end_ns): those of a block count by the share of its
  // time. O(blocks inside + tracks log).
  std::int64_t SpansIn(double start_ns, double end_ns) const;

  // The levels of the last moment of `rank` that is not after `time_ns`; none: there is none.
  std::span<const MemorySample> LevelsBefore(int rank, std::int64_t time_ns) const;
};

// A run of fewer spans is drawn from its spans.
inline constexpr std::int64_t kLeastSummedSpans = 250'000;
// The name of the attachment that keeps a run's sums.
inline constexpr std::string_view kSumsAttachment = "span_sums";

// Makes sums of spans that come sorted by (rank, queue, start), and of memory samples that come by
// (rank, time).
class SpanSummer {
 public:
  // `spans`: about how many will come. Blocks hold 32 of up to 9.6 million; beyond that more, so
  // that memory and the time of a picture stay bounded. A block ends early, at a quarter of this or
  // later, where a gap as long as itself follows, so that gaps are seen.
  explicit SpanSummer(std::int64_t spans);

  void Add(int rank, Queue queue, std::int64_t start_ns, std::int64_t end_ns, Work work);
  void Add(const MemorySample& sample);
  SpanSums Take();

 private:
  void TakeLevels();

  std::int32_t most_;
  SpanSums sums_;
  // Of one rank: what is live after the samples so far, the last of them, and how many came since
  // levels were taken.
  std::map<std::pair<Category, Space>, std::int64_t> live_;
  std::optional<MemorySample> last_;
  std::int64_t since_ = 0;
};

// As bytes with a checksum, and back. Errors: kCorruptInput, not what was packed, or of a layout
// that this foretrain does not know; the sums are then to be made again.
std::string PackSums(const SpanSums& sums);
Result<SpanSums> UnpackSums(std::string_view bytes);

}  // namespace foretrain
