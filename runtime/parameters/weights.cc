#include "runtime/parameters/weights.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "runtime/checkpoint/checkpoint_weights.h"
#include "runtime/parameters/model_tensors.h"
#include "runtime/parameters/peft.h"
#include "runtime/parameters/tensor_names.h"
#include "runtime/parameters/weight_files.h"

namespace foretrain {
namespace {

constexpr std::int64_t kBlockBytes = 64 * kMiB;
constexpr std::size_t kMaxBlocks = 4;

// True if the file's tensor holds all of ours where `at` says.
bool Fits(const FileTensor& at, const SafetensorEntry& entry, const ParameterPlace& place) {
  const std::int64_t length = place.rows * place.cols;
  const std::int64_t rows = at.transposed ? entry.cols : entry.rows;
  const std::int64_t cols = at.transposed ? entry.rows : entry.cols;
  const std::int64_t all = at.Row((at.vector ? length : place.rows) - 1) + 1;
  if (at.stacked) {
    return at.vector ? rows * cols >= all : rows >= all && cols >= at.first_col + place.cols;
  }
  return at.vector ? entry.rows == 1 && entry.cols >= all : cols == place.cols && rows >= all;
}

// The source of the weights in some files.
class FileSource {
 public:
  FileSource(std::unique_ptr<const WeightFiles> files, const ModelSpec& model, std::uint64_t seed)
      : files_(std::move(files)),
        names_(TensorNames::OfFile([this](const std::string& name) { return Has(name); }, model)),
        fresh_(InitialWeights(model, seed)) {}

  const WeightFiles& files() const { return *files_; }
  const TensorNames& names() const { return names_; }

  // Our own name takes precedence. Errors: kInvalidArgument, no such tensor, or another shape.
  Result<FileTensor> Find(const ParameterPlace& place) const {
    FileTensor at = names_.For(place);
    if (Has(place.name)) {
      const bool vector = at.vector;
      at = {.name = place.name, .vector = vector};
    }
    const SafetensorEntry* const entry = at.name.empty() ? nullptr : files_->Find(at.name);
    if (entry == nullptr) {
      return Fail(ErrorCode::kInvalidArgument, files_->path() + ": has no tensor for " +
                                                   place.name +
                                                   (at.name.empty() ? "" : " (" + at.name + ")") +
                                                   "; it holds the weights of another model");
    }
    // Our own files have a column of head biases as a column.
    if (at.vector && place.cols == 1 && entry->rows > 1) at.vector = false;
    if (Fits(at, *entry, place)) return at;
    return Fail(ErrorCode::kInvalidArgument,
                files_->path() + ": " + Printable(at.name) + " is " + std::to_string(entry->rows) +
                    " x " + std::to_string(entry->cols) + " and the model's " + place.name +
                    " is " + std::to_string(place.rows) + " x " + std::to_string(place.cols));
  }

  Result<void> Read(const ParameterPlace& place, std::int64_t row, std::int64_t col,
                    std::span<float> out) {
    if (IsAdapter(place.name) && !Has(place.name)) return fresh_(place, row, col, out);
    const std::lock_guard lock(mutex_);
    if (last_name_ != place.name) {
      FT_ASSIGN(last_, Find(place));
      last_name_ = place.name;
    }
    const SafetensorEntry& entry = *files_->Find(last_.name);
    FT_ASSIGN(const TensorRows* const rows, RowsFor(place, entry, row));
    const bool consecutive = last_.each == 0 && last_.turned == 0;
    if (last_.vector ? consecutive : !last_.transposed) {
      rows->Read(last_.Index(row, col, place.cols, entry.cols), out);
    } else {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t c = col + static_cast<std::int64_t>(i);
        out[i] = rows->At(last_.Index(row, c, place.cols, entry.cols));
      }
    }
    if (last_.plus != 0) {
      for (float& value : out) value += last_.plus;
    }
    return {};
  }

 private:
  bool Has(const std::string& name) const { return files_->Find(name) != nullptr; }

  struct Block {
    std::string name;
    std::int64_t first = 0;
    TensorRows rows;
  };

