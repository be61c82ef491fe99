// An SQLite VFS that records what a disk may hold after a loss of power. It passes every call on to
// the system's VFS, and keeps for each file the bytes of its last sync and the writes and
// truncations since. Leaves out the shared-memory file, which no process expects to survive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace foretrain {

// A write, or a truncation to `at` bytes if `bytes` is null.
struct UnsyncedCall {
  std::int64_t at = 0;
  std::shared_ptr<const std::string> bytes;  // shared by all moments at which it is unsynced
};

struct FileOnDisk {
  std::shared_ptr<const std::string> synced;  // shared by all moments until the next sync
  std::vector<UnsyncedCall> unsynced;         // in the order of the calls
};

// Files by path at one moment, and the test's own count of what had been promised by then.
struct DiskMoment {
  std::map<std::string, FileOnDisk> files;
  std::int64_t promised = 0;
};

// Fate of unsynced calls on a loss of power.
enum class Unsynced {
  kLost,     // all
  kKept,     // each is kept or lost, by the seed
  kGarbage,  // as kKept, and each piece of 512 bytes of a kept write may be noise
};

// Name of the VFS; registers it at the first call.
const char* PowerVfs();

// Records a moment before each sync and before every 16th write. `promised` is asked at each.
void RecordMoments(std::function<std::int64_t()> promised);

// Stops recording, forgets all files and returns the moments.
std::vector<DiskMoment> TakeMoments();

// Writes the file at `path` and its log as the disk may hold them, to `to` and `to`-wal.
void LosePower(const DiskMoment& moment, Unsynced fate, std::uint64_t seed, const std::string& path,
               const std::string& to);

}  // namespace foretrain
