#include "ui/view/widgets/theme.h"

#include <algorithm>
#include <cmath>

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

Theme DarkTheme() {
  return {
      .ground = Rgb(0x14171a),
      .panel = Rgb(0x1b1f24),
      .lane = Rgb(0x181c20),
      .line = Rgb(0x2b3138),
      .grid = Rgb(0x22272d),
      .text = Rgb(0xe8edf2),
      .muted = Rgb(0x97a3af),
      .faint = Rgb(0x7d8894),
      .on_span = Rgb(0x0d1013),
      .amber = Rgb(0xf0b429),
      .worse = Rgb(0xf0524f),
      .better = Rgb(0x3d8bfd),
      .accent = Rgb(0xffffff),
      .predicted = Rgb(0xc5d1dd),
      .hues = {Rgb(0x549ad4), Rgb(0x5ccfb3), Rgb(0xc2a0fb), Rgb(0x7b8fb4), Rgb(0xdf9f2f),
               Rgb(0xd9d264), Rgb(0x9da4b4), Rgb(0x767c89), Rgb(0x9c9290)},
      .categories = {Rgb(0x507fb5), Rgb(0x6ca57c), Rgb(0x75598f), Rgb(0xa3668e), Rgb(0x56afa4),
                     Rgb(0x7f90b4), Rgb(0xc38e3f), Rgb(0x84807b), Rgb(0xbbb466), Rgb(0x55616a)},
      .ranks = {Rgb(0xf2c14e), Rgb(0x7bdcb5), Rgb(0xd291ff), Rgb(0xff9f68), Rgb(0x9fd8ff),
                Rgb(0xc6e377), Rgb(0xff8fc7), Rgb(0xd0d6dd)},
  };
}

Theme LightTheme() {
  return {
      .ground = Rgb(0xfbfcfd),
      .panel = Rgb(0xf1f4f7),
      .lane = Rgb(0xf6f8fa),
      .line = Rgb(0xd3dae1),
      .grid = Rgb(0xe5eaef),
      .text = Rgb(0x1b2127),
      .muted = Rgb(0x4f5b67),
      .faint = Rgb(0x64707c),
      .on_span = Rgb(0xffffff),
      .amber = Rgb(0x905400),
      .worse = Rgb(0xd1242f),
      .better = Rgb(0x0757d8),
      .accent = Rgb(0x000000),
      .predicted = Rgb(0x414f5e),
      .hues = {Rgb(0x5374ae), Rgb(0x1b8569), Rgb(0x865ec7), Rgb(0x495e84), Rgb(0xa86700),
               Rgb(0x6d5600), Rgb(0x505663), Rgb(0x6b7682), Rgb(0x5c5149)},
      .categories = {Rgb(0x5385be), Rgb(0x73b585), Rgb(0xaf9ee3), Rgb(0xab6e9a), Rgb(0x58b8af),
                     Rgb(0x90a1c3), Rgb(0xcc9a44), Rgb(0x8c8d89), Rgb(0xc8c06c), Rgb(0xbcc9d7)},
      .ranks = {Rgb(0x986400), Rgb(0x117e5b), Rgb(0x7a3fb0), Rgb(0xb1531d), Rgb(0x23708f),
                Rgb(0x597811), Rgb(0xb0357f), Rgb(0x4a5561)},
  };
}

}  // namespace foretrain::ui
