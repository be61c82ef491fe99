// What pieces of expert parallelism hide behind products, with durations that are forced: all ops
// but the named ones take no time.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

// One layer with 4 experts, one micro-batch of 8 tokens on each of two ranks.
double StepSeconds(double capacity_factor, int pieces, const ForcedSeconds& forced) {
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
  return ForcedStep(model, plan, GpuCluster(1, 2), forced);
}

// In one piece: dispatch 4, products 3 + 3, return 4.
TEST(MoePieces, OnePieceHidesNothing) {
  const ForcedSeconds forced{{"experts.dispatch", 4},
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
  const ForcedSeconds forced{{"experts.dispatch.", 2},
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
  const ForcedSeconds forced{{"experts.dispatch.", 5},
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
  const ForcedSeconds forced{{"experts.return.output_grad", 2}, {"experts.dispatch.input_grad", 2},
                             {"experts.down.input_grad", 1},    {"experts.down.weight_grad", 1},
                             {"experts.up.input_grad", 1},      {"experts.up.weight_grad", 1}};
  EXPECT_NEAR(StepSeconds(1, 2, forced), 10, 1e-9);
}

// The host learns the counts before any row is sent: gather 1 and read 2, then all as above.
TEST(MoePieces, WaitForTheCountsWithoutACapacity) {
  const ForcedSeconds forced{
      {"experts.counts.gather", 1},       {"experts.counts.read", 2}, {"experts.dispatch", 4},
      {"experts.dispatch.input_grad", 0}, {"experts.up", 3},          {"experts.up.", 0}};
  EXPECT_NEAR(StepSeconds(0, 1, forced), 1 + 2 + 4 + 3, 1e-9);
  EXPECT_NEAR(StepSeconds(1, 1, forced), 4 + 3, 1e-9);
}

}  // namespace
}  // namespace foretrain
