#include "runtime/parameters/finite.h"

#include <algorithm>
#include <cstring>

namespace foretrain {
namespace {

constexpr std::ptrdiff_t kBlock = 4'096;  // values that are looked through without a branch

template <class Bits>
std::optional<std::int64_t> FirstWith(Bits exponent, std::span<const std::byte> bytes) {
  const auto bad = [&](std::ptrdiff_t i) {
    Bits value;
    std::memcpy(&value, bytes.data() + i * static_cast<std::ptrdiff_t>(sizeof(Bits)), sizeof(Bits));
    return (value & exponent) == exponent;
  };
  const std::ptrdiff_t count = std::ssize(bytes) / static_cast<std::ptrdiff_t>(sizeof(Bits));
  for (std::ptrdiff_t from = 0; from < count; from += kBlock) {
    const std::ptrdiff_t to = std::min(count, from + kBlock);
    bool any = false;
    for (std::ptrdiff_t i = from; i < to; ++i) any |= bad(i);
    if (!any) continue;
    for (std::ptrdiff_t i = from; i < to; ++i) {
      if (bad(i)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t ExponentBits(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
    case NumberFormat::kTf32:
      return 0x7f800000U;
    case NumberFormat::kBf16:
      return 0x7f80U;
    case NumberFormat::kFp16:
      return 0x7c00U;
    default:
      return 0;
  }
}

std::optional<std::int64_t> FirstNotFinite(std::span<const std::byte> bytes, NumberFormat format) {
  const std::uint32_t exponent = ExponentBits(format);
  if (exponent == 0) return std::nullopt;
  if (exponent <= 0xffffU) return FirstWith(static_cast<std::uint16_t>(exponent), bytes);
  return FirstWith(exponent, bytes);
}

}  // namespace foretrain
