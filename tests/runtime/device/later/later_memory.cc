#include "tests/runtime/device/later/later_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace foretrain {
namespace {

struct LaterMemory {
  std::size_t bytes = 0;
  int device = 0;
  char* real = nullptr;
};
std::mutex memory_mutex;
std::map<const char*, LaterMemory> memories;  // by the address that the device shows

// The allocation that contains `at`; end() if there is none. Call with memory_mutex held.
auto MemoryOf(const void* at) {
  auto found = memories.upper_bound(static_cast<const char*>(at));
  if (found == memories.begin()) return memories.end();
  --found;
  return static_cast<const char*>(at) < found->first + found->second.bytes ? found : memories.end();
}

}  // namespace

void* AllocateLater(std::int64_t bytes, int device) {
  const std::size_t size = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
  const int pages = memfd_create("later", MFD_CLOEXEC);
  void* shown = MAP_FAILED;
  void* real = MAP_FAILED;
  if (pages >= 0 && ftruncate(pages, static_cast<off_t>(size)) == 0) {
    shown = mmap(nullptr, size, PROT_NONE, MAP_SHARED, pages, 0);
    real = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, pages, 0);
  }
  if (pages >= 0) close(pages);
  if (shown == MAP_FAILED || real == MAP_FAILED) return nullptr;
  const std::lock_guard<std::mutex> lock(memory_mutex);
  memories[static_cast<const char*>(shown)] = {size, device, static_cast<char*>(real)};
  return shown;
}

void ReleaseLater(void* shown) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = memories.find(static_cast<const char*>(shown));
  munmap(found->second.real, found->second.bytes);
  munmap(shown, found->second.bytes);
  memories.erase(found);
}

std::optional<int> DeviceOfLater(const void* at) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = MemoryOf(at);
  if (found == memories.end()) return std::nullopt;
  return found->second.device;
}

void* ReachableLater(void* at) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = MemoryOf(at);
  if (found == memories.end()) return at;
  return found->second.real + (static_cast<const char*>(at) - found->first);
}
const void* ReachableLater(const void* at) { return ReachableLater(const_cast<void*>(at)); }

}  // namespace foretrain
