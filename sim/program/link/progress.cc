#include "sim/program/link/progress.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sim/program/ir/transfer_queues.h"

namespace foretrain {
namespace {

std::size_t Index(std::int32_t i) { return static_cast<std::size_t>(i); }

// The progress of one rank. Queues are FIFO, so the first unfinished op of each queue is the whole
// state.
class RankState {
 public:
  // Precomputes each op's position on its lane and its first edge, so that a query takes constant
  // time.
  RankState(const RankProgram& rank, const FlatStep& step, int steps)
      : rank_(rank),
        step_(step),
        steps_(steps),
        ops_of_lane_(step.Lanes()),
        position_(step.lane.size()),
        heads_(step.Lanes()) {
    for (std::int32_t op = 0; op < step.Ops(); ++op) {
      std::vector<std::int32_t>& ops = ops_of_lane_[step.LaneOf(op)];
      position_[Index(op)] = static_cast<std::int32_t>(ops.size());
      ops.push_back(op);
    }
    for (std::size_t lane = 0; lane < step.Lanes(); ++lane) {
      heads_[lane].op = ops_of_lane_[lane].front();
      heads_[lane].number = heads_[lane].op;
    }
    const auto host = std::find(step.queues.begin(), step.queues.end(), Queue::kHost);
    if (host != step.queues.end()) {
      host_lane_ = static_cast<std::int32_t>(host - step.queues.begin());
    }
    std::size_t edge = 0;
    for (std::int32_t op = 0; op <= step.Ops(); ++op) {
      while (edge < rank.edges.size() && rank.edges[edge].to < op) ++edge;
      first_edge_.push_back(edge);
    }
  }

  // The first unfinished op of a lane.
  struct Head {
    std::int64_t number = 0;  // through all steps; kAllEnded after the last
    std::int32_t op = 0;
    std::int32_t step = 0;
    std::int32_t position = 0;  // in the lane
    bool arrived = false;       // it waits only for its partners
  };
  static constexpr std::int64_t kAllEnded = std::numeric_limits<std::int64_t>::max() / 2;
  const Head& HeadOf(std::size_t lane) const { return heads_[lane]; }
  std::int64_t Oldest() const { return std::min(OldestOwn(), OldestTransfer()); }
  std::int64_t OldestOwn() const { return OldestOf(false); }
  std::int64_t OldestTransfer() const { return OldestOf(true); }
  // The op that the host itself is in. While it is unfinished the host issues nothing behind it.
  std::int64_t HostHead() const {
    return host_lane_ < 0 ? kAllEnded : heads_[Index(host_lane_)].number;
  }
  bool HasEnded(std::int32_t op, std::int32_t step) const {
    const Head& head = heads_[step_.LaneOf(op)];
    return head.step > step || (head.step == step && head.position > position_[Index(op)]);
  }
  // The first edge of an op whose source has not ended, or nullptr.
  const Edge* UnmetEdge(std::int32_t op, std::int32_t step) const {
    for (std::size_t i = first_edge_[Index(op)]; i < first_edge_[Index(op) + 1]; ++i) {
      const Edge& edge = rank_.edges[i];
      if (!HasEnded(edge.from, step - edge.distance)) return &edge;
    }
    return nullptr;
  }
  std::int32_t Ops() const { return step_.Ops(); }
  std::size_t Lanes() const { return heads_.size(); }
  std::uint8_t LaneOf(std::int32_t op) const { return step_.LaneOf(op); }
  void Arrive(std::size_t lane) { heads_[lane].arrived = true; }
  void EndHead(std::size_t lane) {
    const std::vector<std::int32_t>& ops = ops_of_lane_[lane];
    Head& head = heads_[lane];
    head.arrived = false;
    if (++head.position == static_cast<std::int32_t>(ops.size())) {
      head.position = 0;
      ++head.step;
    }
    head.op = ops[Index(head.position)];
    head.number = head.step < steps_ ? std::int64_t{head.step} * step_.Ops() + head.op : kAllEnded;
  }

 private:
  std::int64_t OldestOf(bool transfers) const {
    std::int64_t oldest = kAllEnded;
    for (std::size_t lane = 0; lane < heads_.size(); ++lane) {
      if (IsTransferQueue(step_.queues[lane]) != transfers) continue;
      oldest = std::min(oldest, heads_[lane].number);
    }
    return oldest;
  }

