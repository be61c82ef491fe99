#include "base/io/writable_place.h"

#include <unistd.h>

#include "base/io/file_system.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxPathBytes = 512;

}  // namespace

// The nearest folder that exists decides: a file in its place is the cause, not a folder that is
// missing below it.
std::string WhyNoFileCanBeMade(const std::string& path) {
  const std::string folder = ParentFolder(path);
  PosixFileSystem files;
  for (std::string at = folder;; at = ParentFolder(at)) {
    const auto info = files.Stat(at);
    if (!info.has_value()) {
      return "the folder " + Printable(at, kMaxPathBytes) +
             " cannot be reached: " + info.error().message + "; name another folder";
    }
    if (info->kind == FileKind::kMissing && ParentFolder(at) != at) continue;
    if (info->kind != FileKind::kDirectory) {
      return Printable(at, kMaxPathBytes) + " is not a folder; name another one";
    }
    if (at != folder) {
      return "there is no folder " + Printable(folder, kMaxPathBytes) +
             "; make it, or name another file";
    }
    if (access(folder.c_str(), W_OK | X_OK) == 0) return "";
    return "files cannot be made in " + Printable(folder, kMaxPathBytes) + "; name another folder";
  }
}

}  // namespace foretrain
