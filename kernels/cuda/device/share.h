// Shares of a device's multiprocessors, for virtual ranks on one device
// (kernels/cuda/device/share.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// Fills the table's share entries.
void SetCudaShares(FtDeviceApi& api);

// Makes a queue on `stream`, a cudaStream_t that it then owns, or on a new stream if NULL.
FtStatus MakeCudaQueue(int32_t device, void* stream, FtQueue** out, char* why, size_t n);

}  // namespace foretrain
