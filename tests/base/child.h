// Work in a child process, which can be killed or get its own file system.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace foretrain {

// A child that runs `work` and sends back its result; `report` sends numbers meanwhile.
class Child {
 public:
  using Report = std::function<void(std::int64_t)>;
  explicit Child(const std::function<std::string(const Report& report)>& work);
  ~Child();  // kills the child if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Kill();
  // Waits for the next reported number; `nullopt` at the end.
  std::optional<std::int64_t> NextReport();
  // Waits for the end. Returns the result of `work`, or "died".
  std::string Wait();

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
  std::string result_;
};

// The result of `work`, run in a child process.
std::string InChild(const std::function<std::string()>& work);

// In a child: mounts an empty in-memory file system of `bytes` at `folder`, visible to this process
// only. False if not permitted.
bool MountMemory(const std::string& folder, std::int64_t bytes);
// Changes its size, or makes it read-only.
bool RemountWithBytes(const std::string& folder, std::int64_t bytes);
bool RemountReadOnly(const std::string& folder);

}  // namespace foretrain
