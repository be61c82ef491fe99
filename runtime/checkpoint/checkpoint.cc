#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/io/crc32c.h"
#include "base/units.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "runtime/checkpoint/state_loader.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTextBytes = kGiB;

Result<void> ReadAll(ReadableFile& file, const std::string& path, std::int64_t at,
                     std::span<std::byte> out) {
  FT_ASSIGN(const std::int64_t got, file.ReadAt(at, out));
  if (got == static_cast<std::int64_t>(out.size())) return {};
  return Fail(ErrorCode::kCorruptInput,
              fmt::format("{}: ends at byte {}, in the middle of its tensors", path, at + got));
}

// Called with each piece of a file and its bytes, once their checksum is right.
using TakePiece =
    std::function<Result<void>(const SavedPiece& saved, std::span<const std::byte> bytes)>;

// Reads a file of tensors from its begin to its end, a piece at a time.
Result<void> ReadPieces(FileSystem& files, const std::string& path, const RankFile& index,
                        const TakePiece& take) {
  FT_ASSIGN(const auto file, files.Open(path));
  std::vector<std::byte> bytes(static_cast<std::size_t>(index.header_bytes));
  FT_TRY(ReadAll(*file, path, 0, bytes));
  if (Crc32c(bytes) != index.header_crc) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{}: bytes 0 to {} are damaged: the header", path, index.header_bytes));
  }
  for (const SavedPiece& saved : index.pieces) {
    bytes.resize(static_cast<std::size_t>(saved.bytes()));
    FT_TRY(ReadAll(*file, path, saved.begin, bytes));
    if (Crc32c(bytes) != saved.crc) {
      return Fail(
          ErrorCode::kCorruptInput,
          fmt::format("{}: bytes {} to {} are damaged: the {} of {}", path, saved.begin,
                      saved.begin + saved.bytes(), Name(saved.piece.kind), saved.piece.name));
    }
    FT_TRY(take(saved, bytes));
  }
  return {};
}

std::string ShapeOf(const StatePiece& piece) {
  return piece.rows == 1 ? fmt::format("[{}]", piece.cols)
                         : fmt::format("[{}, {}]", piece.rows, piece.cols);
}

}  // namespace

Result<void> ReadPiece(ReadableFile& file, const std::string& path, const SavedPiece& saved,
                       std::vector<std::byte>& bytes) {
  bytes.resize(static_cast<std::size_t>(saved.bytes()));
  FT_TRY(ReadAll(file, path, saved.begin, bytes));
  if (Crc32c(bytes) == saved.crc) return {};
  return Fail(ErrorCode::kCorruptInput,
              fmt::format("{}: bytes {} to {} are damaged: the {} of {}", path, saved.begin,
                          saved.begin + saved.bytes(), Name(saved.piece.kind), saved.piece.name));
}

Result<Checkpoint> Checkpoint::Open(FileSystem& files, const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  const std::string manifest = path + "/" + kManifestName;
  FT_ASSIGN(const std::string text, ReadFile(files, manifest, kMaxTextBytes));
  FT_ASSIGN(checkpoint.manifest_, ParseManifest(text, manifest));
  const std::vector<std::uint32_t>& indexes = checkpoint.manifest_.indexes;
  for (int rank = 0; rank < static_cast<int>(indexes.size()); ++rank) {
    const std::string name = path + "/" + IndexName(rank);
    FT_ASSIGN(const std::string index, ReadFile(files, name, kMaxTextBytes));
    if (Crc32c(index) != indexes[static_cast<std::size_t>(rank)]) {
      return Fail(ErrorCode::kCorruptInput,
                  name + ": its checksum is not the one in " + kManifestName +
                      "; one of the two is damaged or of another checkpoint");
    }
    FT_ASSIGN(RankFile file, ParseRankFile(index, name));
    const std::string tensors = path + "/" + TensorsName(rank);
    FT_ASSIGN(const FileInfo info, files.Stat(tensors));
    if (file.rank != rank || info.kind != FileKind::kRegular || info.size_bytes != file.bytes) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: {} bytes, but {} says {}; the file is missing or cut short",
                              tensors, info.size_bytes, IndexName(rank), file.bytes));
    }
    checkpoint.ranks_.push_back(std::move(file));
  }
  return checkpoint;
}