  // The block of the file's tensor that has row `row` of ours. A column of ours lies in all of a
  // transposed tensor's rows, so that one block holds them.
  Result<const TensorRows*> RowsFor(const ParameterPlace& place, const SafetensorEntry& entry,
                                    std::int64_t row) {
    std::int64_t first = 0, count = entry.rows;
    if (last_.transposed && !last_.vector) {
      first = last_.first_col;
      count = place.cols;
    } else if (!last_.vector) {
      const std::int64_t row_bytes =
          std::max<std::int64_t>(1, entry.cols * BytesOfDtype(entry.dtype));
      const std::int64_t each = std::max<std::int64_t>(1, kBlockBytes / row_bytes);
      first = last_.Row(row) / each * each;
      count = std::min(each, entry.rows - first);
    }
    for (const Block& block : blocks_) {
      if (block.first == first && block.name == last_.name) return &block.rows;
    }
    FT_ASSIGN(TensorRows rows, files_->Rows(last_.name, first, count));
    if (blocks_.size() == kMaxBlocks) blocks_.pop_back();
    blocks_.push_front({last_.name, first, std::move(rows)});
    return &blocks_.front().rows;
  }

  std::unique_ptr<const WeightFiles> files_;
  TensorNames names_;
  TensorSource fresh_;  // of adapters
  std::mutex mutex_;
  std::string last_name_;     // of the last place; guarded by mutex_
  FileTensor last_;           // guarded by mutex_
  std::deque<Block> blocks_;  // the newest first; guarded by mutex_
};

// All numbers of bf16 and fp16 are numbers of fp32.
Result<NumberFormat> FormatOf(const WeightFiles& files, const std::set<std::string>& used) {
  std::set<std::string> dtypes;
  for (const std::string& name : used) {
    const std::string& dtype = files.Find(name)->dtype;
    dtypes.insert(dtype);
    if (dtype != "F32" && dtype != "BF16" && dtype != "F16") {
      return Fail(ErrorCode::kUnsupported, files.path() + ": tensor " + Printable(name) +
                                               ": has dtype " + dtype +
                                               "; only F32, BF16 and F16 are read: save it as one");
    }
  }
  if (dtypes == std::set<std::string>{"BF16"}) return NumberFormat::kBf16;
  if (dtypes == std::set<std::string>{"F16"}) return NumberFormat::kFp16;
  return NumberFormat::kFp32;
}

Result<void> CheckIsNoAdapter(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path + "/" + std::string(kAdapterConfigName)));
  if (info.kind == FileKind::kMissing) return {};
  return Fail(ErrorCode::kInvalidArgument,
              path + ": holds adapters; give their base model here, and this folder as --adapters");
}

}  // namespace

Result<Weights> OpenWeights(FileSystem& files, const std::string& path, const ModelSpec& model,
                            std::uint64_t seed) {
  FT_ASSIGN(const std::optional<Checkpoint> checkpoint, FindCheckpoint(files, path));
  if (checkpoint) {
    Weights weights;
    FT_ASSIGN(weights.source, WeightsOf(files, *checkpoint));
    return weights;
  }
  FT_TRY(CheckIsNoAdapter(files, path));
  FT_ASSIGN(auto opened, WeightFiles::Open(files, path));
  // Shared by the copies of the source.
  const auto source = std::make_shared<FileSource>(std::move(opened), model, seed);
  Weights weights;
  std::set<std::string> used;
  bool has_library_names = false;
  for (const ParameterPlace& place : TensorsOf(model)) {
    FT_ASSIGN(const FileTensor at, source->Find(place));
    has_library_names = has_library_names || at.name != place.name;
    used.insert(at.name);
  }
  if (has_library_names) weights.names = source->names();
  FT_ASSIGN(weights.format, FormatOf(source->files(), used));
  for (std::string& name : source->files().Names()) {
    if (used.contains(name) || source->names().Ignores(name) || IsAdapter(name)) continue;
    weights.unused.push_back(std::move(name));
  }
  weights.source = [source](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                            std::span<float> out) { return source->Read(place, row, col, out); };
  return weights;
}

}  // namespace foretrain
