#include "sim/program/link/hazards.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace foretrain {
namespace {

// Numbers a set of addresses in ascending order. A hash table, because the same few addresses come
// again and again, and sorting all of them would cost more than the rest of Link.
class AddressIndex {
 public:
  AddressIndex() : slots_(kFirstSlots) {}

  void Insert(std::int64_t address) {
    Slot& slot = Find(address);
    if (slot.address == address) return;
    slot.address = address;
    if (++size_ * 2 > slots_.size()) Grow();
  }

  // Numbers the addresses in ascending order and returns their count.
  std::size_t Number() {
    std::vector<std::int64_t> sorted;
    sorted.reserve(size_);
    for (const Slot& slot : slots_) {
      if (slot.address >= 0) sorted.push_back(slot.address);
    }
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      Find(sorted[i]).number = static_cast<std::int32_t>(i);
    }
    return sorted.size();
  }

  std::int32_t NumberOf(std::int64_t address) { return Find(address).number; }

 private:
  struct Slot {
    std::int64_t address = -1;
    std::int32_t number = -1;
  };
  static constexpr std::size_t kFirstSlots = 1024;

  // Open addressing with linear probing; the table is at most half full, so a probe ends after
  // about two slots. The upper half of a multiplicative hash spreads addresses that differ by a
  // multiple of a power of two.
  Slot& Find(std::int64_t address) {
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t hash = static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15U;
    std::size_t i = static_cast<std::size_t>(hash >> 32) & mask;
    while (slots_[i].address >= 0 && slots_[i].address != address) i = (i + 1) & mask;
    return slots_[i];
  }
  void Grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.address >= 0) Find(slot.address).address = slot.address;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

void Raise(std::int32_t& value, std::int32_t to) { value = std::max(value, to); }

}  // namespace

std::array<std::int64_t, kSpaceCount> SpaceBases(const RankProgram& rank) {
  std::array<std::int64_t, kSpaceCount> bases{};
  std::int64_t base = 0;
  for (std::size_t space = 0; space < bases.size(); ++space) {
    bases[space] = base;
    base += rank.arena_bytes[space];
  }
  return bases;
}

void AddThrottle(const RankProgram& rank, const FlatStep& step, std::int32_t op, int step_number,
                 LaneOps& after) {
  const std::int32_t number = step.instruction[static_cast<std::size_t>(op)];
  const Instruction& instruction = rank.step[static_cast<std::size_t>(number)];
  if (instruction.after < 0 || instruction.first_op != op) return;
  FT_CHECK(instruction.after < number);
  const auto awaited = static_cast<std::size_t>(instruction.after);
  for (std::int32_t i = rank.step[awaited].first_op; i < rank.step[awaited + 1].first_op; ++i) {
    Raise(after[step.LaneOf(i)], step_number * step.Ops() + i);
  }
}

namespace {

// Marks buffers that live within the step and that some op accesses only in part.
std::vector<bool> FindParted(const FlatStep& step, const RankProgram& rank) {
  std::vector<bool> parted(rank.buffers.size(), false);
  for (const TensorAccess& access : step.accesses) {
    const auto number = static_cast<std::size_t>(access.buffer);
    const Buffer& buffer = rank.buffers[number];
    if (!buffer.persistent && access.end - access.begin < buffer.bytes) parted[number] = true;
  }
  return parted;
}

// Calls `see` with every access as an address range of the arenas laid end to end. The last access
// of a buffer that is touched in parts counts as a write of all its bytes.
template <class See>
void ForEachCounted(const FlatStep& step, const RankProgram& rank, const std::vector<bool>& parted,
                    const See& see) {
  const auto bases = SpaceBases(rank);
  for (std::int32_t op = 0; op < step.Ops(); ++op) {
    for (TensorAccess access : step.AccessesOf(op)) {
      const auto number = static_cast<std::size_t>(access.buffer);
      const Buffer& buffer = rank.buffers[number];
      if (parted[number] && buffer.last_op == op) {
        access = {0, buffer.bytes, access.buffer, Access::kReadWrite};
      }
      const std::int64_t base = bases[static_cast<std::size_t>(buffer.space)] + buffer.offset;
      access.begin += base;
      access.end += base;
      see(access);
    }
  }
}

}  // namespace

