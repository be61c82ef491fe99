#include "sim/program/link_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

#include "sim/program/link_arena.h"
#include "sim/program/link_pack.h"
#include "sim/program/transfer_queues.h"

namespace foretrain {
namespace {

// What decides with whom a buffer may share its memory.
struct Users {
  LaneSet final = 0;  // lanes that a next user waits for: readers since the last writer, or it
  bool read_since = false;
  bool peers = false;  // touched by a send or receive
  bool placed = false;
  std::uint8_t first_lane = 0;
  std::int32_t slot = -1;      // of an incoming buffer
  std::int32_t free_from = 0;  // op from which the memory of one is to be free
};

// Queues whose ops fill memory for compute to come, ahead of it.
bool IsIncomingQueue(Queue queue) {
  return queue == Queue::kRecvNext || queue == Queue::kRecvPrev || queue == Queue::kH2d ||
         queue == Queue::kNvme;
}

// Where buffers go that live within one instruction, and where those that outlive it.
struct Strategy {
  Fit within = Fit::kSmallest;
  Fit beyond = Fit::kSmallest;
};
constexpr std::array<Strategy, 3> kStrategies = {Strategy{Fit::kSmallest, Fit::kSmallest},
                                                 Strategy{Fit::kLowest, Fit::kLowest},
                                                 Strategy{Fit::kHighest, Fit::kLowest}};

// Of the least: an arena so long stands.
constexpr double kCloseEnough = 1.05;

// Claims times claims at once: where there are more, which would take seconds, what stands does.
constexpr std::int64_t kMostMeetings = 100'000'000;

std::int64_t AlignmentOf(Space space) {
  return space == Space::kPinned || space == Space::kNvme ? kPageAlignment : kArenaAlignment;
}

class Layout {
 public:
  Layout(const FlatStep& step, Reuse reuse, RankProgram& rank)
      : step_(step), reuse_(reuse), rank_(rank), users_(rank.buffers.size()) {
    FindLives();
    FindSlots();
  }

  // Places all buffers, or ends where the arenas come to `limit` bytes, which it says by false.
  bool Run(Strategy strategy, std::int64_t limit) {
    strategy_ = strategy;
    Begin();
    for (Users& users : users_) users.placed = false;
    arenas_.clear();
    for (int space = 0; space < kSpaceCount; ++space) {
      arenas_.emplace_back(1 + kQueueCount, AlignmentOf(static_cast<Space>(space)));
    }
    PlaceState();
    PlaceSlots();
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      bool placed = false;
      for (const TensorAccess& access : step_.AccessesOf(op)) placed |= Place(op, access.buffer);
      if (placed && ArenaBytes() >= limit) return false;
      CountInstruction(op);
      ForEachDue(op, [&](std::int32_t buffer) { GiveBack(op, buffer, kShared); });
      for (const TensorAccess& access : step_.AccessesOf(op)) Release(op, access.buffer);
    }
    for (std::size_t space = 0; space < arenas_.size(); ++space) {
      rank_.arena_bytes[space] = arenas_[space].HighWater();
    }
    return true;
  }

  // Of all spaces, as far as they have grown.
  std::int64_t ArenaBytes() const {
    std::int64_t sum = 0;
    for (const ArenaPlanner& arena : arenas_) sum += arena.HighWater();
    return sum;
  }

  // Places anew what lives within the step, all at once, in each space where that needs less than
  // what stands.
  void PackSpaces() {
    FindEnds();
    for (int s = 0; s < kSpaceCount; ++s) PackSpace(static_cast<Space>(s));
  }

 private:
  void Begin() {
    held_.clear();
    instructions_ = 0;
    counted_ = -1;
  }

  // What is held and free again with `op`.
  template <class Use>
  void ForEachDue(std::int32_t op, const Use& use) {
    const std::uint8_t lane = step_.LaneOf(op);
    std::erase_if(held_, [&](const Held& held) {
      const bool is_due = held.lane == lane || held.until == instructions_;
      if (is_due) use(held.buffer);
      return is_due;
    });
  }

  // When the memory of each buffer is free again: where nothing says so, not in this step.
  void FindEnds() {
    Begin();
    ends_.assign(rank_.buffers.size(), step_.Ops() - 1);
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      CountInstruction(op);
      ForEachDue(op, [&](std::int32_t buffer) { EndOf(buffer) = op; });
      for (const TensorAccess& access : step_.AccessesOf(op)) {
        if (BufferAt(access.buffer).last_op != op) continue;
        if (!Hold(access.buffer)) EndOf(access.buffer) = op;
      }
    }
  }

