// The order of forward and backward slots on each pipeline rank, and how long the whole takes.
// Knows nothing of layers, ZeRO or devices.
#pragma once

#include <vector>

#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

// One pass of one chunk (a share of the rank's layers, schedules/placement.h) for one micro-batch.
// Passes: kForward, kBackward (both halves), kBackwardInput, kBackwardWeight.
struct Slot {
  Pass pass = Pass::kForward;
  int chunk = 0;
  int micro_batch = 0;
  bool paired = false;  // with the slot that follows: the two run as one, layer beside layer
  bool ahead = false;   // of a micro-batch of the next step (docs/program.md)

  bool operator==(const Slot&) const = default;
};

// A pipeline of `p` ranks and `m` micro-batches, both >= 1; `vpp` chunks a rank where the schedule
// is interleaved, else 1.
struct PipelineShape {
  int p = 1;
  int m = 1;
  int vpp = 1;
};

// Slots of pipeline rank `rank` in issue order, 0 <= rank < p. The schedule accepts the shape
// (plan_rules.cc). Each chunk has, for each of its micro-batches, one kForward, and one kBackward
// or one kBackwardInput before one kBackwardWeight; a chunk's weight gradients come in ascending
// order of micro-batch, so that gradients add up in that order. A forward that is `ahead` may come
// behind the backward of the same number, which is of the step before.
std::vector<Slot> MakeSlots(ScheduleKind schedule, const PipelineShape& shape, int rank);

// One file each. Sources: Huang et al. 2019 (GPipe), Narayanan et al. 2019/2021 (1F1B,
// interleaved), Qi et al. 2023 (ZB-H1, ZB-H2), Qi et al. 2024 (ZB-V), DeepSeek-AI 2024 (DualPipe,
// DualPipeV), Narayanan et al. 2019 (PipeDream) and 2021 (PipeDream-2BW, of the same order).
std::vector<Slot> GpipeSlots(const PipelineShape& shape, int rank);
std::vector<Slot> OneFOneBSlots(const PipelineShape& shape, int rank);
std::vector<Slot> InterleavedSlots(const PipelineShape& shape, int rank);
std::vector<Slot> ZbH1Slots(const PipelineShape& shape, int rank);
std::vector<Slot> ZbH2Slots(const PipelineShape& shape, int rank);
std::vector<Slot> ZbVSlots(const PipelineShape& shape, int rank);
std::vector<Slot> DualPipeSlots(const PipelineShape& shape, int rank);
std::vector<Slot> DualPipeVSlots(const PipelineShape& shape, int rank);
std::vector<Slot> PipeDreamSlots(const PipelineShape& shape, int rank);

// Seconds of one micro-batch on one rank: its whole share of the layers, all chunks together (one
// direction of DualPipe). B = input_s + weight_s. `send_s`: one send between neighbours; sends of
// one direction queue up.
struct SlotTimes {
  double forward_s = 0;
  double input_s = 0;
  double weight_s = 0;
  double send_s = 0;
};

// Step time of the whole pipeline, first forward to last backward, in seconds. A backward gives its
// input gradient at its end; a pair is one unit that waits for both its inputs and gives both
// outputs at its end. With sends no longer than F and B:
//   GPipe        (m + p - 1) (F + B) + 2 (p - 1) send
//   1F1B         (m + p - 1) (F + B) + 2 (p + m - 2 - ceil((m - 1) / p)) send
//   interleaved  (m + (p - 1) / v) (F + B), without sends, m a multiple of p
//   ZB-H1        m (F + B) + (p - 1) (F + I - W) where that chain through the last rank is the
//                longest (no send, W <= F, W <= I, m >= p)
//   PipeDream, 2BW  m (F + B) + 2 m (p - 1) / p send: what a step adds to a long run, on average
// No one form holds for all times: else, and for the others, it is the longest path through the
// slots, O(p m). Safe from any thread.
double Makespan(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times);

// The closed form, or a negative number where none holds.
double GpipeMakespan(const PipelineShape& shape, const SlotTimes& times);
double OneFOneBMakespan(const PipelineShape& shape, const SlotTimes& times);
double InterleavedMakespan(const PipelineShape& shape, const SlotTimes& times);
double ZbH1Makespan(const PipelineShape& shape, const SlotTimes& times);
double PipeDreamMakespan(const PipelineShape& shape, const SlotTimes& times);

// The longest path through the slots of all ranks, each rank's in order. Not for schedules whose
// steps overlap.
double LongestPath(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times);

}  // namespace foretrain
