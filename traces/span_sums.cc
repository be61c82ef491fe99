#include "traces/span_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/crc32c.h"

namespace foretrain {
namespace {

static_assert(std::endian::native == std::endian::little, "sums are packed as they lie in memory");

constexpr std::int32_t kLeastBlock = 32;
constexpr std::int64_t kMostBlocks = 300'000;  // but for those that end early
constexpr std::uint32_t kLayout = 0x314D5553;  // "SUM1"

// What precedes the blocks of a track.
struct PackedTrack {
  std::int32_t rank = 0;
  std::uint32_t queue = 0;
  std::uint64_t blocks = 0;
};

// A block without padding.
struct PackedBlock {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t spans = 0;
  std::array<float, kWorkCount> busy_ns{};
};
static_assert(sizeof(PackedTrack) == 16 && sizeof(PackedBlock) == 56);

template <class T>
void Append(const T& value, std::string& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// False: the bytes end before.
template <class T>
bool TakeFrom(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

std::uint32_t ChecksumOf(std::string_view bytes) {
  return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

bool IsPossible(const SpanBlock& block, const SpanBlock* before) {
  constexpr std::int64_t kMostTimeNs = std::int64_t{1} << 60;
  const bool in_time = block.start_ns >= -kMostTimeNs && block.end_ns <= kMostTimeNs;
  if (!in_time || block.start_ns > block.end_ns || block.spans < 1) return false;
  if (before != nullptr &&
      (block.start_ns < before->start_ns || block.end_ns < before->end_ns)) {
    return false;
  }
  return std::all_of(block.busy_ns.begin(), block.busy_ns.end(),
                     [](float busy) { return std::isfinite(busy) && busy >= 0.0F; });
}

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
    : most_(static_cast<std::int32_t>(
          std::clamp<std::int64_t>(spans / kMostBlocks, kLeastBlock, 1 << 24))) {}

void SpanSummer::Add(int rank, Queue queue, std::int64_t start_ns, std::int64_t end_ns,
                     Work work) {
  const bool same = !sums_.tracks.empty() && sums_.tracks.back().rank == rank &&
                    sums_.tracks.back().queue == queue;
  if (!same) sums_.tracks.push_back({.rank = rank, .queue = queue});
  std::vector<SpanBlock>& blocks = sums_.tracks.back().blocks;
  const SpanBlock* const last = blocks.empty() ? nullptr : &blocks.back();
  const bool full =
      last == nullptr || last->spans >= most_ ||
      (last->spans >= most_ / 4 && start_ns - last->end_ns > last->end_ns - last->start_ns);
  if (full) {
    const std::int64_t end = last == nullptr ? end_ns : std::max(end_ns, last->end_ns);
    blocks.push_back({.start_ns = start_ns, .end_ns = end});
  }
  SpanBlock& block = blocks.back();
  block.end_ns = std::max(block.end_ns, end_ns);
  ++block.spans;
  block.busy_ns[static_cast<std::size_t>(work)] += static_cast<float>(end_ns - start_ns);
}

SpanSums SpanSummer::Take() { return std::exchange(sums_, {}); }

std::string PackSums(const SpanSums& sums) {
  std::string body;
  for (const TrackSums& track : sums.tracks) {
    Append(PackedTrack{track.rank, static_cast<std::uint32_t>(track.queue), track.blocks.size()},
           body);
    for (const SpanBlock& block : track.blocks) {
      Append(PackedBlock{block.start_ns, block.end_ns, block.spans, block.busy_ns}, body);
    }
  }
  std::string bytes;
  bytes.reserve(body.size() + 2 * sizeof(std::uint32_t));
  Append(kLayout, bytes);
  Append(ChecksumOf(body), bytes);
  return bytes += body;
}

Result<SpanSums> UnpackSums(std::string_view bytes) {
  std::uint32_t layout = 0, checksum = 0;
  const bool head = TakeFrom(bytes, layout) && TakeFrom(bytes, checksum);
  if (!head || layout != kLayout) {
    return Fail(ErrorCode::kCorruptInput, "sums of spans in a layout that is not known");
  }
  if (ChecksumOf(bytes) != checksum) {
    return Fail(ErrorCode::kCorruptInput, "sums of spans do not have their checksum");
  }
  SpanSums sums;
  while (!bytes.empty()) {
    TrackSums track;
    if (!UnpackTrack(bytes, track)) {
      return Fail(ErrorCode::kCorruptInput, "sums of spans hold a block that cannot be");
    }
    const bool later = sums.tracks.empty() ||
                       std::pair(sums.tracks.back().rank, sums.tracks.back().queue) <
                           std::pair(track.rank, track.queue);
    if (!later) return Fail(ErrorCode::kCorruptInput, "sums of spans are out of order");
    sums.tracks.push_back(std::move(track));
  }
  return sums;
}

}  // namespace foretrain
