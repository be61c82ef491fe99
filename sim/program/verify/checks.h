// The parts of Verify, in their order. Each relies on what the ones before it have shown.
#pragma once

#include "sim/program/link/step.h"

namespace foretrain {

// Instructions, bindings, buffers, groups and edges lie within their tables; op numbers are Link's;
// ids are unique in a step; each op touches only spaces that it can reach. After this check the
// program can be walked without bounds checks.
Result<void> CheckStructure(const Program& program);

// Each block and micro-batch has one forward, then the backward or both of its halves, with any
// recomputation in between.
Result<void> CheckPasses(const Program& program, const RankProgram& rank);

// Lifetimes and offsets of buffers: no two buffers that live at the same time overlap.
Result<void> CheckLayout(const Program& program, const RankProgram& rank, const FlatStep& step);

// Nothing is read that the same step has not written, except state.
Result<void> CheckContents(const Program& program, const RankProgram& rank, const FlatStep& step);

// Applies if steps overlap. A buffer that belongs to a step or a micro-batch is read only by that
// step or micro-batch. A buffer that does not outlive a step is used by one step only.
Result<void> CheckHolders(const Program& program, const RankProgram& rank, const FlatStep& step);

// Every two ops that touch the same bytes, at least one of them writing, are ordered by queues and
// edges.
Result<void> CheckOrder(const Program& program, const RankProgram& rank, const FlatStep& step);

}  // namespace foretrain
