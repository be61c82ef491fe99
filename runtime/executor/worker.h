// One thread of a rank and its ops: waits for edges, does the work, records it. The order of issue:
// runtime/executor/rank_run.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "profiler/span_recorder.h"
#include "runtime/device/device.h"
#include "runtime/executor/device_lane.h"
#include "runtime/executor/rank_run.h"

namespace foretrain {

class Worker {
 public:
  // Errors: the device's, if no queue can be created.
  static Result<std::unique_ptr<Worker>> Make(RankRun& rank, Queue queue);

  // Runs op number `op` of a round once its edges are met, or leaves it out. With `together` > 1 it
  // runs all ops of a stretch. Errors: with rank, step and op; kAborted unchanged. Exceptions of
  // libraries become errors.
  Result<void> Run(std::int32_t op, std::int64_t round, int together = 1);

  // Runs all ops of the worker's queue as they are issued, until no more will be.
  Result<void> RunAll();

  // Waits until the device has finished the queue's work or has failed; no deadline.
  void WaitForDevice() const;

  Queue queue() const { return queue_; }
  const GraphUse& graph_use() const { return graph_use_; }

 private:
  Worker(RankRun& rank, Queue queue);

  // Allocates the workspace of a queue with kernels, and sets the library's algorithms for its
  // products and attention.
  Result<void> PrepareKernels();
  Result<void> ChooseTensorKernels();
  Result<void> WaitForEdges(const PlannedOp& op, std::int64_t round);
  Result<void> LeaveOut(std::int32_t number, std::int64_t round);
  Result<void> Finish();  // no more ops will be issued

  // For queues of an asynchronous device (worker_device.cc): gives the op to the queue, after the
  // events of the ops it waits for.
  Result<void> MakeLane();
  Result<void> RunOnDevice(std::int32_t number, const PlannedOp& op, std::int64_t round);
  Result<void> HoldUpQueue(const PlannedOp& op, std::int64_t round);
  bool EndsInSight(const PlannedOp& op, std::int32_t number) const;

  // Stretches of ops that are given to the device as graphs (worker_graph.cc).
  struct Stretch {
    std::int64_t runs = 0;
    bool refused = false;  // the device makes no graph of it
    bool told = false;     // its kernels' ops are known to the recording
    DeviceGraph graph;
  };
  // Number of ops of the queue, from this one on, to give together this time.
  int Together(std::int32_t number, std::int64_t round);
  Result<void> RunStretch(std::int32_t number, int count, std::int64_t round);
  Result<void> LaunchStretch(std::span<const std::int32_t> ops);
  void MakeGraph(std::span<const std::int32_t> ops, Stretch& stretch);
  FtStatus LaunchOne(const PlannedOp& op);

  // Waits until the queue has finished its work, so that the host can read the results.
  Result<void> Settle();
  Result<void> Await(const DeviceEvent& event);
  // The op's turn to compute, if ranks take turns. First waits for everything the op needs.
  Result<ComputeTurns::Turn> TakeTurn(const PlannedOp& op);
  bool TakesTurns(const PlannedOp& op) const;
  // Host memory for data copied from the device, valid until the next call. Pinned if possible, so
  // that a copy that hangs does not block the thread.
  Result<std::byte*> Landing(std::int64_t bytes);
  // Memory for a batch on its way to the device.
  Result<void> MakeStaging();
  Result<std::span<std::int32_t>> StageBatch();

  // Marks the start of the op, also for the flight recorder. Returns its span without the end.
  Span Begin(const PlannedOp& op);
  Result<void> RunGuarded(std::int32_t number, const PlannedOp& op, std::int64_t round);
  Result<void> Inject(std::int32_t number, CommCall* call);
  Result<void> Do(const PlannedOp& op, std::int32_t number, Span& span);
  Result<void> Work(const PlannedOp& op, std::int32_t number, Span& span);
  Result<void> Launch(const KernelCall& call);
  // Runs a router and lets a script record or replace its choice.
  Result<void> Choose(const KernelCall& call, OpId op);
  Result<void> Communicate(const PlannedComm& planned, std::int32_t number, Span& span);
  // Part lengths of an unequal all-to-all, for this call.
  Result<void> MeasureParts(const PlannedComm& planned, CommCall& call, Span& span);
  // Copies row counts from the device; valid until the next call.
  Result<const std::int32_t*> FetchCounts(const std::byte* at, const OpShape& shape);
  Result<void> ReadCounts(const PlannedCounts& counts, OpId op);
  Result<void> Copy(const PlannedCopy& copy, std::int64_t start_ns);
  // Also records the wait for the tokens, if there was one.
  Result<void> Load(const PlannedLoad& load, Span& span);
  Result<void> EndDataWait(Span& span);
  Result<void> Read(const PlannedRead& read);
  Result<void> EndIfNotFinite(const StepScalars& scalars);
  // After the guarded op: skips the step if its loss is a spike.
  Result<void> SkipIfSpike();

  // The search for infinite and NaN values (worker_check.cc).
  struct CheckedOp;
  struct BadValues;
  Result<void> ClearOutputs(std::int32_t number);
  Result<void> CheckOutputs(std::int32_t number);
  Result<BadValues> LookThrough(const CheckedOp& checked, std::size_t operand, bool clears);
  Result<void> Spoil(std::int32_t number);

  Result<void> CheckDevice(FtStatus status) const;
  void SetStep(std::int64_t step);  // of the whole training
  Error Named(const PlannedOp& op, std::int64_t round, Error error) const;

  RankRun& rank_;
  const Queue queue_;
  const FtDeviceApi& api_;      // runs the queue's ops
  double cap_bytes_per_s_ = 0;  // cap of its copies; 0: none
  DeviceQueue device_queue_;
  // lane of the device's queue; null: ops have ended when they return
  DeviceLane* device_lane_ = nullptr;
  LaneEntry* entry_ = nullptr;                 // entry of the op being given to it
  DeviceEvent settled_;                        // asynchronous devices only
  std::map<std::int32_t, Stretch> stretches_;  // by first op
  GraphUse graph_use_;
  SpanLane* lane_ = nullptr;
  bool tracks_buffers_ = false;
  StepValues values_{-1, 0.0F, 0.0F};
  std::int64_t seen_issued_ = 0;
  std::int64_t free_ns_ = 0;           // end of the queue's last op
  std::vector<std::int32_t> changed_;  // buffers whose lifetime an op starts or ends
  DeviceMemory pinned_landing_;
  std::vector<std::byte> landing_;  // used if there is no pinned memory
  std::vector<std::int64_t> in_parts_, out_parts_;
  std::vector<std::int32_t> staging_;  // tokens on their way to the device, unless pinned
  DeviceMemory pinned_staging_;        // two batches
  std::array<std::int64_t, 2> staged_ = {-1, -1};  // places of the ops that last used each half
  std::int64_t batches_ = 0;
};

}  // namespace foretrain
