#include "sim/program/ir/number_format.h"

#include <array>
#include <cstddef>

#include "base/enum_names.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kNumberFormatCount> kFormatNames = {
    "fp32", "bf16", "fp8", "int8", "tf32", "fp16", "fp8-tensor",  "fp8-block",
    "fp4",  "mask", "nf4", "byte", "e4m3", "e5m2", "fp8-columns", "fp8-tile",
};
static_assert(static_cast<int>(NumberFormat::kFp8Tile) + 1 == kNumberFormatCount);

}  // namespace

std::string_view Name(NumberFormat format) { return NameIn(kFormatNames, format); }

}  // namespace foretrain
