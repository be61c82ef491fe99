// What a span is coloured by: its pass where it computes, its kind where it moves data.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "traces/timeline.h"

namespace foretrain::ui {

// In the order in which classes are stacked in a column, from below.
enum class Hue : std::uint8_t {
  kForward,
  kBackward,
  kUpdate,  // weight gradients that run by themselves, and the optimizer
  kRecompute,
  kCollective,
  kPointToPoint,
  kCopy,
  kHost,
  kUnnamed,  // compute without an op
};
inline constexpr int kHueCount = 9;

using HueShares = std::array<float, kHueCount>;

Hue HueOf(const Span& span);

// As the legend calls it: "send and receive".
std::string_view Name(Hue hue);

}  // namespace foretrain::ui
