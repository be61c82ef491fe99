#include "runtime/checkpoint/moment_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numeric/number_formats.h"
#include "base/result.h"
#include "runtime/checkpoint/stored_numbers.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

float ScaleAt(const SavedCodes& from, std::int64_t code) {
  float scale;
  std::memcpy(&scale, from.scales + (from.skip + code) / kScaleBlock * 4, sizeof scale);
  return scale;
}

// Calls visit(first, end) for each part of [at, at + count) that lies in one block.
template <class Visit>
void ForEachBlock(std::int64_t at, std::int64_t count, const Visit& visit) {
  for (std::int64_t first = at; first < at + count;) {
    const std::int64_t end = std::min((first / kScaleBlock + 1) * kScaleBlock, at + count);
    visit(first, end);
    first = end;
  }
}

// The second moment's codes are those of its square root, which halves its dynamic range.
float Decode(StateKind moment, std::byte code, float scale) {
  const auto number = std::to_integer<std::uint8_t>(code);
  if (moment == StateKind::kMoment1) return FloatOfSignedDynamic(number) * scale;
  const float root = FloatOfUnsignedDynamic(number) * scale;
  return root * root;
}

// Codes relative to the largest of the block, as the kernels' updates write them: a block without
// numbers above 1e-35 becomes zeros. Returns the scale.
float Encode(StateKind moment, std::span<const float> values, std::byte* codes) {
  const bool first = moment == StateKind::kMoment1;
  const auto size = [&](float value) { return first ? value : std::sqrt(value); };
  float largest = 0;
  for (const float value : values) {
    const float one = std::fabs(size(value));
    if (!(one <= largest)) largest = one;  // NaN stays
    if (std::isnan(largest)) break;
  }
  const float inverse = largest > 1e-35F ? 1.0F / largest : 0.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float part = size(values[i]) * inverse;
    codes[i] = std::byte{first ? SignedDynamicOfFloat(part) : UnsignedDynamicOfFloat(part)};
  }
  return largest;
}

}  // namespace

void DecodeMoments(StateKind moment, const SavedCodes& from, std::int64_t first,
                   std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t code = first + static_cast<std::int64_t>(i);
    values[i] = Decode(moment, from.codes[code], ScaleAt(from, code));
  }
}

MomentCodes::MomentCodes(StateKind moment, std::int64_t elements)
    : moment_(moment),
      values_(At(elements)),
      codes_(At(elements)),
      blocks_(At((elements + kScaleBlock - 1) / kScaleBlock)) {
  FT_CHECK(moment == StateKind::kMoment1 || moment == StateKind::kMoment2);
}

void MomentCodes::TakeCodes(std::int64_t at, const SavedCodes& from, std::int64_t first,
                            std::int64_t count) {
  DecodeMoments(moment_, from, first, std::span(values_).subspan(At(at), At(count)));
  std::memcpy(codes_.data() + at, from.codes + first, At(count));
  // Blocks of the source end elsewhere, so one block here may get codes of two scales.
  ForEachBlock(from.skip + first, count, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t code = begin - from.skip;
    const float scale = ScaleAt(from, code);
    ForEachBlock(at + code - first, end - begin, [&](std::int64_t here, std::int64_t) {
      Block& block = blocks_[At(here / kScaleBlock)];
      if (block.filled == Filled::kNot) block = {Filled::kByCodes, scale};
      if (BitsOfFloat(block.scale) != BitsOfFloat(scale)) block.filled = Filled::kByValues;
    });
  });
}

void MomentCodes::TakeNumbers(std::int64_t at, NumberFormat format, const std::byte* numbers,
                              std::int64_t count) {
  CopyNumbers(format, numbers, NumberFormat::kFp32,
              reinterpret_cast<std::byte*>(values_.data() + at), count);
  ForEachBlock(at, count, [&](std::int64_t here, std::int64_t) {
    blocks_[At(here / kScaleBlock)].filled = Filled::kByValues;
  });
}

void MomentCodes::Store(std::byte* codes, std::byte* scales) const {
  const auto elements = static_cast<std::int64_t>(values_.size());
  ForEachBlock(0, elements, [&](std::int64_t begin, std::int64_t end) {
    const Block& block = blocks_[At(begin / kScaleBlock)];
    if (block.filled == Filled::kNot) return;
    float scale = block.scale;
    if (block.filled == Filled::kByCodes) {
      std::memcpy(codes + begin, codes_.data() + begin, At(end - begin));
    } else {
      scale =
          Encode(moment_, std::span(values_).subspan(At(begin), At(end - begin)), codes + begin);
    }
    std::memcpy(scales + begin / kScaleBlock * 4, &scale, sizeof scale);
  });
}

}  // namespace foretrain
