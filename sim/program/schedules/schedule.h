// The order of forward and backward slots on each pipeline rank. Knows nothing of layers, ZeRO or
// devices.
#pragma once

#include <vector>

#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

// One pass of one chunk (the rank's share of the layers) for one micro-batch. Passes: kForward,
// kBackward (both halves), kBackwardInput, kBackwardWeight.
struct Slot {
  Pass pass = Pass::kForward;
  int chunk = 0;
  int micro_batch = 0;

  bool operator==(const Slot&) const = default;
};

// Slots of pipeline rank `rank` of `p` for `m` micro-batches, in issue order. 0 <= rank < p, m
// >= 1. Each micro-batch has one kForward, and one kBackward or one kBackwardInput before one
// kBackwardWeight; backwards come in ascending order of micro-batch, so that gradients add up in
// that order.
std::vector<Slot> MakeSlots(ScheduleKind schedule, int p, int m, int rank);

// One file each; sources: Huang et al. 2019 (GPipe), Narayanan et al. 2019/2021 (1F1B), Qi et al.
// 2023 (ZB-H1).
std::vector<Slot> GpipeSlots(int p, int m, int rank);
std::vector<Slot> OneFOneBSlots(int p, int m, int rank);
std::vector<Slot> ZbH1Slots(int p, int m, int rank);

// Step time of the whole pipeline, first forward to last backward, in seconds.
//
//   p, m    ranks and micro-batches, >= 1
//   F, I, W forward_s, input_s, weight_s: one rank's forward, input-gradient and weight-gradient
//           time of one micro-batch, >= 0; B = I + W
//   send_s  one send between neighbours, >= 0; sends of one direction queue up
//
// A backward gives its input gradient at its end. With sends no longer than F and B:
//   GPipe   (m + p - 1) (F + B) + 2 (p - 1) send
//   1F1B    (m + p - 1) (F + B) + 2 (p + m - 2 - ceil((m - 1) / p)) send
//   ZB-H1   m (F + B) + (p - 1) (F + I - W) where that chain through the last rank is the longest
//           (no send, W <= F, W <= I, m >= p); no one form holds for all times, so that it is else,
//           like the others with longer sends, the longest path through the slots.
// O(1) for the forms, else O(p m); safe from any thread.
double Makespan(ScheduleKind schedule, int p, int m, double forward_s, double input_s,
                double weight_s, double send_s);

}  // namespace foretrain
