#include "app/output_file.h"

#include <unistd.h>

#include "base/file_system.h"
#include "base/text.h"

namespace foretrain {

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
  const std::string folder = ParentFolder(path);
  FT_ASSIGN(const FileInfo above, files.Stat(folder));
  if (above.kind != FileKind::kDirectory) {
    return Fail(ErrorCode::kIo, where + "there is no folder " + Printable(folder, 512) +
                                    "; make it, or name another file");
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return Fail(ErrorCode::kIo, where + "files cannot be made in " + Printable(folder, 512) +
                                    "; name another folder");
  }
  return {};
}

}  // namespace foretrain
