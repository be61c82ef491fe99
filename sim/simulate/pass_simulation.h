// One step of a pipeline whose events are passes of chunks: the ops of each chunk are played once
// and stand for those of all its micro-batches. No program is compiled. Leaves out data
// parallelism, offloading and updates, and what Simulate alone sees: launches that hold ops up,
// transfers that share wires, memory that a queue waits for, and recomputation in full that begins
// before the gradient is there.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/program/schedules/play_slots.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// An op of a pass, in seconds from where the pass begins.
struct PassOp {
  std::int32_t block = 0;  // of the model
  Pass pass = Pass::kForward;
  std::int32_t op = 0;  // of the block
  Queue queue = Queue::kCompute;
  double start_s = 0;
  double end_s = 0;
};

// One chunk of one rank: what a micro-batch takes, and its ops.
struct ChunkPlay {
  ChunkTimes times;
  std::vector<PassOp> forward, backward, input, weight;  // by start; empty: not in the schedule

  const std::vector<PassOp>& OpsOf(Pass pass) const;
};

struct PassSimulation {
  PlayedSlots slots;              // from the first forward to the last backward
  std::vector<ChunkPlay> chunks;  // [rank * chunks of a rank + chunk]
  int chunks_of_rank = 1;
  double relative_error = 0;  // of the ops: mean of their errors by their time

  // The ops of one played slot, which start at its start_s.
  const std::vector<PassOp>& OpsOf(int rank, const Slot& slot) const {
    return chunks[static_cast<std::size_t>(rank * chunks_of_rank + slot.chunk)].OpsOf(slot.pass);
  }
};

// Plays the passes of a step on the machine of `costs`, as all but the first micro-batch has them.
//
//   model, plan  valid together
//
// Ops of a chunk start when their queue is free and what they read is written, a queue that had
// gone idle costs.profile()'s wake later; a slot ends when its compute queue is free again.
// Errors: those of ValidatePlan; kUnsupported, a schedule whose steps overlap.
// O(ops of all chunks + slots).
//
//   lengthen  what a chunk's passes take beside that, as where parameters are gathered for them:
//             called for each chunk, [rank, chunk], before the slots are played; may be empty
Result<PassSimulation> SimulatePasses(
    const ModelSpec& model, const Plan& plan, const CostModel& costs,
    const std::function<void(int rank, int chunk, ChunkTimes& times)>& lengthen = {});

}  // namespace foretrain
