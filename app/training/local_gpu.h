// This machine's GPUs as entries of the catalogue, for forecasts of runs on them.
#pragma once

#include <cstdint>
#include <string>

#include "app/forecast/forecasting.h"
#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"

namespace foretrain {

// The catalogue's entry for a GPU that the driver calls `name`. The name must contain the entry's
// chip. Among several, the same kind of board (PCIe or not) wins, then the nearest memory size.
//
//   name          as the driver writes it, "NVIDIA A100-SXM4-80GB"
//   memory_bytes  of the device
//
// Errors: kInvalidArgument, the catalogue has no such chip. O(entries).
Result<GpuEntry> FindGpuOfDriver(const Catalogue& catalogue, const std::string& name,
                                 std::int64_t memory_bytes);

// A node with `ranks` GPUs like the first of this machine. Errors: those of AskCudaDriver and of
// FindGpuOfDriver, with how to name the GPU.
Result<ClusterSpec> LocalGpuCluster(const Catalogue& catalogue, int ranks);

// The context of forecasts for `cluster.ranks` of this machine's GPUs, at least one. The rates come
// from the profile that the flags name, else from the one that `calibrate --device cuda` keeps,
// else from published peaks. If the flags name a cluster, its GPU stands for this machine's.
// Errors: those of MakeContext and LocalGpuCluster.
Result<ForecastContext> MakeGpuContext(const ModelFlags& model, const ClusterFlags& cluster);

}  // namespace foretrain
