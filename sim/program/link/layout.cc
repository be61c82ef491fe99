#include "sim/program/link/layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

#include "sim/program/ir/transfer_queues.h"
#include "sim/program/link/arena.h"
#include "sim/program/link/pack.h"

namespace foretrain {
namespace {

// Who uses a buffer, which decides with whom it may share memory.
struct Users {
  LaneSet final = 0;  // lanes that the next user waits for: those that read since the last write,
                      // or the writer's
  bool read_since = false;
  bool peers = false;  // touched by a send or receive
  bool placed = false;
  std::uint8_t first_lane = 0;
  std::int32_t slot = -1;      // index into slots_ of an incoming buffer; -1 otherwise
  std::int32_t free_from = 0;  // op from which its slot must be free
};

// Queues whose ops fill memory ahead of the compute that reads it.
bool IsIncomingQueue(Queue queue) {
  return queue == Queue::kRecvNext || queue == Queue::kRecvPrev || queue == Queue::kH2d ||
         queue == Queue::kNvme;
}

// Placement rule of buffers that live within one instruction, and of those that outlive it.
struct Strategy {
  Fit within = Fit::kSmallest;
  Fit beyond = Fit::kSmallest;
};
constexpr std::array<Strategy, 3> kStrategies = {Strategy{Fit::kSmallest, Fit::kSmallest},
                                                 Strategy{Fit::kLowest, Fit::kLowest},
                                                 Strategy{Fit::kHighest, Fit::kLowest}};

// An arena within this factor of the bytes in use at once is not packed again.
constexpr double kCloseEnough = 1.05;

// Limit on claims times claims at once; above it Pack would take seconds.
constexpr std::int64_t kMaxMeetings = 100'000'000;

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

  // Places all buffers. Returns false as soon as the arenas reach `limit` bytes.
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

  // Bytes of all spaces placed so far.
  std::int64_t ArenaBytes() const {
    std::int64_t sum = 0;
    for (const ArenaPlanner& arena : arenas_) sum += arena.HighWater();
    return sum;
  }

  // Places the buffers that live within the step anew with all lifetimes known, in each space if
  // that makes the arena shorter.
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

  // Calls `use` for every held buffer that `op` frees: its lane has its next op, or compute has
  // gone on far enough.
  template <class Use>
  void ForEachDue(std::int32_t op, const Use& use) {
    const std::uint8_t lane = step_.LaneOf(op);
    std::erase_if(held_, [&](const Held& held) {
      const bool is_due = held.lane == lane || held.until == instructions_;
      if (is_due) use(held.buffer);
      return is_due;
    });
  }

  // Finds the op with which each buffer's memory is free again, by default the last one.
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

  // Packs one space. State and buffers that receives fill keep their place at the bottom: the next
  // step uses state again, and a receive must not wait for this step's compute. Skipped if the
  // arena is close to the lower bound, or if packing would take too long.
  void PackSpace(Space space) {
    std::int64_t& arena = rank_.arena_bytes[static_cast<std::size_t>(space)];
    std::int64_t bottom = 0;  // end of state and of the memory that receives fill
    std::vector<Claim> claims;
    std::vector<std::int32_t> of;  // buffer of each claim
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
    const AtOnce max = MaxAtOnce(claims, step_.Ops());
    const auto min = static_cast<double>(bottom + max.bytes);
    if (static_cast<double>(arena) <= kCloseEnough * min) return;
    if (max.claims * static_cast<std::int64_t>(claims.size()) > kMaxMeetings) return;
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

  // Lifetimes are in issue order, not in time: an op may run later, but then the edges that Link
  // derives make the next user of the memory wait for it.
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

  // Updates the lanes that the next user of the buffer waits for. After a write of the whole buffer
  // that is its own lane; after reads it is the readers' lanes, which have waited for the writer.
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

  // Assigns incoming buffers to slots of their lane. A buffer takes the slot of exactly its size
  // that has been free for longest, if it was free before the lane's previous op; otherwise a new
  // one. Slots depend on nothing else, so they can lie together and do not fragment the arena.
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

  // Slot of the same lane, space and size that was freed before op `before`; a new slot if there is
  // none. Linear in slots, of which a lane has a few.
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
    // Receive slots come first, at the bottom, because PackSpace leaves them in place.
    for (const bool received : {true, false}) {
      for (Slot& slot : slots_) {
        if (IsTransferQueue(step_.queues[slot.lane]) != received) continue;
        slot.offset = arenas_[static_cast<std::size_t>(slot.space)].TakeFresh(slot.bytes);
      }
    }
  }

  // Gives a buffer its address at its first access. Returns false if it has one.
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
      // If several queues used it last, no other buffer may take its memory in this step.
      if (std::has_single_bit(users.final)) {
        GiveBack(op, number, PoolOf(std::countr_zero(users.final)));
      }
      return;
    }
    if (!Hold(number)) GiveBack(op, number, kShared);
  }

  // Holds back the memory of a buffer if a queue other than compute used it last. Until that queue
  // has gone on, reuse would make compute wait for the transfer just issued. Returns whether it is
  // held.
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

  // Free once its lane has its next op, or with compute instruction `until`.
  struct Held {
    std::int32_t buffer = 0;
    std::uint8_t lane = 0;
    int until = 0;
  };
  static constexpr int kInstructionsHeld = 2;
  static constexpr int kForever = -1;

  // Counts compute instructions: the clock by which held buffers become free.
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

  static constexpr int kShared = 0;  // pools: this one, then one per lane
  static int PoolOf(int lane) { return 1 + lane; }

  const FlatStep& step_;
  Reuse reuse_;
  Strategy strategy_;
  RankProgram& rank_;
  std::vector<Users> users_;
  std::vector<Slot> slots_;
  std::vector<Held> held_;
  int instructions_ = 0;              // instructions of the compute queue so far
  std::int32_t counted_ = -1;         // the last one counted
  std::vector<std::int32_t> ends_;    // by buffer: op with which its memory is free again
  std::vector<ArenaPlanner> arenas_;  // by space
};

}  // namespace

// Tries every strategy and keeps the layout with the smallest arenas. A later attempt stops once it
// reaches the best size so far. Packing uses the lifetimes found above and runs on the winner
// alone.
void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank) {
  Layout layout(step, reuse, rank);
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> offsets(rank.buffers.size());
  auto arena_bytes = rank.arena_bytes;
  for (const Strategy& strategy : kStrategies) {
    if (!layout.Run(strategy, min)) continue;
    min = layout.ArenaBytes();
    arena_bytes = rank.arena_bytes;
    std::transform(rank.buffers.begin(), rank.buffers.end(), offsets.begin(),
                   [](const Buffer& buffer) { return buffer.offset; });
  }
  rank.arena_bytes = arena_bytes;
  for (std::size_t i = 0; i < offsets.size(); ++i) rank.buffers[i].offset = offsets[i];
  if (reuse == Reuse::kPacked) layout.PackSpaces();
}

}  // namespace foretrain
