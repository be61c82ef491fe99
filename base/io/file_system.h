// Interface to files. Everything written durably (checkpoints, profiles, exports) and all untrusted
// input goes through it, so that tests can make each call fail. SQLite has an interface of its own
// (a VFS); mapped and asynchronous I/O go to the system directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// A file being written. Not thread-safe. Close without Sync guarantees nothing after a loss of
// power.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes the file; errors of closing are lost
  // Writes all of `bytes` at `offset` >= 0; the file grows as needed, with zeros between.
  virtual Result<void> WriteAt(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  // Writes all of `bytes` after the last Append.
  virtual Result<void> Append(std::span<const std::byte> bytes) = 0;
  // Returns once all written bytes survive a loss of power. The file's name needs SyncDirectory
  // too.
  virtual Result<void> Sync() = 0;
  // Called at most once, and no call may follow it.
  virtual Result<void> Close() = 0;
};

// A file being read. Safe from several threads.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads up to out.size() bytes at `offset` and returns the number read. Fewer than asked for
  // means the end of the file.
  virtual Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) = 0;
  // Size when the file was opened.
  virtual std::int64_t size_bytes() const = 0;
  // Fails if size or modification time differ from those when the file was opened. Errors:
  // kCorruptInput, naming the file.
  virtual Result<void> CheckUnchanged() = 0;
};

enum class FileKind { kMissing, kRegular, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kMissing;
  std::int64_t size_bytes = 0;
};

// Paths are bytes as the system takes them; relative paths start from the working folder. Safe from
// any thread. Errors name the path and carry the system's text: kInvalidArgument if an input cannot
// be opened, kResourceExhausted (with the free bytes) if the disk or a quota is full, else kIo.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file with mode 0644. Anything that exists under the name is an error, also a link.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Opens a regular file. A folder, FIFO or device is refused with kInvalidArgument, without
  // blocking.
  virtual Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Replaces `to` atomically.
  virtual Result<void> Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty folder. A missing one is an error.
  virtual Result<void> Remove(const std::string& path) = 0;
  // Makes creations, renames and removals in the folder survive a loss of power.
  virtual Result<void> SyncDirectory(const std::string& path) = 0;
  // Creates the folder and its parents. An existing folder is fine.
  virtual Result<void> CreateDirectories(const std::string& path) = 0;
  // The names in the folder, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  // Kind and size of a file; follows links. A missing file is kMissing, not an error.
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
};

// The operating system's files.
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

// The contents of a regular file. Errors: kInvalidArgument, with size and limit, if the file is
// larger than `max_bytes` or grows past it while it is read. A file that is too large is refused
// before it is read.
Result<std::string> ReadFile(FileSystem& files, const std::string& path, std::int64_t max_bytes);

// Writes a file with `write` and puts it in place of `path`, so that a reader sees the old or the
// new file, even after a crash or a loss of power. Steps: write a temporary file beside it, sync,
// rename, sync the folder. After an error the temporary file is removed if possible.
Result<void> ReplaceFile(FileSystem& files, const std::string& path,
                         const std::function<Result<void>(WritableFile&)>& write);
// The same with `text`.
Result<void> WriteFileAtomically(FileSystem& files, const std::string& path, std::string_view text);

// The folder part of `path`: "a/b" gives "a", "b" gives ".", "/b" gives "/".
std::string ParentFolder(const std::string& path);

}  // namespace foretrain
