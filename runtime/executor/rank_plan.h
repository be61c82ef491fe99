// One rank's step prepared for execution: addresses, kernel arguments and waits. State that changes
// during a run: runtime/executor/rank_run.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/communicator.h"
#include "runtime/device/arena.h"
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/sequence_runs.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Waits until `op` of the step `distance` steps earlier has ended.
struct OpWait {
  std::int32_t op = 0;
  std::int32_t distance = 0;
};

enum class Work : std::uint8_t {
  kKernel,
  kCommunication,
  kCopy,
  kLoadBatch,
  kHostRead,
  kReadCounts,
  kOpaque
};

// The fields of an op that the loop reads.
struct PlannedOp {
  OpId id = kNoOp;
  std::int64_t bytes = 0;  // communication: of the first tensor; copies: of all
  std::int32_t first_wait = 0;
  std::int32_t wait_count = 0;
  std::int32_t first_buffer = 0;  // index in RankPlan::touched
  std::int32_t buffer_count = 0;
  // index in calls, comm_calls, copies, loads, reads or durations, by `work`
  std::int32_t detail = 0;
  std::uint16_t wakes = 0;  // one bit for each queue with an op that waits for this one
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
  Work work = Work::kKernel;
  bool for_next_step = false;  // belongs to the next step
  std::int16_t together = 1;   // number of ops of its queue, from here on, that may form one graph
};

struct PlannedComm {
  Communicator* communicator = nullptr;
  CommCall call;  // without the step
  // Unequal all-to-all: row counts of the parts, shape, direction, this member's index, and the
  // room for received elements.
  const std::byte* counts = nullptr;
  OpShape shape = {};
  bool is_return = false;
  int member = 0;
  std::int64_t out_room = 0;  // in elements
  std::int64_t each = 4;      // bytes of an element
};

// A copy within memory. If one address is null, that side is `file_offset` in the rank's file.
struct PlannedCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t file_offset = -1;
  std::int64_t bytes = 0;
};

struct PlannedLoad {
  int micro_batch = 0;
  std::byte* ids = nullptr;
  std::byte* targets = nullptr;
  std::byte* starts = nullptr;  // of documents
  std::int64_t ids_count = 0;
  std::int64_t targets_count = 0;
  std::int64_t starts_count = 0;

  std::int64_t Count() const { return ids_count + targets_count + starts_count; }
};

struct PlannedRead {
  const std::byte* loss = nullptr;
  const std::byte* squared_norm = nullptr;
  float norm_factor = 1.0F;              // reverses the loss scale
  const std::byte* doublings = nullptr;  // of the loss scale, since the first step
  float loss_scale = 1.0F;               // at the first step
};

// Row counts for this rank's experts, read by the host.
struct PlannedCounts {
  const std::byte* at = nullptr;
  OpShape shape;
  std::string_view router;  // of the block's router, in the op's name (row_counts.h)
};

// The op after which loss and norm are known and no update has begun, so that the step can still be
// skipped; -1: none.
struct PlannedGuard {
  std::int32_t op = -1;
  const std::byte* loss = nullptr;
  std::byte* squared_norm = nullptr;
};

struct RankPlan {
  int rank = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;
  double expert_headroom = 0;  // of the plan, for messages
  std::vector<PlannedOp> ops;  // in issue order
  std::vector<OpWait> waits;
  std::vector<std::int32_t> touched;    // buffers that are not persistent
  std::vector<std::int32_t> accessors;  // by buffer: number of ops in a step that touch it
  std::array<std::vector<std::int32_t>, kQueueCount> queues;  // op numbers by queue
  std::vector<KernelCall> calls;
  std::vector<std::unique_ptr<const SequenceRuns>> runs;  // referenced by calls
  std::vector<PlannedComm> comm_calls;
  std::vector<PlannedCopy> copies;
  std::vector<PlannedLoad> loads;
  std::vector<PlannedRead> reads;
  std::vector<PlannedCounts> counts;
  std::vector<std::int64_t> durations_ns;
  PlannedGuard guard;
};

// The API that runs ops of Queue::kCpu: the device itself if it is the CPU.
const FtDeviceApi& HostApi(const FtDeviceApi& device);

// Refuses a program that the device or this executor cannot run, before anything is allocated.
// kUnsupported names op, block, kind and device. kInvalidArgument: not linked, or only
// representatives of its ranks.
Result<void> CheckProgram(const Program& program, const FtDeviceApi& api);

// Prepares one rank; `seed` is for dropout. With `guarded`, its steps can be skipped. Errors:
// kInvalidArgument, an op without a required operand, a group without this rank, or `guarded`
// without a norm of the gradient.
Result<RankPlan> PlanRank(const Program& program, int rank_index, const RankArena& arena,
                          CommunicatorSet& communicators, const OptimizerSettings& optimizer,
                          std::uint64_t seed, bool guarded);

// "backward layer 3 mb 1, mlp.up".
std::string OpText(const Program& program, const RankProgram& rank, OpId op);

}  // namespace foretrain