  const RankProgram& rank_;
  const FlatStep& step_;
  int steps_;
  std::vector<std::vector<std::int32_t>> ops_of_lane_;
  std::vector<std::int32_t> position_;  // position of each op in its lane
  std::vector<Head> heads_;             // by lane
  std::vector<std::size_t> first_edge_;
  std::int32_t host_lane_ = -1;
};

// Plays all ranks without time. A work list holds the ranks that may move; a rank is put back when
// a partner's arrival ends one of its ops. The order of the list does not matter, since no op takes
// anything from another.
class Player {
 public:
  Player(const Program& program, std::span<const FlatStep> steps_of, const Couplings& couplings,
         int run_ahead_ops, int steps)
      : couplings_(couplings),
        run_ahead_ops_(run_ahead_ops),
        come_(couplings.first.size(), 0),
        is_queued_(program.ranks.size(), true) {
    for (std::size_t i = 0; i < program.ranks.size(); ++i) {
      ranks_.emplace_back(program.ranks[i], steps_of[i], steps);
      queued_.push_back(static_cast<std::int32_t>(i));
    }
  }

  // When no rank can move, either all ops have ended or some oldest op waits. Following its waits
  // must lead into a cycle, because every waiting op waits for an unfinished one.
  std::optional<std::vector<Wait>> Run() {
    while (!queued_.empty()) {
      const std::int32_t rank = queued_.back();
      queued_.pop_back();
      is_queued_[Index(rank)] = false;
      Advance(rank);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::int64_t oldest = ranks_[rank].Oldest();
      if (oldest != RankState::kAllEnded) return Circle({static_cast<std::int32_t>(rank), oldest});
    }
    return std::nullopt;
  }

 private:
  // An op, by its number through all steps.
  struct Place {
    std::int32_t rank = 0;
    std::int64_t number = 0;
    bool operator==(const Place&) const = default;
  };

  RankState& RankAt(std::int32_t rank) { return ranks_[Index(rank)]; }
  std::int32_t OpOf(const Place& place) {
    return static_cast<std::int32_t>(place.number % RankAt(place.rank).Ops());
  }
  std::int32_t StepOf(const Place& place) {
    return static_cast<std::int32_t>(place.number / RankAt(place.rank).Ops());
  }

  // Ends every op of the rank that can end now. `issued` is the last op that the host has issued:
  // limited by run-ahead, by the older transfers and by the host's own ops.
  void Advance(std::int32_t rank) {
    RankState& state = RankAt(rank);
    for (bool moved = true; moved;) {
      moved = false;
      const std::int64_t issued =
          std::min({state.OldestOwn() + run_ahead_ops_ - 1,
                    state.OldestTransfer() + state.Ops() + run_ahead_ops_ - 1, state.HostHead(),
                    RankState::kAllEnded - 1});
      for (std::size_t lane = 0; lane < state.Lanes(); ++lane) {
        while (state.HeadOf(lane).number <= issued && TryHead(rank, lane)) moved = true;
      }
    }
  }

  // Ends the first op of a lane if nothing holds it. A coupled op arrives, and the last member to
  // arrive ends the op on all members. `head` is a reference, so it must not be read after EndHead.
  bool TryHead(std::int32_t rank, std::size_t lane) {
    RankState& state = RankAt(rank);
    const RankState::Head& head = state.HeadOf(lane);
    if (head.arrived || state.UnmetEdge(head.op, head.step) != nullptr) return false;
    const std::int32_t coupling = couplings_.Of({rank, head.op});
    if (coupling < 0) {
      state.EndHead(lane);
      return true;
    }
    state.Arrive(lane);
    const auto members = couplings_.MembersOf(coupling);
    if (++come_[Index(coupling)] < static_cast<std::int32_t>(members.size())) return false;
    come_[Index(coupling)] = 0;
    for (const OpPlace& member : members) {
      RankAt(member.rank).EndHead(RankAt(member.rank).LaneOf(member.op));
      if (member.rank == rank || is_queued_[Index(member.rank)]) continue;
      is_queued_[Index(member.rank)] = true;
      queued_.push_back(member.rank);
    }
    return true;
  }

