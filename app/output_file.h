// Whether a file that is written at the end of long work can be written, asked before the work.
// Leaves out writing it: base/file_system.h.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain {

// `path` is what `option` names: a regular file or nothing yet, in a folder that is there and may
// be written. An empty path passes. Errors: kIo, naming option, path and what is wrong.
Result<void> CheckOutputFile(const std::string& option, const std::string& path);

}  // namespace foretrain
