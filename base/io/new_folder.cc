#include "base/io/new_folder.h"

#include <fmt/format.h>

#include <random>

#include "base/text.h"

namespace foretrain {
namespace {

Result<void> CheckNew(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kMissing) return {};
  if (info.kind == FileKind::kDirectory) {
    FT_ASSIGN(const auto names, files.List(path));
    if (names.empty()) return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              Printable(path, 512) + ": exists already and is kept; give a new folder");
}

// The first error is reported, so errors of removing are dropped.
void RemoveFolder(FileSystem& files, const std::string& folder) {
  if (const auto names = files.List(folder); names.has_value()) {
    for (const std::string& name : *names) (void)files.Remove(folder + "/" + name);
  }
  (void)files.Remove(folder);
}

}  // namespace

// The folder's own names are synced before it gets its final name, and that name last.
Result<void> CreateFolder(FileSystem& files, const std::string& path,
                          const std::function<Result<void>(const std::string& folder)>& write) {
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  FT_TRY(CheckNew(files, plain));
  std::random_device random;
  const std::string folder = plain + fmt::format(".{:08x}{:08x}.tmp", random(), random());
  FT_TRY(files.CreateDirectories(folder));
  Result<void> written = write(folder);
  if (written.has_value()) written = files.SyncDirectory(folder);
  if (written.has_value()) written = files.Rename(folder, plain);
  if (!written.has_value()) {
    RemoveFolder(files, folder);
    return written;
  }
  return files.SyncDirectory(ParentFolder(plain));
}

}  // namespace foretrain
