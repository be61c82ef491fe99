// Tensors in 4 bits: NF4 with double quantization (Dettmers et al. 2023, s. 3). A number is one of
// 16 quantiles of a normal distribution, times the largest absolute number of its block of 64. The
// mean of these largest numbers is taken from them, and what is left is a signed dynamic code
// (number_formats.h) relative to the largest of each 256. Leaves out who quantizes what.
//
// A tensor of n numbers, in b = n / 64 blocks, rounded up, lies as
//
//   codes        n / 2 bytes, rounded up: two a byte, the first in the upper half
//   scales       an fp32 each 256 blocks, rounded up
//   mean         an fp32
//   block codes  b bytes
//
// which are 4 + 8 / 64 + 32 / (64 * 256) = 4.127 bits a number.
#pragma once

#include <cstdint>

namespace foretrain {

inline constexpr std::int64_t kNf4Block = 64;
inline constexpr std::int64_t kNf4OuterBlock = 256;

// What the codes stand for, rising (Dettmers et al. 2023, appendix E).
inline constexpr float kNf4Quantiles[16] = {-1.0F,
                                            -0.6961928009986877F,
                                            -0.5250730514526367F,
                                            -0.39491748809814453F,
                                            -0.28444138169288635F,
                                            -0.18477343022823334F,
                                            -0.09105003625154495F,
                                            0.0F,
                                            0.07958029955625534F,
                                            0.16093020141124725F,
                                            0.24611230194568634F,
                                            0.33791524171829224F,
                                            0.44070982933044434F,
                                            0.5626170039176941F,
                                            0.7229568362236023F,
                                            1.0F};

// Where the parts of a tensor of `elements` >= 0 numbers lie, in bytes from its start.
struct Nf4Layout {
  explicit Nf4Layout(std::int64_t elements)
      : blocks((elements + kNf4Block - 1) / kNf4Block),
        scales((elements + 1) / 2),
        mean(scales + (blocks + kNf4OuterBlock - 1) / kNf4OuterBlock * 4),
        block_codes(mean + 4),
        bytes(block_codes + blocks) {}

  std::int64_t blocks;  // of 64 numbers
  std::int64_t scales;
  std::int64_t mean;
  std::int64_t block_codes;
  std::int64_t bytes;  // of all
};

// The number that code 0 to 15 stands for, in [-1, 1].
float FloatOfNf4(std::uint32_t code);
// Code of the number next to x in [-1, 1].
std::uint32_t Nf4OfFloat(float x);

// x[elements] -> packed[Nf4Layout::bytes]. Numbers are finite; a block of zeros becomes zeros but
// for the error of its scale, which is at most that of the mean's code. O(elements); safe from any
// thread, as the other.
void QuantizeNf4(const float* x, std::int64_t elements, std::uint8_t* packed);
// packed -> out[elements].
void DequantizeNf4(const std::uint8_t* packed, std::int64_t elements, float* out);

}  // namespace foretrain
