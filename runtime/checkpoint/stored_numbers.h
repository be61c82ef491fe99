// Numbers as checkpoints store them, converted between formats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/program/ir/number_format.h"

namespace foretrain {

// fp32, bf16 and fp16.
bool IsFloat(NumberFormat format);

// Copies `count` numbers between formats of floats, rounding to nearest, or of equal format.
void CopyNumbers(NumberFormat from, const std::byte* source, NumberFormat to, std::byte* target,
                 std::int64_t count);

}  // namespace foretrain
