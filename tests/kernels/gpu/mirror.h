// A device's table for tests whose tensors lie in host memory: each kernel entry copies what its
// arguments point to into memory of the device, calls the device, waits, and copies back what the
// device has written. Behind each copy lie bytes that nobody may write.
#pragma once

#include "base/device_api.h"

namespace foretrain::test {

struct MirrorOptions {
  // Bytes behind each copy that are looked at afterwards; 0 leaves it to a memory checker, which
  // knows where an allocation ends.
  int guard_bytes = 256;
};

// The table around `device`, which must stay. One at a time: entries know it by a static.
const FtDeviceApi& MirrorOf(const FtDeviceApi& device, const MirrorOptions& options);

}  // namespace foretrain::test
