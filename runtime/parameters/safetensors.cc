#include "runtime/parameters/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library
constexpr std::size_t kMaxDimensions = 8;

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array kDtypes = {
    Dtype{"F32", 4},     Dtype{"BF16", 2}, Dtype{"F16", 2},     Dtype{"BOOL", 1},
    Dtype{"U8", 1},      Dtype{"I8", 1},   Dtype{"F8_E4M3", 1}, Dtype{"F8_E5M2", 1},
    Dtype{"F8_E8M0", 1}, Dtype{"U16", 2},  Dtype{"I16", 2},     Dtype{"U32", 4},
    Dtype{"I32", 4},     Dtype{"U64", 8},  Dtype{"I64", 8},     Dtype{"F64", 8},
};

// The format allows neither shared bytes nor bytes of no tensor, which could hide data. Empty
// tensors lie anywhere. `data`: where the tensors begin. O(n log n).
Result<void> CheckContiguous(const SafetensorEntries& entries, std::int64_t data,
                             std::int64_t file_bytes, std::string_view file) {
  std::vector<std::pair<std::int64_t, std::string_view>> order;  // (begin, name)
  for (const auto& [name, entry] : entries) {
    if (entry.end > entry.begin) order.emplace_back(entry.begin, name);
  }
  std::sort(order.begin(), order.end());
  std::int64_t end = data;
  std::string before = "the header";
  for (const auto& [begin, name] : order) {
    if (begin != end) {
      return Fail(ErrorCode::kCorruptInput,
                  std::string(file) + ": tensor " + Printable(name) + " begins " +
                      (begin < end ? "within " + before
                                   : std::to_string(begin - end) + " bytes behind " + before +
                                         ", and no tensor has those bytes"));
    }
    end = entries.find(name)->second.end;
    before = Printable(name);
  }
  if (end == file_bytes) return {};
  return Fail(ErrorCode::kCorruptInput, std::string(file) + ": has " +
                                            std::to_string(file_bytes - end) + " bytes behind " +
                                            before + " that no tensor has");
}

// Says why a tensor cannot have the offsets that the header gives it. All sizes come from the file:
// products are checked for overflow, and offsets against the file's size.
//
//   countable  its number of rows did not overflow
Result<void> CheckBytes(const SafetensorEntry& entry, bool countable, std::int64_t file_bytes,
                        const std::string& where) {
  if (entry.end < entry.begin) {
    return Fail(ErrorCode::kCorruptInput, where + "ends before it begins");
  }
  if (entry.end > file_bytes) {
    return Fail(ErrorCode::kCorruptInput, where + "ends at byte " + std::to_string(entry.end) +
                                              " of a file of " + std::to_string(file_bytes));
  }
  std::int64_t bytes = 0;
  if (!countable || __builtin_mul_overflow(entry.rows, entry.cols, &bytes) ||
      __builtin_mul_overflow(bytes, BytesOfDtype(entry.dtype), &bytes)) {
    return Fail(ErrorCode::kCorruptInput, where + "its shape has more bytes than can be counted");
  }
  if (entry.end - entry.begin == bytes) return {};
  return Fail(ErrorCode::kCorruptInput, where + "has " + std::to_string(entry.end - entry.begin) +
                                            " bytes, where its shape and dtype need " +
                                            std::to_string(bytes));
}

}  // namespace

