// For tests of durability: a file system in memory that can fail any call and lose power. Knows
// which bytes and which names were synced, and forgets the others as a disk may.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/file_system.h"

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

// What becomes of bytes and names that were not synced.
enum class PowerLoss {
  kDropAll,   // nothing that was not synced is there
  kKeepSome,  // each write and each name change is there or not, by the seed
  kGarbage    // as kKeepSome, and a kept write may hold 512-byte sectors of noise
};

// One tree for all who use it. Safe from any thread. Folders must be created before files in them.
class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem();
  ~FaultFileSystem() override;

  // The n-th call from now (0: the next) fails, and with `sticky` all after it. Calls are all those
  // of the interface and of open files, or those for which `applies` is true. A failed write has
  // written its first half. `code` is kIo or kResourceExhausted.
  void FailAt(std::int64_t n, bool sticky = false, ErrorCode code = ErrorCode::kIo,
              std::function<bool(const FileCall&)> applies = nullptr);
  void FailNever();
  // Whether FailAt has failed a call.
  bool fired() const;

  // All calls so far, in order.
  std::vector<FileCall> calls() const;

  // Cuts the power: open files answer kIo from now on, and what was not synced is treated as `loss`
  // says. Then the tree can be used again.
  void LosePower(PowerLoss loss, std::uint64_t seed);

  // As a test sets the scene: bytes of a file, synced, name and all.
  void Put(const std::string& path, const std::string& text);
  // The file's bytes now, for a look that is not a call. A missing file is a bug in the test.
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
  // What a name stands for. Shared by the names, now and at the last sync, and by open files.
  struct Node {
    std::string bytes;            // as read now
    std::string synced;           // as after a loss of power
    std::vector<Write> unsynced;  // since then, in order
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  struct NameChange {
    std::string folder;
    std::string removed;  // or empty
    std::string added;    // or empty
    std::shared_ptr<Node> node;
  };

  Result<void> Enter(FileOp op, const std::string& path);
  void ChangeName(NameChange change);
  static void Apply(const NameChange& change, Names& names);

  mutable std::mutex mutex_;
  Names names_;  // guarded by mutex_, as all below
  Names synced_names_;
  std::vector<NameChange> changes_;  // not synced, in order
  std::set<std::string> folders_;
  std::vector<FileCall> calls_;
  std::int64_t power_cycles_ = 0;
  std::int64_t fail_in_ = -1;  // -1: never
  bool sticky_ = false;
  bool fired_ = false;
  ErrorCode code_ = ErrorCode::kIo;
  std::function<bool(const FileCall&)> applies_;
};

}  // namespace foretrain
