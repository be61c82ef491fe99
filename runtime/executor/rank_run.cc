#include "runtime/executor/rank_run.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "runtime/executor/completion.h"
#include "runtime/executor/device_lane.h"
#include "runtime/executor/rank_wait.h"
#include "runtime/executor/worker.h"
#include "sim/program/ir/transfer_queues.h"

namespace foretrain {
namespace {

// Ops that the host issues before it wakes the queues. Also the number that must end before it goes
// on after reaching run_ahead. A wake costs as much as issuing hundreds of ops.
constexpr std::int64_t kIssueBatch = 32;

}  // namespace

// rounds_ has a slot for each round that can be in flight: run_ahead bounds them.
RankRun::RankRun(RunShared& shared, int rank_index, int place)
    : shared_(shared),
      place_(place),
      device_(shared.options.local[static_cast<std::size_t>(place)].device),
      program_(shared.program->ranks[static_cast<std::size_t>(rank_index)]),
      recorded_(shared.options.window.CoversRank(program_.rank)),
      ledger_(program_, recorded_ && shared.options.window.CoversStep(shared.options.first_step)),
      ops_(static_cast<std::size_t>(program_.op_count)),
      buffers_(program_.buffers.size()),
      rounds_(
          static_cast<std::size_t>(shared.options.run_ahead / std::max(program_.op_count, 1) + 4)),
      fill_(StepsOverlap(*shared.program) ? 1 : 0) {}

RankRun::~RankRun() = default;

// The arena comes first, since the plan holds its addresses. Workers add their lanes, which the
// completion thread then watches.
Result<std::unique_ptr<RankRun>> RankRun::Make(RunShared& shared, int rank_index, int place,
                                               CommunicatorSet& communicators,
                                               const RankArena* owner) {
  std::unique_ptr<RankRun> rank(new RankRun(shared, rank_index, place));
  if (owner != nullptr) {
    rank->arena_ = RankArena::Share(rank->program_, *owner);
  } else {
    const ArenaOptions arena{rank->device_, shared.options.poison, shared.options.nvme};
    FT_ASSIGN(rank->arena_, RankArena::Make(rank->program_, shared.api, arena));
  }
  FT_ASSIGN(rank->plan_, PlanRank(*shared.program, rank_index, *rank->arena_, communicators,
                                  shared.options.optimizer, shared.options.seed,
                                  shared.options.spike_guard != nullptr));
  for (std::size_t queue = 0; queue < kQueueCount; ++queue) {
    const bool host = static_cast<Queue>(queue) == Queue::kHost;
    if (!host && rank->plan_.queues[queue].empty()) continue;
    rank->gates_[queue] = std::make_unique<QueueGates>(shared.clock, shared.control);
    FT_ASSIGN(rank->workers_[queue], Worker::Make(*rank, static_cast<Queue>(queue)));
  }
  std::vector<DeviceLane*> lanes;
  for (const auto& lane : rank->lanes_) {
    if (lane != nullptr) lanes.push_back(lane.get());
  }
  if (!lanes.empty()) {
    FT_ASSIGN(rank->completion_, Completion::Make(*rank, std::move(lanes)));
  }
  for (std::size_t i = 0; i < rank->buffers_.size(); ++i) {
    rank->buffers_[i].left.store(rank->plan_.accessors[i]);
  }
  return rank;
}

// Called before any thread of the run exists, so plain stores suffice.
void RankRun::Begin(RunCall& call) {
  call_ = &call;
  for (OpState& op : ops_) {
    op.done.store(0);
    op.launched.store(0);
    op.place.store(-1);
  }
  for (const auto& lane : lanes_) {
    if (lane != nullptr) lane->Open();
  }
  for (RoundSlot& slot : rounds_) {
    slot.left.store(program_.op_count);
    slot.end_ns.store(0);
  }
  last_round_.store(-1);
  issued_.store(0);
  closed_.store(false);
  activity_ns_.store(shared_.clock.Now());
  window_start_ns_ = shared_.clock.Now();
}

std::vector<Queue> RankRun::Queues() const {
  std::vector<Queue> queues;
  for (std::size_t queue = 0; queue < kQueueCount; ++queue) {
    if (static_cast<Queue>(queue) == Queue::kHost || workers_[queue] == nullptr) continue;
    queues.push_back(static_cast<Queue>(queue));
  }
  return queues;
}

// After an error the thread reports it, then stays until its device work has ended.
Result<void> RankRun::RunQueue(Queue queue) {
  Worker& worker = *workers_[static_cast<std::size_t>(queue)];
  return Kept(worker, worker.RunAll());
}

Result<void> RankRun::RunCompletions() { return completion_->Run(); }

Result<void> RankRun::RunHost() {
  Worker& worker = *workers_[static_cast<std::size_t>(Queue::kHost)];
  return Kept(worker, IssueAll(worker));
}

Result<void> RankRun::Kept(Worker& worker, Result<void> end) {
  if (end.has_value()) return end;
  Report(end.error());
  worker.WaitForDevice();
  return end;
}

Result<void> RankRun::IssueAll(Worker& worker) {
  // Step r begins in round r. If ops of the next step run ahead, there is one more round, in which
  // no step begins.
  for (std::int64_t round = 0;; ++round) {
    const bool begins = call_->limit.Begin(round);
    if (!begins && (fill_ == 0 || round == 0)) break;
    if (!begins) last_round_.store(round);
    if (begins) BeginStep(call_->first_step + round);
    FT_TRY(IssueRound(worker, round));
    Drain();
    if (!begins) break;
  }
  Close();
  return {};
}

// Ops of earlier steps may still run when the window opens: a few more samples are recorded.
void RankRun::BeginStep(std::int64_t step) {
  if (call_->searches) return;
  if (shared_.options.capture != nullptr) shared_.options.capture->BeginStep(plan_.rank, step);
  if (step == shared_.options.window.first_step && recorded_) {
    ledger_.Record(true, shared_.clock.Now());
  }
}

// Publishes in batches of kIssueBatch. Before an op on the host's own queue everything issued so
// far is published, since that op may wait for it.
Result<void> RankRun::IssueRound(Worker& worker, std::int64_t round) {
  const auto count = static_cast<std::int64_t>(plan_.ops.size());
  std::int64_t published = round * count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = round * count + i;
    FT_TRY(WaitForRoom(worker, number, published));
    if (plan_.ops[static_cast<std::size_t>(i)].queue == Queue::kHost) {
      Publish(published, number);
      FT_TRY(worker.Run(static_cast<std::int32_t>(i), round));
      published = number;
    } else if (number - published + 1 >= kIssueBatch) {
      Publish(published, number + 1);
      published = number + 1;
    }
  }
  Publish(published, (round + 1) * count);
  return {};
}

