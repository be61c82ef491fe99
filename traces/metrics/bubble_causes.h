// What the bubble of a pipeline is made of, from spans alone: its passes are played again in the
// order in which they ran, with lengths evened out. Leaves out how long the bubble is (bubble.h)
// and schedules whose steps overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "traces/metrics/bubble.h"
#include "traces/timeline.h"

namespace foretrain {

// Seconds a stage stands still in the period of one step, mean over stages. The sum is
// PipelineBubble::bubble times its period but for rounding; no part is below zero.
struct BubbleCauses {
  double warm_up_s = 0;    // schedule: before a stage's first pass
  double steady_s = 0;     // schedule: between its passes
  double cool_down_s = 0;  // schedule: behind its last
  double imbalance_s = 0;  // stages take unlike long
  double transfers_s = 0;  // point-to-point transfers that nothing hides
  double variation_s = 0;  // a stage's passes take unlike long from micro-batch to micro-batch
  double rest_s = 0;       // the host, and all else

  double ScheduleSeconds() const { return warm_up_s + steady_s + cool_down_s; }
  double Sum() const {
    return ScheduleSeconds() + imbalance_s + transfers_s + variation_s + rest_s;
  }
};

// The causes of one pipeline's bubble in one step. With P(x) the period when the passes are played
// with lengths x, each behind the pass before it on its stage and behind the pass of the block
// before, for a forward, or after, for a backward, on another stage; and W the mean over stages of
// the time a stage computes:
//
//   schedule   P(each block's mean over micro-batches, scaled so that every stage computes as long
//              in each kind of pass) - W
//   imbalance  P(each block's mean over micro-batches) - the P above
//   transfers  P(the same, and each transfer between stages takes from the later start of its two
//              sides to its end) - the P above
//   variation  P(what each pass took, and transfers) - the P above
//   rest       the period - the P above
//
// Where a P is below one before it, those before it explain no more than it does: passes that take
// unlike long may wait less than even ones, as those do that had a shared processor for themselves
// while the pipeline filled. Then transfers lose what variation saved, behind them imbalance, and
// last the schedule, its three parts by the same share.
//
//   timeline  sorted
//   ranks     the pipeline's, stage 0 first; those without spans are left out
//   bubble    of that pipeline and step, from PipelineBubbles without `asynchronous`
//
// Nothing where fewer than two stages worked, or spans of one of them are missing. O(n log n) in
// the spans of the ranks.
std::optional<BubbleCauses> CausesOfBubble(const Timeline& timeline, const Pipeline& ranks,
                                           const PipelineBubble& bubble);

// Mean over the pipelines that have a bubble in `step`, or nothing.
//
//   bubbles  PipelineBubbles of the timeline and these pipelines
std::optional<BubbleCauses> CausesOfBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            std::span<const PipelineBubble> bubbles,
                                            std::int32_t step);

}  // namespace foretrain
