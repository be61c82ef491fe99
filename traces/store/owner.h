// Who records into a store: enough of a process to tell, later and from another one, whether it
// lives.
#pragma once

#include <cstdint>
#include <string>

namespace foretrain::store_internal {

struct Owner {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;  // field 22 of /proc/PID/stat: a pid used again differs here
  std::string boot{};            // of the kernel's boot: pids mean nothing after another
  std::string pid_namespace{};   // nor in another container
  std::string host{};

  bool operator==(const Owner&) const = default;
};

// This process.
Owner ThisProcess();

enum class Life { kAlive, kDead, kUnknown };

// Whether the owner's process runs. kUnknown: it was started where its pid means nothing here, on
// another machine or in another container.
Life LifeOf(const Owner& owner);

}  // namespace foretrain::store_internal
