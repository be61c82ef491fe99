// Creates a folder of files at once. Leaves out single files: file_system.h.
#pragma once

#include <functional>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// Lets `write` fill a temporary folder beside `path` and renames it to `path`, so that a reader
// sees all of its files or none, even after a crash or a loss of power. `write` gets the temporary
// folder's path and syncs the files that it creates. After an error the temporary folder and its
// files are removed if possible.
//
// Errors: kInvalidArgument, `path` exists and is no empty folder; those of `write` and of the file
// system.
Result<void> CreateFolder(FileSystem& files, const std::string& path,
                          const std::function<Result<void>(const std::string& folder)>& write);

}  // namespace foretrain
