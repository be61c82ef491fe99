// What ranks send each other is what the forecast says: op by op, the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"
#include "sim/simulate/simulate.h"
#include "training.h"

namespace foretrain {
namespace {

ClusterSpec LocalCluster(int ranks) {
  ClusterSpec cluster;
  cluster.device.name = "cpu";
  cluster.device.memory_bytes = std::int64_t{1} << 30;
  cluster.devices_per_node = ranks;
  cluster.is_cpu = true;
  cluster.cores = ranks;
  cluster.host_memory_bytes = std::int64_t{8} << 30;
  return cluster;
}

// Bytes and number of spans by (rank, class, queue) in one step.
using Traffic = std::map<std::tuple<int, OpClass, Queue>, std::pair<std::int64_t, int>>;

Traffic TrafficOf(const Timeline& timeline) {
  Traffic traffic;
  for (const Span& span : timeline.spans) {
    if (span.step != 0 || !IsCommunication(span.op_class)) continue;
    auto& [bytes, count] = traffic[{span.rank, span.op_class, span.queue}];
    bytes += span.bytes;
    ++count;
  }
  return traffic;
}

void ExpectTrafficOfTheForecast(const ModelSpec& model, const Plan& one) {
  SCOPED_TRACE(Describe(one));
  const auto program = Compile(model, one);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const ClusterSpec cluster = LocalCluster(one.World());
  const auto cost = CostModel::Make(cluster, DeriveProfile(cluster));
  ASSERT_TRUE(cost.has_value()) << cost.error().message;
  const auto costs = cost->CostsOf(*program);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  const auto simulation = Simulate(*program, *costs);
  ASSERT_TRUE(simulation.has_value()) << simulation.error().message;
  TrainingOptions options;
  options.steps = 1;
  const Traffic measured = TrafficOf(TrainTiny(model, one, options).timeline);
  EXPECT_FALSE(measured.empty());
  EXPECT_EQ(TrafficOf(simulation->timeline), measured);
}

TEST(Traffic, OfExpertsIsWhatTheForecastSays) {
  Plan plan = TinyPlan();
  plan.dp = 4;
  plan.ep = 2;
  plan.capacity_factor = 1.25;
  for (const int zero_stage : {0, 1, 3}) {
    plan.zero_stage = zero_stage;
    ExpectTrafficOfTheForecast(TinyExperts(), plan);
  }
}

TEST(Traffic, IsWhatTheForecastSaysByClassAndQueue) {
  Plan plan = TinyPlan();
  plan.tp = 2;
  std::vector<Plan> plans(5, plan);
  plans[1].sequence_parallel = true;
  plans[2].sequence_parallel = plans[2].vocab_parallel = true;
  plans[2].pp = 2;
  plans[3].vocab_parallel = true;
  plans[3].loss_chunks = 3;
  plans[3].tp_tiles = 3;
  plans[4].sequence_parallel = plans[4].vocab_parallel = true;
  plans[4].tp_tiles = 3;
  plans[4].dp = 2;
  plans[4].zero_stage = 1;
  plans[4].recompute = RecomputeKind::kFull;
  for (const Plan& one : plans) {
    ExpectTrafficOfTheForecast(TinyGpt(), one);
  }
}

}  // namespace
}  // namespace foretrain
