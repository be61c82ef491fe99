// Overlap of the pieces of expert parallelism with products, with forced durations: only the named
// ops take time.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

// Seconds of one layer with 4 experts, with one micro-batch of 8 tokens on each of two ranks.
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

// One piece: dispatch 4, products 3 + 3, return 4.
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

// Two pieces of half the length. Dispatch [0, 2), [2, 4); products of piece 0 [2, 5), of piece 1
// [5, 8). The return of piece 0 overlaps the products of piece 1 [5, 7); its own is [8, 10).
// Exchanges of 8 s cost 4.
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

// Exchanges take longer than products. Dispatch [0, 5), [5, 10). The products of piece 0 end at 6,
// but its return follows the dispatch in its queue [10, 15); the return of piece 1 is [15, 20).
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

// Backward only. Output gradients arrive in [0, 2), [2, 4). The products of a piece are two input
// gradients and a weight gradient of 1 s each: piece 0 [2, 5), piece 1 [5, 8). Piece 0 goes home in
// [5, 7), piece 1 in [8, 10), which overlaps the weight gradients of up.
TEST(MoePieces, HideTheExchangesOfTheBackwardToo) {
  const ForcedSeconds forced{{"experts.return.output_grad", 2}, {"experts.dispatch.input_grad", 2},
                             {"experts.down.input_grad", 1},    {"experts.down.weight_grad", 1},
                             {"experts.up.input_grad", 1},      {"experts.up.weight_grad", 1}};
  EXPECT_NEAR(StepSeconds(1, 2, forced), 10, 1e-9);
}

// The host reads the counts before any row is sent: gather 1 and read 2, then as above.
TEST(MoePieces, WaitForTheCountsWithoutACapacity) {
  const ForcedSeconds forced{
      {"experts.counts.gather", 1},       {"experts.counts.read", 2}, {"experts.dispatch", 4},
      {"experts.dispatch.input_grad", 0}, {"experts.up", 3},          {"experts.up.", 0}};
  EXPECT_NEAR(StepSeconds(0, 1, forced), 1 + 2 + 4 + 3, 1e-9);
  EXPECT_NEAR(StepSeconds(1, 1, forced), 4 + 3, 1e-9);
}

}  // namespace
}  // namespace foretrain
