#include "runtime/checkpoint/stored_numbers.h"

#include <cstring>

#include "base/numeric/number_formats.h"

namespace foretrain {
namespace {

float ReadFloat(NumberFormat format, const std::byte* at) {
  if (format == NumberFormat::kFp32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t code;
  std::memcpy(&code, at, sizeof code);
  return format == NumberFormat::kBf16 ? FloatOfBf16(code) : FloatOfFp16(code);
}

void WriteFloat(NumberFormat format, float value, std::byte* to) {
  if (format == NumberFormat::kFp32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t code =
      format == NumberFormat::kBf16 ? Bf16OfFloat(value) : Fp16OfFloat(value);
  std::memcpy(to, &code, sizeof code);
}

}  // namespace

bool IsFloat(NumberFormat format) {
  return format == NumberFormat::kFp32 || format == NumberFormat::kBf16 ||
         format == NumberFormat::kFp16;
}

void CopyNumbers(NumberFormat from, const std::byte* source, NumberFormat to, std::byte* target,
                 std::int64_t count) {
  const std::int64_t from_bytes = LayoutOf(from).bits / 8, to_bytes = LayoutOf(to).bits / 8;
  if (from == to) {
    std::memcpy(target, source, static_cast<std::size_t>(count * to_bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    WriteFloat(to, ReadFloat(from, source + i * from_bytes), target + i * to_bytes);
  }
}

}  // namespace foretrain
