// Overlap of context parallelism with attention, with forced durations: only the named ops take
// time.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

// Seconds of one layer with one micro-batch of 12 tokens over three ranks.
double StepSeconds(ContextParallelKind kind, const ForcedSeconds& forced) {
  ModelSpec model = SmallGpt();
  model.layers = 1;
  model.max_sequence = 12;
  model.heads = model.kv_heads = 3;
  Plan plan;
  plan.cp = 3;
  plan.cp_kind = kind;
  plan.sequence = 12;
  plan.micro_batch = plan.global_batch = 1;
  return ForcedStep(model, plan, GpuCluster(1, 3), forced);
}

// Forward: attention over the held block [0, 3), [3, 6), [6, 9). Each rotation of 2 s ends before
// the keys it brings are used. Backward: attention [0, 7), [7, 14), [14, 21). Keys rotate during
// the first two; gradients of turn 0 during turn 1, and of turn 1 during turn 2. The last rotation
// brings them home: 21 + 2. In total 9 + 23.
TEST(RingAttention, HidesRotationsBehindTheAttentionOfTheBlockHeld) {
  const ForcedSeconds forced{{"attention.core.", 3},
                             {"attention.core.grad.", 7},
                             {"attention.keys.rotate", 2},
                             {"attention.keys.grad.rotate", 2}};
  EXPECT_NEAR(StepSeconds(ContextParallelKind::kRing, forced), 9 + 23, 1e-9);
}

// Rotations take 5 s and attention 1 s. Forward: two rotations, then the last attention: 11.
// Backward: keys [0, 5), [5, 10). Gradients of turn 0 follow in their queue [10, 15), those of turn
// 1 [15, 20), and the way home [20, 25).
TEST(RingAttention, IsHeldUpByRotationsThatTakeLonger) {
  const ForcedSeconds forced{
      {"attention.core.", 1}, {"attention.keys.rotate", 5}, {"attention.keys.grad.rotate", 5}};
  EXPECT_NEAR(StepSeconds(ContextParallelKind::kRing, forced), 11 + 25, 1e-9);
}

// The projection's weight gradient runs during the last rotation of the key gradients.
TEST(RingAttention, HidesTheLastRotationBehindAWeightGradient) {
  const ForcedSeconds forced{{"attention.core.", 3},
                             {"attention.core.grad.", 7},
                             {"attention.keys.rotate", 2},
                             {"attention.keys.grad.rotate", 2},
                             {"attention.out.weight_grad", 2}};
  EXPECT_NEAR(StepSeconds(ContextParallelKind::kRing, forced), 9 + 23, 1e-9);
}

// Forward: gather 2, attention 3. Backward: the gather overlaps the projection's input gradient, 2.
// Attention takes 7. The scatter, 4, overlaps the projection's weight gradient, 3.
TEST(GatheredAttention, HidesTheSecondGatherAndTheScatter) {
  const ForcedSeconds forced{{"attention.core", 3},           {"attention.core.grad", 7},
                             {"attention.keys.gather", 2},    {"attention.keys.grad.scatter", 4},
                             {"attention.out.input_grad", 2}, {"attention.out.weight_grad", 3}};
  EXPECT_NEAR(StepSeconds(ContextParallelKind::kAllGather, forced), 5 + 13, 1e-9);
}

// Forward: exchange 2, attention 3, exchange 2. Backward: 2, 7, and 2 overlapped with the weight
// gradient.
TEST(ExchangedAttention, HidesTheLastExchange) {
  const ForcedSeconds forced{{"attention.core", 3},
                             {"attention.core.grad", 7},
                             {"attention.core.grad.parts", 0},
                             {"attention.core.join", 0},
                             {"attention.qkv.exchange", 2},
                             {"attention.core.exchange", 2},
                             {"attention.core.grad.exchange", 2},
                             {"attention.qkv.grad.exchange", 2},
                             {"attention.out.weight_grad", 2}};
  EXPECT_NEAR(StepSeconds(ContextParallelKind::kAllToAll, forced), 7 + 11, 1e-9);
}

}  // namespace
}  // namespace foretrain
