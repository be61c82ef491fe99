// The index of a model's folder: if it is accepted, it names .safetensors files of that folder
// alone. A folder with that index and one file opens only if the file has what the index promises.
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "runtime/parameters/safetensors.h"
#include "runtime/parameters/weight_files.h"
#include "tests/base/fault_file_system.h"
#include "tests/fuzz/fuzz.h"

namespace foretrain {
namespace {

// Three tensors, as in the seeds, of which no weight has the type of the last.
std::string Shard() {
  const std::vector<NewTensor> tensors = {{.name = "a", .dtype = "BF16", .shape = {2, 2}},
                                          {.name = "b", .dtype = "F32", .shape = {1, 2}},
                                          {.name = "n", .dtype = "I64", .shape = {1, 2}}};
  return SafetensorsStart(tensors) + std::string(32, '\x3f');
}

void ReadFrom(FaultFileSystem& files, const std::string& path) {
  const auto weights = WeightFiles::Open(files, path);
  if (!weights.has_value()) return;
  for (const std::string& name : (*weights)->Names()) {
    FT_CHECK((*weights)->Find(name) != nullptr);
    const auto row = (*weights)->Rows(name, 0, 1);
    FT_CHECK(row.has_value() == (name != "n"));
    if (row.has_value()) FT_CHECK(row->At(1) > 0);
  }
}

void OpenFolder(std::string_view index) {
  FaultFileSystem files;
  FT_CHECK(files.CreateDirectories("m").has_value());
  files.Put("m/model.safetensors.index.json", std::string(index));
  files.Put("m/x.safetensors", Shard());
  ReadFrom(files, "m");
  ReadFrom(files, "m/x.safetensors");
  // A whole file goes before the index.
  files.Put("m/model.safetensors", Shard());
  ReadFrom(files, "m");
}

}  // namespace
}  // namespace foretrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  OpenFolder(text);
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
