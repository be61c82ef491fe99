// Colours of the view, dark and light.
#pragma once

#include <array>
#include <cstdint>

#include "traces/kinds.h"
#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {

// Red, green, blue and alpha from the low byte up, as the renderer and images take them.
using Colour = std::uint32_t;

constexpr Colour Rgb(std::uint32_t rrggbb) {
  return (rrggbb >> 16 & 0xFF) | (rrggbb & 0xFF00) | (rrggbb & 0xFF) << 16 | 0xFF000000U;
}

// `colour` with its alpha times `alpha` in [0, 1].
Colour Faded(Colour colour, float alpha);

// Mixes `share` in [0, 1] of `over` with the rest of `under`; opaque.
Colour Mixed(Colour under, Colour over, float share);

// Contrast ratio of the Web Content Accessibility Guidelines 2.1, from 1 to 21; alpha is ignored.
double Contrast(Colour a, Colour b);

// The one of two text colours that can be read better on `under`.
Colour Readable(Colour under, Colour a, Colour b);

struct Theme {
  Colour ground{};
  Colour panel{};  // header, numbers, tooltips
  Colour lane{};   // behind strips
  Colour line{};   // between panels
  Colour grid{};   // at ticks
  Colour text{};
  Colour muted{};      // names
  Colour faint{};      // hints
  Colour on_span{};    // text on a measured span
  Colour amber{};      // uncertainty
  Colour worse{};      // than forecast: slower or larger, fewer tokens/s; the only red
  Colour better{};     // the only blue
  Colour accent{};     // selection, cursor
  Colour predicted{};  // forecast values and lines
  std::array<Colour, kHueCount> hues{};
  std::array<Colour, kCategoryCount> categories{};
  std::array<Colour, 8> ranks{};

  Colour Of(Hue hue) const { return hues[static_cast<std::size_t>(hue)]; }
  // The fill colour of a forecast span.
  Colour Tinted(Hue hue) const { return Mixed(ground, Of(hue), 0.34F); }
};

Theme DarkTheme();
Theme LightTheme();

}  // namespace foretrain::ui
