// Effects of the software on a device's speed: the system options of a profile.
#include <gtest/gtest.h>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/program/ir/program.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

ClusterSpec A100s(int nodes) {
  const auto catalogue = BuiltInCatalogue();
  EXPECT_TRUE(catalogue.has_value());
  const auto gpu = FindGpu(*catalogue, "A100-80GB-SXM");
  EXPECT_TRUE(gpu.has_value());
  return *MakeCluster(*gpu, nodes, 8, 25e9);
}

CostModel Make(const ClusterSpec& cluster, const SystemOptions& system) {
  auto costs = CostModel::Make(cluster, DeriveProfile(cluster, system));
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  return *std::move(costs);
}

GroupPlace OfOneNode(int members) {
  GroupPlace place;
  place.members = place.per_node = place.per_island = members;
  return place;
}

// A product takes its time in a hot loop of the device's kernels, divided by the sustained share.
TEST(SystemCosts, PriceProductsOfKnownArchitecturesByHotKernels) {
  const CostModel costs = Make(A100s(1), {});
  ASSERT_TRUE(costs.profile().kernels.has_value());
  const Architecture& of = costs.profile().kernels->architecture;
  Op gemm = GemmOp(256 * 12, 128 * 9, 4096);
  gemm.format = NumberFormat::kBf16;
  gemm.formats.fill(NumberFormat::kBf16);
  const KernelForecast hot = HotKernelsOf(costs.cluster().device).value();
  const double hot_s =
      hot.BestProductSeconds(ProductFormat::kBf16, {256 * 12, 128 * 9, 4096}).value();
  EXPECT_NEAR(costs.CostOf(gemm).Alone(), hot_s / of.sustained_share.value, 1e-12);
  // Attention that stores its scores is limited by writing them.
  Op attention;
  attention.kind = OpKind::kAttentionForward;
  attention.formats.fill(NumberFormat::kBf16);
  attention.shape = {.batch = 1, .sequence = 8192, .heads = 8, .kv_heads = 8, .head_dim = 128};
  Op standard = attention;
  standard.kind = OpKind::kStandardAttentionForward;
  standard.shape.inner = 8192;
  EXPECT_GT(costs.CostOf(standard).Alone(), 3 * costs.CostOf(attention).Alone());
}

TEST(SystemCosts, TakeTheHostsTimeOfAnOpFromTheSystem) {
  SystemOptions slow;
  slow.host_op_s = 70e-6;
  EXPECT_DOUBLE_EQ(Make(A100s(1), slow).CostOf(AllReduceOp(8)).launch_s, 70e-6);
  DeviceProfile measured = DeriveProfile(A100s(1));
  measured.overheads = {{OverheadKind::kLaunch, 1, 9e-6, 9e-6, 9e-6, 10}};
  LaySystem(slow, measured);
  EXPECT_DOUBLE_EQ(CostModel::Make(A100s(1), measured)->CostOf(AllReduceOp(8)).launch_s, 70e-6);
}

TEST(SystemCosts, HideAndSlowCollectives) {
  SystemOptions system;
  system.tp_overlap = 0.75;
  system.adapters_used = 1;
  ClusterSpec cluster = A100s(2);
  cluster.adapters_per_node = 4;
  const CostModel plain = Make(cluster, {}), other = Make(cluster, system);
  Op sum = AllReduceOp(std::int64_t{1} << 28);
  sum.op_class = OpClass::kTpComm;
  const GroupPlace node = OfOneNode(8);
  EXPECT_NEAR(other.CostOf(sum, node).Alone(), plain.CostOf(sum, node).Alone() / 4, 1e-12);
  sum.op_class = OpClass::kDpComm;
  EXPECT_DOUBLE_EQ(other.CostOf(sum, node).Alone(), plain.CostOf(sum, node).Alone());
  GroupPlace nodes = node;
  nodes.members = 16;
  nodes.nodes = 2;
  EXPECT_NEAR(other.CostOf(sum, nodes).Alone(), plain.CostOf(sum, nodes).Alone() * 4, 1e-9);
  // The default is one adapter per device, eight per node.
  EXPECT_NEAR(Make(A100s(2), system).CostOf(sum, nodes).Alone(),
              Make(A100s(2), {}).CostOf(sum, nodes).Alone() * 8, 1e-9);
}

TEST(SystemCosts, CopyEachRanksPartOfEachParameter) {
  SystemOptions system;
  system.part_copy_s = 5e-6;
  const CostModel plain = Make(A100s(1), {}), copies = Make(A100s(1), system);
  Op gather = AllReduceOp(std::int64_t{1} << 28);
  gather.kind = OpKind::kAllGather;
  gather.op_class = OpClass::kDpComm;
  const GroupPlace node = OfOneNode(8);
  EXPECT_DOUBLE_EQ(copies.CostOf(gather, node).Alone(), plain.CostOf(gather, node).Alone());
  gather.shape.tensors = 100;
  EXPECT_NEAR(copies.CostOf(gather, node).Alone(),
              plain.CostOf(gather, node).Alone() + 100 * 8 * 5e-6, 1e-12);
}

