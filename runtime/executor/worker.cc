#include "runtime/executor/worker.h"

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/units.h"
#include "runtime/device/attention_kernels.h"
#include "runtime/device/device_status.h"
#include "runtime/device/gemm_algorithms.h"
#include "runtime/executor/rank_wait.h"
#include "sim/program/ir/row_counts.h"

namespace foretrain {

// Only queues of copies have a cap. CPU ops run on the host's API even if the rank has a GPU.
Worker::Worker(RankRun& rank, Queue queue)
    : rank_(rank),
      queue_(queue),
      api_(queue == Queue::kCpu ? HostApi(rank.shared_.api) : rank.shared_.api) {
  const CopyCaps& caps = rank.shared_.options.copy_caps;
  if (queue == Queue::kH2d) cap_bytes_per_s_ = caps.h2d_bytes_per_s;
  if (queue == Queue::kD2h) cap_bytes_per_s_ = caps.d2h_bytes_per_s;
  if (queue == Queue::kNvme) cap_bytes_per_s_ = caps.nvme_bytes_per_s;
}

Result<std::unique_ptr<Worker>> Worker::Make(RankRun& rank, Queue queue) {
  std::unique_ptr<Worker> worker(new Worker(rank, queue));
  FtShare* const share = queue == Queue::kCpu ? nullptr : rank.shared_.shares.At(rank.place_);
  if (share != nullptr) {
    FT_ASSIGN(worker->device_queue_, DeviceQueue::MakeIn(worker->api_, share));
  } else {
    // The CPU is a single device, whatever device the rank has.
    const int device = queue == Queue::kCpu ? 0 : rank.device_;
    FT_ASSIGN(worker->device_queue_, DeviceQueue::Make(worker->api_, device));
  }
  FT_TRY(worker->PrepareKernels());
  worker->lane_ = &rank.recorder_.AddLane();
  const ExecutorOptions& options = rank.shared_.options;
  worker->tracks_buffers_ = options.record_memory || options.poison;
  FT_TRY(worker->MakeStaging());
  if (worker->api_.asynchronous != 0) FT_TRY(worker->MakeLane());
  return worker;
}

// All this is done once, before the first step: the library may compile, which no step should wait
// for, and memory that is allocated beside a running collective may wait for it forever.
Result<void> Worker::PrepareKernels() {
  const ExecutorOptions& options = rank_.shared_.options;
  std::vector<FtGemm> gemms;
  std::vector<AttentionPass> passes;
  bool has_kernels = false;
  for (const std::int32_t number : rank_.plan_.queues[static_cast<std::size_t>(queue_)]) {
    const PlannedOp& op = rank_.plan_.ops[static_cast<std::size_t>(number)];
    if (op.work != Work::kKernel) continue;
    has_kernels = true;
    const KernelCall& call = rank_.plan_.calls[static_cast<std::size_t>(op.detail)];
    if (const FtGemm* const g = ArgumentsIn<&FtDeviceApi::gemm>(call)) gemms.push_back(*g);
    if (const std::optional<AttentionPass> pass = AttentionPassOf(call)) passes.push_back(*pass);
  }
  FT_TRY(ChooseTensorKernels());
  if (has_kernels && api_.queue_reserve != nullptr) {
    FtQueue* const queue = device_queue_.get();
    FT_TRY(
        Checked(api_.queue_reserve(queue), "reserve a queue's workspace", api_.queue_error(queue)));
  }
  FT_TRY(UseGemmAlgorithms(api_, device_queue_.get(), options.gemm_algorithms, gemms));
  return UseAttentionKernels(api_, device_queue_.get(), options.attention, options.attention_times,
                             passes);
}

// Queues of the CPU beside a GPU have no choice.
Result<void> Worker::ChooseTensorKernels() {
  const FtTensorKernels kernels = rank_.shared_.options.tensor_kernels;
  if (kernels == FT_TENSOR_MMA || queue_ == Queue::kCpu) return {};
  if (api_.tensor_use == nullptr) {
    return Fail(ErrorCode::kUnsupported, "kernels with wgmma: " + std::string(api_.name) +
                                             " has none; use --tensor-kernels mma");
  }
  return Checked(api_.tensor_use(device_queue_.get(), FT_KERNEL_GROUPED_GEMM, kernels),
                 "kernels with wgmma", api_.queue_error(device_queue_.get()));
}

// Issued ops are tracked by one counter over all rounds, so one comparison tells whether the next
// op may run.
Result<void> Worker::RunAll() {
  const std::vector<std::int32_t>& ops = rank_.plan_.queues[static_cast<std::size_t>(queue_)];
  const auto per_round = static_cast<std::int64_t>(rank_.plan_.ops.size());
  Gate& gate = rank_.gates_[static_cast<std::size_t>(queue_)]->issue;
  seen_issued_ = 0;
  staged_ = {-1, -1};
  for (std::int64_t round = 0;; ++round) {
    for (std::size_t at = 0; at < ops.size();) {
      const std::int32_t op = ops[at];
      const int together = Together(op, round);
      at += static_cast<std::size_t>(together);
      const std::int64_t target = round * per_round + ops[at - 1] + 1;
      if (seen_issued_ < target) {
        FT_TRY(rank_.WaitHere(
            gate, [&] { return rank_.issued_.load() >= target || rank_.closed_.load(); }));
        seen_issued_ = rank_.issued_.load();
        if (seen_issued_ < target) return Finish();  // closed
      }
      FT_TRY(Run(op, round, together));
    }
    lane_->MarkStep();
  }
}

// Exceptions end here and become errors of the op, because nothing may escape a thread.
Result<void> Worker::Run(std::int32_t number, std::int64_t round, int together) {
  const PlannedOp& op = rank_.plan_.ops[static_cast<std::size_t>(number)];
  FT_TRY(WaitForEdges(op, round));
  if (rank_.IsLeftOut(op, round)) {
    return LeaveOut(number, round);
  }
  Result<void> done = Fail(ErrorCode::kIo, "threw something that is no exception");
  try {
    done = together > 1              ? RunStretch(number, together, round)
           : device_lane_ != nullptr ? RunOnDevice(number, op, round)
                                     : RunGuarded(number, op, round);
  } catch (const std::bad_alloc&) {
    done = Fail(ErrorCode::kResourceExhausted, "out of host memory");
  } catch (const std::exception& thrown) {
    done = Fail(ErrorCode::kIo, std::string("threw: ") + thrown.what());
  } catch (...) {
    // `done` says so already.
  }
  if (!done.has_value()) return tl::unexpected<Error>(Named(op, round, std::move(done).error()));
  return {};
}

Result<void> Worker::WaitForEdges(const PlannedOp& op, std::int64_t round) {
  const auto first = rank_.plan_.waits.begin() + op.first_wait;
  for (auto wait = first; wait != first + op.wait_count; ++wait) {
    if (rank_.HasEnded(*wait, round)) continue;
    // If both ops are on the device, the device itself waits; the host waits only until the other
    // op was given to it.
    const Queue from = rank_.plan_.ops[static_cast<std::size_t>(wait->op)].queue;
    const bool there =
        device_lane_ != nullptr && rank_.lanes_[static_cast<std::size_t>(from)] != nullptr;
    FT_TRY(rank_.WaitHere(rank_.gates_[static_cast<std::size_t>(queue_)]->edges, [&] {
      return there ? rank_.HasLaunched(*wait, round) : rank_.HasEnded(*wait, round);
    }));
  }
  return {};
}

// Each start of an op counts as activity, by which waits tell a slow rank from one that hangs.
Span Worker::Begin(const PlannedOp& op) {
  Span span;
  span.start_ns = rank_.shared_.clock.Now();
  span.op = op.id;
  span.bytes = op.bytes;
  span.step = static_cast<std::int32_t>(values_.step);
  span.rank = static_cast<std::int16_t>(rank_.plan_.rank);
  span.queue = queue_;
  span.op_class = op.op_class;
  rank_.shared_.flight.Begin(rank_.plan_.rank,
                             {op.id, span.start_ns, span.step, queue_, FlightPhase::kRunning});
  rank_.activity_ns_.store(span.start_ns, std::memory_order_relaxed);
  return span;
}

// Runs an op on a synchronous device: it has ended when Do returns.
Result<void> Worker::RunGuarded(std::int32_t number, const PlannedOp& op, std::int64_t round) {
  RunShared& shared = rank_.shared_;
  SetStep(rank_.call_->first_step + rank_.StepOf(op, round));
  FT_ASSIGN(const ComputeTurns::Turn turn, TakeTurn(op));
  Span span = Begin(op);
  span.ready_ns = std::min(rank_.ReadyAt(op, number), span.start_ns);
  if (tracks_buffers_) lane_->Record([&] { rank_.Bear(op, span.start_ns, changed_); });
  FT_TRY(Do(op, number, span));
  if (span.end_ns == 0) span.end_ns = shared.clock.Now();
  free_ns_ = span.end_ns;
  rank_.activity_ns_.store(span.end_ns, std::memory_order_relaxed);
  // Must precede End: afterwards the memory may be used again.
  const bool records = shared.options.record_spans && rank_.Records(span.step);
  if (tracks_buffers_ || records) {
    lane_->Record([&] {
      if (tracks_buffers_) rank_.Bury(op, span.end_ns, changed_);
      if (records) lane_->Add(span);
    });
  }
  shared.flight.SetPhase(rank_.plan_.rank, queue_, FlightPhase::kEnded);
  rank_.End(number, round, span.end_ns);
  return {};
}

// The learning rate is a function of the step, evaluated once a step and queue.
void Worker::SetStep(std::int64_t step) {
  if (values_.step == step) return;
  const ExecutorOptions& options = rank_.shared_.options;
  values_.step = step;
  values_.learning_rate = options.learning_rate ? options.learning_rate(step) : 0.0F;
  values_.learning_rate_before =
      options.learning_rate && step > 0 ? options.learning_rate(step - 1) : 0.0F;
}

// Faults are injected only in tests.
Result<void> Worker::Do(const PlannedOp& op, std::int32_t number, Span& span) {
  FT_TRY(ClearOutputs(number));
  FT_TRY(Work(op, number, span));
  if (rank_.shared_.options.faults != nullptr) FT_TRY(Spoil(number));
  if (number == rank_.plan_.guard.op) FT_TRY(SkipIfSpike());
  return CheckOutputs(number);
}

// `scope` tells a capture to which op kernels of this thread belong.
Result<void> Worker::Work(const PlannedOp& op, std::int32_t number, Span& span) {
  const auto detail = static_cast<std::size_t>(op.detail);
  const OpScope scope(rank_.shared_.options.capture.get(), rank_.plan_.rank, span.step, op.id);
  if (op.work == Work::kCommunication) {
    return Communicate(rank_.plan_.comm_calls[detail], number, span);
  }
  if (rank_.shared_.options.faults != nullptr) FT_TRY(Inject(number, nullptr));
  switch (op.work) {
    case Work::kKernel: {
      const KernelCall& call = rank_.plan_.calls[detail];
      if (!call.router.empty() && rank_.shared_.options.routing != nullptr)
        return Choose(call, op.id);
      return Launch(call);
    }
    case Work::kCopy:
      return Copy(rank_.plan_.copies[detail], span.start_ns);
    case Work::kLoadBatch:
      return Load(rank_.plan_.loads[detail], span);
    case Work::kHostRead:
      return Read(rank_.plan_.reads[detail]);
    case Work::kReadCounts:
      return ReadCounts(rank_.plan_.counts[detail], op.id);
    case Work::kOpaque: {
      FT_TRY(Settle());
      // The deadline counts from the possible start, so that late wake-ups of threads do not add
      // up.
      const std::int64_t ready_ns =
          TakesTurns(op) ? span.start_ns : std::max(span.ready_ns, free_ns_);
      const std::int64_t end_ns = ready_ns + rank_.plan_.durations_ns[detail];
      const std::int64_t left_ns = end_ns - rank_.shared_.clock.Now();
      if (left_ns <= 0) return {};
      const WaitEnd end = rank_.shared_.stall_gate.Sleep(left_ns);
      if (end == WaitEnd::kAborted) {
        return tl::unexpected<Error>(rank_.shared_.control.AbortedError());
      }
      return {};
    }
    case Work::kCommunication:
      break;
  }
  return {};
}

// A kernel of experts needs the number of rows that came: the host fetches the counts first. -1:
// the kernel's shape is fixed.
Result<void> Worker::Launch(const KernelCall& call) {
  values_.rows = -1;
  if (call.counts != nullptr) {
    FT_ASSIGN(const std::int32_t* const counts, FetchCounts(call.counts, call.shape));
    values_.rows = RowCounts(call.shape, call.member, counts).AllCame();
  }
  return CheckDevice(call.launch(api_, device_queue_.get(), call.args, values_));
}

Result<void> Worker::CheckDevice(FtStatus status) const {
  return Checked(status, api_.name, status == FT_OK ? "" : api_.queue_error(device_queue_.get()));
}

// The span is ready when this rank has arrived, and starts when all peers have. The difference is
// the wait for peers.
Result<void> Worker::Communicate(const PlannedComm& planned, std::int32_t number, Span& span) {
  CommCall call = planned.call;
  call.site.step = span.step;
  if (rank_.shared_.options.faults != nullptr) FT_TRY(Inject(number, &call));
  if (planned.counts != nullptr) FT_TRY(MeasureParts(planned, call, span));
  if (entry_ != nullptr && entry_->waits) call.started = entry_->start.get();
  FT_ASSIGN(const CommTimes times, planned.communicator->Call(call, device_queue_.get()));
  span.ready_ns = times.arrived_ns;
  span.start_ns = times.started_ns;
  span.end_ns = times.ended_ns;
  return {};
}

// Tests only: makes the chosen op fail, stall or differ from its peers.
Result<void> Worker::Inject(std::int32_t number, CommCall* call) {
  RunShared& shared = rank_.shared_;
  const Fault fault = shared.options.faults->At(rank_.plan_.rank, values_.step, number);
  switch (fault.kind) {
    case Fault::Kind::kNone:
    case Fault::Kind::kValue:  // after the op
      return {};
    case Fault::Kind::kThrow:
      throw std::runtime_error("an injected fault");
    case Fault::Kind::kFail:
      return Fail(ErrorCode::kIo, "an injected fault");
    case Fault::Kind::kStall:
      (void)shared.stall_gate.Wait([] { return false; },
                                   shared.clock.Now() + 1000 * shared.options.timeout_ns);
      return tl::unexpected<Error>(shared.control.AbortedError());
    case Fault::Kind::kHang:
      fault.hang();
      return tl::unexpected<Error>(shared.control.AbortedError());
    case Fault::Kind::kOtherCall:
      if (call != nullptr) ++call->elements;
      return {};
    case Fault::Kind::kDelay:
      (void)shared.stall_gate.Sleep(fault.delay_ns);
      return {};
  }
  return {};
}

// If copies are capped, sleeps for the rest of the time that the bytes would take.
Result<void> Worker::Copy(const PlannedCopy& copy, std::int64_t start_ns) {
  if (copy.file_offset < 0) {
    FT_TRY(CheckDevice(api_.copy(device_queue_.get(), copy.to, copy.from, copy.bytes)));
  } else if (copy.from == nullptr) {
    FT_TRY(rank_.arena_->nvme()->Read(copy.file_offset, copy.bytes, copy.to));
  } else {
    FT_TRY(rank_.arena_->nvme()->Write(copy.file_offset, copy.bytes, copy.from));
  }
  if (cap_bytes_per_s_ <= 0) return {};
  FT_TRY(Settle());
  const std::int64_t end_ns =
      start_ns + NsFromSeconds(static_cast<double>(copy.bytes) / cap_bytes_per_s_);
  const std::int64_t left_ns = end_ns - rank_.shared_.clock.Now();
  if (left_ns > 0 && rank_.shared_.stall_gate.Sleep(left_ns) == WaitEnd::kAborted) {
    return tl::unexpected<Error>(rank_.shared_.control.AbortedError());
  }
  return {};
}

// Errors name rank, step and op; kAborted already names the rank that failed.
Error Worker::Named(const PlannedOp& op, std::int64_t round, Error error) const {
  if (error.code == ErrorCode::kAborted) return error;
  error.message = "rank " + std::to_string(rank_.plan_.rank) + ", step " +
                  std::to_string(rank_.call_->first_step + rank_.StepOf(op, round)) + ", " +
                  rank_.TextOf(op.id) + ": " + error.message;
  return error;
}

}  // namespace foretrain
