// Pipeline bubble: how long the stages of a pipeline are idle, in the two usual ratios, from spans
// alone. Its causes are in bubble_causes.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// Ranks of one pipeline, stage 0 first.
using Pipeline = std::vector<int>;

// The pipelines of `world` ranks in the order tp-cp-ep-dp-pp, whose stages are world / pp apart:
// {i, i + world/pp, ...} for each i. `pp` > 0 divides `world`.
std::vector<Pipeline> PipelinesOf(int world, int pp);

// The pipelines that an import found and wrote into RunSetup::details_json; empty if there are
// none.
std::vector<Pipeline> PipelinesIn(const std::string& details_json);

struct BubbleOptions {
  // For schedules whose steps overlap and have no period of their own. The period is then the part
  // of the step's windows that all stages share, and work of any step counts in it.
  bool asynchronous = false;
};

// One pipeline in one step. P is the period, work_i the time in which stage i computes:
//   bubble = mean over stages of (1 - work_i / P)          uniform 1F1B: (p - 1) / (m + p - 1)
//   bubble_overhead = P / max over stages of work_i  - 1   uniform 1F1B: (p - 1) / m
struct PipelineBubble {
  int pipeline = 0;  // index into the pipelines given
  std::int32_t step = 0;
  std::int64_t start_ns = 0;            // start of P
  std::int64_t end_ns = 0;              // end of P
  std::vector<int> ranks{};             // stages with spans in the timeline
  std::vector<std::int64_t> work_ns{};  // one per rank
  double bubble = 0.0;
  std::optional<double> bubble_overhead{};  // `nullopt` if no stage worked
};

// The bubble of each pipeline in each step.
//
//   timeline   sorted
//   pipelines  ranks in [0, world). Ranks without spans are skipped, since classes of equal ranks
//              are simulated once. A pipeline without any is skipped too.
//
// P lasts from the earliest start of a forward pass to the latest end of a backward or weight pass
// of any stage in the step. work_i is the union of the spans of stage i's passes, including
// recomputation and their tp, cp and ep collectives, without send, recv and host launches. A span
// belongs to the step it serves (Span::step). O(n log n).
std::vector<PipelineBubble> PipelineBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            const BubbleOptions& options = {});

}  // namespace foretrain
