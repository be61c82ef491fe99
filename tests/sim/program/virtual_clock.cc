#include "tests/sim/program/virtual_clock.h"

#include <algorithm>
#include <map>

namespace foretrain {
namespace {

constexpr double kNotEnded = -1;

struct PlayedRank {
  std::vector<OpRef> refs;
  std::map<Queue, std::vector<int>> queues;  // op numbers through all steps
  std::map<Queue, std::size_t> next;
  std::vector<double> start_s;
  std::vector<double> end_s;
};

class Clock {
 public:
  Clock(const Program& program, double send_s, int steps)
      : program_(program), send_s_(send_s), overlaps_(StepsOverlap(program)) {
    for (const RankProgram& rank : program.ranks) {
      PlayedRank& played = ranks_.emplace_back();
      played.refs = OpRefs(program, rank);
      const int ops = rank.op_count;
      played.start_s.assign(static_cast<std::size_t>(ops * steps), kNotEnded);
      played.end_s = played.start_s;
      for (int n = 0; n < ops * steps; ++n) {
        played.queues[OpOf(ranks_.size() - 1, n).queue].push_back(n);
      }
    }
  }

  Played Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        for (auto& [queue, ops] : ranks_[r].queues) {
          while (ranks_[r].next[queue] < ops.size() && TryOp(r, queue)) moved = true;
        }
      }
    }
    Played played;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const double end_s : ranks_[r].end_s) {
        if (end_s == kNotEnded) return {kNotEnded, {}};
        played.end_s = std::max(played.end_s, end_s);
      }
      played.start_s.emplace_back(ranks_[r].start_s.end() - program_.ranks[r].op_count,
                                  ranks_[r].start_s.end());
    }
    return played;
  }

 private:
  const Op& OpOf(std::size_t r, int n) const {
    const RankProgram& rank = program_.ranks[r];
    return OpAt(program_, rank, ranks_[r].refs[static_cast<std::size_t>(n % rank.op_count)]);
  }
  // If steps overlap, the first round fills the pipeline.
  bool IsLeftOut(std::size_t r, int n) const {
    const RankProgram& rank = program_.ranks[r];
    if (!overlaps_ || n >= rank.op_count) return false;
    const OpRef ref = ranks_[r].refs[static_cast<std::size_t>(n)];
    return !rank.step[static_cast<std::size_t>(ref.instruction)].for_next_step;
  }
  double EndOf(std::size_t r, int n) const {
    return n < 0 ? 0 : ranks_[r].end_s[static_cast<std::size_t>(n)];
  }

  // Time at which queue and edges let the head of a queue start; kNotEnded if they do not yet.
  double ReadyAt(std::size_t r, Queue queue) {
    PlayedRank& rank = ranks_[r];
    const std::size_t position = rank.next[queue];
    if (position >= rank.queues[queue].size()) return kNotEnded;
    const int n = rank.queues[queue][position];
    double ready = position == 0 ? 0 : EndOf(r, rank.queues[queue][position - 1]);
    const int ops = program_.ranks[r].op_count;
    for (const Edge& edge : program_.ranks[r].edges) {
      if (edge.to != n % ops) continue;
      const double end = EndOf(r, n - n % ops + edge.from - edge.distance * ops);
      if (end == kNotEnded) return kNotEnded;
      ready = std::max(ready, end);
    }
    return ready;
  }

  void EndHead(std::size_t r, Queue queue, double start_s, double duration_s) {
    PlayedRank& rank = ranks_[r];
    const auto n = static_cast<std::size_t>(rank.queues[queue][rank.next[queue]++]);
    rank.start_s[n] = start_s;
    rank.end_s[n] = start_s + duration_s;
  }

  bool TryOp(std::size_t r, Queue queue) {
    const double ready = ReadyAt(r, queue);
    if (ready == kNotEnded) return false;
    const int n = ranks_[r].queues[queue][ranks_[r].next[queue]];
    const Op& op = OpOf(r, n);
    if (IsLeftOut(r, n)) {
      EndHead(r, queue, ready, 0);
      return true;
    }
    if (op.kind != OpKind::kSend && op.kind != OpKind::kRecv) {
      EndHead(r, queue, ready, op.duration_s);
      return true;
    }
    const auto group = program_.ranks[r].groups[static_cast<std::size_t>(op.group)];
    const std::vector<int>& pair = program_.groups[static_cast<std::size_t>(group)];
    const auto peer = static_cast<std::size_t>(pair[pair[0] == program_.ranks[r].rank ? 1 : 0]);
    const Queue opposite = queue == Queue::kSendNext   ? Queue::kRecvPrev
                           : queue == Queue::kRecvPrev ? Queue::kSendNext
                           : queue == Queue::kSendPrev ? Queue::kRecvNext
                                                       : Queue::kSendPrev;
    const double peer_ready = ReadyAt(peer, opposite);
    if (peer_ready == kNotEnded) return false;
    EndHead(r, queue, std::max(ready, peer_ready), send_s_);
    EndHead(peer, opposite, std::max(ready, peer_ready), send_s_);
    return true;
  }

  const Program& program_;
  double send_s_;
  bool overlaps_;
  std::vector<PlayedRank> ranks_;
};

}  // namespace

Played Play(const Program& program, double send_s, int steps) {
  return Clock(program, send_s, steps).Run();
}

}  // namespace foretrain
