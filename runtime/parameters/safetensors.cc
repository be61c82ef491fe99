#include "runtime/parameters/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/parameters/tensor_names.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library
constexpr std::int64_t kMaxFileBytes = 64 * kGiB;

// 0 for a dtype that cannot be read.
std::int64_t SizeOf(std::string_view dtype) {
  if (dtype == "F32") return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 0;
}

// Numbers with exponent 0 are subnormal: fraction times 2^-24. Others have an implicit leading 1,
// hence 1024 + fraction.
float HalfToFloat(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction != 0 ? std::nanf("") : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -24)
                       : sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// A file in memory and its tensors.
struct File {
  std::string path;
  std::string bytes;
  std::map<std::string, SafetensorEntry> entries;

  float At(const SafetensorEntry& entry, std::int64_t index) const {
    const char* from = bytes.data() + entry.begin + index * SizeOf(entry.dtype);
    if (entry.dtype == "F32") {
      float value = 0;
      std::memcpy(&value, from, sizeof value);
      return value;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    return entry.dtype == "BF16" ? std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16)
                                 : HalfToFloat(half);
  }

  // Our own name takes precedence; else the tensor is searched by the names of the Hugging Face
  // library.
  FileTensor TensorOf(const ModelSpec& model, const ParameterPlace& place) const {
    const auto has = [&](const std::string& name) { return entries.count(name) > 0; };
    if (has(place.name)) return {.name = place.name};
    return LibraryTensor(has, model, place);
  }
};

// Reads part of one row of our tensor from wherever the file stores it: as a row, a column
// (transposed), or interleaved with other tensors. The file's shape is checked first.
Result<void> ReadPiece(const File& file, const ModelSpec& model, const ParameterPlace& place,
                       std::int64_t row, std::int64_t col, std::span<float> out) {
  const FileTensor name = file.TensorOf(model, place);
  const auto found = file.entries.find(name.name);
  if (found == file.entries.end()) {
    return Fail(ErrorCode::kInvalidArgument, file.path + ": has no tensor for " + place.name +
                                                 "; it holds the weights of another model");
  }
  const SafetensorEntry& entry = found->second;
  // Our bias of logits is a column; the file has it as a vector.
  const bool vector = place.rows == 1 || (place.cols == 1 && entry.rows == 1);
  const std::int64_t length = place.rows * place.cols;
  const std::int64_t rows = name.transposed ? entry.cols : entry.rows;
  const std::int64_t cols = name.transposed ? entry.rows : entry.cols;
  const std::int64_t all = name.first_row + name.interleaved * (vector ? length : place.rows);
  const bool fits = name.stacked ? vector ? rows * cols >= all
                                          : rows >= all && cols >= name.first_col + place.cols
                    : vector     ? rows == 1 && cols >= all
                                 : cols == place.cols && rows >= all;
  if (!fits) {
    return Fail(ErrorCode::kInvalidArgument,
                file.path + ": " + found->first + " is " + std::to_string(entry.rows) + " x " +
                    std::to_string(entry.cols) + " and the model's " + place.name + " is " +
                    std::to_string(place.rows) + " x " + std::to_string(place.cols));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t c = col + static_cast<std::int64_t>(i);
    const std::int64_t index = vector            ? name.Row(row * place.cols + c)
                               : name.transposed ? (name.first_col + c) * entry.cols + name.Row(row)
                                                 : name.Row(row) * entry.cols + c;
    out[i] = file.At(entry, index) + name.plus;
  }
  return {};
}

// The format allows neither shared bytes nor bytes of no tensor, which could hide data. Empty
// tensors lie anywhere. `data`: where the tensors begin. O(n log n).
Result<void> CheckContiguous(const std::map<std::string, SafetensorEntry>& entries,
                             std::int64_t data, std::int64_t file_bytes, std::string_view file) {
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
    end = entries.at(std::string(name)).end;
    before = Printable(name);
  }
  if (end == file_bytes) return {};
  return Fail(ErrorCode::kCorruptInput, std::string(file) + ": has " +
                                            std::to_string(file_bytes - end) + " bytes behind " +
                                            before + " that no tensor has");
}

}  // namespace