  void PackSpace(Space space) {
    std::int64_t& arena = rank_.arena_bytes[static_cast<std::size_t>(space)];
    std::int64_t bottom = 0;  // end of state and of what receives fill
    std::vector<Claim> claims;
    std::vector<std::int32_t> of;  // buffers
    for (std::size_t i = 0; i < rank_.buffers.size(); ++i) {
      const Buffer& buffer = rank_.buffers[i];
      if (buffer.space != space || buffer.offset < 0) continue;
      const std::int64_t bytes = AlignedBytes(buffer.bytes, AlignmentOf(space));
      if (buffer.persistent || IsReceived(users_[i])) {
        bottom = std::max(bottom, buffer.offset + bytes);
        continue;
      }
      const std::int32_t first = users_[i].slot >= 0 ? users_[i].free_from : buffer.first_op;
      claims.push_back({bytes, first, ends_[i]});
      of.push_back(static_cast<std::int32_t>(i));
    }
    const AtOnce most = MostAtOnce(claims, step_.Ops());
    const auto least = static_cast<double>(bottom + most.bytes);
    if (static_cast<double>(arena) <= kCloseEnough * least) return;
    if (most.claims * static_cast<std::int64_t>(claims.size()) > kMostMeetings) return;
    const Packing packing = Pack(claims, step_.Ops(), kCloseEnough);
    if (bottom + packing.bytes >= arena) return;
    arena = bottom + packing.bytes;
    for (std::size_t i = 0; i < of.size(); ++i) {
      BufferAt(of[i]).offset = bottom + packing.offsets[i];
    }
  }

  std::int32_t& EndOf(std::int32_t buffer) { return ends_[static_cast<std::size_t>(buffer)]; }
  Buffer& BufferAt(std::int32_t buffer) { return rank_.buffers[static_cast<std::size_t>(buffer)]; }
  Users& UsersOf(std::int32_t buffer) { return users_[static_cast<std::size_t>(buffer)]; }
  ArenaPlanner& ArenaOf(const Buffer& buffer) {
    return arenas_[static_cast<std::size_t>(buffer.space)];
  }

