// Growth of queries with the position, as one more RopeStretchKind: layers without rotary positions
// have it (ModelSpec::query_temperature).
#pragma once

#include "sim/program/ir/rope_stretch.h"

namespace foretrain {

// `factor` and `original` of the stretch are the temperature and its floor; keys stay as they are.
inline constexpr auto kQueryGrowth = static_cast<RopeStretchKind>(4);

}  // namespace foretrain
