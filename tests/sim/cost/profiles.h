// Clusters and device profiles with round figures, for tests of costs and of the simulator.
#pragma once

#include "sim/cost/cost_model.h"
#include "sim/cost/device_profile.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

// 100 TFLOP/s in fp32 (1,000 in bf16), 1 TB/s memory, 100 GB/s links, 10 GB/s network, 20 GB/s
// PCIe.
ClusterSpec GpuCluster(int nodes, int devices_per_node);
// `ranks` threads of one machine.
ClusterSpec CpuCluster(int ranks, int cores);

// No overheads, and rates so high that only opaque ops take time.
DeviceProfile IdealProfile();

// A point of the op that `point` is of, at its median without spread.
ProfilePoint Timed(ProfilePoint point, double seconds);
Op GemmOp(std::int64_t rows, std::int64_t cols, std::int64_t inner);
// A memory-bound op of `elements` elements, 4 bytes each.
Op SquaredNormOp(std::int64_t elements);
Op AllReduceOp(std::int64_t elements);

}  // namespace foretrain
