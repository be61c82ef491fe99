#include "runtime/device/resident_memory.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "base/units.h"

namespace foretrain {

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Writing 5 to clear_refs resets the peak to the current resident size [proc(5)].
bool ResetPeakResident() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

std::int64_t PeakResidentBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == "VmHWM:" && file >> value) return value * kKiB;
  }
  return 0;
}

}  // namespace foretrain