// A token with 8 experts on 4 nodes goes to 4 (1 - (3/4)^8) = 3.6 nodes: 0.45 of the copies.
TEST(SystemCosts, SendTokensToANodeOnce) {
  SystemOptions system;
  system.node_dispatch = true;
  const CostModel plain = Make(A100s(4), {}), once = Make(A100s(4), system);
  Op exchange = AllReduceOp(std::int64_t{1} << 28), part = exchange;
  exchange.kind = part.kind = OpKind::kAllToAll;
  exchange.op_class = part.op_class = OpClass::kEpComm;
  exchange.shape.per_token = 8;
  part.shape.elements =
      static_cast<std::int64_t>(0.5 * (1 - 0.75 * 0.75 * 0.75 * 0.75 * 0.75 * 0.75 * 0.75 * 0.75) *
                                static_cast<double>(exchange.shape.elements));
  GroupPlace place = OfOneNode(8);
  EXPECT_DOUBLE_EQ(once.CostOf(exchange, place).Alone(), plain.CostOf(exchange, place).Alone());
  place.members = 32;
  place.nodes = 4;
  EXPECT_NEAR(once.CostOf(exchange, place).Alone(), plain.CostOf(part, place).Alone(), 1e-9);
}

// Each gradient that is added by its own op costs one op more.
TEST(SystemCosts, IssueAnOpMoreForEachSumOfGradients) {
  SystemOptions apart;
  apart.host_op_s = 70e-6;
  apart.fused_accumulation = false;
  Op gemm = GemmOp(64, 64, 64);
  const CostModel costs = Make(A100s(1), apart);
  EXPECT_DOUBLE_EQ(costs.CostOf(gemm).launch_s, 70e-6);
  gemm.accumulate = true;
  EXPECT_DOUBLE_EQ(costs.CostOf(gemm).launch_s, 140e-6);
}

// A quarter of the bytes is sent; then four ranks gather the whole.
TEST(SystemCosts, SendPartsAndGatherThem) {
  const CostModel costs = Make(A100s(2), {});
  Op send = AllReduceOp(std::int64_t{1} << 24), part = send, whole = send;
  send.kind = part.kind = OpKind::kSend;
  part.shape.elements /= 4;
  whole.kind = OpKind::kAllGather;
  GroupPlace pair;
  pair.members = pair.nodes = 2;
  const GroupPlace tensor = OfOneNode(4);
  EXPECT_NEAR(costs.CostOf(send, pair, &tensor).Alone(),
              costs.CostOf(part, pair).Alone() + costs.CostOf(whole, tensor).Alone(), 1e-12);
}

// The backward of a layer does not read its last product and sum, but full recomputation runs them
// again.
TEST(SystemCosts, RunTheWholeForwardAgain) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const auto entry = FindModel(*catalogue, "gpt2-124m");
  ASSERT_TRUE(entry.has_value()) << entry.error().message;
  Plan plan;
  plan.tp = 4;
  plan.recompute = RecomputeKind::kFull;
  plan.sequence = 1024;
  plan.micro_batch = plan.global_batch = 1;
  plan.precision = Precision::kBf16;
  const auto program = Compile(entry->spec, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  SystemOptions system;
  system.whole_recompute = true;
  const ProgramCosts plain = *Make(A100s(1), {}).CostsOf(*program);
  const ProgramCosts whole = *Make(A100s(1), system).CostsOf(*program);
  double forward_s = 0, plain_s = 0, whole_s = 0;
  for (const Instruction& instruction : program->ranks[0].step) {
    const bool forward = instruction.key.pass == Pass::kForward;
    if (instruction.key.kind != InstructionKind::kBlock || instruction.key.block != 2) continue;
    if (!forward && instruction.key.pass != Pass::kRecompute) continue;
    const auto ops = program->blocks[static_cast<std::size_t>(instruction.block)].ops.size();
    for (std::size_t op = 0; op < ops; ++op) {
      const auto at = static_cast<std::size_t>(instruction.first_op) + op;
      if (forward) forward_s += plain.Alone(plain.row_of[0][at]);
      if (!forward) plain_s += plain.Alone(plain.row_of[0][at]);
      if (!forward) whole_s += whole.Alone(whole.row_of[0][at]);
    }
  }
  EXPECT_LT(plain_s, 0.9 * forward_s);
  EXPECT_NEAR(whole_s, forward_s, 1e-9);
}

TEST(SystemCosts, AreKeptWithTheProfile) {
  SystemOptions system;
  system.attention = AttentionKernel::kFlash1;
  system.host_op_s = 70e-6;
  system.blocking_sends = system.blocking_tp = system.node_dispatch = true;
  system.fused_accumulation = false;
  system.adapters_used = 1;
  system.part_copy_s = 6e-6;
  const DeviceProfile profile = DeriveProfile(A100s(2), system);
  const auto again = ProfileFromJson(ProfileToJson(profile), "p.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, profile);
}

}  // namespace
}  // namespace foretrain
