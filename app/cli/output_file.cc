#include "app/cli/output_file.h"

#include <array>
#include <span>
#include <string_view>

#include "base/io/file_system.h"
#include "base/io/writable_place.h"
#include "base/text.h"

namespace foretrain {

namespace {

// Whether the file is an SQLite database, as stores are. False for a file that cannot be read.
bool IsDatabase(FileSystem& files, const std::string& path) {
  constexpr std::string_view kSqlite("SQLite format 3\0", 16);
  const auto file = files.Open(path);
  if (!file.has_value()) return false;
  std::array<char, kSqlite.size()> head{};
  const auto got = (*file)->ReadAt(0, std::as_writable_bytes(std::span(head)));
  return got.has_value() && std::string_view(head.data(), head.size()) == kSqlite;
}

}  // namespace

// Checks the target before any work is done. The order goes from the target itself to its folder,
// so that the message names the nearest cause. A database is never replaced, because it may be the
// only copy of recorded runs.
Result<void> CheckOutputFile(const std::string& option, const std::string& path) {
  if (path.empty()) return {};
  const std::string where = option + ": " + Printable(path, 512) + ": ";
  PosixFileSystem files;
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kDirectory) {
    return Fail(ErrorCode::kIo, where + "is a folder; name a file in it");
  }
  if (info.kind == FileKind::kOther) {
    return Fail(ErrorCode::kIo, where + "is not a regular file; name one to make or replace");
  }
  if (info.kind == FileKind::kRegular && IsDatabase(files, path)) {
    return Fail(ErrorCode::kIo, where +
                                    "is a database, such as a store of runs, and is kept; name "
                                    "another file");
  }
  const std::string why = WhyNoFileCanBeMade(path);
  if (!why.empty()) return Fail(ErrorCode::kIo, where + why);
  return {};
}

}  // namespace foretrain
