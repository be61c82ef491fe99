// The event loop of the simulator: hosts, queues, rendezvous and shared machines over a StepGraph.
// Leaves out what is made of the result (simulate.cc, timeline.cc).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/program_costs.h"
#include "sim/simulate/contention.h"
#include "sim/simulate/simulate.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {

// One op that ended.
struct OpRecord {
  std::int32_t op = 0;    // StepGraph number
  std::int32_t step = 0;  // that it serves
  double ready_s = 0;     // inputs and queue there; communication: arrived at the rendezvous
  double start_s = 0;
  double end_s = 0;
};
struct LaunchRecord {
  std::int32_t op = 0;
  std::int32_t step = 0;
  double start_s = 0;
  double end_s = 0;
};

// Plays every rank's list round after round. Where steps overlap the first round fills the
// pipeline: it plays the ops that work ahead, for step 0, and round r + 1 plays step r.
class Engine {
 public:
  Engine(const StepGraph& graph, const ProgramCosts& costs, const SimulateOptions& options);

  // Plays until the period is stable, the last step has ended, or nothing can go on.
  void Run();

  bool deadlocked() const { return deadlocked_; }
  int steps() const { return rounds_done_ - fill_; }
  bool stable() const { return stable_; }
  // Steps after which periods repeat, where they are stable: 1, or 2 that take turns.
  int cycle() const { return cycle_; }
  double StepEnd(int step) const { return round_end_s_[static_cast<std::size_t>(step + fill_)]; }

  // Of rank index `rank` in `step` (complete on all ranks).
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

  // In order of end; only with options.timeline.
  const std::vector<OpRecord>& records() const { return records_; }
  const std::vector<LaunchRecord>& launches() const { return launches_; }

  // What a slot's next op waits for, after a deadlock.
  enum class Wait : std::uint8_t { kNothing, kIssue, kInput, kPeers };
  struct Blocked {
    Wait wait = Wait::kNothing;
    std::int32_t op = 0;     // StepGraph number
    std::int32_t step = 0;   // that it serves
    std::int32_t input = 0;  // kInput: the op that has not ended
  };
  Blocked BlockedAt(std::int32_t slot) const;
  // The op whose end the host of rank index `rank` waits for, or -1.
  std::int32_t HostWaitsFor(int rank) const;

 private:
  enum class State : std::uint8_t { kDone, kIssue, kInput, kTimer, kPeers, kRunning };
  struct Slot {
    std::int32_t position = 0;  // in the slot's run of queue_ops
    std::int32_t round = 0;
    std::int32_t pred = 0;   // next predecessor to look at
    std::int32_t next = -1;  // in the list of waiters or arrivals that it stands in
    State state = State::kIssue;
    double ended_s = 0;   // of the op before
    double free_s = 0;    // since when it may start another op
    double inputs_s = 0;  // latest end of the predecessors looked at
    double ready_s = 0;
    double start_s = 0;
  };
  struct Host {
    std::int64_t next = 0;  // instance (round * ops + op) to issue
    std::int32_t op = 0;    // of it
    std::int32_t round = 0;
    std::int32_t waits_for = -1;
    bool working = false;  // runs an op of the host queue
    double free_s = 0;
  };
  enum class Kind : std::int32_t { kTimer, kLeftOut, kEnd, kMachine };
  struct Event {
    double time_s = 0;
    Kind kind = Kind::kTimer;
    std::int32_t index = 0;  // slot or machine
    std::int32_t version = 0;
  };
  struct Channel {
    std::int32_t arrived = 0;
    std::int32_t first = -1;  // slot
  };

  // Whether ops of the row slow others down or are slowed down.
  bool Contends(std::int32_t row) const {
    return contended_ && contends_[static_cast<std::size_t>(row)];
  }
  std::int32_t HeadOf(const Slot& slot, std::int32_t slot_number) const {
    return graph_.queue_ops[static_cast<std::size_t>(
        graph_.queue_begin[static_cast<std::size_t>(slot_number)] + slot.position)];
  }
  int RankOf(std::int32_t slot) const { return slot / kQueueCount; }
  static bool IsHostQueue(std::int32_t slot) { return slot % kQueueCount == 0; }

  static bool Later(const Event& a, const Event& b);
  void Push(double time_s, Kind kind, std::int32_t index, std::int32_t version = 0);
  void Handle(const Event& event);
  void FlushMachines();
  void AdvanceHost(int rank);
  void Issue(int rank, Host& host, std::int32_t op);
  bool IsIssued(int rank, std::int32_t op, std::int32_t round, double* issued_s) const;
  bool IsLeftOut(std::int32_t op, std::int32_t round) const {
    return round < fill_ && !graph_.nodes[static_cast<std::size_t>(op)].ahead;
  }
  // The step that an op of a round serves.
  std::int32_t StepOf(std::int32_t op, std::int32_t round) const {
    return round - fill_ + (graph_.nodes[static_cast<std::size_t>(op)].ahead ? 1 : 0);
  }
  void TryStart(std::int32_t slot_number);
  void Arrive(std::int32_t slot_number);
  void Begin(std::int32_t slot_number);
  void End(std::int32_t slot_number);
  void EndOfOp(int rank, std::int32_t op, const Slot& slot);
  void Wake(std::int32_t op);
  void EndOfRound(std::int32_t round);
  double Replayed(const std::vector<std::vector<double>>& values, int rank, std::int32_t op,
                  std::int32_t step) const;

  const StepGraph& graph_;
  const ProgramCosts& costs_;
  const SimulateOptions& options_;
  const bool contended_;
  std::vector<bool> contends_;  // [row]; empty where none does
  const std::int32_t fill_;     // rounds that fill the pipeline: 0 or 1
  const std::int32_t rounds_;   // that are played at most

  double now_s_ = 0;
  bool stopped_ = false;
  bool stable_ = false;
  int cycle_ = 1;
  bool deadlocked_ = false;
  int rounds_done_ = 0;

  std::vector<Slot> slots_;
  std::vector<Host> hosts_;
  std::vector<Channel> channels_;
  std::vector<SharedMachine> machines_;
  std::vector<std::int32_t> changed_machines_;
  std::vector<Event> heap_;
  std::vector<std::int32_t> scratch_;

  std::vector<std::int32_t> done_;     // [op]: rounds in which it has ended
  std::vector<double> ended_s_;        // [op]: its last end
  std::vector<std::int32_t> waiters_;  // [op]: first of the slots and hosts that wait for its end
  std::vector<std::int32_t> next_host_waiter_;  // [rank]
  std::vector<double> issued_s_;                // [rank * issue_ring_ + instance % issue_ring_]
  std::int64_t issue_ring_ = 1;

  std::vector<std::int64_t> left_of_round_;  // [round]: ops that have not ended
  std::vector<double> round_end_s_;
  std::vector<RankTotals> totals_;
  std::vector<OpRecord> records_;
  std::vector<LaunchRecord> launches_;
};

}  // namespace foretrain
