#include "app/desktop/trace_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/hash.h"
#include "base/io/file_system.h"
#include "base/text.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

constexpr auto kKept = std::chrono::hours(24 * 30);
constexpr std::int64_t kEnd = 65536;  // bytes at each end of a trace that tell it from others

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

fs::path FolderName() {
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "foretrain";
  }
  if (const std::string home = Variable("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "foretrain";
  }
  std::error_code error;
  return fs::temp_directory_path(error) / fmt::format("foretrain-{}", ::geteuid());
}

// Links are not followed, and a folder that another user could fill is refused.
Result<fs::path> PrivateFolder() {
  fs::path folder = FolderName();
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  const auto fail = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, Printable(folder.string(), 512) + ": " + why +
                                                 "; set XDG_CACHE_HOME to a folder of your own");
  };
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail(std::strerror(errno));
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return fail(std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) return fail("is not a folder");
  if (found.st_uid != ::geteuid()) return fail("belongs to another user");
  if ((found.st_mode & 077U) != 0 && ::chmod(folder.c_str(), 0700) != 0) {
    return fail("others can read it");
  }
  return folder;
}

Result<std::string> KeyOf(const std::string& path) {
  PosixFileSystem files;
  FT_ASSIGN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  struct stat info {};
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  if (error || ::stat(whole.c_str(), &info) != 0) {
    return Fail(ErrorCode::kInvalidArgument, Printable(path, 512) + ": the file is gone");
  }
  StableHash hash;
  hash.Add(std::string_view(whole.native()));
  hash.Add(file->size_bytes()).Add(info.st_mtim.tv_sec).Add(info.st_mtim.tv_nsec);
  std::string text(kEnd, '\0');
  for (const std::int64_t at :
       {std::int64_t{0}, std::max<std::int64_t>(0, file->size_bytes() - kEnd)}) {
    FT_ASSIGN(const std::int64_t got, file->ReadAt(at, std::as_writable_bytes(std::span(text))));
    hash.Add(std::string_view(text).substr(0, static_cast<std::size_t>(got)));
  }
  return fmt::format("{}-{:016x}", whole.filename().string().substr(0, 80), hash.Value());
}

// Errors are dropped: an old store that stays does no harm.
void RemoveOld(const fs::path& folder) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto written = entry.last_write_time(error);
    if (!error && now - written > kKept) old.push_back(entry.path());
  }
  for (const fs::path& path : old) fs::remove(path, error);
}

}  // namespace

// The import goes to a file of its own that is then renamed, so that an import that was killed
// leaves no store under the final name.
Result<std::string> CachedStore(const std::string& path,
                                const std::function<Result<void>(const std::string&)>& import) {
  FT_ASSIGN(const std::string key, KeyOf(path));
  FT_ASSIGN(const fs::path folder, PrivateFolder());
  RemoveOld(folder);
  const fs::path store = folder / (key + ".db");
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(store, error))) {
    fs::last_write_time(store, fs::file_time_type::clock::now(), error);
    return store.string();
  }
  const std::string written = store.string() + fmt::format(".{}", ::getpid());
  const Result<void> end = import(written);
  if (!end.has_value()) {
    fs::remove(written, error);
    return tl::unexpected<Error>(end.error());
  }
  PosixFileSystem files;
  FT_TRY(files.Rename(written, store.string()));
  return store.string();
}

}  // namespace foretrain
