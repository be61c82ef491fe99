// What pieces of expert parallelism hide behind products, with durations that are forced: all ops
// but the named ones take no time.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

// Seconds of ops whose name begins so; the longest match counts.
using Forced = std::map<std::string, double>;

double SecondsOf(const std::string& name, const Forced& forced) {
  double seconds = 0;
  std::size_t longest = 0;
  for (const auto& [prefix, s] : forced) {
    if (name.rfind(prefix, 0) != 0 || prefix.size() < longest) continue;
    longest = prefix.size();
    seconds = s;
  }
  return seconds;
}

// One layer with 4 experts, one micro-batch of 8 tokens on each of two ranks.
double StepSeconds(double capacity_factor, int pieces, const Forced& forced) {
  ModelSpec model = SmallGpt();
  model.layers = 1;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 8;
  Plan plan;
  plan.dp = plan.ep = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.capacity_factor = capacity_factor;
  plan.moe_pieces = pieces;
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const auto costs_of = CostModel::Make(GpuCluster(1, 2), IdealProfile());
  EXPECT_TRUE(costs_of.has_value()) << costs_of.error().message;
  auto costs = costs_of->CostsOf(*program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  for (std::size_t r = 0; r < program->ranks.size(); ++r) {
    const RankProgram& rank = program->ranks[r];
    const std::vector<OpRef> refs = OpRefs(*program, rank);
    for (std::size_t i = 0; i < refs.size(); ++i) {
      const auto row = static_cast<std::size_t>(costs->row_of[r][i]) * costs->levels.size();
      for (std::size_t level = 0; level < costs->levels.size(); ++level) {
        costs->seconds[row + level] = SecondsOf(OpAt(*program, rank, refs[i]).name, forced);
      }
    }
  }
  const auto played = Simulate(*program, *costs, {.min_steps = 1, .max_steps = 1});
  EXPECT_TRUE(played.has_value()) << played.error().message;
  return played->first_step_s;
}

// In one piece: dispatch 4, products 3 + 3, return 4.
TEST(MoePieces, OnePieceHidesNothing) {
  const Forced forced{{"experts.dispatch", 4},
                      {"experts.return", 4},
                      {"experts.up", 3},
                      {"experts.down", 3},
                      {"experts.up.", 0},
                      {"experts.down.", 0},
                      {"experts.dispatch.input_grad", 0},
                      {"experts.return.output_grad", 0}};
  EXPECT_NEAR(StepSeconds(1, 1, forced), 4 + 6 + 4, 1e-9);
}

// Two pieces of half the length. Dispatch [0, 2), [2, 4); products of 0 [2, 5), of 1 [5, 8); the
// return of 0 beside those of 1 [5, 7), of 1 [8, 10). The exchanges of 8 s cost 4.
TEST(MoePieces, HideExchangesBehindTheProductsOfOtherPieces) {
  const Forced forced{{"experts.dispatch.", 2},
                      {"experts.return.", 2},
                      {"experts.up.", 1.5},
                      {"experts.down.", 1.5},
                      {"experts.dispatch.input_grad", 0},
                      {"experts.return.output_grad", 0},
                      {"experts.up.input_grad", 0},
                      {"experts.down.input_grad", 0},
                      {"experts.up.weight_grad", 0},
                      {"experts.down.weight_grad", 0}};
  EXPECT_NEAR(StepSeconds(1, 2, forced), 10, 1e-9);
  EXPECT_NEAR(StepSeconds(0, 2, forced), 10, 1e-9) << "dropless alike: counts cost nothing here";
}

// Exchanges that take longer than products: dispatch [0, 5), [5, 10); the return of 0, whose
// products end at 6, [10, 15) behind the dispatch in its queue, of 1 [15, 20).
TEST(MoePieces, AreHeldUpByExchangesThatTakeLonger) {
  const Forced forced{{"experts.dispatch.", 5},
                      {"experts.return.", 5},
                      {"experts.up.", 1},
                      {"experts.dispatch.input_grad", 0},
                      {"experts.return.output_grad", 0},
                      {"experts.up.input_grad", 0},
                      {"experts.up.weight_grad", 0}};
  EXPECT_NEAR(StepSeconds(1, 2, forced), 20, 1e-9);
}

// Backward alone: output gradients come [0, 2), [2, 4). Piece 0's products, two input gradients and
// a weight gradient of 1 s each, [2, 5), piece 1's [5, 8); piece 0 goes home [5, 7), piece 1
// [8, 10), beside which the weight gradients of up run: [8, 10).
TEST(MoePieces, HideTheExchangesOfTheBackwardToo) {
  const Forced forced{{"experts.return.output_grad", 2}, {"experts.dispatch.input_grad", 2},
                      {"experts.down.input_grad", 1},    {"experts.down.weight_grad", 1},
                      {"experts.up.input_grad", 1},      {"experts.up.weight_grad", 1}};
  EXPECT_NEAR(StepSeconds(1, 2, forced), 10, 1e-9);
}

// The host learns the counts before any row is sent: gather 1 and read 2, then all as above.
TEST(MoePieces, WaitForTheCountsWithoutACapacity) {
  const Forced forced{
      {"experts.counts.gather", 1},       {"experts.counts.read", 2}, {"experts.dispatch", 4},
      {"experts.dispatch.input_grad", 0}, {"experts.up", 3},          {"experts.up.", 0}};
  EXPECT_NEAR(StepSeconds(0, 1, forced), 1 + 2 + 4 + 3, 1e-9);
  EXPECT_NEAR(StepSeconds(1, 1, forced), 4 + 3, 1e-9);
}

}  // namespace
}  // namespace foretrain
