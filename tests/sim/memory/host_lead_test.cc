#include "sim/memory/host_lead.h"

#include <gtest/gtest.h>

#include "sim/config/catalogue/catalogue.h"

namespace foretrain {
namespace {

ClusterSpec FourNodesOfH100() {
  const auto catalogue = BuiltInCatalogue();
  const auto gpu = FindGpu(*catalogue, "H100-80GB-SXM");
  return *MakeCluster(*gpu, 4, 8, 50e9);
}

// A Llama layer of width 4096: 218 M weights.
ModelSpec Llama() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.head_dim = 128;
  model.ffn_hidden = 12288;
  model.vocab = 8192;
  model.max_sequence = 4096;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = false;
  model.tied_embeddings = false;
  return model;
}

Plan Bf16(int tp, std::int64_t sequence) {
  Plan plan;
  plan.tp = tp;
  plan.sequence_parallel = tp > 1;
  plan.sequence = sequence;
  plan.micro_batch = plan.global_batch = 1;
  plan.precision = Precision::kBf16;
  return plan;
}

SystemOptions Eager() {
  SystemOptions system;
  system.host_op_s = 1e-4;
  return system;
}

// 6 x 218 M x 4096 operations take at least 5 ms at 989 TFLOP/s; some 30 ops take the host 3 ms.
TEST(HostRunsAhead, OfLayersThatTakeTheDeviceLonger) {
  EXPECT_TRUE(HostRunsAhead(Llama(), Bf16(1, 4096), FourNodesOfH100(), Eager()));
}

// A sixteenth of the tokens: 0.4 to 1 ms of the device, and the host's time is the same.
TEST(HostRunsAhead, NotOfShortOps) {
  EXPECT_FALSE(HostRunsAhead(Llama(), Bf16(1, 256), FourNodesOfH100(), Eager()));
}

// With 31 further members of 0.3 ms each, a layer's eight collectives take the host 74 ms.
TEST(HostRunsAhead, NotWhereMembersOfCollectivesAreSlowToLaunch) {
  ClusterSpec cluster = FourNodesOfH100();
  cluster.network_latency_s = 5e-4;
  EXPECT_TRUE(HostRunsAhead(Llama(), Bf16(32, 4096), cluster, Eager()));
  cluster.member_launch_s = 3e-4;
  EXPECT_FALSE(HostRunsAhead(Llama(), Bf16(32, 4096), cluster, Eager()));
}

}  // namespace
}  // namespace foretrain
