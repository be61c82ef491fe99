#include "tests/kernels/gpu/allocations.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace foretrain::test {
namespace {

// Allocator of the notes themselves, whose memory is not noted.
template <class T>
struct Unnoted {
  using value_type = T;
  Unnoted() = default;
  template <class U>
  explicit Unnoted(const Unnoted<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    void* const memory = std::malloc(count * sizeof(T));
    if (memory == nullptr) std::abort();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t /*count*/) { std::free(memory); }
  bool operator==(const Unnoted&) const { return true; }
};

struct Notes {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t, std::less<>,
           Unnoted<std::pair<const std::uintptr_t, std::size_t>>>
      bytes;  // key: address of the first byte; guarded by mutex
};

// Never destroyed, because objects of other sources free memory after the last test.
Notes& AllNotes() {
  alignas(Notes) static std::byte memory[sizeof(Notes)];
  static Notes* const notes = new (memory) Notes;
  return *notes;
}

void* Allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) std::abort();
  Notes& notes = AllNotes();
  const std::lock_guard lock(notes.mutex);
  notes.bytes[reinterpret_cast<std::uintptr_t>(memory)] = size;
  return memory;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  {
    Notes& notes = AllNotes();
    const std::lock_guard lock(notes.mutex);
    notes.bytes.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  std::free(memory);
}

}  // namespace

Range AllocationOf(std::uintptr_t address) {
  Notes& notes = AllNotes();
  const std::lock_guard lock(notes.mutex);
  auto found = notes.bytes.upper_bound(address);
  if (found == notes.bytes.begin()) return {};
  --found;
  return address <= found->first + found->second ? Range{found->first, found->second} : Range{};
}

Range StackFrom(std::uintptr_t address, std::size_t most) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* stack = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<std::uintptr_t>(stack);
  if (address < begin || address >= begin + bytes) return {};
  return {address, std::min<std::size_t>(most, begin + bytes - address)};
}

bool IsMapped(std::uintptr_t address) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return false;
  unsigned long begin = 0, end = 0;
  bool found = false;
  char rest[512];
  while (!found && std::fscanf(maps, "%lx-%lx", &begin, &end) == 2) {
    found = address >= begin && address < end;
    if (std::fgets(rest, sizeof rest, maps) == nullptr) break;
  }
  std::fclose(maps);
  return found;
}

}  // namespace foretrain::test

// Replaces operator new of the executable. By the standard, arrays and nothrow forms call it too.
void* operator new(std::size_t bytes) {
  return foretrain::test::Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return foretrain::test::Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { foretrain::test::Free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  foretrain::test::Free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  foretrain::test::Free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  foretrain::test::Free(memory);
}
