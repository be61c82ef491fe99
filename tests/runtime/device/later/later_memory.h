// Memory of the asynchronous device, which the host cannot access. Its pages are mapped twice: at
// the address that the device shows, where any access ends the process as a host's access to a
// GPU's memory does, and where kernels and copies run.
#pragma once

#include <cstdint>
#include <optional>

namespace foretrain {

// The address that the device shows for `bytes` bytes of zeros; null if there is no memory.
void* AllocateLater(std::int64_t bytes, int device);
void ReleaseLater(void* shown);

// The device whose memory contains `at`; `nullopt` if it lies elsewhere.
std::optional<int> DeviceOfLater(const void* at);

// Where work on a queue finds what `at` in the device's memory points to; `at` itself if it lies
// elsewhere.
void* ReachableLater(void* at);
const void* ReachableLater(const void* at);

}  // namespace foretrain
