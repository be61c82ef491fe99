#include "traces/store/sqlite_errors.h"

#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/units.h"

namespace foretrain::store_internal {
namespace {

// True if a failed write may be due to the limit on file sizes, which SQLite reports like any other
// failed write.
bool HasSizeLimit(int code) {
  rlimit limit{};
  return (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_TRUNCATE) &&
         getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// SQLite reports a full disk as FULL, or as an I/O error with the system's error number.
bool IsFull(int code, int system_error) {
  return (code & 0xFF) == SQLITE_FULL ||
         ((code & 0xFF) == SQLITE_IOERR && (system_error == ENOSPC || system_error == EDQUOT));
}

// Maps SQLite's primary result codes to ours.
ErrorCode CodeOf(int code) {
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
      return ErrorCode::kCorruptInput;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorCode::kInvalidArgument;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kTimeout;
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return ErrorCode::kResourceExhausted;
    case SQLITE_INTERRUPT:
      return ErrorCode::kAborted;
    default:
      return ErrorCode::kIo;
  }
}

// " (12.0 MiB free on its file system)"; "" if it is unknown.
std::string FreeText(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) return "";
  const auto free = static_cast<std::int64_t>(
      std::min<std::uintmax_t>(space.available, std::numeric_limits<std::int64_t>::max()));
  return " (" + FormatBytes(free) + " free on its file system)";
}

}  // namespace

Error MakeError(int code, int system_error, const std::string& text, const std::string& path) {
  const bool limited = HasSizeLimit(code);
  if (limited || IsFull(code, system_error)) {
    return {ErrorCode::kResourceExhausted,
            path + ": " +
                (limited ? "the limit on file sizes (ulimit -f) is reached" : "the disk is full") +
                FreeText(path) + ": " + text + "; what was committed before is safe: " +
                (limited ? "raise the limit" : "free some space") + " and go on"};
  }
  std::string system;
  const bool of_system = (code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN;
  if (system_error != 0 && of_system) {
    system = " (" + std::generic_category().message(system_error) + ")";
  }
  if ((code & 0xFF) == SQLITE_BUSY) {
    return {ErrorCode::kTimeout, path + ": stayed locked by another process for " +
                                     std::to_string(kBusyTimeoutMs / 1'000) + " s; try again"};
  }
  return {CodeOf(code), path + ": " + text + system};
}

}  // namespace foretrain::store_internal
