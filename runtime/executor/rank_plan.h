// One rank's step made ready to run: addresses, kernel arguments, who waits for whom. Leaves out
// what changes while it runs: runtime/executor/rank_run.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/arena.h"
#include "runtime/communicator.h"
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/sequence_runs.h"
#include "sim/program/program.h"

namespace foretrain {

// `op` of `distance` steps earlier has ended.
struct Wait {
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

// What the loop reads of each op.
struct PlannedOp {
  OpId id = kNoOp;
  std::int64_t bytes = 0;  // moved: of the first tensor, for communication; of all, for copies
  std::int32_t first_wait = 0;
  std::int32_t wait_count = 0;
  std::int32_t first_buffer = 0;  // into RankPlan::touched
  std::int32_t buffer_count = 0;
  std::int32_t detail = 0;  // into calls, comm_calls, copies, loads, reads or durations, by `work`
  std::uint16_t wakes = 0;  // a bit a queue that has an op waiting for this one
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
  Work work = Work::kKernel;
  bool ahead = false;         // works for the next step
  std::int16_t together = 1;  // ops of its queue from here on that may be one graph
};

struct PlannedComm {
  Communicator* communicator = nullptr;
  CommCall call;  // but the step
  // Of an unequal all-to-all: what says how long its parts are, of how many elements a row, which
  // member this is, and room for the parts.
  const std::byte* counts = nullptr;
  OpShape shape = {};
  bool home = false;
  int member = 0;
  std::int64_t out_room = 0;  // elements
  std::int64_t each = 4;      // bytes of one
};

// Within memory or, where the one address is null, from or to a place in the rank's file.
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
  std::int64_t ids_count = 0;
  std::int64_t targets_count = 0;
};

struct PlannedRead {
  const std::byte* loss = nullptr;
  const std::byte* squared_norm = nullptr;
  float norm_factor = 1.0F;              // undoes the loss scale
  const std::byte* doublings = nullptr;  // of that, since the first step
  float loss_scale = 1.0F;               // of the first step
};

// What others have for this rank's experts, which the host reads.
struct PlannedCounts {
  const std::byte* at = nullptr;
  OpShape shape;
  std::string_view router;  // of the block's, in the op's name (row_counts.h)
};

struct RankPlan {
  int rank = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;
  double expert_headroom = 0;  // of the plan, for messages
  std::vector<PlannedOp> ops;  // in issue order
  std::vector<Wait> waits;
  std::vector<std::int32_t> touched;    // buffers that are not persistent
  std::vector<std::int32_t> accessors;  // by buffer: ops of a step that touch it
  std::array<std::vector<std::int32_t>, kQueueCount> queues;  // op numbers
  std::vector<KernelCall> calls;
  std::vector<std::unique_ptr<const SequenceRuns>> runs;  // that calls point to
  std::vector<PlannedComm> comm_calls;
  std::vector<PlannedCopy> copies;
  std::vector<PlannedLoad> loads;
  std::vector<PlannedRead> reads;
  std::vector<PlannedCounts> counts;
  std::vector<std::int64_t> durations_ns;
};

// Who runs the ops of Queue::kCpu: the device itself where it is the host's processors.
const FtDeviceApi& HostApi(const FtDeviceApi& device);

// Refuses a program with an op that the device or this executor cannot run, before anything is
// allocated: kUnsupported, naming op, block, kind and device. kInvalidArgument, a program that is
// not linked or has only representatives of its ranks.
Result<void> CheckProgram(const Program& program, const FtDeviceApi& api);

// Makes one rank ready; `seed` is that of dropout. Errors: kInvalidArgument, an op without an
// operand it needs or a group without this rank.
Result<RankPlan> PlanRank(const Program& program, int rank_index, const RankArena& arena,
                          CommunicatorSet& communicators, const OptimizerSettings& optimizer,
                          std::uint64_t seed);

// "backward layer 3 mb 1, mlp.up".
std::string OpText(const Program& program, const RankProgram& rank, OpId op);

}  // namespace foretrain
