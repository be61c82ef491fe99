// Ops on an asynchronous device: what a queue's thread gives to the device, and how the device
// waits.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "runtime/executor/completion.h"
#include "runtime/executor/rank_wait.h"
#include "runtime/executor/worker.h"
#include "sim/program/ir/transfer_queues.h"

namespace foretrain {
namespace {

// If nothing is recorded, only some ops get an end event: those that others wait for, and at least
// every kUnseen-th. The others count as ended with the next such op.
constexpr std::int32_t kUnseen = 16;

constexpr std::int64_t kSettleSleepNs = 10'000;
constexpr auto kPatience = std::chrono::milliseconds(1);  // poll interval after a failure

// True for queues whose work runs on the host.
bool IsOfHost(Queue queue) {
  return queue == Queue::kHost || queue == Queue::kCpu || queue == Queue::kNvme;
}

}  // namespace

// The lane must hold all ops that can be in flight: run_ahead, and for transfers also those of a
// step.
Result<void> Worker::MakeLane() {
  const ExecutorOptions& options = rank_.shared_.options;
  FT_ASSIGN(settled_, DeviceEvent::Make(api_, rank_.device_, /*timed=*/false));
  if (IsOfHost(queue_)) return {};
  const bool timed = options.record_spans || options.record_memory;
  auto& lane = rank_.lanes_[static_cast<std::size_t>(queue_)];
  // Transfers of a whole step may be in flight in addition (sim/program/ir/transfer_queues.h).
  const std::size_t transfers =
      IsTransferQueue(queue_) ? rank_.plan_.queues[static_cast<std::size_t>(queue_)].size() : 0;
  lane = std::make_unique<DeviceLane>(api_, rank_.device_,
                                      options.run_ahead + 1 + static_cast<int>(transfers), timed);
  device_lane_ = lane.get();
  return {};
}

Result<void> Worker::MakeStaging() {
  std::int64_t tokens = 0;
  for (const PlannedLoad& load : rank_.plan_.loads) {
    tokens = std::max(tokens, load.Count());
  }
  const auto& ops = rank_.plan_.queues[static_cast<std::size_t>(queue_)];
  const bool loads = std::any_of(ops.begin(), ops.end(), [&](std::int32_t op) {
    return rank_.plan_.ops[static_cast<std::size_t>(op)].work == Work::kLoadBatch;
  });
  if (!loads) return {};
  staging_.resize(static_cast<std::size_t>(tokens));
  if (api_.asynchronous == 0 || api_.host_allocate == nullptr) return {};
  const std::int64_t bytes = 2 * tokens * std::int64_t{sizeof(std::int32_t)};
  FT_ASSIGN(pinned_staging_, DeviceMemory::MakePinned(api_, rank_.device_, bytes));
  return {};
}

Result<std::byte*> Worker::Landing(std::int64_t bytes) {
  if (api_.asynchronous == 0 || api_.host_allocate == nullptr) {
    landing_.resize(static_cast<std::size_t>(bytes));
    return landing_.data();
  }
  if (pinned_landing_.bytes() < bytes) {
    FT_ASSIGN(pinned_landing_, DeviceMemory::MakePinned(api_, rank_.device_, bytes));
  }
  return pinned_landing_.data();
}

// With pinned memory two batches alternate: the host fills one half while the device copies the
// other. The batch before the last must have been copied before its half is filled again.
Result<std::span<std::int32_t>> Worker::StageBatch() {
  const std::span<std::int32_t> plain(staging_);
  if (device_lane_ == nullptr) return plain;
  if (pinned_staging_.data() == nullptr) {
    FT_TRY(Settle());  // waits for the copy of the last batch
    return plain;
  }
  const auto half = static_cast<std::size_t>(batches_++ % 2);
  const std::int64_t used = staged_[half];  // by the batch before the last
  if (used >= 0) FT_TRY(Await(device_lane_->EndOf(used)));
  staged_[half] = device_lane_->pushed();
  auto* const numbers = reinterpret_cast<std::int32_t*>(pinned_staging_.data());
  return std::span(numbers + half * plain.size(), plain.size());
}

Result<void> Worker::LeaveOut(std::int32_t number, std::int64_t round) {
  if (device_lane_ == nullptr) {
    rank_.End(number, round, RankRun::kLeftOut);
    return {};
  }
  FT_ASSIGN(LaneEntry * entry, device_lane_->Next());
  entry->op = number;
  entry->round = round;
  entry->left_out = true;
  device_lane_->Push();
  rank_.Launched(number, round, -1);
  return {};
}

// Closes the lane, so that the completion thread can end.
Result<void> Worker::Finish() {
  if (device_lane_ == nullptr) return {};
  device_lane_->Close();
  rank_.completion_->Wake();
  return {};
}

// Nothing here waits for the device, except in turns: the op, its waits and its end event are put
// on the queue, and the completion thread sees the end.
Result<void> Worker::RunOnDevice(std::int32_t number, const PlannedOp& op, std::int64_t round) {
  RunShared& shared = rank_.shared_;
  SetStep(rank_.call_->first_step + rank_.StepOf(op, round));
  FT_ASSIGN(entry_, device_lane_->Next());
  LaneEntry& entry = *entry_;
  entry.op = number;
  entry.round = round;
  Span span = Begin(op);
  FT_TRY(HoldUpQueue(op, round));
  FT_ASSIGN(const ComputeTurns::Turn turn, TakeTurn(op));
  if (device_lane_->timed()) {
    entry.waits = op.work == Work::kCommunication;
    FT_TRY((entry.waits ? entry.arrived : entry.start).RecordOn(device_queue_.get()));
  }
  FT_TRY(Do(op, number, span));
  entry.span = span;
  entry.has_end = EndsInSight(op, number);
  if (entry.has_end) FT_TRY(entry.end.RecordOn(device_queue_.get()));
  if (TakesTurns(op)) FT_TRY(Settle());
  const std::int64_t place = device_lane_->pushed();
  device_lane_->Push();
  shared.flight.SetPhase(rank_.plan_.rank, queue_, FlightPhase::kEnded);
  rank_.Launched(number, round, place);
  return {};
}

bool Worker::TakesTurns(const PlannedOp& op) const {
  return rank_.shared_.turns.on() && queue_ != Queue::kHost &&
         (op.work == Work::kKernel || op.work == Work::kOpaque);
}

Result<ComputeTurns::Turn> Worker::TakeTurn(const PlannedOp& op) {
  ComputeTurns::Turn turn;
  if (!TakesTurns(op)) return turn;
  // The holder of the turn waits for no one: what the op waits for on its queue comes first.
  FT_TRY(Settle());
  RunShared& shared = rank_.shared_;
  const std::int64_t who =
      std::int64_t{rank_.plan_.rank} * kQueueCount + static_cast<std::int64_t>(queue_) + 1;
  const std::int64_t limit_ns = shared.options.timeout_ns + shared.options.timeout_ns / 4;
  switch (shared.turns.Take(who, shared.clock.Now() + limit_ns, turn)) {
    case WaitEnd::kReady:
      return turn;
    case WaitEnd::kTimeout:
      return tl::unexpected<Error>(rank_.Stuck());
    case WaitEnd::kAborted:
      break;
  }
  return tl::unexpected<Error>(shared.control.AbortedError());
}

bool Worker::EndsInSight(const PlannedOp& op, std::int32_t number) const {
  const auto& ops = rank_.plan_.queues[static_cast<std::size_t>(queue_)];
  return device_lane_->timed() || op.work == Work::kLoadBatch || op.wakes != 0 ||
         number == ops.back() || device_lane_->pushed() % kUnseen == 0;
}

// Makes the device's queue wait for the ops on other lanes. Ops that run on the host were awaited
// before.
Result<void> Worker::HoldUpQueue(const PlannedOp& op, std::int64_t round) {
  for (std::int32_t i = 0; i < op.wait_count; ++i) {
    const OpWait& wait = rank_.plan_.waits[static_cast<std::size_t>(op.first_wait + i)];
    const auto from = rank_.plan_.ops[static_cast<std::size_t>(wait.op)].queue;
    DeviceLane* const lane = rank_.lanes_[static_cast<std::size_t>(from)].get();
    if (lane == nullptr || rank_.HasEnded(wait, round)) continue;
    // If that op was given to its queue again meanwhile, this waits for the later run. That is
    // safe: the later run cannot wait for this op, or it would not have been given before it.
    const std::int64_t place = rank_.ops_[static_cast<std::size_t>(wait.op)].place.load();
    if (place >= 0) FT_TRY(lane->EndOf(place).HoldUp(device_queue_.get()));
  }
  return {};
}

// Waits on the host until everything given to the queue so far has ended.
Result<void> Worker::Settle() {
  if (api_.asynchronous == 0) return {};
  FT_TRY(settled_.RecordOn(device_queue_.get()));
  return Await(settled_);
}

void Worker::WaitForDevice() const {
  if (api_.asynchronous == 0 || !settled_.RecordOn(device_queue_.get()).has_value()) return;
  for (;;) {
    const auto done = settled_.HasEnded();
    if (!done.has_value() || *done) return;
    std::this_thread::sleep_for(kPatience);
  }
}

// Polls the event. The timeout counts from the last activity of the rank, so that a long kernel
// elsewhere does not trigger it.
Result<void> Worker::Await(const DeviceEvent& event) {
  RunShared& shared = rank_.shared_;
  const std::int64_t begin_ns = shared.clock.Now();
  const std::int64_t limit_ns = shared.options.timeout_ns + shared.options.timeout_ns / 4;
  for (;;) {
    FT_ASSIGN(const bool done, event.HasEnded());
    if (done) return {};
    const std::int64_t now_ns = shared.clock.Now();
    const std::int64_t last_ns =
        std::max(begin_ns, rank_.activity_ns_.load(std::memory_order_relaxed));
    if (now_ns - last_ns > limit_ns) return tl::unexpected<Error>(rank_.Stuck());
    if (shared.stall_gate.Sleep(kSettleSleepNs) == WaitEnd::kAborted) {
      return tl::unexpected<Error>(shared.control.AbortedError());
    }
  }
}

}  // namespace foretrain
