// Makes a Timeline from the records of the engine: spans, memory samples and step windows.
#pragma once

#include <span>
#include <vector>

#include "sim/program/ir/program.h"
#include "sim/simulate/engine.h"
#include "sim/simulate/step_graph.h"
#include "traces/timeline.h"

namespace foretrain {

// Range of steps of a timeline: [begin, end).
struct StepRange {
  int begin = 0;
  int end = 0;

  int Count() const { return end - begin; }
  bool Holds(int step) const { return begin <= step && step < end; }
};

// Timeline of the complete steps of `engine` from `first_step` on, sorted as Timeline requires.
Timeline MakeTimeline(const Program& program, const StepGraph& graph, const Engine& engine,
                      int first_step, int threads);

// Live bytes of each rank, category and space over simulated time, sorted as Timeline requires.
//
//   spans  queue by queue; for each queue, the steps in turn, in issue order
//
// Persistent buffers are live from time 0 on. Any other buffer is live, in each step, from the
// start of the first op that touches it to the end of the last. A free and an allocation at one
// time make one sample. O(operands * log operands).
std::vector<MemorySample> MakeMemorySamples(const Program& program, const StepGraph& graph,
                                            std::span<const Span> spans, const StepRange& steps,
                                            int threads);

}  // namespace foretrain
