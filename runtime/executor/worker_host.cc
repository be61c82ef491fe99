// Work of the host in a step: batches that go to the device, and the scalars that come back.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/numeric/number_formats.h"
#include "runtime/data/stack_batch.h"
#include "runtime/executor/worker.h"
#include "runtime/run/loss_spikes.h"
#include "traces/metrics/data_wait.h"

namespace foretrain {

// The load's own span begins when its tokens are there. On a queue of an asynchronous device its
// start is marked anew, because the queue passed the first mark at once.
Result<void> Worker::EndDataWait(Span& span) {
  const std::int64_t now_ns = rank_.shared_.clock.Now();
  if (now_ns - span.start_ns < kMinDataWaitNs) return {};
  Span wait = span;
  wait.end_ns = now_ns;
  wait.op = PackId(UnpackId(span.op), kDataWaitOp);
  wait.op_class = OpClass::kHost;
  wait.bytes = 0;
  span.start_ns = now_ns;
  if (rank_.shared_.options.record_spans && rank_.Records(span.step)) {
    lane_->Record([&] { lane_->Add(wait); });
  }
  if (entry_ == nullptr || !device_lane_->timed()) return {};
  return entry_->start.RecordOn(device_queue_.get());
}

// Tokens go through staging memory: a copy from it to an asynchronous device may end after this
// call.
Result<void> Worker::Load(const PlannedLoad& load, Span& span) {
  const auto ids_count = static_cast<std::size_t>(load.ids_count);
  const auto targets_count = static_cast<std::size_t>(load.targets_count);
  FT_ASSIGN(const std::span<std::int32_t> all, StageBatch());
  BatchSource& batches = *rank_.call_->batches;
  const BatchRequest request{values_.step, rank_.plan_.dp, load.micro_batch, rank_.plan_.cp};
  const bool waits = batches.WouldWait(request, ids_count, targets_count);
  if (ids_count + targets_count > 0) {
    const std::span<std::int32_t> ids = all.first(ids_count);
    const std::span<std::int32_t> targets = all.subspan(ids_count, targets_count);
    FT_TRY(batches.Fill(request, ids, targets));
    const Program& program = *rank_.shared_.program;
    if (program.model.HasEncoder()) {
      DealToStacks({program.plan.EncoderSequence(), program.plan.DecoderSequence()}, ids, targets);
    }
  }
  const auto starts_count = static_cast<std::size_t>(load.starts_count);
  const std::size_t starts_at = ids_count + targets_count;
  if (starts_count > 0) {
    FT_TRY(batches.FillDocumentStarts(request, all.subspan(starts_at, starts_count)));
  }
  if (waits) FT_TRY(EndDataWait(span));
  const FtDeviceApi& api = api_;
  if (ids_count > 0) {
    FT_TRY(CheckDevice(api.copy(device_queue_.get(), load.ids, all.data(), load.ids_count * 4)));
  }
  if (targets_count > 0) {
    FT_TRY(CheckDevice(api.copy(device_queue_.get(), load.targets, all.data() + ids_count,
                                load.targets_count * 4)));
  }
  if (starts_count > 0) {
    FT_TRY(CheckDevice(
        api.copy(device_queue_.get(), load.starts, all.data() + starts_at, load.starts_count * 4)));
  }
  return {};
}

// Reads loss, gradient norm and loss scale of the step. The loss scale is removed from the norm
// here.
Result<void> Worker::Read(const PlannedRead& read) {
  const std::array<const std::byte*, 3> from = {read.loss, read.squared_norm, read.doublings};
  FT_ASSIGN(std::byte* const room, Landing(from.size() * sizeof(float)));
  auto* const values = reinterpret_cast<float*>(room);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == nullptr) continue;
    FT_TRY(CheckDevice(api_.copy(device_queue_.get(), &values[i], from[i], sizeof(float))));
  }
  FT_TRY(Settle());
  StepScalars scalars;
  scalars.step = values_.step;
  scalars.rank = rank_.plan_.rank;
  std::optional<float> doublings;
  if (read.loss != nullptr) scalars.loss = values[0];
  if (read.squared_norm != nullptr) scalars.squared_norm = values[1];
  if (read.doublings != nullptr) doublings = values[2];
  if (rank_.plan_.guard.op >= 0 && scalars.squared_norm == kSkippedNorm) {
    scalars.skipped = true;
    scalars.squared_norm.reset();
  }
  if (scalars.squared_norm.has_value()) *scalars.squared_norm *= read.norm_factor;
  if (doublings.has_value()) {
    const int power = static_cast<int>(*doublings);
    scalars.loss_scale = std::ldexp(read.loss_scale, power);
    if (scalars.squared_norm.has_value()) {
      *scalars.squared_norm = std::ldexp(*scalars.squared_norm, -2 * power);
    }
  }
  scalars.time_ns = rank_.shared_.clock.Now();
  {
    const std::lock_guard<std::mutex> lock(rank_.shared_.sink_mutex);
    rank_.call_->sink->OnScalars(scalars);
  }
  return EndIfNotFinite(scalars);
}

// Each rank decides alone, because all have the same loss and norm. A norm that is not finite
// stays: it holds the update back too, and ends the run.
Result<void> Worker::SkipIfSpike() {
  if (rank_.call_->searches) return {};
  const PlannedGuard& guard = rank_.plan_.guard;
  FT_ASSIGN(std::byte* const room, Landing(2 * sizeof(float)));
  auto* const values = reinterpret_cast<float*>(room);
  FtQueue* const queue = device_queue_.get();
  FT_TRY(CheckDevice(api_.copy(queue, &values[0], guard.loss, sizeof(float))));
  FT_TRY(CheckDevice(api_.copy(queue, &values[1], guard.squared_norm, sizeof(float))));
  FT_TRY(Settle());
  const bool skips = rank_.shared_.options.spike_guard->Skips(values_.step, values[0]);
  if (!skips || !IsFinite(values[1])) return {};
  values[1] = kSkippedNorm;
  FT_TRY(CheckDevice(api_.copy(queue, guard.squared_norm, &values[1], sizeof(float))));
  return Settle();
}

// A loss scale handles gradients that are not finite. All ranks read the same norm, so all end with
// this step, and the executor can run it again. Only the last stage's ranks read the loss.
Result<void> Worker::EndIfNotFinite(const StepScalars& scalars) {
  if (!rank_.shared_.options.ends_if_not_finite || rank_.call_->searches) return {};
  const bool scaled = rank_.shared_.program->plan.loss_scale > 0;
  if (!scaled && scalars.squared_norm && !IsFinite(*scalars.squared_norm)) {
    rank_.call_->EndWith(scalars.step);
    return {};
  }
  if (!scalars.loss || IsFinite(*scalars.loss)) return {};
  std::string text = "the loss is " + std::to_string(*scalars.loss);
  if (!scaled && !scalars.squared_norm) {
    text +=
        ", and the update was made with it: --clip computes the gradient's norm, which holds such "
        "an update back (--clip 1e30 clips nothing)";
  }
  return Fail(ErrorCode::kNotFinite, std::move(text));
}

}  // namespace foretrain