std::int64_t BytesOfDtype(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

Result<SafetensorEntries> ParseSafetensorsHeader(std::string_view text, std::int64_t file_bytes,
                                                 std::string_view file) {
  FT_ASSIGN(const JsonValue root, ParseJson(text, file, {.max_bytes = kMaxHeaderBytes}));
  if (root.kind() != JsonValue::Kind::kObject) {
    return Fail(ErrorCode::kCorruptInput, std::string(file) + ": the header is no JSON object");
  }
  const std::int64_t data = 8 + static_cast<std::int64_t>(text.size());
  SafetensorEntries entries;
  for (std::size_t i = 0; i < root.items().size(); ++i) {
    const std::string& name = root.names()[i];
    if (name == "__metadata__") continue;
    const std::string source = std::string(file) + ": tensor " + Printable(name);
    JsonFields fields(root.items()[i], source);
    SafetensorEntry entry;
    entry.dtype = fields.String("dtype");
    const auto shape = fields.Integers("shape", 0, std::int64_t{1} << 40);
    const auto offsets = fields.Integers("data_offsets", 0, file_bytes);
    FT_TRY(fields.Finish(true));
    const std::string where = source + ": ";
    if (BytesOfDtype(entry.dtype) == 0) {
      return Fail(ErrorCode::kCorruptInput,
                  where + "dtype " + Printable(entry.dtype) + " is not known");
    }
    if (shape.size() > kMaxDimensions || offsets.size() != 2) {
      return Fail(ErrorCode::kCorruptInput,
                  where + "has no shape of at most eight dimensions and two offsets");
    }
    entry.rows = 1;
    bool countable = true;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
      countable = countable && !__builtin_mul_overflow(entry.rows, shape[d], &entry.rows);
    }
    entry.cols = shape.empty() ? 1 : shape.back();
    entry.begin = data + offsets[0];
    entry.end = data + offsets[1];
    FT_TRY(CheckBytes(entry, countable, file_bytes, where));
    entries.emplace(name, std::move(entry));
  }
  FT_TRY(CheckContiguous(entries, data, file_bytes, file));
  return entries;
}

// The length of the header is compared as an unsigned number with what the file holds, so that no
// value can overflow.
Result<SafetensorEntries> ReadSafetensorsHeader(ReadableFile& file, const std::string& path) {
  const std::int64_t size = file.size_bytes();
  std::uint64_t length = 0;
  std::array<std::byte, sizeof length> start{};
  FT_ASSIGN(const std::int64_t got, file.ReadAt(0, start));
  std::memcpy(&length, start.data(), sizeof length);
  if (got < std::ssize(start) || size < got ||
      length > static_cast<std::uint64_t>(std::min(kMaxHeaderBytes, size - got))) {
    return Fail(ErrorCode::kCorruptInput, path + ": is no safetensors file: its header would be " +
                                              std::to_string(length) + " bytes of " +
                                              std::to_string(size));
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  FT_ASSIGN(const std::int64_t read,
            file.ReadAt(std::ssize(start), std::as_writable_bytes(std::span(header))));
  if (read != std::ssize(header)) {
    return Fail(ErrorCode::kCorruptInput, path + ": ends within its header; copy it again");
  }
  return ParseSafetensorsHeader(header, size, path);
}

std::int64_t NewTensor::bytes() const {
  std::int64_t bytes = BytesOfDtype(dtype);
  for (const std::int64_t size : shape) bytes *= size;
  return bytes;
}

// The transformers library refuses files without "format" in their metadata.
std::string SafetensorsStart(std::span<const NewTensor> tensors) {
  JsonWriter json;
  json.BeginObject().Name("__metadata__").BeginObject().Field("format", "pt").EndObject();
  std::int64_t at = 0;
  for (const NewTensor& tensor : tensors) {
    json.Name(tensor.name).BeginObject().Field("dtype", std::string_view(tensor.dtype));
    json.Name("shape").BeginArray();
    for (const std::int64_t size : tensor.shape) json.Integer(size);
    json.EndArray().Name("data_offsets").BeginArray().Integer(at);
    at += tensor.bytes();
    json.Integer(at).EndArray().EndObject();
  }
  std::string header = json.EndObject().Take();
  constexpr std::size_t kAlignment = 8;
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const auto length = static_cast<std::uint64_t>(header.size());
  std::string start(reinterpret_cast<const char*>(&length), sizeof length);
  return start + header;
}

}  // namespace foretrain
