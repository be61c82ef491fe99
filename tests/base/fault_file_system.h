// A file system in memory for durability tests: it can fail any call and lose power. It tracks
// which bytes and names were synced, and on a loss of power drops the others as a disk may.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/io/file_system.h"

namespace foretrain {

enum class FileOp {
  kCreate,
  kOpen,
  kRead,
  kWrite,
  kSync,
  kClose,
  kRename,
  kRemove,
  kSyncDirectory,
  kCreateDirectories,
  kList,
  kStat
};

struct FileCall {
  FileOp op = FileOp::kStat;
  std::string path;
  bool failed = false;
};

// Fate of unsynced bytes and names on a loss of power.
enum class PowerLoss {
  kDropAll,   // every unsynced byte and name is lost
  kKeepSome,  // each write and each name change is kept or lost, by the seed
  kGarbage    // as kKeepSome, and a kept write may hold 512-byte sectors of noise
};

// One tree for all users of the object. Safe from any thread. Folders must exist before their
// files.
class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem();
  ~FaultFileSystem() override;

  // Fails the n-th call from now (0: the next), and with `sticky` all later ones. Counted are all
  // calls of this interface and of open files, or those for which `applies` is true. A failed write
  // has written its first half. `code` is kIo or kResourceExhausted.
  void FailAt(std::int64_t n, bool sticky = false, ErrorCode code = ErrorCode::kIo,
              std::function<bool(const FileCall&)> applies = nullptr);
  void FailNever();
  // True once FailAt has failed a call.
  bool fired() const;

  // All calls so far, in order.
  std::vector<FileCall> calls() const;

  // Cuts the power: open files answer kIo from now on, and `loss` decides which unsynced bytes and
  // names survive. A folder whose parent was not synced since it was made may be lost with all that
  // is in it. The tree can be used again afterwards.
  void LosePower(PowerLoss loss, std::uint64_t seed);

  // Sets up a test: writes a file whose bytes and name count as synced.
  void Put(const std::string& path, const std::string& text);
  // The file's bytes now; not counted as a call. A missing file is a bug in the test.
  std::string Get(const std::string& path) const;
  bool Exists(const std::string& path) const;

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  Result<void> Rename(const std::string& from, const std::string& to) override;
  Result<void> Remove(const std::string& path) override;
  Result<void> SyncDirectory(const std::string& path) override;
  Result<void> CreateDirectories(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;

 private:
  class Writer;
  class Reader;
  struct Write {
    std::int64_t offset;
    std::string bytes;
  };
  // Contents of a file. Shared by the current names, the names at the last sync, and open files.
  struct Node {
    std::string bytes;            // as read now
    std::string synced;           // as after a loss of power
    std::vector<Write> unsynced;  // writes since the last sync, in order
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  // Names in one folder change together with the node they bind.
  struct NameChange {
    std::string folder;
    std::string removed;  // or empty
    std::string added;    // or empty
    std::shared_ptr<Node> node;
  };

  Result<void> Enter(FileOp op, const std::string& path);
  void ChangeName(NameChange change);
  static void Apply(const NameChange& change, Names& names);
  void LoseFolder(const std::string& folder);

  mutable std::mutex mutex_;
  Names names_;  // guarded by mutex_, as all below
  Names synced_names_;
  std::vector<NameChange> changes_;  // not synced, in order
  std::set<std::string> folders_;
  std::set<std::string> unsynced_folders_;
  std::vector<FileCall> calls_;
  std::int64_t power_cycles_ = 0;
  std::int64_t fail_in_ = -1;  // -1: never
  bool sticky_ = false;
  bool fired_ = false;
  ErrorCode code_ = ErrorCode::kIo;
  std::function<bool(const FileCall&)> applies_;
};

}  // namespace foretrain
