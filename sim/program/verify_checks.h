// The parts of Verify. Each is given what the ones before it have proven.
#pragma once

#include <span>

#include "sim/program/link_step.h"

namespace foretrain {

// Instructions, bindings, buffers, groups and edges lie in their tables; op numbers are Link's;
// ids are unique in a step; each op touches only spaces that it can. After it the program can be
// walked without a check.
Result<void> CheckStructure(const Program& program);

// Forward once, then the backward or both of its halves, recomputation between, of each block and
// micro-batch.
Result<void> CheckPasses(const Program& program, const RankProgram& rank);

// Lives and offsets of buffers: no two that live at the same time overlap.
Result<void> CheckLayout(const Program& program, const RankProgram& rank, const FlatStep& step);

// Nothing is read that the same step has not written, but state.
Result<void> CheckContents(const Program& program, const RankProgram& rank, const FlatStep& step);

// Every two ops that touch the same bytes, one of them writing, are ordered by queues and edges.
Result<void> CheckOrder(const Program& program, const RankProgram& rank, const FlatStep& step);

}  // namespace foretrain
