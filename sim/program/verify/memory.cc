#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "sim/program/link/arena.h"
#include "sim/program/link/hazards.h"
#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

tl::unexpected<Error> Bad(const RankProgram& rank, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank.rank) + ": " + what);
}

std::string BufferText(const RankProgram& rank, std::int32_t number) {
  const Buffer& buffer = rank.buffers[static_cast<std::size_t>(number)];
  return "buffer " + std::to_string(number) + " (" + std::string(Name(buffer.category)) + ", ops " +
         std::to_string(buffer.first_op) + " to " + std::to_string(buffer.last_op) + ", bytes " +
         std::to_string(buffer.offset) + " + " + std::to_string(buffer.bytes) + " of " +
         std::string(Name(buffer.space)) + ")";
}

// Buffers that are alive at one moment, by address, with the arenas laid end to end.
class LiveBuffers {
 public:
  explicit LiveBuffers(const RankProgram& rank) : rank_(rank), bases_(SpaceBases(rank)) {}

  // Live buffers never overlap, so only the two neighbours by address can conflict: O(log n).
  Result<void> Add(std::int32_t number) {
    const Buffer& buffer = BufferAt(number);
    const std::int64_t begin = AddressOf(buffer);
    const auto next = live_.lower_bound(begin);
    if (next != live_.end() && next->first < begin + buffer.bytes) {
      return Overlap(number, next->second);
    }
    if (next != live_.begin()) {
      const auto& [address, neighbour] = *std::prev(next);
      if (address + BufferAt(neighbour).bytes > begin) return Overlap(number, neighbour);
    }
    live_.emplace(begin, number);
    return {};
  }
  void Remove(std::int32_t number) { live_.erase(AddressOf(BufferAt(number))); }

 private:
  const Buffer& BufferAt(std::int32_t number) const {
    return rank_.buffers[static_cast<std::size_t>(number)];
  }
  std::int64_t AddressOf(const Buffer& buffer) const {
    return bases_[static_cast<std::size_t>(buffer.space)] + buffer.offset;
  }
  Result<void> Overlap(std::int32_t a, std::int32_t b) const {
    return Bad(rank_, BufferText(rank_, std::min(a, b)) + " and " +
                          BufferText(rank_, std::max(a, b)) + " overlap while both live");
  }

  const RankProgram& rank_;
  std::array<std::int64_t, kSpaceCount> bases_;
  std::map<std::int64_t, std::int32_t> live_;
};

// Checks the offsets alone. The comparisons avoid `offset + bytes`, which could overflow in a
// malformed program.
Result<void> CheckPlaces(const RankProgram& rank) {
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    const Buffer& buffer = rank.buffers[i];
    const bool is_used = buffer.persistent ? buffer.bytes > 0 : buffer.first_op >= 0;
    if (!is_used) continue;
    const std::int64_t arena = rank.arena_bytes[static_cast<std::size_t>(buffer.space)];
    if (buffer.bytes < 0 || buffer.offset < 0 || buffer.offset % kArenaAlignment != 0 ||
        buffer.bytes > arena || buffer.offset > arena - buffer.bytes) {
      return Bad(rank, BufferText(rank, static_cast<std::int32_t>(i)) +
                           " is not aligned to 256 bytes inside its arena of " +
                           std::to_string(arena));
    }
  }
  return {};
}

// Recomputes the first and last access of each buffer and compares it with the lifetimes that Link
// recorded.
Result<void> CheckLives(const RankProgram& rank, const FlatStep& step) {
  std::vector<std::int32_t> first(rank.buffers.size(), -1);
  std::vector<std::int32_t> last(rank.buffers.size(), -1);
  for (std::int32_t op = 0; op < step.Ops(); ++op) {
    for (const TensorAccess& access : step.AccessesOf(op)) {
      const auto buffer = static_cast<std::size_t>(access.buffer);
      if (first[buffer] < 0) first[buffer] = op;
      last[buffer] = op;
    }
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (rank.buffers[i].first_op != first[i] || rank.buffers[i].last_op != last[i]) {
      return Bad(rank, BufferText(rank, static_cast<std::int32_t>(i)) + " is used by ops " +
                           std::to_string(first[i]) + " to " + std::to_string(last[i]));
    }
  }
  return {};
}

// The bytes of one buffer that the step has written so far, as disjoint ranges; adjacent ranges are
// merged.
class Written {
 public:
  // Swallows all ranges that the new one touches, so the map stays small and disjoint.
  void Add(std::int64_t begin, std::int64_t end) {
    auto next = parts_.upper_bound(begin);
    if (next != parts_.begin() && std::prev(next)->second >= begin) {
      --next;
      begin = next->first;
      end = std::max(end, next->second);
    }
    while (next != parts_.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = parts_.erase(next);
    }
    parts_.emplace_hint(next, begin, end);
  }
  // End of the written range that contains `begin`; `begin` itself if none does.
  std::int64_t EndFrom(std::int64_t begin) const {
    const auto next = parts_.upper_bound(begin);
    return next == parts_.begin() ? begin : std::max(begin, std::prev(next)->second);
  }

