// State of one rank while it runs: issued and ended ops, and where its threads sleep. Threads:
// runtime/executor/executor.cc. Work of one op: runtime/executor/worker.h.
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
#include "runtime/device/arena.h"
#include "runtime/device/memory_ledger.h"
#include "runtime/executor/rank_plan.h"
#include "runtime/executor/run_shared.h"
#include "runtime/run/gate.h"

namespace foretrain {

class Completion;
class DeviceLane;
class Worker;

class RankRun {
 public:
  //   rank_index  index in Program::ranks
  //   place       index among the ranks that run here
  //   owner       whose memory it uses, outliving it; null: its own
  static Result<std::unique_ptr<RankRun>> Make(RunShared& shared, int rank_index, int place,
                                               CommunicatorSet& communicators,
                                               const RankArena* owner);
  ~RankRun();

  // Called before the threads of a run start; steps count from its step 0.
  void Begin(RunCall& call);

  // Bodies of the rank's threads. Each returns when its part of the run is done, or with its error.
  Result<void> RunHost();
  Result<void> RunQueue(Queue queue);
  // Only for an asynchronous device.
  Result<void> RunCompletions();
  bool HasCompletions() const { return completion_ != nullptr; }

  // Queues that need a thread besides the host's.
  std::vector<Queue> Queues() const;

  // Passes spans, samples and finished steps to the sink. One thread at a time.
  void Drain();

  // Records how a thread of the rank ended; the first error stays. It also fails the run, unless it
  // is kAborted.
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

  // Gates of one queue's thread. There is one for each reason to sleep, so that no wake is wasted.
  struct QueueGates {
    QueueGates(RunClock& clock, RunControl& control)
        : issue(clock, control), edges(clock, control) {}
    Gate issue;
    Gate edges;
  };
  struct OpState {
    std::atomic<std::int32_t> done{0};  // number of rounds of this run in which it has ended
    // Device queues only: number of rounds in which it was given to the device, and its place on
    // the lane.
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

  // The rank executes its list round after round. If steps overlap, the first round fills the
  // pipeline: it runs only the ops of the next step, for step 0, and round r + 1 executes step r.
  bool IsLeftOut(const PlannedOp& op, std::int64_t round) const {
    return op.for_next_step ? round == last_round_.load(std::memory_order_relaxed) : round < fill_;
  }
  // True if events of the step are recorded.
  bool Records(std::int64_t step) const {
    return recorded_ && shared_.options.window.CoversStep(step);
  }
  // The step of this run to which an op of a round belongs.
  std::int64_t StepOf(const PlannedOp& op, std::int64_t round) const {
    return round - fill_ + (op.for_next_step ? 1 : 0);
  }

  // The op of a round has ended at `end_ns`, or was left out: wakes waiters and closes the round.
  static constexpr std::int64_t kLeftOut = -1;
  void End(std::int32_t op, std::int64_t round, std::int64_t end_ns);
  void EndRound(std::int64_t round, std::int64_t end_ns);
  // The op of a round was given to its lane at `place`; -1: it was left out.
  void Launched(std::int32_t op, std::int64_t round, std::int64_t place);
  void WakeEdges(const PlannedOp& op);
  bool HasEnded(OpWait wait, std::int64_t round) const {
    return ops_[static_cast<std::size_t>(wait.op)].done.load() >=
           static_cast<std::int32_t>(round) + 1 - wait.distance;
  }
  bool HasLaunched(OpWait wait, std::int64_t round) const {
    return ops_[static_cast<std::size_t>(wait.op)].launched.load() >=
           static_cast<std::int32_t>(round) + 1 - wait.distance;
  }
  // Time at which the op was issued and everything it waits for had ended.
  std::int64_t ReadyAt(const PlannedOp& op, std::int32_t number) const;
  // A buffer is live from the first to the last op of a step that touches it. `changed` is scratch
  // for buffer numbers.
  void Bear(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed);
  void Bury(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed);
  RoundSlot& SlotOf(std::int64_t round) {
    return rounds_[static_cast<std::size_t>(round) % rounds_.size()];
  }

  // Reports an error and keeps the thread until the device has finished the worker's queue, whose
  // work may write to the rank's memory.
  Result<void> Kept(Worker& worker, Result<void> end);

  // Called on the host thread:
  Result<void> IssueAll(Worker& worker);
  void BeginStep(std::int64_t step);
  Result<void> IssueRound(Worker& worker, std::int64_t round);
  Result<void> WaitForRoom(Worker& worker, std::int64_t number, std::int64_t& published);
  void Publish(std::int64_t from, std::int64_t to);
  void Close();

  // Waits for an event within the rank. Gives up if nothing happened in the rank for the timeout.
  template <class Ready>
  Result<void> WaitHere(Gate& gate, Ready ready);
  Error Stuck() const;

  RunShared& shared_;
  const int place_;   // index among the ranks that run here
  const int device_;  // device of the rank
  const RankProgram& program_;
  std::unique_ptr<RankArena> arena_;
  RankPlan plan_;
  const bool recorded_;  // the rank is in the capture window
  SpanRecorder recorder_;
  MemoryLedger ledger_;
  RunCall* call_ = nullptr;
  std::array<std::unique_ptr<Worker>, kQueueCount> workers_;
  std::array<std::unique_ptr<QueueGates>, kQueueCount> gates_;
  // for queues of an asynchronous device
  std::array<std::unique_ptr<DeviceLane>, kQueueCount> lanes_;
  std::unique_ptr<Completion> completion_;  // null without such queues

  std::vector<OpState> ops_;
  std::vector<BufferState> buffers_;
  std::vector<RoundSlot> rounds_;             // one for each round that can be in flight
  const std::int64_t fill_;                   // rounds that fill the pipeline: 0 or 1
  std::atomic<std::int64_t> last_round_{-1};  // known when its first op is issued
  std::atomic<std::int64_t> issued_{0};       // ops of the run, over all rounds
  std::atomic<bool> closed_{false};           // no more ops will be issued
  std::atomic<std::int32_t> room_op_{-1};     // op whose end the host awaits before issuing more
  std::atomic<std::int64_t> activity_ns_{0};  // time at which an op last started or ended

  mutable std::mutex mutex_;
  std::optional<Error> error_;       // guarded by mutex_, as all below
  std::vector<StepWindow> windows_;  // finished, not yet drained
  std::int64_t window_start_ns_ = 0;
  std::vector<Span> drained_spans_;            // used by Drain
  std::vector<MemorySample> drained_samples_;  // used by Drain
};

}  // namespace foretrain
