// Layouts of plans: how they split a model over ranks. A search keeps several, so that its answer
// has real alternatives.
#pragma once

#include <vector>

#include "sim/search/space/enumerate.h"

namespace foretrain {

// Whether two plans split the model alike: equal tp, pp, cp and ep.
bool HasSameLayout(const Plan& a, const Plan& b);

// The fastest plan of each of up to `max` layouts other than that of `sorted.front()`, fastest
// first. None takes over a quarter longer than that: pairs of forecasts further apart are ordered
// with a probability above 90 %.
//
//   sorted  by step time; not empty
std::vector<Candidate> OtherLayouts(const std::vector<Candidate>& sorted, std::size_t max);

}  // namespace foretrain
