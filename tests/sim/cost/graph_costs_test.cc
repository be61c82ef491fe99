// CUDA graphs in a forecast: they change the host's time and the device's memory, and nothing else.
#include <gtest/gtest.h>

#include <numeric>

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/memory/device_use.h"
#include "sim/program/graphs/graph_stretches.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

ModelSpec Model() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  model.vocab = 128;
  model.max_sequence = 32;
  return model;
}

Plan TwoMicroBatches() {
  Plan plan;
  plan.sequence = 32;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  return plan;
}

ClusterSpec OneGpu() { return GpuCluster(1, 1); }

CostModel Costs(bool graphs) {
  DeviceProfile profile = DeriveProfile(OneGpu());
  profile.kernels.reset();
  profile.rates.kernel_s.value = 1e-6;  // shorter than a launch: the host is the bottleneck
  profile.rates.gap_s.value = 0;
  profile.rates.launch_s.value = 4e-6;
  profile.rates.graph_launch_s.value = 3e-6;
  profile.rates.graph_op_s.value = 10e-9;
  profile.system.cuda_graphs = graphs;
  auto costs = CostModel::Make(OneGpu(), profile);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  return *std::move(costs);
}

double HostSeconds(const ProgramCosts& costs) {
  double sum = 0;
  for (const std::int32_t row : costs.row_of.front()) {
    sum += costs.launch_s[static_cast<std::size_t>(row)];
  }
  return sum;
}

struct GraphCosts : testing::Test {
  void SetUp() override {
    auto compiled = Compile(Model(), TwoMicroBatches());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    program = *std::move(compiled);
    together = GraphStretches(program, program.ranks.front());
  }
  Program program;
  std::vector<std::int16_t> together;
};

TEST_F(GraphCosts, AStretchCostsTheHostOneLaunch) {
  const auto without = Costs(false).CostsOf(program), with = Costs(true).CostsOf(program);
  ASSERT_TRUE(without.has_value() && with.has_value());
  std::int64_t graphs = 0, inside = 0;
  for (const std::int16_t n : together) {
    graphs += n > 1 ? 1 : 0;
    inside += n != 1 ? 1 : 0;
  }
  // At least one graph per layer, pass and micro-batch: 2 layers, 2 passes, 2 micro-batches.
  EXPECT_GE(graphs, 2 * 2 * 2);
  EXPECT_EQ(inside, OpsInGraphs(program, program.ranks.front()));
  const double saved = static_cast<double>(inside) * 4e-6 - static_cast<double>(graphs) * 3e-6 -
                       static_cast<double>(inside) * 10e-9;
  EXPECT_NEAR(HostSeconds(*without) - HostSeconds(*with), saved, 1e-12);
  // Times on the device do not change.
  for (std::size_t op = 0; op < together.size(); ++op) {
    EXPECT_EQ(without->Alone(without->row_of[0][op]), with->Alone(with->row_of[0][op]));
  }
}

// Ops take microseconds, so the host is the bottleneck. Spans are the same with and without graphs,
// so that they pair with those of a run.
TEST_F(GraphCosts, AStepThatTheHostHoldsUpIsShorter) {
  const auto without = Costs(false).CostsOf(program), with = Costs(true).CostsOf(program);
  ASSERT_TRUE(without.has_value() && with.has_value());
  SimulateOptions options;
  options.last_step = true;
  const auto slow = Simulate(program, *without, options), fast = Simulate(program, *with, options);
  ASSERT_TRUE(slow.has_value() && fast.has_value());
  EXPECT_LT(fast->step_s, slow->step_s);
  EXPECT_NEAR(slow->ranks[0].host_s - fast->ranks[0].host_s,
              HostSeconds(*without) - HostSeconds(*with), 1e-12);
  ASSERT_EQ(fast->timeline.spans.size(), slow->timeline.spans.size());
  for (std::size_t i = 0; i < fast->timeline.spans.size(); ++i) {
    EXPECT_EQ(fast->timeline.spans[i].op, slow->timeline.spans[i].op);
  }
}

TEST_F(GraphCosts, AProcessorHasNone) {
  const ClusterSpec cluster = CpuCluster(1, 1);
  DeviceProfile profile = DeriveProfile(cluster);
  const auto plain = CostModel::Make(cluster, profile);
  profile.system.cuda_graphs = true;
  const auto graphs = CostModel::Make(cluster, profile);
  ASSERT_TRUE(plain.has_value() && graphs.has_value());
  EXPECT_EQ(HostSeconds(*plain->CostsOf(program)), HostSeconds(*graphs->CostsOf(program)));
  EXPECT_EQ(GraphBytesOf(cluster, program, program.ranks.front(), profile.system), 0);
}

TEST_F(GraphCosts, HoldMemoryForEachOp) {
  SystemOptions system;
  const RankProgram& rank = program.ranks.front();
  const DeviceUse without = DeviceUseOf(Model(), program, rank, 100, OneGpu(), system);
  EXPECT_EQ(without.outside.graphs, 0);
  system.cuda_graphs = true;
  const DeviceUse with = DeviceUseOf(Model(), program, rank, 100, OneGpu(), system);
  EXPECT_EQ(with.outside.graphs, 10'000 * OpsInGraphs(program, rank));
  EXPECT_EQ(with.Total() - without.Total(), with.outside.graphs);
}

}  // namespace
}  // namespace foretrain