// Op `number` may be issued once op number - run_ahead has ended. If that is a transfer, the same
// transfer of the previous step counts instead (transfer_queues.h).
Result<void> RankRun::WaitForRoom(Worker& worker, std::int64_t number, std::int64_t& published) {
  const std::int64_t run_ahead = shared_.options.run_ahead;
  const std::int64_t count = program_.op_count;
  const auto is_transfer = [&](std::int64_t earlier) {
    return IsTransferQueue(plan_.ops[static_cast<std::size_t>(earlier % count)].queue);
  };
  const auto ended = [&](std::int64_t earlier) {
    return HasEnded({static_cast<std::int32_t>(earlier % count), 0}, earlier / count);
  };
  if (number < run_ahead) return {};
  std::int64_t awaited = number - run_ahead;
  const bool transfer = is_transfer(awaited);
  if (transfer) awaited -= count;
  if (awaited < 0 || ended(awaited)) return {};
  Publish(published, number);
  published = number;
  // Waits for more room than needed, to save wakes; not in virtual time, where a wake costs
  // nothing.
  if (!transfer && !shared_.clock.IsVirtual()) {
    awaited += std::min<std::int64_t>(kIssueBatch, (run_ahead - 1) / 2);
    while (is_transfer(awaited)) --awaited;
  }
  room_op_.store(static_cast<std::int32_t>(awaited % count));
  FT_TRY(WaitHere(gates_[static_cast<std::size_t>(worker.queue())]->issue,
                  [&] { return ended(awaited); }));
  room_op_.store(-1);
  return {};
}

// issued_ is stored after the ops' issue times, so a queue that sees an op also sees its time.
void RankRun::Publish(std::int64_t from, std::int64_t to) {
  if (to == from) return;
  const std::int64_t now_ns = shared_.clock.Now();
  const auto count = static_cast<std::int64_t>(plan_.ops.size());
  unsigned queues = 0;
  for (std::int64_t number = from; number < to; ++number) {
    const auto op = static_cast<std::size_t>(number % count);
    ops_[op].issued_ns.store(now_ns, std::memory_order_relaxed);
    queues |= 1U << static_cast<unsigned>(plan_.ops[op].queue);
  }
  issued_.store(to);
  for (std::size_t queue = 1; queue < kQueueCount; ++queue) {
    if ((queues >> queue & 1U) != 0) gates_[queue]->issue.Wake();
  }
}

// closed_ is stored before the wakes: a worker that wakes and finds no new op then ends.
void RankRun::Close() {
  closed_.store(true);
  for (const auto& gates : gates_) {
    if (gates != nullptr) gates->issue.Wake();
  }
}

