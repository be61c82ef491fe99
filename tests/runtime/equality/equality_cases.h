// Plans that must train as one rank does, at the size of TinyPlan.
#pragma once

#include <ostream>
#include <vector>

#include "sim/config/plan/plan.h"

namespace foretrain {

struct Case {
  const char* name;
  Plan plan;
};
inline void PrintTo(const Case& one, std::ostream* out) { *out << Describe(one.plan); }

// TinyPlan after `change`.
Plan With(void (*change)(Plan&));

inline constexpr auto kCpRing = ContextParallelKind::kRing;
inline constexpr auto kCpAllGather = ContextParallelKind::kAllGather;
inline constexpr auto kCpAllToAll = ContextParallelKind::kAllToAll;

// Each rank has whole sequences.
std::vector<Case> Cases();
// Context parallelism: ranks share each sequence.
std::vector<Case> ContextCases();
// Activations, optimizer state, gradients or parameters are offloaded.
std::vector<Case> OffloadCases();

}  // namespace foretrain