Result<void> Checkpoint::Verify(FileSystem& files) const {
  for (const RankFile& file : ranks_) {
    const auto nothing = [](const SavedPiece&, std::span<const std::byte>) -> Result<void> {
      return {};
    };
    FT_TRY(ReadPieces(files, path_ + "/" + TensorsName(file.rank), file, nothing));
  }
  return {};
}

Result<void> Checkpoint::CheckFits(const Program& program) const {
  std::map<std::pair<StateKind, std::string>, const StatePiece*> saved;
  for (const RankFile& file : ranks_) {
    for (const SavedPiece& one : file.pieces) {
      saved[{one.piece.kind, one.piece.name}] = &one.piece;
    }
  }
  for (const RankProgram& rank : program.ranks) {
    for (const StatePiece& piece : StateOf(program, rank)) {
      if (piece.kind == StateKind::kScalar || piece.kind == StateKind::kRank) continue;
      const auto found = saved.find({piece.kind, piece.name});
      if (found == saved.end()) {
        const char* const remedy = piece.kind == StateKind::kWeight
                                       ? "resume with the model that saved it"
                                   : piece.kind == StateKind::kAverage
                                       ? "resume without --ema, or start from its weights: --init"
                                       : "resume with the optimizer that saved it";
        return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: has no {} of {}; {}", path_,
                                                             Name(piece.kind), piece.name, remedy));
      }
      const StatePiece& other = *found->second;
      if (other.rows == piece.rows && other.cols == piece.cols) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} is {} there and {} in this model; resume with the model that "
                              "saved it",
                              path_, piece.name, ShapeOf(other), ShapeOf(piece)));
    }
  }
  return {};
}

Result<void> Checkpoint::Load(FileSystem& files, Executor& executor) const {
  const Program& program = executor.program();
  const bool same = program.hash == manifest_.program;
  std::vector<StateLoader> loaders;
  for (int r = 0; r < executor.ranks(); ++r) {
    loaders.emplace_back(program, executor.Rank(r), executor.Arena(r), same);
  }
  for (const RankFile& file : ranks_) {
    const auto take = [&](const SavedPiece& saved,
                          std::span<const std::byte> bytes) -> Result<void> {
      for (StateLoader& loader : loaders) FT_TRY(loader.Take(saved, bytes));
      return {};
    };
    FT_TRY(ReadPieces(files, path_ + "/" + TensorsName(file.rank), file, take));
  }
  for (StateLoader& loader : loaders) FT_TRY(loader.Finish());
  return {};
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t bytes = 0;
  for (const RankFile& file : ranks_) bytes += file.bytes;
  return bytes;
}

// Opens the newest first. A damaged one is passed over, so that training goes on from the one
// before.
Result<NewestCheckpoint> OpenNewest(FileSystem& files, const std::string& path, bool verify) {
  const auto open = [&](const std::string& at) -> Result<Checkpoint> {
    FT_ASSIGN(Checkpoint checkpoint, Checkpoint::Open(files, at));
    if (verify) FT_TRY(checkpoint.Verify(files));
    return checkpoint;
  };
  FT_ASSIGN(const FileInfo manifest, files.Stat(path + "/" + kManifestName));
  if (manifest.kind == FileKind::kRegular) {
    FT_ASSIGN(Checkpoint checkpoint, open(path));
    return NewestCheckpoint{std::move(checkpoint), {}};
  }
  FT_ASSIGN(const std::vector<CheckpointPath> all, ListCheckpoints(files, path));
  std::vector<std::string> damaged;
  for (const CheckpointPath& one : all) {
    auto checkpoint = open(one.path);
    if (checkpoint.has_value()) return NewestCheckpoint{*std::move(checkpoint), std::move(damaged)};
    damaged.push_back(checkpoint.error().message);
  }
  if (damaged.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ": no checkpoint in this folder; give the folder of --save");
  }
  return Fail(ErrorCode::kCorruptInput,
              fmt::format("{}: all {} checkpoints are damaged; the newest: {}", path,
                          damaged.size(), damaged.front()));
}

}  // namespace foretrain
