// One rank while it runs: which ops were issued and which have ended, who sleeps where. Leaves out
// threads (runtime/executor/executor.cc) and what one op does (runtime/executor/worker.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "profiler/span_recorder.h"
#include "runtime/arena.h"
#include "runtime/executor/rank_plan.h"
#include "runtime/executor/run_shared.h"
#include "runtime/gate.h"
#include "runtime/memory_ledger.h"

namespace foretrain {

class Completion;
class DeviceLane;
class Worker;

class RankRun {
 public:
  //   rank_index  its place in the program
  //   place       among the ranks that run here
  static Result<std::unique_ptr<RankRun>> Make(RunShared& shared, int rank_index, int place,
                                               CommunicatorSet& communicators);
  ~RankRun();

  // Before the threads of a run start: counts from step 0 of it.
  void Begin(RunCall& call);

  // Bodies of the rank's threads: each returns when its part of the run is done, or with the error
  // that its rank ends with.
  Result<void> RunHost();
  Result<void> RunQueue(Queue queue);
  // Of a device that works later, else not to be called.
  Result<void> RunCompletions();
  bool HasCompletions() const { return completion_ != nullptr; }

  // The rank's threads beside the host's.
  std::vector<Queue> Queues() const;

  // Hands spans, samples and finished steps to the sink. One thread at a time.
  void Drain();

  // Notes how a thread of the rank ended; the first error stays. The run's too, unless it is
  // kAborted.
  void Report(Error error);
  std::optional<Error> error() const;

  int rank() const { return plan_.rank; }
  const RankProgram& program() const { return program_; }
  RankArena& arena() { return *arena_; }
  const SpanRecorder& recorder() const { return recorder_; }
  const MemoryLedger& ledger() const { return ledger_; }
  GraphUse Graphs() const;  // between runs
  std::string TextOf(OpId op) const;

 private:
  friend class Completion;
  friend class Worker;

  // Gates of one queue's thread: one for each of its reasons to sleep, so that each wake counts.
  struct QueueGates {
    QueueGates(RunClock& clock, RunControl& control)
        : issue(clock, control), edges(clock, control) {}
    Gate issue;
    Gate edges;
  };
  struct OpState {
    std::atomic<std::int32_t> done{0};  // rounds of this run in which it has ended
    // Of a queue of the device alone: rounds in which it was given to it, and where on its lane.
    std::atomic<std::int32_t> launched{0};
    std::atomic<std::int64_t> place{-1};
    std::atomic<std::int64_t> ended_ns{0};
    std::atomic<std::int64_t> issued_ns{0};
  };
  struct BufferState {
    std::atomic<std::int32_t> left{0};  // accessors of this step that have not ended
    std::atomic<bool> live{false};
  };
  struct RoundSlot {
    std::atomic<std::int32_t> left{0};  // ops that have not ended
    std::atomic<std::int64_t> end_ns{0};
  };

  RankRun(RunShared& shared, int rank_index, int place);

  // The rank plays its list round after round. Where steps overlap the first round fills the
  // pipeline: it plays the ops that work ahead, for step 0, and round r + 1 plays step r.
  bool IsLeftOut(const PlannedOp& op, std::int64_t round) const {
    return op.ahead ? round == last_round_.load(std::memory_order_relaxed) : round < fill_;
  }
  // Whether what happens in a step of the training is recorded.
  bool Records(std::int64_t step) const {
    return recorded_ && shared_.options.window.CoversStep(step);
  }
  // The step of this run that an op of a round serves.
  std::int64_t StepOf(const PlannedOp& op, std::int64_t round) const {
    return round - fill_ + (op.ahead ? 1 : 0);
  }

  // The op of a round has ended, at `end_ns`, or was left out: tells who waits, closes the round.
  static constexpr std::int64_t kLeftOut = -1;
  void End(std::int32_t op, std::int64_t round, std::int64_t end_ns);
  void EndRound(std::int64_t round, std::int64_t end_ns);
  // The op of a round was given to its lane, where it is number `place`; -1: it was left out.
  void Launched(std::int32_t op, std::int64_t round, std::int64_t place);
  void WakeEdges(const PlannedOp& op);
  bool HasEnded(Wait wait, std::int64_t round) const {
    return ops_[static_cast<std::size_t>(wait.op)].done.load() >=
           static_cast<std::int32_t>(round) + 1 - wait.distance;
  }
  bool HasLaunched(Wait wait, std::int64_t round) const {
    return ops_[static_cast<std::size_t>(wait.op)].launched.load() >=
           static_cast<std::int32_t>(round) + 1 - wait.distance;
  }
  // When all that the op waits for had ended and it was issued.
  std::int64_t ReadyAt(const PlannedOp& op, std::int32_t number) const;
  // When buffers begin and end: with the first and the last op of a step that touches them.
  // `changed`: room for their numbers.
  void Bear(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed);
  void Bury(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed);
  RoundSlot& SlotOf(std::int64_t round) {
    return rounds_[static_cast<std::size_t>(round) % rounds_.size()];
  }

  // Tells of an error, and keeps the thread until the device has done what the worker's queue was
  // given: it may write to memory that goes with the thread's rank.
  Result<void> Kept(Worker& worker, Result<void> end);

  // The host's part.
  Result<void> IssueAll(Worker& worker);
  void BeginStep(std::int64_t step);
  Result<void> IssueRound(Worker& worker, std::int64_t round);
  Result<void> WaitForRoom(Worker& worker, std::int64_t number, std::int64_t& published);
  void Publish(std::int64_t from, std::int64_t to);
  void Close();

  // Waits for what happens within the rank; gives up when nothing has happened in it for the
  // time-out.
  template <class Ready>
  Result<void> WaitHere(Gate& gate, Ready ready);
  Error Stuck() const;

  RunShared& shared_;
  const int place_;   // among the ranks that run here
  const int device_;  // that it computes on
  const RankProgram& program_;
  std::unique_ptr<RankArena> arena_;
  RankPlan plan_;
  const bool recorded_;  // the rank is one of the window's
  SpanRecorder recorder_;
  MemoryLedger ledger_;
  RunCall* call_ = nullptr;
  std::array<std::unique_ptr<Worker>, kQueueCount> workers_;
  std::array<std::unique_ptr<QueueGates>, kQueueCount> gates_;
  std::array<std::unique_ptr<DeviceLane>, kQueueCount> lanes_;  // of queues on such a device
  std::unique_ptr<Completion> completion_;                      // where there are any

  std::vector<OpState> ops_;
  std::vector<BufferState> buffers_;
  std::vector<RoundSlot> rounds_;             // as many as can be under way at once
  const std::int64_t fill_;                   // rounds that fill the pipeline: 0 or 1
  std::atomic<std::int64_t> last_round_{-1};  // known when the first of its ops is issued
  std::atomic<std::int64_t> issued_{0};       // ops of the run, all rounds together
  std::atomic<bool> closed_{false};           // no more will be issued
  std::atomic<std::int32_t> room_op_{-1};     // op whose end the host waits for to issue more
  std::atomic<std::int64_t> activity_ns_{0};  // when an op last started or ended

  mutable std::mutex mutex_;
  std::optional<Error> error_;       // guarded by mutex_, as all below
  std::vector<StepWindow> windows_;  // finished and not drained
  std::int64_t window_start_ns_ = 0;
  std::vector<Span> drained_spans_;            // Drain's
  std::vector<MemorySample> drained_samples_;  // Drain's
};

}  // namespace foretrain
