#include "runtime/checkpoint/checkpoint_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/checkpoint/checkpoint_folder.h"
#include "runtime/checkpoint/stored_numbers.h"

namespace foretrain {
namespace {

class WholeTensors {
 public:
  // Tensors that have pieces of `kind` are made of them, others of the weights.
  static Result<std::shared_ptr<WholeTensors>> Open(FileSystem& files, const Checkpoint& checkpoint,
                                                    StateKind kind) {
    auto tensors = std::make_shared<WholeTensors>();
    std::map<std::string, std::vector<Stored>> preferred;
    tensors->path_ = checkpoint.path();
    for (const RankFile& rank : checkpoint.ranks()) {
      const std::string path = checkpoint.path() + "/" + TensorsName(rank.rank);
      FT_ASSIGN(auto file, files.Open(path));
      const std::size_t number = tensors->files_.size();
      tensors->files_.push_back({path, std::move(file)});
      for (const SavedPiece& saved : rank.pieces) {
        if (!IsFloat(saved.piece.format)) continue;
        if (saved.piece.kind == kind) {
          preferred[saved.piece.name].push_back({number, saved});
        } else if (saved.piece.kind == StateKind::kWeight) {
          tensors->pieces_[saved.piece.name].push_back({number, saved});
        }
      }
    }
    if (preferred.empty() && kind == StateKind::kAverage) {
      return Fail(ErrorCode::kInvalidArgument,
                  checkpoint.path() + ": has no moving averages; it was trained without --ema");
    }
    preferred.merge(tensors->pieces_);
    tensors->pieces_ = std::move(preferred);
    return tensors;
  }

  Result<void> Read(const ParameterPlace& place, std::int64_t row, std::int64_t col,
                    std::span<float> out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (name_ != place.name) FT_TRY(Assemble(place));
    std::copy_n(tensor_.begin() + row * place.cols + col, out.size(), out.begin());
    return {};
  }

 private:
  struct File {
    std::string path;
    std::unique_ptr<ReadableFile> file;
  };
  struct Stored {
    std::size_t file = 0;
    SavedPiece saved;
  };

  Result<void> Assemble(const ParameterPlace& place) {
    name_.clear();
    tensor_.assign(static_cast<std::size_t>(place.rows * place.cols), 0.0F);
    std::int64_t filled = 0;
    for (const Stored& one : pieces_[place.name]) {
      const StatePiece& piece = one.saved.piece;
      if (piece.rows != place.rows || piece.cols != place.cols) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: {} is {} x {} there and {} x {} in this model", path_,
                                place.name, piece.rows, piece.cols, place.rows, place.cols));
      }
      FT_TRY(ReadPiece(*files_[one.file].file, files_[one.file].path, one.saved, bytes_));
      Place(piece);
      filled += piece.elements();
    }
    if (filled != place.rows * place.cols) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: has {} of {} numbers of {}; parameters that were not trained are "
                      "not saved",
                      path_, filled, place.rows * place.cols, place.name));
    }
    name_ = place.name;
    return {};
  }

  // Copies the piece in bytes_ into the tensor, row by row of its part.
  void Place(const StatePiece& piece) {
    const std::int64_t width = piece.col_end - piece.col_begin;
    const std::int64_t number_bytes = LayoutOf(piece.format).bits / 8;
    for (std::int64_t at = piece.first; at < piece.end;) {
      const std::int64_t row = at / width, col = at % width;
      const std::int64_t count = std::min(width - col, piece.end - at);
      const std::int64_t to = (piece.row_begin + row) * piece.cols + piece.col_begin + col;
      CopyNumbers(piece.format, bytes_.data() + (at - piece.first) * number_bytes,
                  NumberFormat::kFp32, reinterpret_cast<std::byte*>(tensor_.data() + to), count);
      at += count;
    }
  }

  std::string path_;
  std::vector<File> files_;
  std::map<std::string, std::vector<Stored>> pieces_;  // by tensor
  std::mutex mutex_;
  std::string name_;              // of tensor_; guarded by mutex_, as all below
  std::vector<float> tensor_;     // whole, row by row
  std::vector<std::byte> bytes_;  // of one piece
};

Result<TensorSource> SourceOf(FileSystem& files, const Checkpoint& checkpoint, StateKind kind) {
  // Shared by the copies of the source.
  FT_ASSIGN(const std::shared_ptr<WholeTensors> tensors,
            WholeTensors::Open(files, checkpoint, kind));
  return [tensors](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                   std::span<float> out) { return tensors->Read(place, row, col, out); };
}

}  // namespace

Result<std::optional<Checkpoint>> FindCheckpoint(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind != FileKind::kDirectory) return std::nullopt;
  FT_ASSIGN(const FileInfo manifest, files.Stat(path + "/" + kManifestName));
  if (manifest.kind != FileKind::kRegular) {
    FT_ASSIGN(const std::vector<CheckpointPath> inside, ListCheckpoints(files, path));
    if (inside.empty()) return std::nullopt;
  }
  FT_ASSIGN(NewestCheckpoint newest, OpenNewest(files, path));
  return std::move(newest.checkpoint);
}

Result<TensorSource> WeightsOf(FileSystem& files, const Checkpoint& checkpoint) {
  return SourceOf(files, checkpoint, StateKind::kWeight);
}

Result<TensorSource> AveragesOf(FileSystem& files, const Checkpoint& checkpoint) {
  return SourceOf(files, checkpoint, StateKind::kAverage);
}

}  // namespace foretrain
