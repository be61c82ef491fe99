// The seam to files: all that is written durably (checkpoints, profiles, exports) and all untrusted
// input goes through it, so that tests can make each call fail. Leaves out SQLite, which has a seam
// of its own (a VFS), and mapped or asynchronous I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// A file being written. Not thread-safe. Closing without Sync promises nothing.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes, and drops what closing says
  // Writes all of `bytes` at `offset` >= 0; the file grows as needed, with zeros between.
  virtual Result<void> WriteAt(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  // Writes all of `bytes` after the last Append.
  virtual Result<void> Append(std::span<const std::byte> bytes) = 0;
  // Returns when what was written survives a loss of power (the name needs SyncDirectory as well).
  virtual Result<void> Sync() = 0;
  // At most once, and nothing after it.
  virtual Result<void> Close() = 0;
};

// A file being read. Safe from several threads.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads up to out.size() bytes at `offset` and returns how many: fewer only at the file's end.
  virtual Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) = 0;
  // When it was opened.
  virtual std::int64_t size_bytes() const = 0;
};

enum class FileKind { kMissing, kRegular, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kMissing;
  std::int64_t size_bytes = 0;
};

// Paths are bytes as the system takes them, relative ones from the working folder. Safe from any
// thread. Errors name the path and carry the system's text: kInvalidArgument where an input cannot
// be opened, kResourceExhausted where the disk or a quota is full (with the free bytes), else kIo.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new file, or an old one made empty, with mode 0644.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Only a regular file: a folder, FIFO or device is kInvalidArgument, and does not block.
  virtual Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Replaces `to`, at once or not at all.
  virtual Result<void> Rename(const std::string& from, const std::string& to) = 0;
  // A file or an empty folder. A missing one is an error.
  virtual Result<void> Remove(const std::string& path) = 0;
  // Makes creations, renames and removals in the folder survive a loss of power.
  virtual Result<void> SyncDirectory(const std::string& path) = 0;
  // With its parents; an existing one is fine.
  virtual Result<void> CreateDirectories(const std::string& path) = 0;
  // The names in the folder, sorted, without . and ..
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  // Follows links. A missing file is not an error.
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
};

// The operating system's.
class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  Result<void> Rename(const std::string& from, const std::string& to) override;
  Result<void> Remove(const std::string& path) override;
  Result<void> SyncDirectory(const std::string& path) override;
  Result<void> CreateDirectories(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
};

// The whole of a regular file. A larger one than `max_bytes` is refused before it is read, and one
// that grows past it meanwhile as well (kInvalidArgument, with size and limit).
Result<std::string> ReadFile(FileSystem& files, const std::string& path, std::int64_t max_bytes);

// Puts `text` at `path` so that a reader, a crash or a loss of power at any time finds the old file
// or the new one: writes path.tmp, syncs, renames, syncs the folder. On an error the temporary file
// is removed where that is possible. One writer a path.
Result<void> WriteFileAtomically(FileSystem& files, const std::string& path, std::string_view text);

// `folder`/`name` for a name that came from an untrusted file. Errors: kInvalidArgument, an empty
// or absolute name, one with "..", a NUL or a backslash. Does not look at the disk: links are
// followed.
Result<std::string> PathInside(const std::string& folder, std::string_view name);

// The folder part of `path`: "a/b" gives "a", "b" gives ".", "/b" gives "/".
std::string ParentFolder(const std::string& path);

}  // namespace foretrain
