#include "runtime/parameters/weight_files.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/json/json.h"
#include "base/numeric/number_formats.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/parameters/torch/tensor_slices.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxIndexBytes = 64 * kMiB;
constexpr std::size_t kMaxFiles = 512;  // all stay open

bool IsPlainName(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.ends_with(kEnding) &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

Result<std::map<std::string, std::string>> ParseWeightIndex(std::string_view text,
                                                            std::string_view source) {
  FT_ASSIGN(const JsonValue root, ParseJson(text, source, {.max_bytes = kMaxIndexBytes}));
  const JsonValue* const map =
      root.kind() == JsonValue::Kind::kObject ? root.Find("weight_map") : nullptr;
  if (map == nullptr || map->kind() != JsonValue::Kind::kObject || map->items().empty()) {
    return Fail(ErrorCode::kCorruptInput,
                std::string(source) + ": weight_map: is no object of tensors and their files");
  }
  std::map<std::string, std::string> files;
  for (std::size_t i = 0; i < map->items().size(); ++i) {
    const JsonValue& file = map->items()[i];
    const std::string& tensor = map->names()[i];
    if (file.kind() != JsonValue::Kind::kString || !IsPlainName(file.AsString())) {
      return Fail(
          ErrorCode::kCorruptInput,
          fmt::format("{}: weight_map: {}: must name a .safetensors file in the same folder",
                      source, Printable(tensor)));
    }
    files.emplace(tensor, file.AsString());
  }
  return files;
}

float TensorRows::At(std::int64_t index) const {
  float value = 0;
  Read(index, std::span(&value, 1));
  return value;
}

void TensorRows::Read(std::int64_t index, std::span<float> out) const {
  const std::int64_t each = BytesOfDtype(dtype_);
  const std::int64_t begin = (index - first_) * each;
  FT_CHECK(begin >= 0 && begin + std::ssize(out) * each <= std::ssize(bytes_));
  const char* from = bytes_.data() + begin;
  if (dtype_ == "F32") {
    std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  const bool bf16 = dtype_ == "BF16";
  for (float& value : out) {
    std::uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    value = bf16 ? FloatOfBf16(half) : FloatOfFp16(half);
    from += sizeof half;
  }
}

Result<std::unique_ptr<const WeightFiles>> WeightFiles::Open(FileSystem& files,
                                                             const std::string& path) {
  std::unique_ptr<WeightFiles> weights(new WeightFiles);
  weights->path_ = path;
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kDirectory) {
    FT_TRY(weights->OpenFolder(files));
  } else {
    FT_ASSIGN(SafetensorEntries entries, weights->OpenOne(files, path));
    for (auto& [name, entry] : entries) weights->tensors_[name] = {.entry = std::move(entry)};
  }
  return std::unique_ptr<const WeightFiles>(std::move(weights));
}

// A single file needs no index. Tensors that an index does not list are left out, as by the
// library.
Result<void> WeightFiles::OpenFolder(FileSystem& files) {
  const std::string whole = path_ + "/" + std::string(kWeightsName);
  FT_ASSIGN(const FileInfo one, files.Stat(whole));
  if (one.kind == FileKind::kRegular) {
    FT_ASSIGN(SafetensorEntries entries, OpenOne(files, whole));
    for (auto& [name, entry] : entries) tensors_[name] = {.entry = std::move(entry)};
    return {};
  }
  const auto has = [&](const std::string& folder, std::string_view name) {
    const auto info = files.Stat(folder + "/" + std::string(name));
    return info.has_value() && info->kind == FileKind::kRegular;
  };
  if (has(path_, kIndexName)) return OpenIndexed(files, path_ + "/" + std::string(kIndexName));
  if (has(path_, kDescriptionName)) return OpenDistributed(files, path_);
  if (has(path_, kNewestName)) {
    const std::string noted = path_ + "/" + std::string(kNewestName);
    FT_ASSIGN(const std::string text, ReadFile(files, noted, 64));
    const std::string number(Trim(text));
    const std::string folder = fmt::format("{}/iter_{:0>7}", path_, number);
    const bool is_number = number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && has(folder, kDescriptionName)) return OpenDistributed(files, folder);
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: names {}, which is no checkpoint with a {} file; save with "
                            "--ckpt-format torch_dist",
                            noted, Printable(is_number ? folder : number, 512), kDescriptionName));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: has neither {} nor {} nor {}; give a folder that a model was saved "
                          "to",
                          path_, kWeightsName, kIndexName, kDescriptionName));
}

