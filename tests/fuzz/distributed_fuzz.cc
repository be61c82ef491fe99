// A checkpoint of torch.distributed.checkpoint: its description, and a tensor that torch.save
// wrote. Whatever is accepted can be read whole.
#include <string>
#include <string_view>

#include "base/checked.h"
#include "runtime/parameters/safetensors.h"
#include "runtime/parameters/torch/distributed_checkpoint.h"
#include "runtime/parameters/torch/pickled_tensor.h"
#include "runtime/parameters/weight_files.h"
#include "tests/base/fault_file_system.h"
#include "tests/fuzz/fuzz.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxElements = 1 << 16;  // that are read

void ReadTensor(FaultFileSystem& files, std::int64_t bytes) {
  const auto file = files.Open("m/__0_0.distcp");
  FT_CHECK(file.has_value());
  const auto tensor = ReadPickledTensor(**file, {0, bytes}, "__0_0.distcp");
  if (!tensor.has_value()) return;
  FT_CHECK(tensor->numbers.begin >= 0 && tensor->numbers.begin + tensor->numbers.bytes <= bytes);
}

void ReadWeights(FaultFileSystem& files) {
  const auto weights = WeightFiles::Open(files, "m");
  if (!weights.has_value()) return;
  for (const std::string& name : (*weights)->Names()) {
    const SafetensorEntry* const entry = (*weights)->Find(name);
    FT_CHECK(entry != nullptr && entry->rows >= 0 && entry->cols >= 0);
    if (entry->rows > 0 && entry->cols > kMaxElements / entry->rows) continue;
    const auto rows = (*weights)->Rows(name, 0, entry->rows);
    if (rows.has_value() && entry->rows * entry->cols > 0) {
      rows->At(entry->rows * entry->cols - 1);
    }
  }
}

}  // namespace
}  // namespace foretrain

// The input is the description, and the file of its chunks too: whatever follows a pickle is no
// part of it, and an archive is found by its end.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  FaultFileSystem files;
  FT_CHECK(files.CreateDirectories("m").has_value());
  files.Put("m/.metadata", bytes);
  files.Put("m/__0_0.distcp", bytes);
  files.Put("m/__1_0.distcp", bytes);
  ReadTensor(files, static_cast<std::int64_t>(size));
  ReadWeights(files);
  return 0;
}
