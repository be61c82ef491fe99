// The header of a safetensors file: if it is accepted, its tensors are disjoint, inside the file
// and as long as their shapes say.
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "runtime/parameters/safetensors.h"
#include "tests/fuzz/fuzz.h"

// The first byte says how many bytes of tensors follow the header, in units of four.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  if (size == 0) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::int64_t tensors = 4 * std::int64_t{data[0]};
  const std::int64_t begin = 8 + static_cast<std::int64_t>(header.size());
  const auto entries = ParseSafetensorsHeader(header, begin + tensors, "fuzz");
  if (!entries.has_value()) {
    FT_CHECK(entries.error().message.find("fuzz") != std::string::npos);
    return 0;
  }
  std::int64_t covered = 0;
  for (const auto& [name, entry] : *entries) {
    FT_CHECK(entry.begin >= begin && entry.end <= begin + tensors && entry.begin <= entry.end);
    FT_CHECK(entry.end - entry.begin == entry.rows * entry.cols * BytesOfDtype(entry.dtype));
    covered += entry.end - entry.begin;
  }
  FT_CHECK(covered == tensors);
  return 0;
}
