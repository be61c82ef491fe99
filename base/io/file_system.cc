#include "base/io/file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

tl::unexpected<Error> TooLarge(const std::string& path, std::int64_t size_bytes,
                               std::int64_t max_bytes) {
  return Fail(ErrorCode::kInvalidArgument, Printable(path, 512) + ": is " +
                                               FormatBytes(size_bytes) + " or more; at most " +
                                               FormatBytes(max_bytes) + " are read");
}

// Sync comes before the rename of ReplaceFile: otherwise a loss of power could leave the new name
// with empty contents.
Result<void> WriteAndSync(FileSystem& files, const std::string& path,
                          const std::function<Result<void>(WritableFile&)>& write) {
  FT_ASSIGN(const std::unique_ptr<WritableFile> file, files.Create(path));
  FT_TRY(write(*file));
  FT_TRY(file->Sync());
  return file->Close();
}

// No other user can guess it, so none can put a file or link there first.
std::string TemporaryName(const std::string& path) {
  std::random_device random;
  return path + fmt::format(".{:08x}{:08x}.tmp", random(), random());
}

}  // namespace

Result<std::string> ReadFile(FileSystem& files, const std::string& path, std::int64_t max_bytes) {
  constexpr std::int64_t kPiece = kMiB;
  FT_CHECK(max_bytes >= 0);
  FT_ASSIGN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  if (file->size_bytes() > max_bytes) return TooLarge(path, file->size_bytes(), max_bytes);
  // Reads piece by piece up to the end of the file: the size may be reported as 0 (in /proc) or
  // grow while the file is read. The first piece is one byte larger than the file, so that one read
  // normally ends it.
  std::string text;
  std::int64_t got = 0;
  for (std::int64_t piece = std::max(kPiece, file->size_bytes() + 1);; piece = kPiece) {
    text.resize(static_cast<std::size_t>(got + piece));
    FT_ASSIGN(
        const std::int64_t more,
        file->ReadAt(
            got, std::as_writable_bytes(std::span(text)).subspan(static_cast<std::size_t>(got))));
    got += more;
    if (got > max_bytes) return TooLarge(path, got, max_bytes);
    if (more < piece) break;
  }
  text.resize(static_cast<std::size_t>(got));
  return text;
}

// The folder is synced last: rename alone makes the new name visible, but not durable.
Result<void> ReplaceFile(FileSystem& files, const std::string& path,
                         const std::function<Result<void>(WritableFile&)>& write) {
  const std::string temporary = TemporaryName(path);
  Result<void> written = WriteAndSync(files, temporary, write);
  if (written.has_value()) written = files.Rename(temporary, path);
  if (!written.has_value()) {
    // The first error is reported.
    [[maybe_unused]] const Result<void> removed = files.Remove(temporary);
    return written;
  }
  return files.SyncDirectory(ParentFolder(path));
}

Result<void> WriteFileAtomically(FileSystem& files, const std::string& path,
                                 std::string_view text) {
  return ReplaceFile(files, path, [text](WritableFile& file) {
    return file.Append(std::as_bytes(std::span(text)));
  });
}

// Trailing slashes do not count: the parent of "a/b/" is "a".
std::string ParentFolder(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const std::size_t slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  const std::size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

}  // namespace foretrain
