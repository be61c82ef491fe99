// Infinite and NaN values in stored tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "sim/program/ir/number_format.h"

namespace foretrain {

// The exponent bits of a value, all ones in an infinite or NaN one; 0 for a format of codes, which
// is not looked through.
std::uint32_t ExponentBits(NumberFormat format);

// Index of the first infinite or NaN value in `bytes`, whole values of `format` one after the
// other; `nullopt` if there is none or the format is one of codes.
std::optional<std::int64_t> FirstNotFinite(std::span<const std::byte> bytes, NumberFormat format);

}  // namespace foretrain
