// Plans that must train what one rank trains, at the size of TinyPlan.
#pragma once

#include <ostream>
#include <vector>

#include "sim/spec/plan.h"

namespace foretrain {

struct Case {
  const char* name;
  Plan plan;
};
inline void PrintTo(const Case& one, std::ostream* out) { *out << Describe(one.plan); }

// TinyPlan with a change.
Plan With(void (*change)(Plan&));

inline constexpr auto kCpRing = ContextParallelKind::kRing;
inline constexpr auto kCpAllGather = ContextParallelKind::kAllGather;
inline constexpr auto kCpAllToAll = ContextParallelKind::kAllToAll;

// A whole sequence on each rank.
std::vector<Case> Cases();
// The sequence is shared out among ranks.
std::vector<Case> ContextCases();
// Activations, optimizer state, gradients or parameters lie off the device.
std::vector<Case> OffloadCases();

}  // namespace foretrain
