// How the numbers of a tensor are stored: bits, scales and bytes of each format.
#pragma once

#include <cstdint>
#include <string_view>

namespace foretrain {

// The format of a tensor's numbers, or of the arithmetic of an op.
//   kFp8, kInt8   e4m3, integers: one fp32 scale for each block of kScaleBlock elements
//   kTf32         stored as fp32; products read 10 bits of its mantissa
//   kE4m3, kE5m2  codes of 8 bits (OCP 2023); their scales are another operand
//   kFp8Tensor    codes of 8 bits followed by one fp32 scale for all of them
//   kFp8Block     codes followed by one scale for each 128 numbers of a row (DeepSeek-AI 2024,
//                 s. 3.3.2)
//   kFp8Columns   the same for each 128 numbers of a column
//   kFp8Tile      the same for each 128 x 128
//   kFp4          e2m1, one e4m3 scale for each 16 elements (NVFP4)
//   kMask         a byte: 1 where dropout keeps the number
//   kNf4          one of 16 quantiles of a normal distribution. Each 64 numbers share a code of
//                 their largest, each 256 codes an fp32 scale; codes count from a mean (Dettmers et
//                 al. 2023, s. 3; base/numeric/nf4.h)
//   kByte         tensors that are moved as bytes, whatever their numbers
enum class NumberFormat : std::uint8_t {
  kFp32,
  kBf16,
  kFp8,
  kInt8,
  kTf32,
  kFp16,
  kFp8Tensor,
  kFp8Block,
  kFp4,
  kMask,
  kNf4,
  kByte,
  kE4m3,
  kE5m2,
  kFp8Columns,
  kFp8Tile,
};
inline constexpr int kNumberFormatCount = 16;
std::string_view Name(NumberFormat format);  // "fp32", ...

// Bits of a number and the scales behind the numbers: `scale_bytes` for each `block` numbers,
// `outer_bytes` for each `outer_block` scales, and `once_bytes` for the whole tensor.
struct FormatLayout {
  std::int64_t bits = 32;
  std::int64_t block = 0;  // 0: no scales
  std::int64_t scale_bytes = 0;
  std::int64_t outer_block = 0;  // 0: scales have none
  std::int64_t outer_bytes = 0;
  std::int64_t once_bytes = 0;
};
inline constexpr std::int64_t kScaleBlock = 256;
inline constexpr std::int64_t kFp8Side = 128;  // side of blocks of kFp8Block, kFp8Columns, kFp8Tile
constexpr FormatLayout LayoutOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
    case NumberFormat::kTf32:
      return {32};
    case NumberFormat::kBf16:
    case NumberFormat::kFp16:
      return {16};
    case NumberFormat::kFp8:
    case NumberFormat::kInt8:
      return {8, kScaleBlock, 4};
    case NumberFormat::kMask:
    case NumberFormat::kByte:
    case NumberFormat::kE4m3:
    case NumberFormat::kE5m2:
      return {8};
    case NumberFormat::kFp8Tensor:
      return {.bits = 8, .once_bytes = 4};
    case NumberFormat::kNf4:
      return {4, 64, 1, 256, 4, 4};
    case NumberFormat::kFp8Block:
    case NumberFormat::kFp8Columns:
      return {8, kFp8Side, 4};
    case NumberFormat::kFp8Tile:
      return {8, kFp8Side * kFp8Side, 4};
    case NumberFormat::kFp4:
      return {4, 16, 1};
  }
  return {};
}
// Bytes of `elements` numbers with their scales; 0 <= elements < 2^56.
constexpr std::int64_t BytesIn(NumberFormat format, std::int64_t elements) {
  const FormatLayout layout = LayoutOf(format);
  const std::int64_t numbers = (elements * layout.bits + 7) / 8;
  if (layout.block == 0 && layout.once_bytes == 0) return numbers;
  if (layout.block == 0) return (numbers + 3) / 4 * 4 + layout.once_bytes;
  const std::int64_t blocks = (elements + layout.block - 1) / layout.block;
  const std::int64_t scales = blocks * layout.scale_bytes;
  if (layout.outer_block == 0) return numbers + scales;
  const std::int64_t outer = (blocks + layout.outer_block - 1) / layout.outer_block;
  return numbers + scales + outer * layout.outer_bytes + layout.once_bytes;
}
// Numbers that fit in `bytes`, for a format without scales.
constexpr std::int64_t ElementsIn(NumberFormat format, std::int64_t bytes) {
  return bytes * 8 / LayoutOf(format).bits;
}
// Whether the same bytes mean the same numbers in both formats.
constexpr bool AreStoredAlike(NumberFormat a, NumberFormat b) {
  const auto stored = [](NumberFormat format) {
    return format == NumberFormat::kTf32 ? NumberFormat::kFp32 : format;
  };
  return stored(a) == stored(b);
}
// Whether the format is codes of 8 bits followed by fp32 scales. Ops read these as two tensors.
constexpr bool HasScalesApart(NumberFormat format) {
  return format == NumberFormat::kFp8Tensor || format == NumberFormat::kFp8Block ||
         format == NumberFormat::kFp8Columns || format == NumberFormat::kFp8Tile;
}
constexpr bool IsCodes(NumberFormat format) {
  return format == NumberFormat::kE4m3 || format == NumberFormat::kE5m2;
}
// Mean bytes of one number of a long tensor, its share of the scales included.
constexpr double BytesEach(NumberFormat format) {
  const FormatLayout layout = LayoutOf(format);
  const double numbers = static_cast<double>(layout.bits) / 8;
  if (layout.block == 0) return numbers;
  const auto block = static_cast<double>(layout.block);
  const double scales = numbers + static_cast<double>(layout.scale_bytes) / block;
  if (layout.outer_block == 0) return scales;
  return scales + static_cast<double>(layout.outer_bytes) /
                      (block * static_cast<double>(layout.outer_block));
}

}  // namespace foretrain
