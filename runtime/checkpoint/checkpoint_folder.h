// The checkpoints in a folder: their names, the order of their age, and removal. A folder of a step
// is a checkpoint once it has its manifest, which is written last and removed first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

inline constexpr const char* kManifestName = "manifest.json";

struct CheckpointPath {
  std::string path;
  std::int64_t step = 0;
  std::int64_t repeat = 1;  // of several checkpoints of one step, the largest is the newest
};

// All of them, newest first. A missing folder has none. Errors: the file system's.
Result<std::vector<CheckpointPath>> ListCheckpoints(FileSystem& files, const std::string& folder);

// "DIR/step-00000120", or "DIR/step-00000120-2" for the second checkpoint of a step.
std::string CheckpointPathOf(const std::string& folder, std::int64_t step, std::int64_t repeat);

// Removes the folder of a step, whole or not. A process that is killed in between leaves no
// checkpoint without some of its files.
Result<void> RemoveCheckpoint(FileSystem& files, const std::string& path);

// Removes folders of steps without a manifest, as a killed process or a failed save leaves them.
Result<void> RemoveUnfinished(FileSystem& files, const std::string& folder);

// Removes all checkpoints but the newest `keep` >= 1.
Result<void> RemoveOldCheckpoints(FileSystem& files, const std::string& folder, int keep);

}  // namespace foretrain
