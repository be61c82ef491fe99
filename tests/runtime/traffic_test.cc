// What ranks send each other is what the forecast says: op by op, the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"
#include "sim/program/bind_counts.h"
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
  auto program = Compile(model, one);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  TrainingOptions options;
  options.steps = 1;
  const Trained trained = TrainTiny(model, one, options);
  std::vector<LayerCounts> counts;
  for (const RoutedCounts& routed : trained.routing) {
    counts.push_back({routed.rank, routed.block, routed.micro_batch, routed.counts});
  }
  if (!counts.empty()) program = BindCounts(*program, counts);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const ClusterSpec cluster = LocalCluster(one.World());
  const auto cost = CostModel::Make(cluster, DeriveProfile(cluster));
  ASSERT_TRUE(cost.has_value()) << cost.error().message;
  const auto costs = cost->CostsOf(*program);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  const auto simulation = Simulate(*program, *costs);
  ASSERT_TRUE(simulation.has_value()) << simulation.error().message;
  const Traffic measured = TrafficOf(trained.timeline);
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

// Without a capacity the forecast's even choices are not the measured ones, until it has those.
TEST(Traffic, OfDroplessExpertsIsWhatTheForecastSaysOnceItHasTheCounts) {
  Plan plan = TinyPlan();
  plan.dp = 4;
  plan.ep = 2;
  for (const int pieces : {1, 3}) {
    plan.moe_pieces = pieces;
    for (const int zero_stage : {0, 3}) {
      plan.zero_stage = zero_stage;
      ExpectTrafficOfTheForecast(TinyExperts(), plan);
    }
  }
  plan.dp = plan.tp = 2;
  plan.ep = 4;
  plan.expert_tp = 1;
  plan.sequence_parallel = true;
  plan.recompute = RecomputeKind::kFull;
  ExpectTrafficOfTheForecast(TinyExperts(), plan);
}

// Rows that a rank sends are its tokens' 16 * 2, of 32 numbers of 4 bytes; what goes home is what
// came, and over all ranks as much.
TEST(Traffic, OfDroplessExpertsGoesHomeAsItCame) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 2;
  TrainingOptions options;
  options.steps = 1;
  const Trained trained = TrainTiny(TinyExperts(), plan, options);
  std::map<std::string, std::int64_t> bytes;
  std::set<std::int64_t> home;
  const auto program = Compile(TinyExperts(), plan);
  ASSERT_TRUE(program.has_value());
  for (const Span& span : trained.timeline.spans) {
    if (span.queue != Queue::kEp) continue;
    const InstructionKey key = UnpackId(span.op);
    for (const Instruction& instruction : program->ranks[0].step) {
      if (!(instruction.key == key)) continue;
      const Block& block = program->blocks[static_cast<std::size_t>(instruction.block)];
      const std::string& name = block.ops[static_cast<std::size_t>(OpNumber(span.op))].name;
      bytes[name] += span.bytes;
      if (name == "experts.dispatch") {
        EXPECT_EQ(span.bytes, 16 * 2 * 32 * 4);
      }
      if (name == "experts.return") home.insert(span.bytes);
    }
  }
  EXPECT_EQ(bytes.at("experts.return"), bytes.at("experts.dispatch"));
  EXPECT_EQ(bytes.at("experts.dispatch.input_grad"), bytes.at("experts.return.output_grad"));
  EXPECT_GT(home.size(), 1U) << "all choices are even";
  // Counts of two members and four experts, of 3 layers and 4 micro-batches a rank.
  EXPECT_EQ(trained.routing.size(), 2U * 3 * 4);
  for (const RoutedCounts& routed : trained.routing) {
    EXPECT_EQ(std::accumulate(routed.counts.begin(), routed.counts.end(), 0), 2 * 16 * 2);
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
