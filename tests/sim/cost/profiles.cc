#include "tests/sim/cost/profiles.h"

namespace foretrain {

ClusterSpec GpuCluster(int nodes, int devices_per_node) {
  ClusterSpec cluster;
  cluster.name = "test";
  cluster.device.name = "gpu";
  cluster.device.fp32_flop_per_s = 100e12;
  cluster.device.bf16_flop_per_s = 1000e12;
  cluster.device.memory_bytes = std::int64_t{80} << 30;
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.device.link_bytes_per_s = 100e9;
  cluster.device.pcie_bytes_per_s = 20e9;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.network_bytes_per_s = 10e9;
  return cluster;
}

ClusterSpec CpuCluster(int ranks, int cores) {
  ClusterSpec cluster;
  cluster.device.name = "cpu";
  cluster.device.memory_bytes = std::int64_t{1} << 30;
  cluster.devices_per_node = ranks;
  cluster.is_cpu = true;
  cluster.cores = cores;
  cluster.host_memory_bytes = std::int64_t{8} << 30;
  return cluster;
}

DeviceProfile IdealProfile() {
  constexpr Figure kInstant{1e21, Provenance::kDefault};
  constexpr Figure kOne{1, Provenance::kDefault};
  DeviceProfile profile;
  profile.device = "ideal";
  profile.rates.gemm_flop_per_s = kInstant;
  profile.rates.attention_forward_flop_per_s = kInstant;
  profile.rates.attention_backward_flop_per_s = kInstant;
  profile.rates.memory_bytes_per_s = kInstant;
  profile.rates.copy_bytes_per_s = kInstant;
  profile.rates.link_bytes_per_s = kInstant;
  profile.rates.network_bytes_per_s = kInstant;
  profile.rates.overlap_slowdown = kOne;
  return profile;
}

ProfilePoint Timed(ProfilePoint point, double seconds) {
  point.seconds = seconds;
  point.p10_s = seconds;
  point.p90_s = seconds;
  return point;
}

Op GemmOp(std::int64_t rows, std::int64_t cols, std::int64_t inner) {
  Op op;
  op.kind = OpKind::kGemm;
  op.op_class = OpClass::kGemm;
  op.shape.rows = rows;
  op.shape.cols = cols;
  op.shape.inner = inner;
  return op;
}

Op SquaredNormOp(std::int64_t elements) {
  Op op;
  op.kind = OpKind::kSquaredNorm;
  op.shape.elements = elements;
  return op;
}

Op AllReduceOp(std::int64_t elements) {
  Op op;
  op.kind = OpKind::kAllReduce;
  op.queue = Queue::kReduce;
  op.op_class = OpClass::kDpComm;
  op.group = GroupKind::kDp;
  op.shape.elements = elements;
  return op;
}

}  // namespace foretrain
