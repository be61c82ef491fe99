// Colour class of a span: its pass if it computes, its kind if it moves data.
#pragma once

#include <array>
#include <string_view>

#include "traces/span_sums.h"
#include "traces/timeline.h"

namespace foretrain::ui {

// In the order in which classes are stacked in a column, from the bottom.
using Hue = Work;
inline constexpr int kHueCount = kWorkCount;

using HueShares = std::array<float, kHueCount>;

inline Hue HueOf(const Span& span) { return WorkOf(span.op, span.op_class); }

// Name in the legend: "send and receive".
std::string_view Name(Hue hue);

}  // namespace foretrain::ui
