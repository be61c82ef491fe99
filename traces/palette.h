// Colours of timelines and memory, dark and light, which the desktop and HTML reports share. Each
// is 0xRRGGBB. Texts have a contrast of at least 4.5 on ground and panel, and classes can be told
// apart by people who see fewer colours (tests/ui/view/theme_test.cc).
#pragma once

#include <array>
#include <cstdint>

#include "traces/kinds.h"
#include "traces/span_sums.h"

namespace foretrain {

struct Palette {
  std::uint32_t ground = 0;
  std::uint32_t panel = 0;  // header, numbers, tooltips
  std::uint32_t lane = 0;   // behind strips
  std::uint32_t line = 0;   // between panels
  std::uint32_t grid = 0;   // at ticks
  std::uint32_t text = 0;
  std::uint32_t muted = 0;      // names
  std::uint32_t faint = 0;      // hints
  std::uint32_t on_span = 0;    // text on a measured span
  std::uint32_t amber = 0;      // uncertainty
  std::uint32_t worse = 0;      // than forecast: slower or larger, fewer tokens/s; the only red
  std::uint32_t better = 0;     // the only blue
  std::uint32_t accent = 0;     // selection, cursor
  std::uint32_t predicted = 0;  // forecast values and lines
  std::array<std::uint32_t, kWorkCount> works{};
  std::array<std::uint32_t, kCategoryCount> categories{};
  std::array<std::uint32_t, 8> ranks{};
};

inline constexpr Palette kDarkPalette{
    .ground = 0x14171a,
    .panel = 0x1b1f24,
    .lane = 0x181c20,
    .line = 0x2b3138,
    .grid = 0x22272d,
    .text = 0xe8edf2,
    .muted = 0x97a3af,
    .faint = 0x7d8894,
    .on_span = 0x0d1013,
    .amber = 0xf0b429,
    .worse = 0xf0524f,
    .better = 0x3d8bfd,
    .accent = 0xffffff,
    .predicted = 0xc5d1dd,
    .works = {0x549ad4, 0x5ccfb3, 0xc2a0fb, 0x7b8fb4, 0xdf9f2f, 0xd9d264, 0x9da4b4, 0x767c89,
              0x9c9290},
    .categories = {0x507fb5, 0x6ca57c, 0x75598f, 0xa3668e, 0x56afa4, 0x7f90b4, 0xc38e3f, 0x84807b,
                   0xbbb466, 0x55616a},
    .ranks = {0xf2c14e, 0x7bdcb5, 0xd291ff, 0xff9f68, 0x9fd8ff, 0xc6e377, 0xff8fc7, 0xd0d6dd},
};

inline constexpr Palette kLightPalette{
    .ground = 0xfbfcfd,
    .panel = 0xf1f4f7,
    .lane = 0xf6f8fa,
    .line = 0xd3dae1,
    .grid = 0xe5eaef,
    .text = 0x1b2127,
    .muted = 0x4f5b67,
    .faint = 0x64707c,
    .on_span = 0xffffff,
    .amber = 0x905400,
    .worse = 0xd1242f,
    .better = 0x0757d8,
    .accent = 0x000000,
    .predicted = 0x414f5e,
    .works = {0x5374ae, 0x1b8569, 0x865ec7, 0x495e84, 0xa86700, 0x6d5600, 0x505663, 0x6b7682,
              0x5c5149},
    .categories = {0x5385be, 0x73b585, 0xaf9ee3, 0xab6e9a, 0x58b8af, 0x90a1c3, 0xcc9a44, 0x8c8d89,
                   0xc8c06c, 0xbcc9d7},
    .ranks = {0x986400, 0x117e5b, 0x7a3fb0, 0xb1531d, 0x23708f, 0x597811, 0xb0357f, 0x4a5561},
};

}  // namespace foretrain
