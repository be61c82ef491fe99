// Host memory as device memory: how much there is, and allocations that say honestly why they fail.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/device_api.h"

namespace foretrain {

// Reads the text of /proc/meminfo: `free_bytes` is MemAvailable (what can be had without swapping),
// `total_bytes` MemTotal. Returns false when either line is missing or is no number of kB.
bool ParseMemInfo(std::string_view text, FtMemory& out);

// Entries of the table; device_api.h has their contract. Allocations are 256-byte aligned; from 4
// MiB up they lie on 2 MiB pages where the system grants them. More than MemAvailable is refused:
// Linux would promise it and kill the process when it is used.
FtStatus CpuMemory(int32_t device, FtMemory* out, char* why, size_t n);
FtStatus CpuAllocate(int32_t device, int64_t bytes, void** out, char* why, size_t n);
FtStatus CpuRelease(int32_t device, void* pointer, char* why, size_t n);

// FT_OK for device 0; this machine's processors are one device.
FtStatus CheckCpuDevice(int32_t device, char* why, size_t n);

}  // namespace foretrain
