// Clusters and device profiles with round numbers, for tests of costs and of the simulator.
#pragma once

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// 100 TFLOP/s in fp32 (1,000 in bf16), 1 TB/s memory, 100 GB/s links, 10 GB/s network, 20 GB/s
// PCIe.
ClusterSpec GpuCluster(int nodes, int devices_per_node);
// One machine whose threads are `ranks`.
ClusterSpec CpuCluster(int ranks, int cores);

// No overheads, and rates so high that only opaque ops take time.
DeviceProfile IdealProfile();

// `point` with `seconds` as its median and no spread.
ProfilePoint Timed(ProfilePoint point, double seconds);
Op GemmOp(std::int64_t rows, std::int64_t cols, std::int64_t inner);
// A memory-bound op on `elements` elements of 4 bytes.
Op SquaredNormOp(std::int64_t elements);
Op AllReduceOp(std::int64_t elements);

}  // namespace foretrain
