// What a span is coloured by: its pass where it computes, its kind where it moves data.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "traces/span_sums.h"
#include "traces/timeline.h"

namespace foretrain::ui {

// In the order in which classes are stacked in a column, from below.
using Hue = Work;
inline constexpr int kHueCount = kWorkCount;

using HueShares = std::array<float, kHueCount>;

inline Hue HueOf(const Span& span) { return WorkOf(span.op, span.op_class); }

// As the legend calls it: "send and receive".
std::string_view Name(Hue hue);

}  // namespace foretrain::ui
