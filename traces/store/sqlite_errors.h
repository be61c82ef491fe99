// Errors of SQLite as ours.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain::store_internal {

// A lock of another process is waited for at most this long.
inline constexpr int kBusyTimeoutMs = 10'000;

// The Error of a failed call on the file at `path`. Its text names the file, SQLite's reason and,
// for a full disk, the free space and what to do.
//   code          extended result code
//   system_error  errno of the call; 0: none
//   text          of SQLite, printable
Error MakeError(int code, int system_error, const std::string& text, const std::string& path);

}  // namespace foretrain::store_internal
