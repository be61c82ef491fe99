// Causes of a pipeline's bubble, from spans alone: its passes are replayed in their recorded order
// with evened-out lengths. Not for schedules whose steps overlap. bubble.h computes the bubble
// itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "traces/metrics/bubble.h"
#include "traces/timeline.h"

namespace foretrain {

// Idle seconds of a stage in the period of one step, mean over stages. The sum is
// PipelineBubble::bubble times its period up to rounding. No part is negative.
struct BubbleCauses {
  double warm_up_s = 0;    // schedule: before a stage's first pass
  double steady_s = 0;     // schedule: between its passes
  double cool_down_s = 0;  // schedule: after its last
  double imbalance_s = 0;  // stages take different times
  double transfers_s = 0;  // point-to-point transfers that nothing hides
  double variation_s = 0;  // lengths differ from micro-batch to micro-batch
  double rest_s = 0;       // the host, and all else

  double ScheduleSeconds() const { return warm_up_s + steady_s + cool_down_s; }
  double Sum() const {
    return ScheduleSeconds() + imbalance_s + transfers_s + variation_s + rest_s;
  }
};

// The causes of one pipeline's bubble in one step. P(x) is the period if the passes are replayed
// with lengths x. Each pass starts after the previous one on its stage, and after the pass it
// depends on: the block before it for a forward, after it for a backward. W is the mean over stages
// of the compute time.
//
//   schedule   P(mean of each block over micro-batches, scaled so that all stages compute equally
//              long in each kind of pass) - W
//   imbalance  P(mean of each block over micro-batches) - the P above
//   transfers  P(the same, with each transfer lasting from the later start of its two sides to its
//   end)
//              - the P above
//   variation  P(measured lengths, and transfers) - the P above
//   rest       the period - the P above
//
// If a P is smaller than an earlier one, the earlier causes are reduced to what it explains.
// Example: passes of unequal length may wait less than equal ones, if they had a shared processor
// to themselves while the pipeline filled. Transfers then lose what variation saved, next
// imbalance, and last the schedule, whose three parts shrink by the same factor.
//
//   timeline  sorted
//   ranks     the pipeline's, stage 0 first; ranks without spans are skipped
//   bubble    of that pipeline and step, from PipelineBubbles without `asynchronous`
//
// `nullopt` if fewer than two stages worked, or spans of one are missing. O(n log n) in the spans
// of the ranks.
std::optional<BubbleCauses> CausesOfBubble(const Timeline& timeline, const Pipeline& ranks,
                                           const PipelineBubble& bubble);

// Mean over the pipelines that have a bubble in `step`; `nullopt` if none has.
//
//   bubbles  PipelineBubbles of the timeline and these pipelines
std::optional<BubbleCauses> CausesOfBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            std::span<const PipelineBubble> bubbles,
                                            std::int32_t step);

}  // namespace foretrain
