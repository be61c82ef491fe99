// The GPUs of this machine in the catalogue's terms: what forecasts of runs on them start from.
#pragma once

#include <cstdint>
#include <string>

#include "app/forecasting.h"
#include "base/result.h"
#include "sim/spec/catalogue.h"

namespace foretrain {

// The catalogue's entry of a GPU that the driver calls `name`: the one whose chip the name holds;
// of several those of the same kind of board, PCIe or not, and of these the one whose memory is
// nearest.
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

// What is forecast on the GPUs of this machine, `cluster.ranks` of them and at least one: by the
// profile named there, else the one that `calibrate --device cuda` keeps, else published peaks. A
// cluster that is named says which GPU stands for this machine's. Errors: those of MakeContext and
// LocalGpuCluster.
Result<ForecastContext> MakeGpuContext(const ModelFlags& model, const ClusterFlags& cluster);

}  // namespace foretrain
