#include "sim/program/link/system_waits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"

namespace foretrain {
namespace {

ModelSpec Gpt() { return FindModel(*BuiltInCatalogue(), "gpt2-124m")->spec; }

Plan TensorParallel() {
  Plan plan;
  plan.tp = 4;
  plan.sequence = 1024;
  plan.micro_batch = 8;
  plan.global_batch = 16;
  plan.precision = Precision::kBf16;
  return plan;
}

// The all-reduce of the input gradient of the MLP's first product overlaps with that product's
// weight gradient, which does not read it. With the added edges the weight gradient waits.
TEST(WaitForTensorSums, PutsSumsBetweenProducts) {
  auto program = Compile(Gpt(), TensorParallel());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto waits = [&](const RankProgram& rank) {
    for (const Instruction& instruction : rank.step) {
      const std::vector<Op>& ops = program->blocks[static_cast<std::size_t>(instruction.block)].ops;
      const auto number = [&](std::string_view name) {
        const auto found =
            std::find_if(ops.begin(), ops.end(), [name](const Op& op) { return op.name == name; });
        if (found == ops.end()) return std::int32_t{-1};
        return instruction.first_op + static_cast<std::int32_t>(found - ops.begin());
      };
      const std::int32_t sum = number("mlp.up.input_grad.sum"),
                         after = number("mlp.up.weight_grad");
      if (sum < 0) continue;
      return std::any_of(rank.edges.begin(), rank.edges.end(),
                         [&](const Edge& edge) { return edge.from == sum && edge.to == after; });
    }
    ADD_FAILURE() << "no such sum";
    return false;
  };
  EXPECT_FALSE(waits(program->ranks.front()));
  WaitForTensorSums(*program);
  EXPECT_TRUE(waits(program->ranks.front()));
}

// On four A100 a step gets longer, by less than all its all-reduces.
TEST(WaitForTensorSums, MakesAStepLonger) {
  const auto gpu = FindGpu(*BuiltInCatalogue(), "A100-80GB-SXM");
  ASSERT_TRUE(gpu.has_value()) << gpu.error().message;
  const ClusterSpec cluster = *MakeCluster(*gpu, 1, 4);
  const auto step_s = [&](bool blocking) {
    SystemOptions system;
    system.blocking_tp = blocking;
    const auto costs = CostModel::Make(cluster, DeriveProfile(cluster, system));
    EXPECT_TRUE(costs.has_value()) << costs.error().message;
    const auto forecast =
        MakeForecast(Gpt(), TensorParallel(), *costs,
                     {.ranks = RankChoice::kClasses, .simulate = {.timeline = false}});
    EXPECT_TRUE(forecast.has_value()) << forecast.error().message;
    return forecast->simulation.step_s;
  };
  const double overlapped_s = step_s(false), between_s = step_s(true);
  EXPECT_GT(between_s, 1.01 * overlapped_s);
  EXPECT_LT(between_s, 1.5 * overlapped_s);
}

}  // namespace
}  // namespace foretrain