// Two walks over the accesses: the first collects the addresses that cut the arenas into pieces,
// the second translates each access into a range of pieces. A visit then costs array accesses
// instead of searches.
HazardMap::HazardMap(const FlatStep& step, const RankProgram& rank) : step_(step) {
  const std::vector<bool> parted = FindParted(step, rank);
  AddressIndex index;
  // The range that the previous access of each buffer covered. Most accesses repeat it (all of the
  // buffer), so their addresses need no look-up.
  std::vector<TensorAccess> last(rank.buffers.size(), TensorAccess{.begin = -1});
  const auto is_repeated = [&](const TensorAccess& access) {
    TensorAccess& before = last[static_cast<std::size_t>(access.buffer)];
    if (access.begin == before.begin && access.end == before.end) return true;
    before = access;
    return false;
  };
  ForEachCounted(step, rank, parted, [&](const TensorAccess& access) {
    if (is_repeated(access)) return;
    index.Insert(access.begin);
    index.Insert(access.end);
  });
  pieces_.resize(index.Number());
  ranges_.reserve(step.accesses.size());
  std::vector<Range> found(rank.buffers.size());
  for (TensorAccess& access : last) access.begin = -1;
  ForEachCounted(step, rank, parted, [&](const TensorAccess& access) {
    Range& range = found[static_cast<std::size_t>(access.buffer)];
    if (!is_repeated(access)) {
      range = {index.NumberOf(access.begin), index.NumberOf(access.end), false};
    }
    ranges_.push_back({range.first, range.last, Writes(access)});
  });
  // The last op of such a buffer touches all of it, so its range is that of the buffer. Walking
  // backwards meets that op first.
  std::vector<std::int32_t> birth_of(rank.buffers.size(), -1);
  for (std::size_t i = ranges_.size(); i-- > 0;) {
    const auto number = static_cast<std::size_t>(step.accesses[i].buffer);
    if (!parted[number]) continue;
    if (birth_of[number] < 0) {
      birth_of[number] = static_cast<std::int32_t>(births_.size());
      births_.push_back({ranges_[i].first, ranges_[i].last, rank.buffers[number].first_op});
    }
    ranges_[i].birth = birth_of[number];
  }
}

// The buffer's first op finds the previous users of its memory; every later op of the buffer must
// follow the same ones, since it may touch bytes that the first op did not.
void HazardMap::FollowFormer(Birth& birth, std::int32_t op, std::int32_t number,
                             LaneOps& after) const {
  if (op == birth.first_op && number != birth.number) {
    birth.number = number;
    birth.after = kNoOps;
    for (std::int32_t p = birth.first; p < birth.last; ++p) {
      Follow(pieces_[static_cast<std::size_t>(p)], birth.after);
    }
  }
  for (std::size_t lane = 0; lane < after.size(); ++lane) Raise(after[lane], birth.after[lane]);
}

void HazardMap::Read(Piece& piece, std::int32_t number, std::uint8_t lane, LaneOps& after) const {
  if (piece.writer >= 0) Raise(after[piece.writer_lane], piece.writer);
  piece.readers[lane] = number;
  piece.lanes_that_read |= 1U << lane;
}

// A new writer follows the last writer and every reader since. Readers are kept as one op per lane:
// queues are FIFO, so the latest one stands for the earlier ones.
void HazardMap::Follow(const Piece& piece, LaneOps& after) const {
  if (piece.writer >= 0) Raise(after[piece.writer_lane], piece.writer);
  for (std::uint32_t lanes = piece.lanes_that_read; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
    Raise(after[lane], piece.readers[lane]);
  }
}

void HazardMap::Write(Piece& piece, std::int32_t number, std::uint8_t lane, LaneOps& after) const {
  Follow(piece, after);
  piece.lanes_that_read = 0;
  piece.writer = number;
  piece.writer_lane = lane;
}

// Births are handled before the accesses of this op overwrite the pieces that name the previous
// users.
void HazardMap::Visit(std::int32_t op, int step_number, LaneOps& after) {
  const std::int32_t number = step_number * step_.Ops() + op;
  const std::uint8_t lane = step_.LaneOf(op);
  const auto first = static_cast<std::size_t>(step_.first_access[static_cast<std::size_t>(op)]);
  const auto last = static_cast<std::size_t>(step_.first_access[static_cast<std::size_t>(op) + 1]);
  for (std::size_t i = first; i < last; ++i) {
    if (ranges_[i].birth < 0) continue;
    FollowFormer(births_[static_cast<std::size_t>(ranges_[i].birth)], op, number, after);
  }
  for (std::size_t i = first; i < last; ++i) {
    const bool writes = ranges_[i].writes;
    for (std::int32_t p = ranges_[i].first; p < ranges_[i].last; ++p) {
      Piece& piece = pieces_[static_cast<std::size_t>(p)];
      if (writes) {
        Write(piece, number, lane, after);
      } else {
        Read(piece, number, lane, after);
      }
    }
  }
}

}  // namespace foretrain
