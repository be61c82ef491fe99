// How rotary frequencies are stretched, so that a model reads longer sequences than it was trained
// on.
#pragma once

#include <compare>
#include <cstdint>

namespace foretrain {

// Share of each frequency that is divided by `factor`.
//   kLinear  all of each frequency (Chen et al. 2023)
//   kYarn    none of pairs below `low`, all from `high` on, a share that grows evenly between them
//            (Peng et al. 2023, s. 3.2)
//   kLlama3  by wavelength: all above original / low, none below original / high (Dubey et al.
//            2024, s. 3.4)
// Sines and cosines are multiplied by `magnitude`.
// kQueryGrowth rotates nothing: queries at position p are multiplied by
// 1 + factor * ln(1 + floor((p + 1) / original)), as in layers of Llama 4 without rotary positions.
enum class RopeStretchKind : std::uint8_t { kNone, kLinear, kYarn, kLlama3, kQueryGrowth };
struct RopeStretch {
  RopeStretchKind kind = RopeStretchKind::kNone;
  float factor = 1.0F;
  float low = 0.0F;
  float high = 0.0F;
  float original = 0.0F;  // positions of the unstretched model
  float magnitude = 1.0F;

  auto operator<=>(const RopeStretch&) const = default;
};

}  // namespace foretrain
