#include "runtime/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/io/crc32c.h"
#include "base/stop_point.h"
#include "base/units.h"
#include "runtime/parameters/finite.h"

namespace foretrain {
namespace {

constexpr std::int64_t kWriteBytes = 8 * kMiB;

// Copies parts of a rank's buffers to host memory. A disk transfers whole buffers, so the last one
// read from there is kept: pieces of a buffer follow each other.
class StateReader {
 public:
  explicit StateReader(const RankArena& arena) : arena_(arena) {}

  Result<void> Read(const Binding& part, std::byte* to) {
    if (part.bytes == 0) return {};
    if (arena_.FileOffset(part) < 0) return arena_.ReadState(part, to);
    if (kept_.buffer != part.buffer) {
      kept_ = {part.buffer, 0, arena_.BufferBytes(part.buffer)};
      bytes_.resize(static_cast<std::size_t>(kept_.bytes));
      FT_TRY(arena_.ReadState(kept_, bytes_.data()));
    }
    std::memcpy(to, bytes_.data() + part.offset, static_cast<std::size_t>(part.bytes));
    return {};
  }

 private:
  const RankArena& arena_;
  Binding kept_{.buffer = -1};
  std::vector<std::byte> bytes_;
};

// A file left by a process that was killed would stop Create.
Result<std::unique_ptr<WritableFile>> CreateAnew(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kRegular) FT_TRY(files.Remove(path));
  return files.Create(path);
}

Result<void> AppendAll(WritableFile& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kWriteBytes));
    FT_TRY(file.Append(part));
    bytes = bytes.subspan(part.size());
  }
  return {};
}

Result<void> SyncAndClose(WritableFile& file) {
  FT_TRY(file.Sync());
  return file.Close();
}

}  // namespace

Result<Snapshot> Snapshot::Make(int rank, std::vector<StatePiece> pieces) {
  Snapshot snapshot;
  snapshot.rank_ = rank;
  // By buffer, so that each is read once and in order.
  std::stable_sort(pieces.begin(), pieces.end(), [](const StatePiece& a, const StatePiece& b) {
    return std::pair(a.data.buffer, a.data.offset) < std::pair(b.data.buffer, b.data.offset);
  });
  snapshot.pieces_ = std::move(pieces);
  for (const StatePiece& piece : snapshot.pieces_) snapshot.bytes_ += piece.bytes();
  snapshot.data_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(snapshot.bytes_)]);
  if (snapshot.data_ == nullptr) {
    return Fail(ErrorCode::kResourceExhausted,
                "rank " + std::to_string(rank) + ": no host memory for " +
                    FormatBytes(snapshot.bytes_) +
                    ", the copy of the state that a checkpoint saves");
  }
  return snapshot;
}

Result<void> Snapshot::Take(const RankArena& arena) {
  StateReader reader(arena);
  std::byte* to = data_.get();
  for (const StatePiece& piece : pieces_) {
    FT_TRY(reader.Read(piece.data, to));
    FT_TRY(reader.Read(piece.scales, to + piece.data.bytes));
    to += piece.bytes();
  }
  return {};
}

// The index is written last: it names the size and checksums of a file that is whole.
// A spoiled state must not take the place of a sound one.
Result<void> Snapshot::CheckFinite() const {
  const std::byte* at = data_.get();
  for (const StatePiece& piece : pieces_) {
    const std::span values(at, static_cast<std::size_t>(piece.data.bytes));
    const std::span scales(at + piece.data.bytes, static_cast<std::size_t>(piece.scales.bytes));
    at += piece.bytes();
    if (!FirstNotFinite(values, piece.format) && !FirstNotFinite(scales, NumberFormat::kFp32)) {
      continue;
    }
    return Fail(ErrorCode::kNotFinite, "the " + std::string(Name(piece.kind)) + " of " +
                                           piece.name + " holds a value that is infinite or NaN");
  }
  return {};
}

Result<void> Snapshot::Write(FileSystem& files, const std::string& folder) const {
  FT_TRY(CheckFinite());
  RankFile index;
  index.rank = rank_;
  const std::byte* at = data_.get();
  for (const StatePiece& piece : pieces_) {
    const std::span bytes(at, static_cast<std::size_t>(piece.bytes()));
    index.pieces.push_back({piece, 0, piece.data.bytes, piece.scales.bytes, Crc32c(bytes)});
    at += piece.bytes();
  }
  const std::string header = TensorsHeader(index.pieces);
  index.header_bytes = static_cast<std::int64_t>(header.size());
  index.header_crc = Crc32c(header);
  index.bytes = index.header_bytes;
  for (SavedPiece& saved : index.pieces) {
    saved.begin = index.bytes;
    index.bytes += saved.bytes();
  }
  StopPoint("checkpoint.file", rank_);
  FT_ASSIGN(const auto tensors, CreateAnew(files, folder + "/" + TensorsName(rank_)));
  FT_TRY(tensors->Append(std::as_bytes(std::span(header))));
  StopPoint("checkpoint.header", rank_);
  FT_TRY(AppendAll(*tensors, {data_.get(), static_cast<std::size_t>(bytes_)}));
  StopPoint("checkpoint.data", rank_);
  FT_TRY(SyncAndClose(*tensors));
  StopPoint("checkpoint.synced", rank_);
  FT_ASSIGN(const auto text, CreateAnew(files, folder + "/" + IndexName(rank_)));
  const std::string contents = RankFileText(index);
  FT_TRY(text->Append(std::as_bytes(std::span(contents))));
  FT_TRY(SyncAndClose(*text));
  StopPoint("checkpoint.index", rank_);
  return {};
}

}  // namespace foretrain
