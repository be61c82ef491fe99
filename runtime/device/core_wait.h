// Time for which threads that could run waited for a core: other programs run on the machine, or
// there are more threads than cores.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace foretrain {

class CoreWait {
 public:
  CoreWait();

  // Nanoseconds that all threads of this process waited since the last call, or since the object
  // was made, together; `nullopt` if the system does not count them. A thread that ended since then
  // is missed. Reads a file for each thread, about 10 us.
  std::optional<std::int64_t> SinceLast();

 private:
  std::map<int, std::int64_t> waited_ns_;  // by thread id
};

}  // namespace foretrain
