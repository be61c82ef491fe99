// Event engine of the simulator: hosts, queues, rendezvous and shared machines over a StepGraph.
// simulate.cc and timeline.cc turn its result into a summary and a timeline.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "sim/cost/program_costs.h"
#include "sim/program/ir/transfer_queues.h"
#include "sim/simulate/contention.h"
#include "sim/simulate/simulate.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {

// One op that has ended.
struct OpRecord {
  std::int32_t op = 0;    // StepGraph number
  std::int32_t step = 0;  // step that the op serves
  double ready_s = 0;     // inputs and queue ready; communication: arrival at the rendezvous
  double start_s = 0;
  double end_s = 0;
};
struct LaunchRecord {
  std::int32_t op = 0;
  std::int32_t step = 0;
  double start_s = 0;
  double end_s = 0;
};

// Ops played between two calls of `cancelled`, which takes about a millisecond.
inline constexpr int kPlaysBetweenAsking = 4096;

// Simulates all ranks round by round. A round plays each op of a step once. Where steps overlap,
// the first round fills the pipeline: it plays only the ops that work ahead, for step 0, and round
// r + 1 plays step r.
//
// Times of an op follow from those of its predecessors, in whatever order they are computed. So
// each rank is played along its order of issue as far as times are known. The clock and its heap of
// events are needed for two kinds of ops only. One kind contends for a machine. The other belongs
// to a round after an unfinished one: it waits, so that no op is played that the result may not
// need.
class Engine {
 public:
  Engine(const StepGraph& graph, const ProgramCosts& costs, const SimulateOptions& options);

  // Plays until the period is stable, the last step has ended, or no op can go on. `cancelled` may
  // be empty; else it is called first and then every kPlaysBetweenAsking ops or so. When it returns
  // true, the run ends and Run returns true.
  bool Run(const std::function<bool()>& cancelled = {});

  bool deadlocked() const { return deadlocked_; }
  int steps() const { return rounds_done_ - fill_; }
  bool stable() const { return stable_; }
  // Number of steps after which a stable period repeats: 1, or 2 where two step lengths alternate.
  int cycle() const { return cycle_; }
  double StepEnd(int step) const { return round_end_s_[static_cast<std::size_t>(step + fill_)]; }

  // Totals of rank index `rank` in `step`, which must be complete on all ranks.
  struct RankTotals {
    double end_s = 0;
    double launch_s = 0;
    double compute_s = 0;
    std::array<double, kOpClassCount> busy_s{};
  };
  const RankTotals& Totals(int rank, int step) const {
    return totals_[static_cast<std::size_t>(step + fill_) *
                       static_cast<std::size_t>(graph_.ranks()) +
                   static_cast<std::size_t>(rank)];
  }

  // Records in no particular order; empty without options.timeline. With options.last_step, only
  // records of the last step and of ops played beyond it.
  const std::vector<OpRecord>& records() const { return records_; }
  const std::vector<LaunchRecord>& launches() const { return launches_; }

  // Reason for which a queue's next op waits after a deadlock.
  enum class Wait : std::uint8_t { kNothing, kIssue, kInput, kPeers };
  struct Blocked {
    Wait wait = Wait::kNothing;
    std::int32_t op = 0;     // StepGraph number
    std::int32_t step = 0;   // step that the op serves
    std::int32_t input = 0;  // kInput: the op that has not ended
  };
  Blocked BlockedAt(std::int32_t slot) const;
  // Op whose end the host of rank index `rank` waits for; -1: none.
  std::int32_t HostWaitsFor(int rank) const;

 private:
  enum class State : std::uint8_t { kDone, kIdle, kIssue, kInput, kTimer, kPeers, kRunning };
  // One queue of one rank. All its ops before `op` of `round` have ended.
  struct Slot {
    std::int32_t op = 0;        // StepGraph number of the next op
    std::int32_t position = 0;  // index of that op in queue_ops
    std::int32_t round = 0;
    std::int32_t rank = 0;
    std::int32_t queue = 0;
    std::int32_t pred = -1;    // next predecessor to check; -1: the first one
    std::int32_t next = -1;    // next entry in the list of waiters or arrivals
    std::int32_t waiter = -1;  // head of the list of slots and hosts that wait for this queue
    State state = State::kIdle;
    std::int64_t first = 0;  // instance of the rank's first op in `round`, minus that op's number
    double ended_s = 0;      // end of the previous op
    double free_s = 0;       // earliest start of the next op
    double inputs_s = 0;     // latest end of the predecessors checked so far
    double passed_s = 0;     // latest time of skipped ops, of this queue and of predecessors
    double ready_s = 0;
    double start_s = 0;
  };
  struct Host {
    std::int64_t next = 0;  // instance (round * ops + op) of the next op to issue
    std::int32_t op = 0;    // number of that op within the step
    std::int32_t round = 0;
    std::int32_t waits_for = -1;
    std::int32_t waits_in = 0;  // round of waits_for
    std::int32_t next_waiter = -1;
    bool working = false;  // true: runs an op of the host queue
    double free_s = 0;
  };
  struct Issued {
    double issued_s = 0;
    double ended_s = 0;  // NaN: not ended; a transfer, for which no host waits, has issued_s
  };
  // Queues of a rank whose next op has to be tried.
  struct Pending {
    std::uint32_t idle = 0;  // one bit per queue
    bool listed = false;
  };
  enum class Kind : std::int32_t { kTimer, kBegin, kEnd, kMachine };
  struct Event {
    double time_s = 0;
    Kind kind = Kind::kTimer;
    std::int32_t index = 0;  // slot or machine
    std::int32_t version = 0;
  };
  struct Channel {
    std::int32_t arrived = 0;
    std::int32_t first = -1;  // slot that arrived last, head of the list
    double latest_s = 0;
  };

