// Checks before long work that its output file can be written at the end. Leaves out writing it:
// base/io/file_system.h.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain {

// Checks `path`, the value of `option`: a new file, or a regular file that is no store, in a folder
// that exists and can be written. An empty path passes. Errors: kIo, naming option, path and
// problem.
Result<void> CheckOutputFile(const std::string& option, const std::string& path);

}  // namespace foretrain
