#include "ui/view/widgets/theme.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

std::uint32_t Channel(Colour colour, int shift) { return colour >> shift & 0xFF; }

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

Theme DarkTheme() {
  return {
      .ground = Rgb(0x14171a),
      .panel = Rgb(0x1b1f24),
      .lane = Rgb(0x181c20),
      .line = Rgb(0x2b3138),
      .grid = Rgb(0x22272d),
      .text = Rgb(0xe8edf2),
      .muted = Rgb(0x97a3af),
      .faint = Rgb(0x67727e),
      .on_span = Rgb(0x0d1013),
      .amber = Rgb(0xf0b429),
      .more = Rgb(0xf0524f),
      .less = Rgb(0x3d8bfd),
      .accent = Rgb(0xffffff),
      .predicted = Rgb(0xb9c6d3),
      .hues = {Rgb(0x569cd6), Rgb(0x4ec9b0), Rgb(0xb58ee0), Rgb(0x7d8fb3), Rgb(0xe0a030),
               Rgb(0xd9d264), Rgb(0x8a9ba8), Rgb(0x6b7480), Rgb(0xa0a0a0)},
      .categories = {Rgb(0x4f7fb5), Rgb(0x6aa37a), Rgb(0x8f7fc0), Rgb(0xa8688f), Rgb(0x3f9c96),
                     Rgb(0x7d8fb3), Rgb(0xc48f3f), Rgb(0x7b848e), Rgb(0xb8b060), Rgb(0x5b6670)},
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
      .muted = Rgb(0x586470),
      .faint = Rgb(0x8a96a2),
      .on_span = Rgb(0xffffff),
      .amber = Rgb(0xb26a00),
      .more = Rgb(0xd1242f),
      .less = Rgb(0x0757d8),
      .accent = Rgb(0x000000),
      .predicted = Rgb(0x4b5a69),
      .hues = {Rgb(0x3a7fbd), Rgb(0x1f9a82), Rgb(0x8a5cc2), Rgb(0x5f7299), Rgb(0xc07f0a),
               Rgb(0xa39b1c), Rgb(0x6c7e8c), Rgb(0x87919c), Rgb(0x8a8a8a)},
      .categories = {Rgb(0x5b8fc9), Rgb(0x72b585), Rgb(0x9d8dd0), Rgb(0xbd7ba4), Rgb(0x4fb3ac),
                     Rgb(0x8fa1c4), Rgb(0xd6a453), Rgb(0x97a1ab), Rgb(0xc7bf6b), Rgb(0xb4bec8)},
      .ranks = {Rgb(0xa87400), Rgb(0x12805c), Rgb(0x7a3fb0), Rgb(0xb3541e), Rgb(0x23708f),
                Rgb(0x5a7a12), Rgb(0xb0357f), Rgb(0x4a5561)},
  };
}

}  // namespace foretrain::ui
