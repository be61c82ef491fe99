#include "base/numeric/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/numeric/number_formats.h"

namespace foretrain {
namespace {

// Largest |x| of n numbers; 0 if n is 0.
float LargestOf(const float* x, std::int64_t n) {
  float largest = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

void StoreFloat(std::uint8_t* at, float x) { std::memcpy(at, &x, sizeof x); }
float LoadFloat(const std::uint8_t* at) {
  float x = 0.0F;
  std::memcpy(&x, at, sizeof x);
  return x;
}

// The outer quantization: stores the mean of the block maxima, then each maximum minus the mean as
// a signed dynamic code relative to the largest of its 256 blocks.
void QuantizeLargest(const Nf4Layout& at, std::vector<float>& largest, std::uint8_t* packed) {
  double sum = 0;
  for (const float x : largest) sum += x;
  const auto mean = static_cast<float>(sum / static_cast<double>(at.blocks));
  StoreFloat(packed + at.mean, mean);
  for (float& x : largest) x -= mean;
  for (std::int64_t begin = 0; begin < at.blocks; begin += kNf4OuterBlock) {
    const std::int64_t count = std::min(kNf4OuterBlock, at.blocks - begin);
    const float scale = LargestOf(largest.data() + begin, count);
    StoreFloat(packed + at.scales + begin / kNf4OuterBlock * 4, scale);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      packed[at.block_codes + i] =
          SignedDynamicOfFloat(scale > 0 ? largest[static_cast<std::size_t>(i)] / scale : 0.0F);
    }
  }
}

}  // namespace

float FloatOfNf4(std::uint32_t code) { return kNf4Quantiles[code & 15U]; }

// The nearest quantile: counts the midpoints between neighbours that lie below x. 15 comparisons.
std::uint32_t Nf4OfFloat(float x) {
  std::uint32_t code = 0;
  for (std::uint32_t next = 1; next < std::size(kNf4Quantiles); ++next) {
    if (x > (kNf4Quantiles[next - 1] + kNf4Quantiles[next]) / 2) code = next;
  }
  return code;
}

// Two numbers share a byte, so a block's last byte has one number if `elements` is odd; its second
// half is then code 0. Maxima are collected first and quantized once their mean is known.
void QuantizeNf4(const float* x, std::int64_t elements, std::uint8_t* packed) {
  const Nf4Layout at(elements);
  if (elements == 0) return;
  std::vector<float> largest(static_cast<std::size_t>(at.blocks));
  for (std::int64_t block = 0; block < at.blocks; ++block) {
    const std::int64_t begin = block * kNf4Block;
    const float max = LargestOf(x + begin, std::min(kNf4Block, elements - begin));
    largest[static_cast<std::size_t>(block)] = max;
    const float inverse = max > 0 ? 1.0F / max : 0.0F;
    // Codes are relative to the exact maximum of the block, before it is quantized itself.
    for (std::int64_t i = begin; i < std::min(begin + kNf4Block, elements); i += 2) {
      const std::uint32_t first = Nf4OfFloat(x[i] * inverse);
      const std::uint32_t second = i + 1 < elements ? Nf4OfFloat(x[i + 1] * inverse) : 0;
      packed[i / 2] = static_cast<std::uint8_t>(first << 4 | second);
    }
  }
  QuantizeLargest(at, largest, packed);
}

void DequantizeNf4(const std::uint8_t* packed, std::int64_t elements, float* out) {
  const Nf4Layout at(elements);
  const float mean = elements > 0 ? LoadFloat(packed + at.mean) : 0.0F;
  for (std::int64_t block = 0; block < at.blocks; ++block) {
    const float scale = LoadFloat(packed + at.scales + block / kNf4OuterBlock * 4);
    const float largest = FloatOfSignedDynamic(packed[at.block_codes + block]) * scale + mean;
    const std::int64_t begin = block * kNf4Block;
    for (std::int64_t i = begin; i < std::min(begin + kNf4Block, elements); ++i) {
      const std::uint32_t codes = packed[i / 2];
      out[i] = kNf4Quantiles[(i % 2 == 0 ? codes >> 4 : codes) & 15U] * largest;
    }
  }
}

}  // namespace foretrain
