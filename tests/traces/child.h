// Work in a child process, which may be killed or be given a file system of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace foretrain {

// A child that runs `work` and sends what it returns; `report` sends a number meanwhile.
class Child {
 public:
  using Report = std::function<void(std::int64_t)>;
  explicit Child(const std::function<std::string(const Report& report)>& work);
  ~Child();  // kills it where it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Kill();
  // The next number reported, waited for; nothing at the end.
  std::optional<std::int64_t> NextReport();
  // Waits for the end: what `work` returned, or "died" when it did not return.
  std::string Wait();

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
  std::string result_;
};

// What `work` returns in a child of its own.
std::string InChild(const std::function<std::string()>& work);

// For use in a child: mounts an empty file system of `bytes` in memory at `folder`, seen by this
// process alone. False: this user or system may not.
bool MountMemory(const std::string& folder, std::int64_t bytes);
// And makes it another size, or read-only.
bool RemountWithBytes(const std::string& folder, std::int64_t bytes);
bool RemountReadOnly(const std::string& folder);

}  // namespace foretrain