// All sizes come from the file: products are checked for overflow, and offsets against the file's
// size.
Result<std::map<std::string, SafetensorEntry>> ParseSafetensorsHeader(std::string_view text,
                                                                      std::int64_t file_bytes,
                                                                      std::string_view file) {
  FT_ASSIGN(const JsonValue root, ParseJson(text, file, {.max_bytes = kMaxHeaderBytes}));
  if (root.kind() != JsonValue::Kind::kObject) {
    return Fail(ErrorCode::kCorruptInput, std::string(file) + ": the header is no JSON object");
  }
  const std::int64_t data = 8 + static_cast<std::int64_t>(text.size());
  std::map<std::string, SafetensorEntry> entries;
  JsonFields all(root, file);
  const std::vector<std::string> names(all.names().begin(), all.names().end());
  for (const std::string& name : names) {
    if (name == "__metadata__") {
      all.Any(name);
      continue;
    }
    JsonFields fields = all.Object(name);
    SafetensorEntry entry;
    entry.dtype = fields.String("dtype");
    const auto shape = fields.Integers("shape", 0, std::int64_t{1} << 40);
    const auto offsets = fields.Integers("data_offsets", 0, file_bytes);
    FT_TRY(fields.Finish(true));
    const std::string where = std::string(file) + ": tensor " + Printable(name) + ": ";
    if (SizeOf(entry.dtype) == 0) {
      return Fail(ErrorCode::kCorruptInput,
                  where + "dtype " + Printable(entry.dtype) + " is none of F32, BF16, F16");
    }
    if (shape.empty() || shape.size() > 3 || offsets.size() != 2) {
      return Fail(ErrorCode::kCorruptInput,
                  where + "has no shape of one to three dimensions and two offsets");
    }
    // With three dimensions, the first two are rows.
    entry.rows = 1;
    bool countable = true;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
      countable = countable && !__builtin_mul_overflow(entry.rows, shape[i], &entry.rows);
    }
    entry.cols = shape.back();
    entry.begin = data + offsets[0];
    entry.end = data + offsets[1];
    std::int64_t bytes = 0;
    const bool fits = countable && !__builtin_mul_overflow(entry.rows, entry.cols, &bytes) &&
                      !__builtin_mul_overflow(bytes, SizeOf(entry.dtype), &bytes) &&
                      offsets[0] <= offsets[1] && entry.end <= file_bytes &&
                      entry.end - entry.begin == bytes;
    if (!fits) {
      return Fail(ErrorCode::kCorruptInput,
                  where + "its bytes are not shape times dtype within the file");
    }
    entries.emplace(name, std::move(entry));
  }
  FT_TRY(all.Finish(true));
  FT_TRY(CheckContiguous(entries, data, file_bytes, file));
  return entries;
}

// The length of the header is compared as an unsigned number with what the file holds, so that no
// value can overflow.
Result<TensorSource> WeightsFromSafetensors(FileSystem& files, const std::string& path,
                                            const ModelSpec& model, std::uint64_t seed) {
  auto file = std::make_shared<File>();  // shared by the copies of the source
  file->path = path;
  FT_ASSIGN(file->bytes, ReadFile(files, path, kMaxFileBytes));
  const auto size = static_cast<std::int64_t>(file->bytes.size());
  std::uint64_t header = 0;
  if (size >= 8) std::memcpy(&header, file->bytes.data(), sizeof header);
  if (size < 8 || header > static_cast<std::uint64_t>(std::min(kMaxHeaderBytes, size - 8))) {
    return Fail(ErrorCode::kCorruptInput, path + ": is no safetensors file: its header would be " +
                                              std::to_string(header) + " bytes of " +
                                              std::to_string(size));
  }
  FT_ASSIGN(file->entries,
            ParseSafetensorsHeader(std::string_view(file->bytes).substr(8, header), size, path));
  return TensorSource(
      [file, model, fresh = InitialWeights(model, seed)](
          const ParameterPlace& place, std::int64_t row, std::int64_t col, std::span<float> out) {
        const bool adapter = place.name.find(".lora_") != std::string::npos;
        if (adapter && file->entries.count(place.name) == 0) return fresh(place, row, col, out);
        return ReadPiece(*file, model, place, row, col, out);
      });
}

}  // namespace foretrain
