#include "ui/view/widgets/theme.h"

#include <algorithm>
#include <cmath>

#include "traces/palette.h"

namespace foretrain::ui {
namespace {

std::uint32_t Channel(Colour colour, int shift) { return colour >> shift & 0xFF; }

// Relative luminance; channels are linear in light by IEC 61966-2-1.
double LuminanceOf(Colour colour) {
  const auto linear = [colour](int shift) {
    const double value = Channel(colour, shift) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(0) + 0.7152 * linear(8) + 0.0722 * linear(16);
}

template <std::size_t N>
std::array<Colour, N> Rgbs(const std::array<std::uint32_t, N>& colours) {
  std::array<Colour, N> out{};
  std::transform(colours.begin(), colours.end(), out.begin(), Rgb);
  return out;
}

Theme ThemeOf(const Palette& palette) {
  return {
      .ground = Rgb(palette.ground),
      .panel = Rgb(palette.panel),
      .lane = Rgb(palette.lane),
      .line = Rgb(palette.line),
      .grid = Rgb(palette.grid),
      .text = Rgb(palette.text),
      .muted = Rgb(palette.muted),
      .faint = Rgb(palette.faint),
      .on_span = Rgb(palette.on_span),
      .amber = Rgb(palette.amber),
      .worse = Rgb(palette.worse),
      .better = Rgb(palette.better),
      .accent = Rgb(palette.accent),
      .predicted = Rgb(palette.predicted),
      .hues = Rgbs(palette.works),
      .categories = Rgbs(palette.categories),
      .ranks = Rgbs(palette.ranks),
  };
}

}  // namespace

Colour Faded(Colour colour, float alpha) {
  const float own = static_cast<float>(Channel(colour, 24));
  const auto faded = static_cast<std::uint32_t>(std::lround(own * std::clamp(alpha, 0.0F, 1.0F)));
  return (colour & 0x00FFFFFFU) | faded << 24;
}

// Mixes each channel linearly and rounds; the result is opaque whatever the inputs' alpha.
Colour Mixed(Colour under, Colour over, float share) {
  const float part = std::clamp(share, 0.0F, 1.0F);
  Colour mixed = 0xFF000000U;
  for (const int shift : {0, 8, 16}) {
    const auto low = static_cast<float>(Channel(under, shift));
    const auto high = static_cast<float>(Channel(over, shift));
    mixed |= static_cast<Colour>(low + (high - low) * part + 0.5F) << shift;
  }
  return mixed;
}

double Contrast(Colour a, Colour b) {
  const double x = LuminanceOf(a) + 0.05, y = LuminanceOf(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

Colour Readable(Colour under, Colour a, Colour b) {
  return Contrast(under, a) >= Contrast(under, b) ? a : b;
}

Theme DarkTheme() { return ThemeOf(kDarkPalette); }
Theme LightTheme() { return ThemeOf(kLightPalette); }

}  // namespace foretrain::ui
