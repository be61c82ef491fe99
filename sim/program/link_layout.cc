#include "sim/program/link_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "sim/program/link_arena.h"

namespace foretrain {
namespace {

// What decides with whom a buffer may share its memory.
struct Users {
  LaneSet final = 0;  // lanes that a next user waits for: readers since the last writer, or it
  bool read_since = false;
  bool peers = false;  // touched by a send or receive
  bool placed = false;
  std::uint8_t first_lane = 0;
};

bool IsPeerQueue(Queue queue) {
  return queue == Queue::kSendNext || queue == Queue::kSendPrev || queue == Queue::kRecvNext ||
         queue == Queue::kRecvPrev;
}

// Queues whose ops fill memory for compute to come, ahead of it.
bool IsIncomingQueue(Queue queue) {
  return queue == Queue::kRecvNext || queue == Queue::kRecvPrev || queue == Queue::kH2d ||
         queue == Queue::kNvme;
}

class Layout {
 public:
  Layout(const FlatStep& step, Reuse reuse, RankProgram& rank)
      : step_(step), reuse_(reuse), rank_(rank), users_(rank.buffers.size()) {
    previous_.fill(-1);
  }

  void Run() {
    FindLives();
    PlaceState();
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      for (const TensorAccess& access : step_.AccessesOf(op)) Place(op, access.buffer);
      const std::uint8_t lane = step_.LaneOf(op);
      for (const std::int32_t buffer : held_[lane]) GiveBack(op, buffer, kShared);
      held_[lane].clear();
      for (const TensorAccess& access : step_.AccessesOf(op)) Release(op, access.buffer);
      previous_[lane] = op;
    }
    for (std::size_t space = 0; space < arenas_.size(); ++space) {
      rank_.arena_bytes[space] = arenas_[space].HighWater();
    }
  }

 private:
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
    users.peers = users.peers || IsPeerQueue(step_.QueueOf(op));
  }

  void PlaceState() {
    for (std::size_t i = 0; i < rank_.buffers.size(); ++i) {
      Buffer& buffer = rank_.buffers[i];
      if (!buffer.persistent || buffer.bytes == 0) continue;
      buffer.offset = ArenaOf(buffer).TakeFresh(buffer.bytes);
      users_[i].placed = true;
    }
  }

  void Place(std::int32_t op, std::int32_t number) {
    Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (users.placed) return;
    users.placed = true;
    const std::uint8_t lane = step_.LaneOf(op);
    ArenaPlanner& arena = ArenaOf(buffer);
    if (IsGuarded(users)) {
      buffer.offset = arena.Take(buffer.bytes, PoolOf(lane), lane);
    } else if (IsIncoming(users)) {
      buffer.offset = arena.Refill(buffer.bytes, PoolOf(lane), lane, previous_[lane]);
    } else {
      buffer.offset = arena.Take(buffer.bytes, kShared, lane);
    }
  }

  void Release(std::int32_t op, std::int32_t number) {
    const Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (buffer.persistent || buffer.last_op != op || !users.placed) return;
    users.placed = false;
    if (IsGuarded(users)) {
      // Where several queues used it last nobody may have it again in this step.
      if (std::has_single_bit(users.final)) {
        GiveBack(op, number, PoolOf(std::countr_zero(users.final)));
      }
      return;
    }
    if (IsIncoming(users)) {
      GiveBack(op, number, PoolOf(users.first_lane));
      return;
    }
    for (LaneSet lanes = users.final; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
      if (step_.queues[lane] == Queue::kCompute) continue;
      held_[lane].push_back(number);
      return;
    }
    GiveBack(op, number, kShared);
  }

  void GiveBack(std::int32_t op, std::int32_t number, int pool) {
    const Buffer& buffer = BufferAt(number);
    const Users& users = UsersOf(number);
    if (!IsGuarded(users) && IsIncoming(users)) {
      ArenaOf(buffer).GiveWhole(buffer.offset, buffer.bytes, pool, users.final, op);
    } else {
      ArenaOf(buffer).Give(buffer.offset, buffer.bytes, pool, users.final, op);
    }
  }

  bool IsGuarded(const Users& users) const {
    return reuse_ == Reuse::kOwnQueue || (reuse_ == Reuse::kNotPeers && users.peers);
  }
  bool IsIncoming(const Users& users) const {
    return IsIncomingQueue(step_.queues[users.first_lane]);
  }

  static constexpr int kShared = 0;  // pools: this one, then one a lane
  static int PoolOf(int lane) { return 1 + lane; }

  const FlatStep& step_;
  Reuse reuse_;
  RankProgram& rank_;
  std::vector<Users> users_;
  std::array<std::vector<std::int32_t>, kQueueCount> held_;  // by lane: free after its next op
  std::array<std::int32_t, kQueueCount> previous_;           // by lane: its latest op
  std::vector<ArenaPlanner> arenas_ =
      std::vector<ArenaPlanner>(kSpaceCount, ArenaPlanner(1 + kQueueCount));
};

}  // namespace

void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank) {
  Layout(step, reuse, rank).Run();
}

}  // namespace foretrain
