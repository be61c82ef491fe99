#include "runtime/device/core_wait.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace foretrain {

CoreWait::CoreWait() { SinceLast(); }

// schedstat: nanoseconds on a core, nanoseconds of waiting for one, turns [Linux,
// Documentation/scheduler/sched-stats.rst].
std::optional<std::int64_t> CoreWait::SinceLast() {
  std::map<int, std::int64_t> now;
  std::int64_t sum_ns = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    int thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    std::ifstream file(at->path() / "schedstat");
    std::int64_t ran_ns = 0, waited_ns = 0;
    if (!(file >> ran_ns >> waited_ns)) continue;
    now[thread] = waited_ns;
    const auto before = waited_ns_.find(thread);
    sum_ns += waited_ns - (before == waited_ns_.end() ? 0 : before->second);
  }
  waited_ns_ = std::move(now);
  if (waited_ns_.empty()) return std::nullopt;
  return sum_ns;
}

}  // namespace foretrain
