// One thread of a rank and the op it runs: waits for edges, does the work, records it. Leaves out
// what is issued when: runtime/executor/rank_run.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "profiler/span_recorder.h"
#include "runtime/device.h"
#include "runtime/executor/device_lane.h"
#include "runtime/executor/rank_run.h"

namespace foretrain {

class Worker {
 public:
  // Errors: the device's, when it has no queue left.
  static Result<std::unique_ptr<Worker>> Make(RankRun& rank, Queue queue);

  // Runs op number `op` of a round once its edges are met, or leaves it out; of a stretch, where
  // `together` > 1, all of its ops. Errors: with rank,
  // step and op named; kAborted as is. Exceptions of libraries become errors.
  Result<void> Run(std::int32_t op, std::int64_t round, int together = 1);

  // All ops of the worker's queue, as they are issued, until no more will be.
  Result<void> RunAll();

  // Until the device has done what the queue was given, or has failed; without a deadline.
  void WaitForDevice() const;

  Queue queue() const { return queue_; }
  const GraphUse& graph_use() const { return graph_use_; }

 private:
  Worker(RankRun& rank, Queue queue);

  // The library's algorithms for the queue's products.
  Result<void> ChooseAlgorithms();
  Result<void> WaitForEdges(const PlannedOp& op, std::int64_t round);
  Result<void> LeaveOut(std::int32_t number, std::int64_t round);
  Result<void> Finish();  // no more ops will be issued

  // On a queue of a device that works later (worker_device.cc): gives the op to the queue, behind
  // the events of what it waits for.
  Result<void> MakeLane();
  Result<void> RunOnDevice(std::int32_t number, const PlannedOp& op, std::int64_t round);
  Result<void> HoldUpQueue(const PlannedOp& op, std::int64_t round);
  bool EndsInSight(const PlannedOp& op, std::int32_t number) const;

  // Stretches of ops that the device is given as graphs (worker_graph.cc).
  struct Stretch {
    std::int64_t runs = 0;
    bool refused = false;  // the device makes no graph of it
    bool told = false;     // its kernels' ops, to a recording
    DeviceGraph graph;
  };
  // How many ops of the queue are given together from this one on, this time.
  int Together(std::int32_t number, std::int64_t round);
  Result<void> RunStretch(std::int32_t number, int count, std::int64_t round);
  Result<void> LaunchStretch(std::span<const std::int32_t> ops);
  void MakeGraph(std::span<const std::int32_t> ops, Stretch& stretch);
  FtStatus LaunchOne(const PlannedOp& op);

  // The queue has done all that it was given: for the host to read what it wrote.
  Result<void> Settle();
  Result<void> Await(const DeviceEvent& event);
  // The turn to compute, where ranks take turns and the op computes; waits for all it needs before.
  Result<ComputeTurns::Turn> TakeTurn(const PlannedOp& op);
  bool TakesTurns(const PlannedOp& op) const;
  // Room for what is copied here from the device: until the next call, pinned where that is to be
  // had, so that a copy which hangs does not hold the thread.
  Result<std::byte*> Landing(std::int64_t bytes);
  // Room for a batch on its way to the device.
  Result<void> MakeStaging();
  Result<std::span<std::int32_t>> StageBatch();

  // The op starts at this moment, for the flight recorder too. Its span but for the end.
  Span Begin(const PlannedOp& op);
  Result<void> RunGuarded(std::int32_t number, const PlannedOp& op, std::int64_t round);
  Result<void> Inject(std::int32_t number, CommCall* call);
  Result<void> Do(const PlannedOp& op, std::int32_t number, Span& span);
  Result<void> Launch(const KernelCall& call);
  // The router's choice, which a script may record or lay down.
  Result<void> Choose(const KernelCall& call, OpId op);
  Result<void> Communicate(const PlannedComm& planned, std::int32_t number, Span& span);
  // Lengths of an unequal all-to-all's parts, for this call.
  Result<void> MeasureParts(const PlannedComm& planned, CommCall& call, Span& span);
  // Counts that lie on the device, for the host to read until the next call.
  Result<const std::int32_t*> FetchCounts(const std::byte* at, const OpShape& shape);
  Result<void> ReadCounts(const PlannedCounts& counts, OpId op);
  Result<void> Copy(const PlannedCopy& copy, std::int64_t start_ns);
  Result<void> Load(const PlannedLoad& load);
  Result<void> Read(const PlannedRead& read);
  Result<void> CheckDevice(FtStatus status) const;
  void SetStep(std::int64_t step);  // of the whole training
  Error Named(const PlannedOp& op, std::int64_t round, Error error) const;

  RankRun& rank_;
  const Queue queue_;
  const FtDeviceApi& api_;      // of the queue's ops
  double cap_bytes_per_s_ = 0;  // of its copies; 0: none
  DeviceQueue device_queue_;
  DeviceLane* device_lane_ = nullptr;  // of the device's queue; null: ops end when they return
  LaneEntry* entry_ = nullptr;         // of the op that is given to it
  DeviceEvent settled_;                // where the device works later
  std::map<std::int32_t, Stretch> stretches_;  // by the first op
  GraphUse graph_use_;
  SpanLane* lane_ = nullptr;
  bool tracks_buffers_ = false;
  StepValues values_{-1, 0.0F, 0.0F};
  std::int64_t seen_issued_ = 0;
  std::int64_t free_ns_ = 0;           // when the queue's last op ended
  std::vector<std::int32_t> changed_;  // buffers that an op bears or buries
  DeviceMemory pinned_landing_;
  std::vector<std::byte> landing_;  // where there is no pinned memory
  std::vector<std::int64_t> in_parts_, out_parts_;
  std::vector<std::int32_t> staging_;  // tokens on their way to the device, unless pinned
  DeviceMemory pinned_staging_;        // room for two batches
  std::array<std::int64_t, 2> staged_ = {-1, -1};  // places of the ops that used them last
  std::int64_t batches_ = 0;
};

}  // namespace foretrain
