#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Linux transfers at most 2^31 - 4096 bytes a call
constexpr std::size_t kMaxAtOnce = std::size_t{1} << 30;

// "; free there: 12.0 MiB" for the disk that holds `path`, or "" if it is unknown.
std::string FreeText(const std::string& path) {
  struct statvfs disk {};
  if (statvfs(ParentFolder(path).c_str(), &disk) != 0) return "";
  const auto free_bytes = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
  return "; free there: " + FormatBytes(free_bytes);
}

// A full disk, quota or file size limit is always kResourceExhausted, and the message then adds the
// free bytes. Other errors get `code`.
tl::unexpected<Error> SystemError(const std::string& path, const char* doing, int number,
                                  ErrorCode code = ErrorCode::kIo) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  std::string message = Printable(path, 512) + ": " + doing + ": " +
                        std::generic_category().message(number) + (full ? FreeText(path) : "");
  return Fail(full ? ErrorCode::kResourceExhausted : code, std::move(message));
}

// Owns a file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

int OpenRetrying(const std::string& path, int flags) {
  for (;;) {
    const int number = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (number >= 0 || errno != EINTR) return number;
  }
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  // pwrite may write fewer bytes than asked or be interrupted; the loop continues where it stopped.
  Result<void> WriteAt(std::int64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          pwrite(descriptor_.number(), bytes.data(), std::min(bytes.size(), kMaxAtOnce), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return SystemError(
            path_, ("writing " + FormatBytes(static_cast<std::int64_t>(bytes.size()))).c_str(),
            errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += written;
    }
    return {};
  }

  Result<void> Append(std::span<const std::byte> bytes) override {
    FT_TRY(WriteAt(end_, bytes));
    end_ += static_cast<std::int64_t>(bytes.size());
    return {};
  }

  // Not retried after an error: the kernel may have dropped the dirty pages, and a second fsync
  // then reports success although the bytes are lost.
  Result<void> Sync() override {
    if (fsync(descriptor_.number()) != 0) return SystemError(path_, "syncing", errno);
    return {};
  }

  // EINTR counts as closed: Linux has released the descriptor, and a retry could close another
  // file.
  Result<void> Close() override {
    if (close(descriptor_.Release()) != 0 && errno != EINTR) {
      return SystemError(path_, "closing", errno);
    }
    return {};
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t end_ = 0;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, Descriptor descriptor, const struct stat& info)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        size_bytes_(info.st_size),
        modified_(info.st_mtim) {}

  // pread keeps no file position, so several threads may read the file at once.
  Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          pread(descriptor_.number(), out.data() + done, std::min(out.size() - done, kMaxAtOnce),
                offset + static_cast<std::int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return SystemError(path_, "reading", errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return static_cast<std::int64_t>(done);
  }

  std::int64_t size_bytes() const override { return size_bytes_; }

  Result<void> CheckUnchanged() override {
    struct stat now {};
    if (fstat(descriptor_.number(), &now) != 0) return SystemError(path_, "looking at", errno);
    if (now.st_size == size_bytes_ && now.st_mtim.tv_sec == modified_.tv_sec &&
        now.st_mtim.tv_nsec == modified_.tv_nsec) {
      return {};
    }
    return Fail(ErrorCode::kCorruptInput,
                Printable(path_, 512) + ": was changed while it was in use: it had " +
                    FormatBytes(size_bytes_) + " and has " + FormatBytes(now.st_size));
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_bytes_;
  timespec modified_;
};

FileKind KindOf(const struct stat& info) {
  if (S_ISREG(info.st_mode)) return FileKind::kRegular;
  return S_ISDIR(info.st_mode) ? FileKind::kDirectory : FileKind::kOther;
}

}  // namespace

Result<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path) {
  Descriptor descriptor(OpenRetrying(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  if (descriptor.number() < 0) return SystemError(path, "creating", errno);
  return std::make_unique<PosixWritableFile>(path, std::move(descriptor));
}

Result<std::unique_ptr<ReadableFile>> PosixFileSystem::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO would otherwise wait for its writer.
  Descriptor descriptor(OpenRetrying(path, O_RDONLY | O_NONBLOCK));
  if (descriptor.number() < 0) {
    return SystemError(path, "opening", errno, ErrorCode::kInvalidArgument);
  }
  struct stat info {};
  if (fstat(descriptor.number(), &info) != 0) {
    return SystemError(path, "opening", errno, ErrorCode::kInvalidArgument);
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                Printable(path, 512) + (S_ISDIR(info.st_mode) ? ": is a folder, not a file"
                                                              : ": is not a regular file"));
  }
  return std::make_unique<PosixReadableFile>(path, std::move(descriptor), info);
}

Result<void> PosixFileSystem::Rename(const std::string& from, const std::string& link_or_file) {
  // A link is resolved first, so that its target is replaced and the link stays. A device or FIFO
  // (/dev/stdout may be one) is refused rather than replaced by a file.
  struct stat info {};
  std::string to = link_or_file;
  if (lstat(to.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    const std::unique_ptr<char, decltype(&free)> real(realpath(to.c_str(), nullptr), &free);
    if (real != nullptr) to = real.get();
  }
  if (stat(to.c_str(), &info) == 0 && KindOf(info) == FileKind::kOther) {
    return Fail(ErrorCode::kInvalidArgument,
                Printable(link_or_file, 512) + ": is not a regular file, and is left alone");
  }
  if (rename(from.c_str(), to.c_str()) != 0) {
    return SystemError(from, ("renaming to " + Printable(to, 512)).c_str(), errno);
  }
  return {};
}

Result<void> PosixFileSystem::Remove(const std::string& path) {
  if (remove(path.c_str()) != 0) return SystemError(path, "removing", errno);
  return {};
}

Result<void> PosixFileSystem::SyncDirectory(const std::string& path) {
  const Descriptor descriptor(OpenRetrying(path, O_RDONLY | O_DIRECTORY));
  if (descriptor.number() < 0) return SystemError(path, "opening the folder", errno);
  // EINVAL: the file system cannot sync folders, so there is nothing to wait for.
  if (fsync(descriptor.number()) != 0 && errno != EINVAL) {
    return SystemError(path, "syncing the folder", errno);
  }
  return {};
}

// Creates each prefix of the path that ends before a slash. A failed mkdir is fine if the folder
// exists, also when another process has just created it.
Result<void> PosixFileSystem::CreateDirectories(const std::string& path) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0755) == 0) continue;
    const int number = errno;
    struct stat info {};
    const bool is_folder = stat(part.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (!is_folder) return SystemError(part, "creating the folder", number);
  }
  return {};
}

// readdir reports an error only through errno, so errno is cleared before each call. The names are
// sorted because the system returns them in no fixed order.
Result<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  const auto close_folder = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(close_folder)> folder(opendir(path.c_str()), close_folder);
  if (folder == nullptr) {
    return SystemError(path, "listing", errno, ErrorCode::kInvalidArgument);
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return SystemError(path, "listing", errno);
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileInfo> PosixFileSystem::Stat(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return FileInfo{};
    return SystemError(path, errno == EACCES ? "entering its folder" : "looking at it", errno);
  }
  return FileInfo{KindOf(info), info.st_size};
}

}  // namespace foretrain
