#include "runtime/parameters/file_tensors.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>

#include "base/checked.h"
#include "base/numeric/number_formats.h"

namespace foretrain {
namespace {

// Shape of the file's tensor that consists of `parts`. Every row or element of it belongs to one of
// them, so that the shape follows from their sizes.
std::vector<std::int64_t> ShapeOf(std::span<const GatheredTensor::Part> parts,
                                  std::int64_t experts) {
  const FileTensor& at = parts.front().at;
  std::int64_t elements = 0, rows = 0;
  for (const auto& part : parts) {
    elements += part.place.rows * part.place.cols;
    rows += part.place.rows;
  }
  const std::int64_t cols = parts.front().place.cols;
  if (at.vector && at.stacked) return {experts, elements / experts};
  if (at.vector) return {elements};
  if (at.stacked) return {experts, cols, rows / experts};
  return at.transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

// Encodes numbers at elements of a file's tensor.
class Encoder {
 public:
  explicit Encoder(const NewTensor& tensor)
      : is_fp32_(tensor.dtype == "F32"),
        is_bf16_(tensor.dtype == "BF16"),
        elements_(tensor.bytes() / BytesOfDtype(tensor.dtype)),
        bytes_(static_cast<std::size_t>(tensor.bytes())) {}

  // False if a finite number becomes infinite.
  bool Put(std::int64_t element, float value) {
    FT_CHECK(element >= 0 && element < elements_);
    if (is_fp32_) {
      std::memcpy(bytes_.data() + 4 * element, &value, sizeof value);
      return true;
    }
    const std::uint16_t code = is_bf16_ ? Bf16OfFloat(value) : Fp16OfFloat(value);
    std::memcpy(bytes_.data() + 2 * element, &code, sizeof code);
    return IsFinite(is_bf16_ ? FloatOfBf16(code) : FloatOfFp16(code)) || !IsFinite(value);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  bool is_fp32_;
  bool is_bf16_;
  std::int64_t elements_;
  std::vector<std::byte> bytes_;
};

Result<void> EncodePart(const GatheredTensor::Part& part, std::int64_t file_cols,
                        const TensorSource& source, Encoder& encoder) {
  const ParameterPlace& place = part.place;
  std::vector<float> numbers(static_cast<std::size_t>(place.cols));
  for (std::int64_t row = 0; row < place.rows; ++row) {
    FT_TRY(source(place, row, 0, numbers));
    for (std::int64_t col = 0; col < place.cols; ++col) {
      const float value = numbers[static_cast<std::size_t>(col)] - part.at.plus;
      if (encoder.Put(part.at.Index(row, col, place.cols, file_cols), value)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} in row {}, column {} is beyond the largest number of the "
                              "format; write bf16 or fp32",
                              place.name, value, row, col));
    }
  }
  return {};
}

}  // namespace

Result<DtypeNames> DtypeNamesOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
      return DtypeNames{"F32", "float32"};
    case NumberFormat::kBf16:
      return DtypeNames{"BF16", "bfloat16"};
    case NumberFormat::kFp16:
      return DtypeNames{"F16", "float16"};
    default:
      return Fail(ErrorCode::kInvalidArgument, "weights are written as fp32, bf16 or fp16");
  }
}

Result<std::vector<GatheredTensor>> GatherFileTensors(std::vector<GatheredTensor::Part> parts,
                                                      std::int64_t experts,
                                                      const std::string& dtype) {
  std::vector<GatheredTensor> tensors;
  std::map<std::string, std::size_t> known;
  for (GatheredTensor::Part& part : parts) {
    const std::string& name = part.at.name;
    if (name.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "the family's files have no name for the tensor " + part.place.name);
    }
    const auto [found, is_new] = known.emplace(name, tensors.size());
    if (is_new) tensors.push_back({{name, dtype, {}}, {}});
    tensors[found->second].parts.push_back(std::move(part));
  }
  for (GatheredTensor& gathered : tensors) {
    gathered.tensor.shape = ShapeOf(gathered.parts, experts);
  }
  return tensors;
}

// The tensor's parts lie apart in it, so it is written once all of them are encoded.
Result<void> WriteTensorFile(FileSystem& files, const std::string& path,
                             std::span<const GatheredTensor> tensors, const TensorSource& source) {
  std::vector<NewTensor> listed;
  for (const GatheredTensor& gathered : tensors) listed.push_back(gathered.tensor);
  const std::string start = SafetensorsStart(listed);
  FT_ASSIGN(const std::unique_ptr<WritableFile> file, files.Create(path));
  FT_TRY(file->Append(std::as_bytes(std::span(start))));
  for (const GatheredTensor& gathered : tensors) {
    Encoder encoder(gathered.tensor);
    for (const GatheredTensor::Part& part : gathered.parts) {
      FT_TRY(EncodePart(part, gathered.tensor.shape.back(), source, encoder));
    }
    FT_TRY(file->Append(encoder.bytes()));
  }
  FT_TRY(file->Sync());
  return file->Close();
}

Result<void> WriteNewFile(FileSystem& files, const std::string& path, std::string_view text) {
  FT_ASSIGN(const std::unique_ptr<WritableFile> file, files.Create(path));
  FT_TRY(file->Append(std::as_bytes(std::span(text))));
  FT_TRY(file->Sync());
  return file->Close();
}

}  // namespace foretrain