  static bool IsHostQueue(const Slot& slot) { return slot.queue == 0; }
  static bool IsTransfer(const Slot& slot) {
    return IsTransferQueue(static_cast<Queue>(slot.queue));
  }
  std::int64_t OpsOf(int rank) const;

  // Order of the heap: earliest first. Ties are broken by kind and index, so that runs are
  // repeatable.
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      if (a.time_s != b.time_s) return a.time_s > b.time_s;
      return a.kind != b.kind ? a.kind > b.kind : a.index > b.index;
    }
  };
  void Push(double time_s, Kind kind, std::int32_t index, std::int32_t version = 0);
  void Handle(const Event& event);
  void FlushMachines();
  void TouchMachine(std::int32_t domain);

  void MarkIdle(std::int32_t slot_number);
  void Skip(std::int32_t slot_number, std::int32_t ops);
  void AskWhetherCancelled();
  void Drain();
  void Advance(int rank);
  bool Play(std::int32_t slot_number);
  bool PlayPart(std::int32_t round, std::int32_t number);
  bool IsReady(int rank, std::int32_t round, const StepGraph::Part& part,
               std::span<const StepGraph::Outer> outer) const;
  bool MayIssue(int rank, std::int64_t first, std::int64_t end);
  double PlayOps(int rank, std::int32_t round, const StepGraph::Part& part,
                 std::span<const StepGraph::Outer> outer);
  void EndPart(int rank, std::int32_t round, const StepGraph::Part& part, double end_s);
  void LeaveWaiters(Slot& slot, std::int32_t slot_number);
  bool LookAtInputs(std::int32_t slot_number);
  bool HasEnded(const Slot& slot, std::int32_t op, std::int32_t round) const {
    return slot.round > round || (slot.round == round && slot.op > op);
  }
  bool Arrive(std::int32_t slot_number, double time_s);
  bool Begin(std::int32_t slot_number, double start_s);
  void BeginContending(std::int32_t slot_number);
  void End(std::int32_t slot_number, double end_s);
  void LeaveOut(std::int32_t slot_number);
  void Record(const Slot& slot, double end_s);
  void GoOn(std::int32_t slot_number, double end_s);
  void Wake(Slot& slot);

  bool IssueUpTo(int rank, std::int64_t instance);
  void Issue(int rank, Host& host);
  void WaitForRunAhead(int rank, Host& host);
  void WakeIssue(int rank);
  // Time at which the host issued the slot's next op, which must have been issued.
  double IssuedSeconds(std::int32_t slot_number) {
    const Slot& slot = slots_[static_cast<std::size_t>(slot_number)];
    if (IsTransfer(slot)) return transfers_[static_cast<std::size_t>(slot_number)].front();
    return IssuedAt(slot.rank, slot.first + slot.op).issued_s;
  }
  Issued& IssuedAt(int rank, std::int64_t instance) {
    return issued_[static_cast<std::size_t>(rank * issue_ring_ + (instance & (issue_ring_ - 1)))];
  }
  double& EndedAt(std::int32_t round, std::int32_t op) {
    return ended_s_[static_cast<std::size_t>(round & 1)][graph_.awaited.NumberOf(op)];
  }
  bool IsLeftOut(std::int32_t op, std::int32_t round) const {
    return round < fill_ && !graph_.nodes[static_cast<std::size_t>(op)].for_next_step;
  }
  // Step served by an op of a round. Ops that work ahead serve the next step.
  std::int32_t StepOf(std::int32_t op, std::int32_t round) const {
    return round - fill_ + (graph_.nodes[static_cast<std::size_t>(op)].for_next_step ? 1 : 0);
  }
  void EndOfRound(std::int32_t round);
  void JudgePeriod(int step);
  double Replayed(const std::vector<std::vector<double>>& values, int rank, std::int32_t op,
                  std::int32_t step) const;

  const StepGraph& graph_;
  const ProgramCosts& costs_;
  const SimulateOptions& options_;
  const bool contended_;
  const bool in_parts_;        // plays whole instructions where possible
  const std::int32_t fill_;    // number of rounds that fill the pipeline: 0 or 1
  const std::int32_t rounds_;  // most rounds to play

  double now_s_ = 0;
  bool stopped_ = false;
  const std::function<bool()>* cancelled_ = nullptr;  // borrowed by Run
  bool was_cancelled_ = false;
  int until_asking_ = 0;
  bool stable_ = false;
  int cycle_ = 1;
  bool deadlocked_ = false;
  std::int32_t rounds_done_ = 0;

  std::vector<Slot> slots_;
  std::vector<Host> hosts_;
  std::vector<Pending> pending_;            // [rank]
  std::vector<std::int32_t> listed_ranks_;  // ranks with something pending
  std::vector<Channel> channels_;
  std::vector<SharedMachine> machines_;
  std::vector<std::int32_t> changed_machines_;
  std::vector<Event> heap_;
  std::vector<std::int32_t> scratch_;
  std::vector<double> part_ends_s_;  // ends of the ops of the part in PlayOps

  // Ends of awaited ops: [parity of the round][number of the awaited op]. Negative: the op was
  // skipped.
  std::array<std::vector<double>, 2> ended_s_;
  std::vector<Issued> issued_;  // [rank * issue_ring_ + instance % issue_ring_]
  std::int64_t issue_ring_ = 1;
  // [slot]: issue times of its sends or receives that have not ended, the next one first.
  std::vector<std::deque<double>> transfers_;

  std::vector<std::int64_t> left_of_round_;  // [round]: ops that have not ended
  std::vector<double> round_end_s_;
  std::vector<RankTotals> totals_;
  std::vector<OpRecord> records_;
  std::vector<LaunchRecord> launches_;
};

}  // namespace foretrain