 private:
  std::map<std::int64_t, std::int64_t> parts_;
};

// Whether an op after `op` writes byte `at` of the buffer.
bool IsWrittenLater(const FlatStep& step, std::int32_t op, std::int32_t buffer, std::int64_t at) {
  const auto first = static_cast<std::size_t>(step.first_access[static_cast<std::size_t>(op) + 1]);
  const auto rest = std::span(step.accesses).subspan(first);
  return std::any_of(rest.begin(), rest.end(), [&](const TensorAccess& access) {
    return Writes(access) && access.buffer == buffer && access.begin <= at && at < access.end;
  });
}

// Flat buckets are padded so that each rank of a collective has a whole number of elements. Bytes
// behind the last written one, up to this many per rank, are that padding.
constexpr std::int64_t kPaddingBytesOfRank = 64;

// Bytes of padding that the op may read without anyone having written them; 0 if it is no
// collective.
std::int64_t PaddingOf(const Program& program, const RankProgram& rank, const FlatStep& step,
                       std::int32_t op) {
  const std::int32_t number = step.instruction[static_cast<std::size_t>(op)];
  const std::int32_t first = rank.step[static_cast<std::size_t>(number)].first_op;
  const Op& work = OpAt(program, rank, {number, op - first});
  const std::int32_t group = rank.groups[static_cast<std::size_t>(work.group)];
  if (!IsCollective(work.kind) || group < 0) return 0;
  const auto members = program.groups[static_cast<std::size_t>(group)].size();
  return kPaddingBytesOfRank * static_cast<std::int64_t>(members);
}

}  // namespace

// Persistent buffers live throughout; the others enter at their first access and leave after their
// last. An op's own buffers must all be in place at once, so they are removed only after all were
// added.
Result<void> CheckLayout(const Program& /*program*/, const RankProgram& rank,
                         const FlatStep& step) {
  FT_TRY(CheckLives(rank, step));
  FT_TRY(CheckPlaces(rank));
  LiveBuffers live(rank);
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    if (rank.buffers[i].persistent && rank.buffers[i].bytes > 0) {
      FT_TRY(live.Add(static_cast<std::int32_t>(i)));
    }
  }
  std::vector<bool> entered(rank.buffers.size(), false);
  for (std::int32_t op = 0; op < step.Ops(); ++op) {
    for (const TensorAccess& access : step.AccessesOf(op)) {
      const auto buffer = static_cast<std::size_t>(access.buffer);
      if (rank.buffers[buffer].persistent || entered[buffer]) continue;
      entered[buffer] = true;
      FT_TRY(live.Add(access.buffer));
    }
    for (const TensorAccess& access : step.AccessesOf(op)) {
      const Buffer& buffer = rank.buffers[static_cast<std::size_t>(access.buffer)];
      if (!buffer.persistent && buffer.last_op == op) live.Remove(access.buffer);
    }
  }
  return {};
}

// Compares each read with the bytes written so far in the step. The search for a later writer runs
// only on errors, where it tells a missing write from a value that leaks between steps.
Result<void> CheckContents(const Program& program, const RankProgram& rank, const FlatStep& step) {
  std::vector<Written> written(rank.buffers.size());
  for (std::int32_t op = 0; op < step.Ops(); ++op) {
    for (const TensorAccess& access : step.AccessesOf(op)) {
      const Buffer& buffer = rank.buffers[static_cast<std::size_t>(access.buffer)];
      if (!Reads(access) || buffer.persistent) continue;
      const std::int64_t end =
          written[static_cast<std::size_t>(access.buffer)].EndFrom(access.begin);
      // Everything that the op reads has been written.
      if (end >= access.end) continue;
      const bool later = IsWrittenLater(step, op, access.buffer, end);
      // Reading padding behind the last byte that anyone writes is allowed to collectives.
      const bool is_tail = access.end == buffer.bytes && end > access.begin && !later;
      if (is_tail && access.end - end < PaddingOf(program, rank, step, op)) continue;
      const std::string what = DescribeOp(program, rank, step, op) + " reads byte " +
                               std::to_string(end) + " of " + BufferText(rank, access.buffer);
      return Fail(
          ErrorCode::kInvalidArgument,
          what + (later || Writes(access)
                      ? ", which the step writes only then: a value leaks from step to step "
                        "through a buffer that is not state"
                      : ", which nothing writes"));
    }
    for (const TensorAccess& access : step.AccessesOf(op)) {
      if (Writes(access) && !rank.buffers[static_cast<std::size_t>(access.buffer)].persistent) {
        written[static_cast<std::size_t>(access.buffer)].Add(access.begin, access.end);
      }
    }
  }
  return {};
}

}  // namespace foretrain
