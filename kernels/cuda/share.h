// Shares of a device's multiprocessors, for virtual ranks on one device (kernels/cuda/share.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// Fills the table's entries of shares.
void SetCudaShares(FtDeviceApi& api);

// A queue on `stream`, a cudaStream_t that it owns from here on, or on a new one where it is null.
FtStatus MakeCudaQueue(int32_t device, void* stream, FtQueue** out, char* why, size_t n);

}  // namespace foretrain
