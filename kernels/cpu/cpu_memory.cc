#include "kernels/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace foretrain {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Below this size a huge page would waste more memory than it saves in TLB misses.
constexpr std::int64_t kHugeFrom = std::int64_t{4} << 20;

double GiB(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30);
}

// Value of the line "NAME:   123 kB" in bytes; -1 if there is no such line or it is malformed.
std::int64_t FindBytes(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name)) {
      continue;
    }
    line.remove_prefix(name.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::int64_t kilobytes = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), kilobytes);
    const bool is_kb = std::string_view(rest, line.data() + line.size()) == " kB";
    if (error != std::errc() || !is_kb || kilobytes < 0 || kilobytes > (std::int64_t{1} << 50)) {
      return -1;
    }
    return kilobytes * 1024;
  }
  return -1;
}

}  // namespace

// Reads MemAvailable instead of MemFree: the page cache can be given up.
bool ParseMemInfo(std::string_view text, FtMemory& out) {
  out.free_bytes = FindBytes(text, "MemAvailable:");
  out.total_bytes = FindBytes(text, "MemTotal:");
  return out.free_bytes >= 0 && out.total_bytes >= 0;
}

FtStatus CheckCpuDevice(int32_t device, char* why, size_t n) {
  if (device != 0) {
    std::snprintf(why, n, "cpu device %d: there is only device 0", device);
    return FT_FAILED;
  }
  return FT_OK;
}

// Host memory is read anew for each call, because other processes use it too.
FtStatus CpuMemory(int32_t device, FtMemory* out, char* why, size_t n) {
  if (const FtStatus status = CheckCpuDevice(device, why, n); status != FT_OK) {
    return status;
  }
  std::ifstream file("/proc/meminfo");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!ParseMemInfo(text, *out)) {
    std::snprintf(why, n,
                  "/proc/meminfo: cannot be read, or has no MemTotal and MemAvailable in kB");
    return FT_FAILED;
  }
  return FT_OK;
}

// Checks the request against MemAvailable first: under overcommit posix_memalign succeeds for
// memory that does not exist, and the process dies later.
FtStatus CpuAllocate(int32_t device, int64_t bytes, void** out, char* why, size_t n) {
  *out = nullptr;
  FtMemory memory{};
  if (const FtStatus status = CpuMemory(device, &memory, why, n); status != FT_OK) {
    return status;
  }
  if (bytes < 0) {
    std::snprintf(why, n, "cpu: asked to allocate %lld bytes", static_cast<long long>(bytes));
    return FT_FAILED;
  }
  const std::size_t alignment = bytes >= kHugeFrom ? kHugePage : kAlignment;
  const std::size_t size = bytes == 0 ? kAlignment : static_cast<std::size_t>(bytes);
  if (bytes > memory.free_bytes || posix_memalign(out, alignment, size) != 0) {
    *out = nullptr;
    std::snprintf(why, n, "cpu: out of host memory: asked %.2f GiB, free %.2f GiB of %.2f",
                  GiB(bytes), GiB(memory.free_bytes), GiB(memory.total_bytes));
    return FT_OUT_OF_MEMORY;
  }
  if (bytes >= kHugeFrom) {
    // Only a hint: if it fails, the memory still works, with more TLB misses.
    static_cast<void>(madvise(*out, size / kHugePage * kHugePage, MADV_HUGEPAGE));
  }
  return FT_OK;
}

// free() takes both alignments.
FtStatus CpuRelease(int32_t device, void* pointer, char* why, size_t n) {
  if (const FtStatus status = CheckCpuDevice(device, why, n); status != FT_OK) {
    return status;
  }
  std::free(pointer);
  return FT_OK;
}

}  // namespace foretrain
