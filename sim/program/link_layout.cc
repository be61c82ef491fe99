#include "sim/program/link_layout.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/checked.h"
#include "sim/program/link_arena.h"

namespace foretrain {
namespace {

// What decides with whom a buffer may share its memory.
struct Users {
  LaneSet final = 0;  // lanes that a next user waits for: readers since the last writer, or it
  bool read_since = false;
  bool peers = false;  // touched by a send or receive
  bool placed = false;
};

bool IsPeerQueue(Queue queue) {
  return queue == Queue::kSendNext || queue == Queue::kSendPrev || queue == Queue::kRecvNext ||
         queue == Queue::kRecvPrev;
}

class Layout {
 public:
  Layout(const FlatStep& step, Reuse reuse, RankProgram& rank)
      : step_(step), reuse_(reuse), rank_(rank), users_(rank.buffers.size()) {}

  void Run() {
    FindLives();
    PlaceState();
    for (std::int32_t op = 0; op < step_.Ops(); ++op) {
      for (const TensorAccess& access : step_.AccessesOf(op)) Place(op, access.buffer);
      for (const TensorAccess& access : step_.AccessesOf(op)) Release(op, access.buffer);
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
        if (buffer.first_op < 0) buffer.first_op = op;
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
      buffer.offset = ArenaOf(buffer).Take(buffer.bytes, kShared, 0);
      users_[i].placed = true;
    }
  }

  void Place(std::int32_t op, std::int32_t number) {
    Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (users.placed) return;
    users.placed = true;
    const std::uint8_t lane = step_.LaneOf(op);
    buffer.offset = ArenaOf(buffer).Take(buffer.bytes, Guarded(users) ? 1 + lane : kShared, lane);
  }

  void Release(std::int32_t op, std::int32_t number) {
    Buffer& buffer = BufferAt(number);
    Users& users = UsersOf(number);
    if (buffer.persistent || buffer.last_op != op || !users.placed) return;
    users.placed = false;
    int pool = kShared;
    if (Guarded(users)) {
      if (!std::has_single_bit(users.final)) return;  // nobody may have it again in this step
      pool = 1 + std::countr_zero(users.final);
    }
    ArenaOf(buffer).Give(buffer.offset, buffer.bytes, pool, users.final, op);
  }

  bool Guarded(const Users& users) const {
    return reuse_ == Reuse::kOwnQueue || (reuse_ == Reuse::kNotPeers && users.peers);
  }

  static constexpr int kShared = 0;  // pools: this one, then one a lane
  const FlatStep& step_;
  Reuse reuse_;
  RankProgram& rank_;
  std::vector<Users> users_;
  std::vector<ArenaPlanner> arenas_ =
      std::vector<ArenaPlanner>(kSpaceCount, ArenaPlanner(1 + kQueueCount));
};

}  // namespace

void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank) {
  Layout(step, reuse, rank).Run();
}

}  // namespace foretrain
