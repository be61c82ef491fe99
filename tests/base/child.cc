#include "tests/base/child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

namespace foretrain {
namespace {

constexpr char kReport = 'r';
constexpr char kResult = 't';

void WriteAll(int file, const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t wrote = write(file, at, size);
    if (wrote <= 0) return;
    at += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
}

bool ReadAll(int file, void* bytes, std::size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = read(file, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void Send(int file, char kind, const void* bytes, std::int64_t size) {
  std::array<char, 9> head{kind};
  std::memcpy(head.data() + 1, &size, sizeof(size));
  WriteAll(file, head.data(), head.size());
  WriteAll(file, bytes, static_cast<std::size_t>(size));
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

Child::Child(const std::function<std::string(const Report&)>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return;
  pid_ = fork();
  if (pid_ != 0) {
    close(ends[1]);
    from_child_ = ends[0];
    return;
  }
  close(ends[0]);
  const std::string result =
      work([&ends](std::int64_t value) { Send(ends[1], kReport, &value, sizeof(value)); });
  Send(ends[1], kResult, result.data(), static_cast<std::int64_t>(result.size()));
  _exit(0);
}

Child::~Child() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
  if (from_child_ >= 0) close(from_child_);
}

void Child::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

std::optional<std::int64_t> Child::NextReport() {
  std::array<char, 9> head{};
  if (!ReadAll(from_child_, head.data(), head.size())) return std::nullopt;
  std::int64_t size = 0;
  std::memcpy(&size, head.data() + 1, sizeof(size));
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (!ReadAll(from_child_, bytes.data(), bytes.size())) return std::nullopt;
  if (head[0] == kResult) {
    result_ = bytes;
    return std::nullopt;
  }
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string Child::Wait() {
  result_ = "died";
  while (NextReport().has_value()) {
  }
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  pid_ = -1;
  return result_;
}

std::string InChild(const std::function<std::string()>& work) {
  return Child([&work](const Child::Report&) { return work(); }).Wait();
}

bool MountMemory(const std::string& folder, std::int64_t bytes) {
  const std::string user = std::to_string(getuid());
  const std::string group = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
    WriteText("/proc/self/setgroups", "deny");
    WriteText("/proc/self/uid_map", "0 " + user + " 1");
    WriteText("/proc/self/gid_map", "0 " + group + " 1");
  } else if (unshare(CLONE_NEWNS) != 0) {
    return false;
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const std::string size = "size=" + std::to_string(bytes);
  return mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

bool RemountWithBytes(const std::string& folder, std::int64_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  return mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT, size.c_str()) == 0;
}

bool RemountReadOnly(const std::string& folder) {
  return mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

}  // namespace foretrain
