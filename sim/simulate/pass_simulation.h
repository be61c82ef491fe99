// Simulates one step of a pipeline at the level of passes. The ops of each chunk are played once
// and represent all its micro-batches, so no program is compiled. It ignores data parallelism,
// offload and updates. It also ignores what only Simulate models: launches that delay ops,
// transfers that share connections, waits for memory, and full recomputation that starts before its
// gradient arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/program/schedules/play_slots.h"

namespace foretrain {

// One op of a pass, in seconds from the start of the pass.
struct PassOp {
  std::int32_t block = 0;  // block of the model
  Pass pass = Pass::kForward;
  std::int32_t op = 0;  // op of the block
  Queue queue = Queue::kCompute;
  double start_s = 0;
  double end_s = 0;
};

// One chunk of one rank: the times of its passes for one micro-batch, and their ops.
struct ChunkPlay {
  ChunkTimes times;
  std::vector<PassOp> forward, backward, input, weight;  // by start; empty: not in the schedule

  const std::vector<PassOp>& OpsOf(Pass pass) const;
};

struct PassSimulation {
  PlayedSlots slots;              // slots from the first forward to the last backward pass
  std::vector<ChunkPlay> chunks;  // [rank * chunks of a rank + chunk]
  int chunks_of_rank = 1;
  double relative_error = 0;  // mean relative error of the ops, weighted by time

  // Ops of one played slot. Their times are relative to the slot's start_s.
  const std::vector<PassOp>& OpsOf(int rank, const Slot& slot) const {
    return chunks[static_cast<std::size_t>(rank * chunks_of_rank + slot.chunk)].OpsOf(slot.pass);
  }
};

// Plays the passes of a step on the machine of `costs`. Each micro-batch takes as long as one that
// is not the first.
//
//   model, plan  valid together
//   lengthen     adds time that chunks need otherwise, such as gathering parameters. Called for
//                each chunk as (rank, chunk, times) before slots are played; may be empty.
//
// An op of a chunk starts when its queue is free and its inputs are written. A queue that was idle
// starts later by the profile's wake time. A slot ends when its compute queue is free again.
// Errors: those of ValidatePlan; kUnsupported: a schedule whose steps overlap. O(ops of all chunks
// + slots).
Result<PassSimulation> SimulatePasses(
    const ModelSpec& model, const Plan& plan, const CostModel& costs,
    const std::function<void(int rank, int chunk, ChunkTimes& times)>& lengthen = {});

}  // namespace foretrain
