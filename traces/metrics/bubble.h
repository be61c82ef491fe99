// How long the stages of a pipeline stand still: the two figures in use, from spans alone. Leaves
// out what the bubble is made of (schedule, imbalance, transfers), which takes a simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// Ranks of one pipeline, stage 0 first.
using Pipeline = std::vector<int>;

// The pipelines of `world` ranks in the order tp-cp-ep-dp-pp, in which stages are world / pp apart:
// {i, i + world/pp, ...} for each i. `pp` > 0 divides `world`.
std::vector<Pipeline> PipelinesOf(int world, int pp);

struct BubbleOptions {
  // Schedules whose steps overlap have no period of their own: the period is then the part of the
  // step's windows that all stages share, and work of any step counts in it.
  bool asynchronous = false;
};

// One pipeline in one step. With P the period and work_i the time in which stage i computes:
//   bubble = mean over stages of (1 - work_i / P)          uniform 1F1B: (p - 1) / (m + p - 1)
//   bubble_overhead = P / max over stages of work_i  - 1   uniform 1F1B: (p - 1) / m
struct PipelineBubble {
  int pipeline = 0;  // index into the pipelines given
  std::int32_t step = 0;
  std::int64_t start_ns = 0;            // of P
  std::int64_t end_ns = 0;              // of P
  std::vector<int> ranks{};             // stages that the timeline holds
  std::vector<std::int64_t> work_ns{};  // one per rank
  double bubble = 0.0;
  std::optional<double> bubble_overhead{};  // nothing where no stage worked
};

// The bubble of each pipeline in each step.
//
//   timeline   sorted
//   pipelines  ranks in [0, world); ranks without spans (classes of ranks are simulated once) are
//              left out, and so is a pipeline without any
//
// P runs from the earliest start of a forward pass to the latest end of a backward or weight pass
// of any stage in the step. work_i is the union of the spans of stage i's passes with recomputation
// and their tp, cp and ep collectives, without send, recv and host launches. Steps are those the
// spans serve (Span::step). O(n log n).
std::vector<PipelineBubble> PipelineBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            const BubbleOptions& options = {});

}  // namespace foretrain
