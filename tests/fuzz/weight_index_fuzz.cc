// The index of a model's folder: if it is accepted, it names .safetensors files of that folder
// alone.
#include <string_view>

#include "base/checked.h"
#include "runtime/parameters/weight_files.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto files = ParseWeightIndex(text, "fuzz");
  if (!files.has_value()) {
    FT_CHECK(files.error().message.find("fuzz") != std::string::npos);
    return 0;
  }
  FT_CHECK(!files->empty());
  for (const auto& [tensor, file] : *files) {
    FT_CHECK(file.ends_with(".safetensors") && file.find('/') == std::string::npos);
  }
  return 0;
}
