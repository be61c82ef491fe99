// Tensors in 4 bits: NF4 with double quantization (Dettmers et al. 2023, s. 3). A number is one of
// 16 quantiles of a normal distribution times the largest |x| of its block of 64. The block maxima
// are quantized too: their mean is subtracted, and the rest is stored as a signed dynamic code
// (number_formats.h) relative to the largest of each 256.
//
// Layout of a tensor of n numbers in b = n / 64 blocks, rounded up:
//
//   codes        n / 2 bytes, rounded up: two a byte, the first in the upper half
//   scales       an fp32 each 256 blocks, rounded up
//   mean         an fp32
//   block codes  b bytes
//
// In total 4 + 8 / 64 + 32 / (64 * 256) = 4.127 bits a number.
#pragma once

#include <cstdint>

namespace foretrain {

inline constexpr std::int64_t kNf4Block = 64;
inline constexpr std::int64_t kNf4OuterBlock = 256;

// The numbers that codes 0 to 15 stand for, ascending (Dettmers et al. 2023, appendix E).
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

// Offsets of the parts of a tensor of `elements` >= 0 numbers, in bytes from its start.
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
  std::int64_t bytes;  // of the whole tensor
};

// The number that `code` (0 to 15) stands for, in [-1, 1].
float FloatOfNf4(std::uint32_t code);
// Code of the quantile nearest to x, which is in [-1, 1].
std::uint32_t Nf4OfFloat(float x);

// Quantizes x[elements] to packed[Nf4Layout::bytes]. All numbers must be finite. A block of zeros
// stays zero up to the quantization error of its maximum. O(elements); safe from any thread.
void QuantizeNf4(const float* x, std::int64_t elements, std::uint8_t* packed);
// Restores out[elements] from `packed`. O(elements); safe from any thread.
void DequantizeNf4(const std::uint8_t* packed, std::int64_t elements, float* out);

}  // namespace foretrain
