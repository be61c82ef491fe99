// Stores of traces that the desktop has opened, in a folder that only the user can read:
// $XDG_CACHE_HOME/foretrain, else ~/.cache/foretrain, else foretrain-UID in the folder for
// temporary files.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace foretrain {

// The store of the trace at `path`. `import` writes it to the path it is given, unless the folder
// has it from an earlier call. Traces are told apart by absolute path, size, time of change and
// content of both ends. Stores that were not opened for 30 days are removed.
//
// Errors: kInvalidArgument, no file at `path`, or a folder that others can write; those of
// `import`.
Result<std::string> CachedStore(const std::string& path,
                                const std::function<Result<void>(const std::string&)>& import);

}  // namespace foretrain
