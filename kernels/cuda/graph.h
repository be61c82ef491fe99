// Graphs of a queue's work (kernels/cuda/graph.cc).
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Fills the table's entries of graphs.
void SetCudaGraphs(FtDeviceApi& api);

}  // namespace foretrain
