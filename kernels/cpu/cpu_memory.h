// Host memory as device memory: free and total bytes, and allocations that report why they fail.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/device_api.h"

namespace foretrain {

// Parses the text of /proc/meminfo. free_bytes is MemAvailable (memory available without swapping),
// total_bytes is MemTotal. Returns false if either line is missing or has no number of kB.
bool ParseMemInfo(std::string_view text, FtMemory& out);

// Entries of the table; device_api.h has their contract. Allocations are 256-byte aligned; from 4
// MiB up they use 2 MiB pages if the system grants them. A request above MemAvailable is refused:
// Linux would grant it and kill the process on use.
FtStatus CpuMemory(int32_t device, FtMemory* out, char* why, size_t n);
FtStatus CpuAllocate(int32_t device, int64_t bytes, void** out, char* why, size_t n);
FtStatus CpuRelease(int32_t device, void* pointer, char* why, size_t n);

// FT_OK for device 0. All processors of the host form one device.
FtStatus CheckCpuDevice(int32_t device, char* why, size_t n);

}  // namespace foretrain
