#include "runtime/processes/wire/job_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/io/sha256.h"
#include "base/text.h"
#include "runtime/processes/wire/connection.h"
#include "runtime/processes/wire/socket.h"

namespace foretrain {
namespace {

constexpr std::size_t kMinToken = 16;
constexpr std::size_t kMaxToken = 4096;

std::string PathOf(int port) {
  return "/tmp/foretrain-" + std::to_string(geteuid()) + "-" + std::to_string(port);
}

// A Socket owns any descriptor.
Result<std::string> ReadPrivate(const std::string& path, std::size_t max_bytes) {
  const Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open()) return Fail(ErrorCode::kIo, path + ": " + std::strerror(errno));
  struct stat about {};
  if (fstat(file.get(), &about) != 0)
    return Fail(ErrorCode::kIo, path + ": " + std::strerror(errno));
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        path + ": it must be a file that its owner, this user, alone can read; chmod 600 it");
  }
  std::string text(max_bytes, '\0');
  const ssize_t bytes = read(file.get(), text.data(), text.size());
  if (bytes < 0) return Fail(ErrorCode::kIo, path + ": " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(bytes));
  return text;
}

}  // namespace

// Hashing lets the token have any length. It adds no strength to a short one, hence the minimum.
Result<std::string> KeyOfToken(const std::string& token) {
  if (token.size() >= kMinToken) return Sha256().Add(token).Finish();
  return Fail(ErrorCode::kInvalidArgument,
              "the job token has " + std::to_string(token.size()) + " characters and needs " +
                  std::to_string(kMinToken) + "; make one with `openssl rand -hex 32`");
}

Result<std::string> ReadTokenFile(const std::string& path) {
  auto text = ReadPrivate(path, kMaxToken);
  if (!text.has_value()) return Fail(ErrorCode::kInvalidArgument, text.error().message);
  return std::string(Trim(*text));
}

// O_EXCL follows no link and takes no file of another. A file that a killed run of this user has
// left is replaced; /tmp's sticky bit keeps those of others.
Result<KeyFile> KeyFile::Make(int port) {
  const std::string path = PathOf(port);
  static_cast<void>(unlink(path.c_str()));
  std::string key = RandomBytes(Sha256::kBytes);
  const Socket file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open() ||
      write(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    return Fail(ErrorCode::kIo, path + ": " + std::strerror(errno) +
                                    "; set FORETRAIN_JOB_TOKEN in every process instead");
  }
  return KeyFile(path, std::move(key));
}

KeyFile::~KeyFile() {
  if (!path_.empty()) static_cast<void>(unlink(path_.c_str()));
}

Result<std::string> ReadKeyFile(int port) {
  FT_ASSIGN(std::string key, ReadPrivate(PathOf(port), Sha256::kBytes));
  if (key.size() == Sha256::kBytes) return key;
  return Fail(ErrorCode::kIo, PathOf(port) + " is not written yet");
}

}  // namespace foretrain
