#include "traces/span_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/io/crc32c.h"

namespace foretrain {
namespace {

static_assert(std::endian::native == std::endian::little, "sums are packed as they lie in memory");

// Bounds of the sums: the number of blocks is bounded, so a longer run has more spans in each
// block. Levels of memory are stored once in kSamplesOfLevel samples.
constexpr std::int32_t kMinBlock = 32;
constexpr std::int64_t kMaxBlocks = 300'000;   // except blocks that end early
constexpr std::uint32_t kLayout = 0x314D5553;  // "SUM1"
constexpr std::int64_t kSamplesOfLevel = 2'000;
constexpr std::int64_t kMaxTimeNs = std::int64_t{1} << 60;

// Header of a track's blocks.
struct PackedTrack {
  std::int32_t rank = 0;
  std::uint32_t queue = 0;
  std::uint64_t blocks = 0;
};

// A block as stored, without padding.
struct PackedBlock {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t spans = 0;
  std::array<float, kWorkCount> busy_ns{};
};
// A memory sample as stored, without padding.
struct PackedLevel {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;
  std::int32_t rank = 0;
  std::uint16_t category = 0;
  std::uint16_t space = 0;
};
static_assert(sizeof(PackedTrack) == 16 && sizeof(PackedBlock) == 56 && sizeof(PackedLevel) == 24);

// Copies the bytes of a plain struct.
template <class T>
void Append(const T& value, std::string& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Copies a value from the front of `bytes`; false if too few are left.
template <class T>
bool TakeFrom(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

// Blocks from a file must be ordered in start and end, and their sums finite: drawing relies on
// both.
bool IsPossible(const SpanBlock& block, const SpanBlock* before) {
  const bool in_time = block.start_ns >= -kMaxTimeNs && block.end_ns <= kMaxTimeNs;
  if (!in_time || block.start_ns > block.end_ns || block.spans < 1) return false;
  if (before != nullptr && (block.start_ns < before->start_ns || block.end_ns < before->end_ns)) {
    return false;
  }
  return std::all_of(block.busy_ns.begin(), block.busy_ns.end(),
                     [](float busy) { return std::isfinite(busy) && busy >= 0.0F; });
}

// The count of blocks is checked against the bytes that are left before anything is reserved.
bool UnpackTrack(std::string_view& bytes, TrackSums& track) {
  PackedTrack head;
  if (!TakeFrom(bytes, head) || head.queue >= kQueueCount || head.rank < 0 ||
      head.blocks > bytes.size() / sizeof(PackedBlock)) {
    return false;
  }
  track.rank = head.rank;
  track.queue = static_cast<Queue>(head.queue);
  track.blocks.reserve(head.blocks);
  for (std::uint64_t i = 0; i < head.blocks; ++i) {
    PackedBlock packed;
    if (!TakeFrom(bytes, packed)) return false;
    const SpanBlock block{packed.start_ns, packed.end_ns, packed.spans, packed.busy_ns};
    if (!IsPossible(block, track.blocks.empty() ? nullptr : &track.blocks.back())) return false;
    track.blocks.push_back(block);
  }
  return true;
}

// Levels must be ordered by rank and time, since they are searched by bisection.
bool UnpackLevels(std::string_view& bytes, std::vector<MemorySample>& levels) {
  std::uint64_t count = 0;
  if (!TakeFrom(bytes, count) || count > bytes.size() / sizeof(PackedLevel)) return false;
  levels.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    PackedLevel packed;
    if (!TakeFrom(bytes, packed)) return false;
    const bool possible = packed.rank >= 0 && packed.rank < (1 << 15) && packed.bytes >= 0 &&
                          packed.category < kCategoryCount && packed.space < kSpaceCount &&
                          packed.time_ns >= -kMaxTimeNs && packed.time_ns <= kMaxTimeNs;
    if (!possible) return false;
    const MemorySample level{packed.time_ns, packed.bytes, static_cast<std::int16_t>(packed.rank),
                             static_cast<Category>(packed.category),
                             static_cast<Space>(packed.space)};
    if (!levels.empty() && std::pair(level.rank, level.time_ns) <
                               std::pair(levels.back().rank, levels.back().time_ns)) {
      return false;
    }
    levels.push_back(level);
  }
  return true;
}

// Separate weight gradients count as updates.
Work WorkOfPass(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return Work::kForward;
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return Work::kBackward;
    case Pass::kBackwardWeight:
    case Pass::kUpdate:
      return Work::kUpdate;
    case Pass::kRecompute:
      return Work::kRecompute;
    case Pass::kNone:
      break;
  }
  return Work::kUnnamed;
}

}  // namespace

// The class decides first, because communication and copies have passes too.
Work WorkOf(OpId op, OpClass op_class) {
  switch (op_class) {
    case OpClass::kPpComm:
      return Work::kPointToPoint;
    case OpClass::kCopy:
      return Work::kCopy;
    case OpClass::kHost:
      return Work::kHost;
    default:
      break;
  }
  if (IsCommunication(op_class)) return Work::kCollective;
  if (!IsValidId(op)) return Work::kUnnamed;
  const InstructionKey key = UnpackId(op);
  const bool updates =
      key.kind == InstructionKind::kOptimizerStep || key.kind == InstructionKind::kNorm;
  return updates ? Work::kUpdate : WorkOfPass(key.pass);
}

std::int64_t SpanSums::Spans() const {
  std::int64_t spans = 0;
  for (const TrackSums& track : tracks) {
    for (const SpanBlock& block : track.blocks) spans += block.spans;
  }
  return spans;
}

// Blocks are ordered by start and end, so a binary search finds the first; a block that lies partly
// inside counts proportionally.
std::int64_t SpanSums::SpansIn(double start_ns, double end_ns) const {
  double spans = 0.0;
  for (const TrackSums& track : tracks) {
    auto at = std::partition_point(
        track.blocks.begin(), track.blocks.end(),
        [&](const SpanBlock& b) { return static_cast<double>(b.end_ns) <= start_ns; });
    for (; at != track.blocks.end() && static_cast<double>(at->start_ns) < end_ns; ++at) {
      const auto first = static_cast<double>(at->start_ns);
      const auto last = static_cast<double>(at->end_ns);
      const double inside = std::min(last, end_ns) - std::max(first, start_ns);
      spans += last > first ? at->spans * std::max(0.0, inside) / (last - first) : at->spans;
    }
  }
  return static_cast<std::int64_t>(std::ceil(spans));
}

SpanSummer::SpanSummer(std::int64_t spans)
    : max_(static_cast<std::int32_t>(
          std::clamp<std::int64_t>(spans / kMaxBlocks, kMinBlock, 1 << 24))) {}

// A block closes when it is full, or early at a gap as long as itself. Without the early end, a
// picture would fill the gap with color.
void SpanSummer::Add(int rank, Queue queue, std::int64_t start_ns, std::int64_t end_ns, Work work) {
  const bool same = !sums_.tracks.empty() && sums_.tracks.back().rank == rank &&
                    sums_.tracks.back().queue == queue;
  if (!same) sums_.tracks.push_back({.rank = rank, .queue = queue});
  std::vector<SpanBlock>& blocks = sums_.tracks.back().blocks;
  const SpanBlock* const last = blocks.empty() ? nullptr : &blocks.back();
  const bool full =
      last == nullptr || last->spans >= max_ ||
      (last->spans >= max_ / 4 && start_ns - last->end_ns > last->end_ns - last->start_ns);
  if (full) {
    const std::int64_t end = last == nullptr ? end_ns : std::max(end_ns, last->end_ns);
    blocks.push_back({.start_ns = start_ns, .end_ns = end});
  }
  SpanBlock& block = blocks.back();
  block.end_ns = std::max(block.end_ns, end_ns);
  ++block.spans;
  block.busy_ns[static_cast<std::size_t>(work)] += static_cast<float>(end_ns - start_ns);
}

// Stores the live bytes of each category at the last sample's time.
void SpanSummer::TakeLevels() {
  since_ = 0;
  for (const auto& [kind, bytes] : live_) {
    sums_.levels.push_back({last_->time_ns, bytes, last_->rank, kind.first, kind.second});
  }
}

void SpanSummer::Add(const MemorySample& sample) {
  // Samples of one moment belong together, so levels are taken only between two moments.
  const bool other = last_.has_value() && last_->rank != sample.rank;
  if (other) live_.clear();
  if (last_.has_value() && !other && since_ >= kSamplesOfLevel && sample.time_ns > last_->time_ns) {
    TakeLevels();
  }
  if (other) since_ = 0;
  live_[{sample.category, sample.space}] = sample.bytes;
  last_ = sample;
  ++since_;
}

SpanSums SpanSummer::Take() {
  live_.clear();
  last_.reset();
  return std::exchange(sums_, {});
}

// All levels of one moment are adjacent: the first search finds the last such moment, the second
// where its samples begin.
std::span<const MemorySample> SpanSums::LevelsBefore(int rank, std::int64_t time_ns) const {
  const auto place = [](const MemorySample& s) {
    return std::pair<int, std::int64_t>(s.rank, s.time_ns);
  };
  const auto end = std::partition_point(levels.begin(), levels.end(), [&](const MemorySample& s) {
    return place(s) <= std::pair(rank, time_ns);
  });
  if (end == levels.begin() || (end - 1)->rank != rank) return {};
  const auto begin = std::partition_point(
      levels.begin(), end, [&](const MemorySample& s) { return place(s) < place(*(end - 1)); });
  return {begin, end};
}

// Layout: magic, CRC-32C of the rest, levels, then tracks with their blocks. All little-endian, as
// in memory.
std::string PackSums(const SpanSums& sums) {
  std::string body;
  for (const TrackSums& track : sums.tracks) {
    Append(PackedTrack{track.rank, static_cast<std::uint32_t>(track.queue), track.blocks.size()},
           body);
    for (const SpanBlock& block : track.blocks) {
      Append(PackedBlock{block.start_ns, block.end_ns, block.spans, block.busy_ns}, body);
    }
  }
  std::string levels;
  Append(static_cast<std::uint64_t>(sums.levels.size()), levels);
  for (const MemorySample& level : sums.levels) {
    Append(PackedLevel{level.time_ns, level.bytes, level.rank,
                       static_cast<std::uint16_t>(level.category),
                       static_cast<std::uint16_t>(level.space)},
           levels);
  }
  body.insert(0, levels);
  std::string bytes;
  bytes.reserve(body.size() + 2 * sizeof(std::uint32_t));
  Append(kLayout, bytes);
  Append(Crc32c(body), bytes);
  return bytes += body;
}

// The checksum is verified first; the range checks then only guard against bugs and forged files.
Result<SpanSums> UnpackSums(std::string_view bytes) {
  std::uint32_t layout = 0, checksum = 0;
  const bool head = TakeFrom(bytes, layout) && TakeFrom(bytes, checksum);
  if (!head || layout != kLayout) {
    return Fail(ErrorCode::kCorruptInput, "sums of spans in a layout that is not known");
  }
  if (Crc32c(bytes) != checksum) {
    return Fail(ErrorCode::kCorruptInput, "sums of spans do not have their checksum");
  }
  SpanSums sums;
  if (!UnpackLevels(bytes, sums.levels)) {
    return Fail(ErrorCode::kCorruptInput, "sums of spans hold a memory level that cannot be");
  }
  while (!bytes.empty()) {
    TrackSums track;
    if (!UnpackTrack(bytes, track)) {
      return Fail(ErrorCode::kCorruptInput, "sums of spans hold a block that cannot be");
    }
    const bool later =
        sums.tracks.empty() || std::pair(sums.tracks.back().rank, sums.tracks.back().queue) <
                                   std::pair(track.rank, track.queue);
    if (!later) return Fail(ErrorCode::kCorruptInput, "sums of spans are out of order");
    sums.tracks.push_back(std::move(track));
  }
  return sums;
}

}  // namespace foretrain
