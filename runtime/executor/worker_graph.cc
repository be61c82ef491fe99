// Runs stretches of a queue's ops as device graphs. The first time they run op by op, so that
// libraries load and choose their kernels. The second time they are recorded as a graph and
// launched; from then on the graph is launched.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/executor/worker.h"

namespace foretrain {

int Worker::Together(std::int32_t number, std::int64_t round) {
  const ExecutorOptions& options = rank_.shared_.options;
  const PlannedOp& op = rank_.plan_.ops[static_cast<std::size_t>(number)];
  // Features that change or measure single ops need them to run one by one.
  if (!options.graphs || op.together < 2 || device_lane_ == nullptr || options.take_turns ||
      options.faults != nullptr || options.routing != nullptr || rank_.fill_ > 0 ||
      rank_.call_->searches) {
    return 1;
  }
  const bool recorded =
      options.record_spans && rank_.Records(rank_.call_->first_step + rank_.StepOf(op, round));
  if (recorded && (options.capture == nullptr || !options.capture->RecordsWork())) return 1;
  // All ops of a stretch must be issued while none of them has ended.
  const auto& ops = rank_.plan_.queues[static_cast<std::size_t>(queue_)];
  const auto first = std::lower_bound(ops.begin(), ops.end(), number);
  if (*(first + op.together - 1) - number >= options.run_ahead / 2) return 1;
  Stretch& stretch = stretches_[number];
  return stretch.runs++ == 0 || stretch.refused ? 1 : op.together;
}

// The stretch waits once, at its first op; graph stretches contain no other waits. One start event
// and one end event cover all its ops.
Result<void> Worker::RunStretch(std::int32_t number, int count, std::int64_t round) {
  const RankPlan& plan = rank_.plan_;
  const auto& of_queue = plan.queues[static_cast<std::size_t>(queue_)];
  const auto first = std::lower_bound(of_queue.begin(), of_queue.end(), number);
  const std::span<const std::int32_t> ops(&*first, static_cast<std::size_t>(count));
  const PlannedOp& begin = plan.ops[static_cast<std::size_t>(number)];
  SetStep(rank_.call_->first_step + rank_.StepOf(begin, round));
  FT_ASSIGN(entry_, device_lane_->Next());
  Span span = Begin(begin);
  FT_TRY(HoldUpQueue(begin, round));
  if (device_lane_->timed()) FT_TRY(entry_->start.RecordOn(device_queue_.get()));
  FT_TRY(LaunchStretch(ops));
  for (int i = 0; i < count; ++i) {
    const PlannedOp& op = plan.ops[static_cast<std::size_t>(ops[static_cast<std::size_t>(i)])];
    FT_ASSIGN(LaneEntry * entry, device_lane_->Next());
    span.op = op.id;
    span.bytes = op.bytes;
    span.op_class = op.op_class;
    entry->op = ops[static_cast<std::size_t>(i)];
    entry->round = round;
    entry->span = span;
    entry->before = i;
    entry->behind = count - 1 - i;
    entry->has_end = entry->behind == 0;
    if (entry->has_end) FT_TRY(entry->end.RecordOn(device_queue_.get()));
    const std::int64_t place = device_lane_->pushed();
    device_lane_->Push();
    rank_.Launched(entry->op, round, place);
  }
  rank_.shared_.flight.SetPhase(plan.rank, queue_, FlightPhase::kEnded);
  return {};
}

Result<void> Worker::LaunchStretch(std::span<const std::int32_t> ops) {
  const PlannedOp& begin = rank_.plan_.ops[static_cast<std::size_t>(ops.front())];
  OpCapture* const capture = rank_.shared_.options.capture.get();
  Stretch& stretch = stretches_[ops.front()];
  // A graph made before the recording opened does not name its kernels' ops: it is made again.
  const bool tells = capture != nullptr && rank_.Records(values_.step);
  if (stretch.graph.get() == nullptr || (tells && !stretch.told)) {
    stretch.told = tells;
    MakeGraph(ops, stretch);
  }
  if (!stretch.refused) {
    const OpScope scope(capture, rank_.plan_.rank, values_.step, begin.id);
    ++graph_use_.launches;
    graph_use_.ops += static_cast<std::int64_t>(ops.size());
    return CheckDevice(api_.graph_launch(device_queue_.get(), stretch.graph.get()));
  }
  for (const std::int32_t op : ops) {
    FT_TRY(CheckDevice(LaunchOne(rank_.plan_.ops[static_cast<std::size_t>(op)])));
  }
  return {};
}

FtStatus Worker::LaunchOne(const PlannedOp& op) {
  const OpScope scope(rank_.shared_.options.capture.get(), rank_.plan_.rank, values_.step, op.id);
  const KernelCall& call = rank_.plan_.calls[static_cast<std::size_t>(op.detail)];
  return call.launch(api_, device_queue_.get(), call.args, values_);
}

// If recording fails, the ops can still run: the stretch is marked as refused and runs op by op
// from then on.
void Worker::MakeGraph(std::span<const std::int32_t> ops, Stretch& stretch) {
  stretch.graph = {};
  values_.rows = -1;
  std::string why;
  const auto good = [&](FtStatus status) {
    if (status != FT_OK && why.empty()) why = api_.queue_error(device_queue_.get());
    return status == FT_OK;
  };
  bool made = good(api_.graph_begin(device_queue_.get()));
  const bool begun = made;
  for (const std::int32_t op : ops) {
    made = made && good(LaunchOne(rank_.plan_.ops[static_cast<std::size_t>(op)]));
  }
  if (begun) {
    FtGraph* graph = nullptr;
    made = good(api_.graph_end(device_queue_.get(), &graph)) && made;
    stretch.graph = DeviceGraph(api_, graph);
  }
  if (made) {
    ++graph_use_.made;
    return;
  }
  stretch.graph = {};
  stretch.refused = true;
  ++graph_use_.refused;
  if (graph_use_.why_refused.empty()) graph_use_.why_refused = why;
}

}  // namespace foretrain