// Called by the thread on which the op ended. Order matters: the round first, then the op's own
// state, then the wakes.
void RankRun::End(std::int32_t number, std::int64_t round, std::int64_t end_ns) {
  const PlannedOp& op = plan_.ops[static_cast<std::size_t>(number)];
  OpState& state = ops_[static_cast<std::size_t>(number)];
  RoundSlot& slot = SlotOf(round);
  std::int64_t latest = slot.end_ns.load(std::memory_order_relaxed);
  while (latest < end_ns && !slot.end_ns.compare_exchange_weak(latest, end_ns)) {
  }
  // Must precede the op's `done`: once it is set, the host may reuse the round's slot.
  if (slot.left.fetch_sub(1) == 1) EndRound(round, slot.end_ns.load());
  if (end_ns != kLeftOut) state.ended_ns.store(end_ns, std::memory_order_relaxed);
  state.done.store(static_cast<std::int32_t>(round) + 1);
  WakeEdges(op);
  if (room_op_.load() == number) gates_[static_cast<std::size_t>(Queue::kHost)]->issue.Wake();
}

// Wakes each queue with an op that waits for this one, by the bits in `wakes`.
void RankRun::WakeEdges(const PlannedOp& op) {
  for (unsigned wakes = op.wakes; wakes != 0; wakes &= wakes - 1) {
    gates_[static_cast<std::size_t>(__builtin_ctz(wakes))]->edges.Wake();
  }
}

// `place` must be stored before `launched`: a worker that sees the launch reads the place to find
// the op's event.
void RankRun::Launched(std::int32_t number, std::int64_t round, std::int64_t place) {
  OpState& state = ops_[static_cast<std::size_t>(number)];
  if (place >= 0) state.place.store(place);
  state.launched.store(static_cast<std::int32_t>(round) + 1);
  WakeEdges(plan_.ops[static_cast<std::size_t>(number)]);
  completion_->Wake();
}

// Ready time: the later of issue and the end of the last awaited op.
std::int64_t RankRun::ReadyAt(const PlannedOp& op, std::int32_t number) const {
  std::int64_t ready =
      ops_[static_cast<std::size_t>(number)].issued_ns.load(std::memory_order_relaxed);
  for (std::int32_t i = 0; i < op.wait_count; ++i) {
    const OpWait& wait = plan_.waits[static_cast<std::size_t>(op.first_wait + i)];
    const OpState& from = ops_[static_cast<std::size_t>(wait.op)];
    ready = std::max(ready, from.ended_ns.load(std::memory_order_relaxed));
  }
  return ready;
}

// Runs on the thread of the round's last op. Windows of consecutive steps touch.
void RankRun::EndRound(std::int64_t round, std::int64_t end_ns) {
  RoundSlot& slot = SlotOf(round);
  slot.left.store(program_.op_count);
  slot.end_ns.store(0);
  if (round < fill_) return;  // counts with the first step
  const std::int64_t step = call_->first_step + round - fill_;
  if (step + 1 >= shared_.options.window.end_step) ledger_.Record(false, end_ns);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Records(step)) {
    windows_.push_back({window_start_ns_, end_ns, static_cast<std::int32_t>(step),
                        static_cast<std::int16_t>(plan_.rank)});
  }
  window_start_ns_ = end_ns;
}

// Called by the host thread each round. sink_mutex serializes the ranks' calls into the sink.
void RankRun::Drain() {
  std::vector<StepWindow> windows;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    windows.swap(windows_);
  }
  drained_spans_.clear();
  drained_samples_.clear();
  recorder_.Drain(drained_spans_);
  if (shared_.options.record_memory) ledger_.Drain(drained_samples_);
  const std::lock_guard<std::mutex> lock(shared_.sink_mutex);
  RunSink& sink = *call_->sink;
  if (!drained_spans_.empty()) sink.OnSpans(drained_spans_);
  if (!drained_samples_.empty()) sink.OnMemory(drained_samples_);
  for (const StepWindow& window : windows) sink.OnStepWindow(window);
}

// A rank keeps its first error; kAborted is never the run's error, because another rank caused it.
void RankRun::Report(Error error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_.has_value()) error_ = error;
  }
  if (error.code != ErrorCode::kAborted) shared_.control.Fail(plan_.rank, std::move(error));
}

std::optional<Error> RankRun::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

// Workers count without a lock, hence only between runs.
GraphUse RankRun::Graphs() const {
  GraphUse use;
  for (const auto& worker : workers_) {
    if (worker != nullptr) use.Add(worker->graph_use());
  }
  return use;
}

std::string RankRun::TextOf(OpId op) const { return OpText(*shared_.program, program_, op); }

// Names the op that holds up the rank, by its flight record.
Error RankRun::Stuck() const {
  const std::string rank = "rank " + std::to_string(plan_.rank);
  const auto last = shared_.flight.Last(plan_.rank);
  if (!last.has_value()) return {ErrorCode::kTimeout, rank + ": no op has started in time"};
  const std::int64_t waited = shared_.clock.Now() - last->time_ns;
  return {ErrorCode::kTimeout, rank + ", step " + std::to_string(last->step) + ", " +
                                   TextOf(last->op) + ": has not ended after " +
                                   FormatSeconds(SecondsFromNs(waited)) +
                                   ", and nothing else happens on the rank"};
}

}  // namespace foretrain
