// Identity of the process that records into a store, enough to tell later and from another process
// whether it is alive.
#pragma once

#include <cstdint>
#include <string>

namespace foretrain::store_internal {

struct Owner {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;  // field 22 of /proc/PID/stat; differs if a pid was reused
  std::string boot{};            // id of the kernel's boot: pids are valid only within one
  std::string pid_namespace{};   // pids are valid only within one container
  std::string host{};

  bool operator==(const Owner&) const = default;
};

// This process.
Owner ThisProcess();

enum class Life { kAlive, kDead, kUnknown };

// State of the owner's process. kUnknown: it runs on another machine or in another container, where
// its pid means nothing here.
Life LifeOf(const Owner& owner);

}  // namespace foretrain::store_internal
