// Instructions with which a warp loads and multiplies tiles, by the PTX ISA: "ldmatrix" and "Matrix
// fragments for mma.m16n8k16 with floating point type".
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "tests/plugins/simt/simt.h"

namespace foretrain::simt {

// ldmatrix .x4: lane 8 i + r supplies the address of row r of matrix i, eight 16-bit values. From
// each matrix a lane receives values 2 (lane % 4) and the next of row lane / 4; with .trans those
// of column lane / 4.
inline std::array<std::uint32_t, 4> LoadMatrices(Thread& t, const void* row, bool transposed) {
  LaneWords words{};
  std::memcpy(words.data(), &row, sizeof row);
  const Exchange lanes(t, transposed ? WarpInstruction::kLoadTransposed : WarpInstruction::kLoad,
                       words);
  std::array<std::uint32_t, 4> to{};
  const unsigned lane = t.lane();
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned r = transposed ? 2 * (lane % 4) + e : lane / 4;
      const unsigned c = transposed ? lane / 4 : 2 * (lane % 4) + e;
      const std::byte* from = nullptr;
      std::memcpy(&from, lanes[8 * i + r].data(), sizeof from);
      std::uint16_t value = 0;
      std::memcpy(&value, from + sizeof value * c, sizeof value);
      to[i] |= std::uint32_t{value} << 16 * e;
    }
  }
  return to;
}

// mma.m16n8k16: d[16, 8] = a[16, 16] b[16, 8] + c; `words` are the registers of a and b, and
// `number` makes a float of 16 bits. Lane 4 g + t holds these parts.
//   a, register r: row g + 8 (r % 2), columns 2 t + 8 (r / 2) and the next
//   b, register r: rows 2 t + 8 r and the next, column g
//   c, value i:    row g + 8 (i / 2), column 2 t + i % 2
// Products are added in fp64 and rounded once. A GPU's rounding within a product is not documented.
template <class Number>
std::array<float, 4> MultiplyTile(Thread& t, const LaneWords& words, const std::array<float, 4>& c,
                                  Number number) {
  const Exchange lanes(t, WarpInstruction::kMultiply, words);
  const auto half = [&](std::uint32_t word, unsigned k) {
    return double{number(static_cast<std::uint16_t>(word >> 16 * (k % 2)))};
  };
  const unsigned group = t.lane() / 4, column = 2 * (t.lane() % 4);
  std::array<float, 4> d{};
  for (unsigned i = 0; i < 4; ++i) {
    double sum = double{c[i]};
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned lane = k % 8 / 2;
      sum += half(lanes[4 * group + lane][i / 2 + 2 * (k / 8)], k) *
             half(lanes[4 * (column + i % 2) + lane][4 + k / 8], k);
    }
    d[i] = static_cast<float>(sum);
  }
  return d;
}

}  // namespace foretrain::simt
