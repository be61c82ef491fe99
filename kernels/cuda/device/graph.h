// Graphs of a queue's work (kernels/cuda/device/graph.cc).
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Fills the table's graph entries.
void SetCudaGraphs(FtDeviceApi& api);

}  // namespace foretrain
