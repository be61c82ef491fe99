// Makes a Timeline of what the engine recorded: spans, memory samples, step windows.
#pragma once

#include <span>
#include <vector>

#include "sim/program/program.h"
#include "sim/simulate/engine.h"
#include "sim/simulate/step_graph.h"
#include "traces/timeline.h"

namespace foretrain {

// Steps of a timeline: [begin, end).
struct StepRange {
  int begin = 0;
  int end = 0;

  int Count() const { return end - begin; }
  bool Holds(int step) const { return begin <= step && step < end; }
};

// The complete steps of `engine` from `first_step` on, sorted as Timeline says.
Timeline MakeTimeline(const Program& program, const StepGraph& graph, const Engine& engine,
                      int first_step, int threads);

// Live bytes of each rank, category and space at simulated times, sorted as Timeline says.
//
//   spans  of each queue in turn, of each of `steps` in turn, in issue order
//
// Persistent buffers are there from time 0; any other lives, in each step, from the start of the
// first op that touches it to the end of the last. Frees come before allocations of the same
// moment. O(operands log operands).
std::vector<MemorySample> MakeMemorySamples(const Program& program, const StepGraph& graph,
                                            std::span<const Span> spans, const StepRange& steps,
                                            int threads);

}  // namespace foretrain
