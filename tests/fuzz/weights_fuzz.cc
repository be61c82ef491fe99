// A safetensors file: if it is accepted, its tensors are disjoint, inside the file and as long as
// their shapes say, and can be read.
#include <algorithm>
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

// The length of the header, the header, and `tensors` bytes.
std::string FileOf(std::string_view header, std::int64_t tensors) {
  std::uint64_t length = header.size();
  std::string file;
  for (int i = 0; i < 8; ++i, length >>= 8U) file += static_cast<char>(length & 0xFFU);
  file += header;
  file.resize(file.size() + static_cast<std::size_t>(tensors), '\x3f');
  return file;
}

void ReadAll(const std::string& file) {
  FaultFileSystem files;
  files.Put("model.safetensors", file);
  const auto weights = WeightFiles::Open(files, "model.safetensors");
  if (!weights.has_value()) return;
  for (const std::string& name : (*weights)->Names()) {
    const SafetensorEntry* const entry = (*weights)->Find(name);
    FT_CHECK(entry != nullptr);
    const auto rows = (*weights)->Rows(name, 0, entry->rows);
    const std::int64_t elements = entry->rows * entry->cols;
    if (!rows.has_value() || elements == 0) continue;
    std::vector<float> values(static_cast<std::size_t>(elements));
    rows->Read(0, values);
    FT_CHECK(rows->At(elements - 1) == values.back());
  }
}

// A header of other tensors than the file's, which the file's own writer made.
void WriteAgain(const SafetensorEntries& entries) {
  std::vector<NewTensor> tensors;
  for (const auto& [name, entry] : entries) {
    tensors.push_back({.name = name, .dtype = entry.dtype, .shape = {entry.rows, entry.cols}});
  }
  std::string start = SafetensorsStart(tensors);
  std::int64_t bytes = std::ssize(start);
  for (const NewTensor& tensor : tensors) bytes += tensor.bytes();
  const auto again = ParseSafetensorsHeader(start.substr(8), bytes, "again");
  FT_CHECK(again.has_value() && again->size() == entries.size());
}

}  // namespace
}  // namespace foretrain

// The first byte says how many bytes of tensors follow the header, in units of four.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  if (size == 0) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::int64_t tensors = 4 * std::int64_t{data[0]};
  const std::int64_t begin = 8 + static_cast<std::int64_t>(header.size());
  const std::string file = FileOf(header, tensors);
  ReadAll(file);
  ReadAll(file.substr(0, std::min(file.size(), std::size_t{data[0]})));
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
  WriteAgain(*entries);
  return 0;
}