  void FindLives() {
    for (Buffer& buffer : rank_.buffers) buffer.offset = buffer.first_op = buffer.last_op = -1;
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      for (const TensorAccess& access : step_.AccessesOf(op)) {
        Buffer& buffer = BufferAt(access.buffer);
        if (buffer.first_op < 0) {
          buffer.first_op = op;
          UsersOf(access.buffer).first_lane = step_.LaneOf(op);
        }
        buffer.last_op = op;
        Note(access, buffer, op);
      }
    }
  }

  // A write of the whole buffer leaves its own lane to wait for, the reads after it theirs: they
  // have waited for it.
  void Note(const TensorAccess& access, const Buffer& buffer, std::int32_t op) {
    Users& users = UsersOf(access.buffer);
    const LaneSet lane = LaneSet{1} << step_.LaneOf(op);
    const bool whole = access.end - access.begin == buffer.bytes;
    if (Writes(access)) {
      users.final = whole ? lane : users.final | lane;
      users.read_since = !whole;
    } else {
      users.final = users.read_since ? users.final | lane : lane;
      users.read_since = true;
    }
    users.peers = users.peers || IsTransferQueue(step_.QueueOf(op));
  }

  void PlaceState() {
    for (std::size_t i = 0; i < rank_.buffers.size(); ++i) {
      Buffer& buffer = rank_.buffers[i];
      if (!buffer.persistent || buffer.bytes == 0) continue;
      buffer.offset = ArenaOf(buffer).TakeFresh(buffer.bytes);
      users_[i].placed = true;
    }
  }

  // Deals incoming buffers to the slots of their lane: the slot of just their size that has been
  // free for longest, from before the lane's op before, or a new one. Slots depend on nothing else,
  // so that they can lie together, where they do not cut the arena into pieces.
  void FindSlots() {
    std::array<std::int32_t, kQueueCount> previous;
    previous.fill(-1);
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      const std::uint8_t lane = step_.LaneOf(op);
      for (const TensorAccess& access : step_.AccessesOf(op)) {
        const Buffer& buffer = BufferAt(access.buffer);
        Users& users = UsersOf(access.buffer);
        if (buffer.first_op == op && users.slot < 0 && IsIncoming(users) && !IsGuarded(users)) {
          users.slot = FreeSlot(buffer, lane, previous[lane]);
          users.free_from = std::max(previous[lane], 0);
          slots_[static_cast<std::size_t>(users.slot)].free_since = kTaken;
        }
      }
      for (const TensorAccess& access : step_.AccessesOf(op)) {
        const std::int32_t slot = UsersOf(access.buffer).slot;
        if (slot < 0 || BufferAt(access.buffer).last_op != op) continue;
        slots_[static_cast<std::size_t>(slot)].free_since = op;
      }
      previous[lane] = op;
    }
  }

  std::int32_t FreeSlot(const Buffer& buffer, std::uint8_t lane, std::int32_t before) {
    std::size_t best = slots_.size();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (slot.lane != lane || slot.space != buffer.space || slot.bytes != buffer.bytes) continue;
      if (slot.free_since >= before) continue;
      if (best == slots_.size() || slot.free_since < slots_[best].free_since) best = i;
    }
    if (best == slots_.size()) slots_.push_back({buffer.bytes, buffer.space, lane});
    return static_cast<std::int32_t>(best);
  }

  void PlaceSlots() {
    // What receives fill lies below, where PackSpace leaves it.
    for (const bool received : {true, false}) {
      for (Slot& slot : slots_) {
        if (IsTransferQueue(step_.queues[slot.lane]) != received) continue;
        slot.offset = arenas_[static_cast<std::size_t>(slot.space)].TakeFresh(slot.bytes);
      }
    }
  }

  // False: it has its place.
  bool Place(std::int32_t op, std::int32_t number) {
    Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (users.placed) return false;
    users.placed = true;
    const std::uint8_t lane = step_.LaneOf(op);
    if (users.slot >= 0) {
      buffer.offset = slots_[static_cast<std::size_t>(users.slot)].offset;
    } else {
      const int pool = IsGuarded(users) ? PoolOf(lane) : kShared;
      buffer.offset = ArenaOf(buffer).Take(buffer.bytes, pool, lane, FitOf(buffer));
    }
    return true;
  }

  void Release(std::int32_t op, std::int32_t number) {
    const Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (buffer.persistent || buffer.last_op != op || !users.placed) return;
    users.placed = false;
    if (users.slot >= 0) return;
    if (IsGuarded(users)) {
      // Where several queues used it last nobody may have it again in this step.
      if (std::has_single_bit(users.final)) {
        GiveBack(op, number, PoolOf(std::countr_zero(users.final)));
      }
      return;
    }
    if (!Hold(number)) GiveBack(op, number, kShared);
  }

  // Whether a buffer that was used last is held until others have gone on.
  bool Hold(std::int32_t number) {
    for (LaneSet lanes = UsersOf(number).final; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
      if (step_.queues[lane] == Queue::kCompute) continue;
      const bool peer = IsTransferQueue(step_.queues[lane]);
      held_.push_back({number, static_cast<std::uint8_t>(lane),
                       peer ? kForever : instructions_ + kInstructionsHeld});
      return true;
    }
    return false;
  }

  void GiveBack(std::int32_t op, std::int32_t number, int pool) {
    const Buffer& buffer = BufferAt(number);
    ArenaOf(buffer).Give(buffer.offset, buffer.bytes, pool, UsersOf(number).final, op);
  }

  bool IsGuarded(const Users& users) const {
    return reuse_ == Reuse::kOwnQueue || (reuse_ == Reuse::kNotPeers && users.peers);
  }
  bool IsReceived(const Users& users) const {
    return IsTransferQueue(step_.queues[users.first_lane]) && users.slot >= 0;
  }
  bool IsIncoming(const Users& users) const {
    return IsIncomingQueue(step_.queues[users.first_lane]);
  }

  // Memory that the ops of one lane fill in turn.
  struct Slot {
    std::int64_t bytes = 0;
    Space space = Space::kDevice;
    std::uint8_t lane = 0;
    std::int32_t free_since = kTaken;
    std::int64_t offset = 0;
  };
  static constexpr std::int32_t kTaken = std::numeric_limits<std::int32_t>::max();

  // A buffer that is free once its lane has its next op, or with the compute instruction `until`.
  struct Held {
    std::int32_t buffer = 0;
    std::uint8_t lane = 0;
    int until = 0;
  };
  static constexpr int kInstructionsHeld = 2;
  static constexpr int kForever = -1;

  void CountInstruction(std::int32_t op) {
    if (step_.QueueOf(op) != Queue::kCompute) return;
    const std::int32_t instruction = step_.instruction[static_cast<std::size_t>(op)];
    if (instruction != counted_) ++instructions_;
    counted_ = instruction;
  }

  Fit FitOf(const Buffer& buffer) const {
    const auto instruction_of = [this](std::int32_t op) {
      return step_.instruction[static_cast<std::size_t>(op)];
    };
    return instruction_of(buffer.first_op) == instruction_of(buffer.last_op) ? strategy_.within
                                                                             : strategy_.beyond;
  }

  static constexpr int kShared = 0;  // pools: this one, then one a lane
  static int PoolOf(int lane) { return 1 + lane; }

  const FlatStep& step_;
  Reuse reuse_;
  Strategy strategy_;
  RankProgram& rank_;
  std::vector<Users> users_;
  std::vector<Slot> slots_;
  std::vector<Held> held_;
  int instructions_ = 0;              // of the compute queue, so far
  std::int32_t counted_ = -1;         // the last of them
  std::vector<std::int32_t> ends_;    // by buffer: op with which its memory is free again
  std::vector<ArenaPlanner> arenas_;  // by space
};

}  // namespace

void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank) {
  Layout layout(step, reuse, rank);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> offsets(rank.buffers.size());
  auto arena_bytes = rank.arena_bytes;
  for (const Strategy& strategy : kStrategies) {
    if (!layout.Run(strategy, least)) continue;
    least = layout.ArenaBytes();
    arena_bytes = rank.arena_bytes;
    std::transform(rank.buffers.begin(), rank.buffers.end(), offsets.begin(),
                   [](const Buffer& buffer) { return buffer.offset; });
  }
  rank.arena_bytes = arena_bytes;
  for (std::size_t i = 0; i < offsets.size(); ++i) rank.buffers[i].offset = offsets[i];
  if (reuse == Reuse::kPacked) layout.PackSpaces();
}

}  // namespace foretrain
