// The order of forward and backward slots on each pipeline rank, and the time of the whole. Leaves
// out layers, ZeRO and devices.
#pragma once

#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/config/schedule/placement.h"
#include "sim/config/schedule/schedule_draft.h"
#include "sim/config/schedule/slot.h"

namespace foretrain {

// A pipeline of `p` ranks and `m` micro-batches, both >= 1. `vpp` is the number of chunks per rank
// of an interleaved schedule, 1 for others. `slots` are those of a custom one, for p and m; empty
// for others.
struct PipelineShape {
  int p = 1;
  int m = 1;
  int vpp = 1;
  SlotOrder slots = {};
};

PipelineShape PipelineShapeOf(const Plan& plan);
Placement PlacementOf(ScheduleKind schedule, const PipelineShape& shape);

// Slots of pipeline rank `rank`, 0 <= rank < p, in issue order. Requires a shape that the schedule
// accepts (plan_rules.cc). For each of its micro-batches a chunk has one kForward and either one
// kBackward or one kBackwardInput before one kBackwardWeight. A chunk's weight gradients come in
// ascending order of micro-batch, so gradients add up in that order. A forward that is
// `for_next_step` may come after the backward of the same number, which belongs to the step before.
std::vector<Slot> MakeSlots(ScheduleKind schedule, const PipelineShape& shape, int rank);

// The slots of all ranks of a valid plan as a file states them (schedule_csv.h). Errors:
// kUnsupported, a schedule whose steps overlap, because a file is a list of one step's passes.
Result<ScheduleDraft> DraftOf(const Plan& plan);

// One file each. Sources: Huang et al. 2019 (GPipe), Narayanan et al. 2019/2021 (1F1B,
// interleaved), Qi et al. 2023 (ZB-H1, ZB-H2), Qi et al. 2024 (ZB-V), DeepSeek-AI 2024 (DualPipe,
// DualPipeV), Narayanan et al. 2019 (PipeDream) and 2021 (PipeDream-2BW, the same order).
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
// direction of DualPipe). B = input_s + weight_s. `send_s` is one send between neighbours; sends of
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
//   ZB-H1        m (F + B) + (p - 1) (F + I - W) if the chain through the last rank is the
//                longest (no send, W <= F, W <= I, m >= p)
//   PipeDream, 2BW  m (F + B) + 2 m (p - 1) / p send: mean time per step of a long run
// No single form holds for all times. Otherwise, and for the other schedules, the result is the
// longest path through the slots, O(p m). Safe from any thread.
double Makespan(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times);

// The closed form; negative if none holds for these times.
double GpipeMakespan(const PipelineShape& shape, const SlotTimes& times);
double OneFOneBMakespan(const PipelineShape& shape, const SlotTimes& times);
double InterleavedMakespan(const PipelineShape& shape, const SlotTimes& times);
double ZbH1Makespan(const PipelineShape& shape, const SlotTimes& times);
double PipeDreamMakespan(const PipelineShape& shape, const SlotTimes& times);

// The longest path through the slots of all ranks, each rank's in order. Requires a schedule whose
// steps do not overlap.
double LongestPath(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times);

}  // namespace foretrain
