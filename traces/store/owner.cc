#include "traces/store/owner.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string_view>

namespace foretrain::store_internal {
namespace {

// Reads a /proc file, which reports no size.
std::string ReadProc(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Start time of a process in clock ticks since boot; 0 if it does not exist or is a zombie.
std::int64_t StartTicksOf(std::int64_t pid) {
  const std::string stat = ReadProc("/proc/" + std::to_string(pid) + "/stat");
  // "pid (name) state ppid ...": the name may contain spaces and parentheses, so the last ')' ends
  // it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::string_view rest = std::string_view(stat).substr(name_end + 1);
  // `state` is field 3, the start time field 22.
  for (int field = 3; field <= 22; ++field) {
    const std::size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return 0;
    rest.remove_prefix(begin);
    const std::size_t end = rest.find_first_of(" \n");
    const std::string_view text = rest.substr(0, end);
    if (field == 3 && (text == "Z" || text == "X")) return 0;
    if (field == 22) {
      std::int64_t ticks = 0;
      std::from_chars(text.data(), text.data() + text.size(), ticks);
      return ticks;
    }
    if (end == std::string_view::npos) return 0;
    rest.remove_prefix(end);
  }
  return 0;
}

std::string BootId() {
  std::string boot = ReadProc("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return boot;
}

std::string PidNamespace() {
  std::array<char, 64> text{};
  const ssize_t size = readlink("/proc/self/ns/pid", text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
}

std::string HostName() {
  std::array<char, 256> text{};
  return gethostname(text.data(), text.size() - 1) == 0 ? std::string(text.data()) : "";
}

}  // namespace

Owner ThisProcess() {
  const std::int64_t pid = getpid();
  return {.pid = pid,
          .start_ticks = StartTicksOf(pid),
          .boot = BootId(),
          .pid_namespace = PidNamespace(),
          .host = HostName()};
}

// A pid alone proves nothing: it may have been reused. Equal start time and boot identify the
// process; on another machine or in another container the answer is unknown.
Life LifeOf(const Owner& owner) {
  if (owner.host != HostName() || owner.pid_namespace != PidNamespace()) return Life::kUnknown;
  if (owner.boot != BootId()) return Life::kDead;
  const std::int64_t ticks = StartTicksOf(owner.pid);
  return ticks != 0 && ticks == owner.start_ticks ? Life::kAlive : Life::kDead;
}

}  // namespace foretrain::store_internal
