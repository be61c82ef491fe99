// A device table for tests whose tensors are in host memory. Each kernel entry copies the memory
// behind its arguments to the device, calls the device, waits, and copies changes back. Guard bytes
// after each copy detect writes out of range.
#pragma once

#include "base/device_api.h"

namespace foretrain::test {

struct MirrorOptions {
  // Guard bytes after each copy. 0: leave the check to a memory checker, which knows the allocation
  // sizes.
  int guard_bytes = 256;
};

// Wraps `device`, which must outlive the table. One at a time, because entries find it in a static.
const FtDeviceApi& MirrorOf(const FtDeviceApi& device, const MirrorOptions& options);

}  // namespace foretrain::test