  // The op that an unfinished op waits for, and why. The order of the questions is that of an op's
  // life: queue, host, run-ahead, edge, peer.
  Place WhatHolds(const Place& place, WaitKind& kind) {
    RankState& state = RankAt(place.rank);
    const std::int32_t op = OpOf(place);
    const std::uint8_t lane = state.LaneOf(op);
    kind = WaitKind::kQueue;
    // The op waits for the first unfinished op of its queue, unless it is that op itself.
    const std::int64_t head = state.HeadOf(lane).number;
    if (head != place.number) return {place.rank, head};
    kind = WaitKind::kHost;
    if (state.HostHead() < place.number) return {place.rank, state.HostHead()};
    kind = WaitKind::kRunAhead;
    const std::int64_t own = state.OldestOwn(), transfer = state.OldestTransfer();
    if (own + run_ahead_ops_ <= place.number) return {place.rank, own};
    if (transfer + state.Ops() + run_ahead_ops_ <= place.number) return {place.rank, transfer};
    kind = WaitKind::kEdge;
    const std::int32_t step = StepOf(place);
    if (const Edge* edge = state.UnmetEdge(op, step)) {
      return {place.rank, std::int64_t{step - edge->distance} * state.Ops() + edge->from};
    }
    // Everything local is fulfilled, so a partner is missing.
    kind = WaitKind::kPeer;
    for (const OpPlace& member : couplings_.MembersOf(couplings_.Of({place.rank, op}))) {
      RankState& peer = RankAt(member.rank);
      const std::int64_t number = std::int64_t{step} * peer.Ops() + member.op;
      const RankState::Head& its_head = peer.HeadOf(peer.LaneOf(member.op));
      if (its_head.number != number || !its_head.arrived) return {member.rank, number};
    }
    FT_CHECK(false && "an op that nothing holds has ended");
    return place;
  }

  // Follows waits from `place` until an op repeats, then drops the path that leads into the cycle.
  std::vector<Wait> Circle(Place place) {
    std::vector<Place> path;
    std::vector<Wait> waits;
    for (;;) {
      const auto seen = std::find(path.begin(), path.end(), place);
      if (seen != path.end()) {
        waits.erase(waits.begin(), waits.begin() + (seen - path.begin()));
        return waits;
      }
      path.push_back(place);
      WaitKind kind = WaitKind::kQueue;
      const Place next = WhatHolds(place, kind);
      waits.push_back({{place.rank, OpOf(place)}, StepOf(place), kind});
      place = next;
    }
  }

  const Couplings& couplings_;
  int run_ahead_ops_;
  std::vector<RankState> ranks_;
  std::vector<std::int32_t> come_;  // members that have arrived, by coupling
  std::vector<std::int32_t> queued_;
  std::vector<bool> is_queued_;
};

std::string_view WaitText(WaitKind kind) {
  switch (kind) {
    case WaitKind::kQueue:
      return "is behind, on its queue,";
    case WaitKind::kEdge:
      return "waits by an edge for";
    case WaitKind::kPeer:
      return "waits for its partner";
    case WaitKind::kRunAhead:
      return "is not issued before the end of";
    case WaitKind::kHost:
      return "is not issued while the host waits in";
  }
  return "";
}

}  // namespace

std::optional<std::vector<Wait>> FindDeadlock(const Program& program,
                                              std::span<const FlatStep> steps_of,
                                              const Couplings& couplings, int run_ahead_ops,
                                              int steps) {
  return Player(program, steps_of, couplings, run_ahead_ops, steps).Run();
}

std::string DescribeDeadlock(const Program& program, std::span<const FlatStep> steps_of,
                             std::span<const Wait> circle, int run_ahead_ops) {
  std::string text = "deadlock with a run-ahead of " + std::to_string(run_ahead_ops) + " ops:";
  for (const Wait& wait : circle) {
    const auto rank = Index(wait.op.rank);
    text += "\n  " + DescribeOp(program, program.ranks[rank], steps_of[rank], wait.op.op) +
            " of step " + std::to_string(wait.step) + " " + std::string(WaitText(wait.kind));
  }
  return text + "\n  the first";
}

}  // namespace foretrain