Result<void> WeightFiles::OpenDistributed(FileSystem& files, const std::string& folder) {
  FT_ASSIGN(distributed_, DistributedCheckpoint::Open(files, folder));
  for (auto& [name, slice] : SlicesOf(distributed_->tensors())) {
    const ChunkedTensor& tensor = distributed_->tensors().find(slice.tensor)->second;
    Place place{.entry = {.dtype = tensor.dtype, .rows = 1, .cols = 1}, .slice = slice};
    for (std::size_t i = slice.leading.size(); i + 1 < tensor.shape.size(); ++i) {
      place.entry.rows *= tensor.shape[i];
    }
    if (tensor.shape.size() > slice.leading.size()) place.entry.cols = tensor.shape.back();
    tensors_[name] = std::move(place);
  }
  return {};
}

Result<void> WeightFiles::OpenIndexed(FileSystem& files, const std::string& index) {
  FT_ASSIGN(const std::string text, ReadFile(files, index, kMaxIndexBytes));
  FT_ASSIGN(const auto promised, ParseWeightIndex(text, index));
  std::map<std::string, std::pair<std::size_t, SafetensorEntries>> opened;
  for (const auto& [tensor, name] : promised) {
    auto found = opened.find(name);
    if (found == opened.end()) {
      if (files_.size() == kMaxFiles) {
        return Fail(ErrorCode::kInvalidArgument, index + ": names more than " +
                                                     std::to_string(kMaxFiles) +
                                                     " files; save the model to fewer");
      }
      const std::string shard = path_ + "/" + name;
      FT_ASSIGN(const FileInfo info, files.Stat(shard));
      if (info.kind != FileKind::kRegular) {
        return Fail(ErrorCode::kInvalidArgument,
                    index + ": names " + Printable(name) + ", which is not in the folder; copy it");
      }
      FT_ASSIGN(SafetensorEntries entries, OpenOne(files, shard));
      found = opened.emplace(name, std::pair(files_.size() - 1, std::move(entries))).first;
    }
    const auto& [file, entries] = found->second;
    const auto entry = entries.find(tensor);
    if (entry == entries.end()) {
      return Fail(ErrorCode::kCorruptInput,
                  index + ": " + Printable(tensor) + " is not in " + files_[file].path +
                      ", where it should be; the files are of different models");
    }
    tensors_[tensor] = {.entry = entry->second, .file = file};
  }
  return {};
}

Result<SafetensorEntries> WeightFiles::OpenOne(FileSystem& files, const std::string& path) {
  FT_ASSIGN(std::unique_ptr<ReadableFile> file, files.Open(path));
  FT_ASSIGN(SafetensorEntries entries, ReadSafetensorsHeader(*file, path));
  files_.push_back({path, std::move(file)});
  return entries;
}

const SafetensorEntry* WeightFiles::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.entry;
}

std::vector<std::string> WeightFiles::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : tensors_) names.push_back(name);
  return names;
}

Result<TensorRows> WeightFiles::Rows(std::string_view name, std::int64_t first,
                                     std::int64_t rows) const {
  const auto found = tensors_.find(name);
  FT_CHECK(found != tensors_.end());
  const SafetensorEntry& entry = found->second.entry;
  FT_CHECK(first >= 0 && rows >= 0 && first + rows <= entry.rows);
  const std::string& path = distributed_ ? path_ : files_[found->second.file].path;
  if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: tensor {}: has dtype {}; only F32, BF16 and F16 are read: save it "
                            "as one",
                            path, Printable(name), entry.dtype.empty() ? "?" : entry.dtype));
  }
  if (distributed_) {
    const TensorSlice& slice = found->second.slice;
    const std::size_t dimensions = distributed_->tensors().find(slice.tensor)->second.shape.size();
    if (dimensions > slice.leading.size() + 2) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("{}: tensor {}: has {} dimensions; one or two are read", path,
                              Printable(name), dimensions - slice.leading.size()));
    }
    FT_ASSIGN(std::string bytes, distributed_->Rows(slice, first, rows));
    return TensorRows(entry.dtype, first * entry.cols, std::move(bytes));
  }
  const std::int64_t each = BytesOfDtype(entry.dtype);
  std::string bytes(static_cast<std::size_t>(rows * entry.cols * each), '\0');
  const std::int64_t begin = entry.begin + first * entry.cols * each;
  FT_ASSIGN(const std::int64_t got, files_[found->second.file].file->ReadAt(
                                        begin, std::as_writable_bytes(std::span(bytes))));
  if (got != std::ssize(bytes)) {
    return Fail(ErrorCode::kCorruptInput, path + ": tensor " + Printable(name) +
                                              ": the file has become shorter; copy it again");
  }
  return TensorRows(entry.dtype, first * entry.cols, std::move(bytes));
}

}  // namespace foretrain
