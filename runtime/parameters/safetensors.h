// The safetensors format: 8 bytes of length, a JSON header, tensors without gaps. weight_files.h
// reads tensors, export/ writes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// One tensor of a file: the file bytes [begin, end), as `rows` rows of the last dimension.
struct SafetensorEntry {
  std::string dtype;
  std::int64_t rows = 0;  // product of all dimensions but the last; a vector has one row
  std::int64_t cols = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
using SafetensorEntries = std::map<std::string, SafetensorEntry, std::less<>>;

// Bytes of an element; 0 for an unknown dtype, or one of less than a byte.
std::int64_t BytesOfDtype(std::string_view dtype);

// Parses the header of a safetensors file of `file_bytes` bytes. `text` is the JSON; offsets in the
// result count from the start of the file.
//
// Errors: kCorruptInput, naming tensor and field: not JSON, an unknown dtype, more than eight
// dimensions, a length that is not shape times dtype, tensors that overlap, or bytes of no tensor.
Result<SafetensorEntries> ParseSafetensorsHeader(std::string_view text, std::int64_t file_bytes,
                                                 std::string_view file);

// Reads and parses the header of an open file. Errors: as above, and kCorruptInput if the file is
// shorter than its header.
Result<SafetensorEntries> ReadSafetensorsHeader(ReadableFile& file, const std::string& path);

// A tensor to write: `shape` with the last dimension contiguous.
struct NewTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;

  std::int64_t bytes() const;
};

// The start of a file that holds `tensors` one after the other: length and header, padded with
// spaces to a multiple of 8 bytes as the format's own library does.
std::string SafetensorsStart(std::span<const NewTensor> tensors);

}  // namespace foretrain
