// What context parallelism moves: as much as is predicted, rank by rank, and as a hand count says.
#include <gtest/gtest.h>

#include <map>

#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"
#include "sim/simulate/simulate.h"
#include "training.h"

namespace foretrain {
namespace {

using Bytes = std::map<std::pair<int, OpClass>, std::int64_t>;  // of a step, by rank and class

Bytes BytesOf(const Timeline& timeline) {
  Bytes bytes;
  for (const Span& span : timeline.spans) {
    if (span.step == 0 && span.bytes > 0) bytes[{span.rank, span.op_class}] += span.bytes;
  }
  return bytes;
}

Bytes PredictedBytes(const ModelSpec& model, const Plan& plan) {
  ClusterSpec cluster;
  cluster.name = "test";
  cluster.device.name = "cpu";
  cluster.device.memory_bytes = cluster.host_memory_bytes = std::int64_t{1} << 30;
  cluster.devices_per_node = plan.World();
  cluster.is_cpu = true;
  cluster.cores = plan.World();
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
  if (!costs.has_value()) {
    ADD_FAILURE() << costs.error().message;
    return {};
  }
  const auto of_program = costs->CostsOf(*program);
  EXPECT_TRUE(of_program.has_value()) << of_program.error().message;
  const auto played = Simulate(*program, *of_program, {.min_steps = 1, .max_steps = 1});
  EXPECT_TRUE(played.has_value()) << played.error().message;
  return BytesOf(played->timeline);
}

TEST(ContextBytes, ArePredictedAndByHand) {
  TrainingOptions one;
  one.steps = 1;
  Plan plan = TinyPlan();
  plan.cp = 2;
  plan.dp = 2;
  plan.zero_stage = 1;
  // 4 samples of 8 tokens a rank, 4 layers. Llama: 32 columns of q, 16 each of k and v; 4 bytes.
  const std::int64_t tokens = std::int64_t{4} * 8 * 4 * 4;
  const std::map<ContextParallelKind, std::int64_t> expected = {
      // [k | v] goes once forward, once backward, and its gradient twice.
      {ContextParallelKind::kRing, tokens * 32 * 4},
      // Its own [k | v] twice, and the gradient of both ranks'.
      {ContextParallelKind::kAllGather, tokens * 32 * 4},
      // [q | k | v] and the output, and their gradients.
      {ContextParallelKind::kAllToAll, tokens * (64 + 32) * 2},
  };
  for (const auto& [kind, bytes] : expected) {
    plan.cp_kind = kind;
    SCOPED_TRACE(Name(kind));
    const Bytes measured = BytesOf(TrainTiny(TinyLlama(), plan, one).timeline);
    EXPECT_EQ(measured, PredictedBytes(TinyLlama(), plan));
    for (int rank = 0; rank < plan.World(); ++rank) {
      EXPECT_EQ(measured.at({rank, OpClass::kCpComm}), bytes) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace foretrain
