#include "sim/cost/step_flops.h"

#include <gtest/gtest.h>

#include "tests/sim/models.h"

namespace foretrain {
namespace {

// Ranks that split a sequence have the same number of query-key pairs in total as one rank.
TEST(StepFlops, AreThoseOfOneRankHoweverSequencesAreSharedOut) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 2;
  plan.global_batch = 8;
  plan.recompute = RecomputeKind::kFull;
  for (const std::int64_t window : {0, 3}) {
    ModelSpec model = SmallGpt();
    model.attention_window = window;
    const StepFlops one = FlopsOfStep(model, plan);
    EXPECT_GT(one.model, 0);
    EXPECT_GT(one.hardware, one.model);
    for (const ContextParallelKind kind :
         {ContextParallelKind::kRing, ContextParallelKind::kAllGather,
          ContextParallelKind::kAllToAll}) {
      plan.cp_kind = kind;
      for (const int cp : {2, 4}) {
        plan.cp = cp;
        EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model, one.model) << Name(kind) << cp;
        EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).hardware, one.hardware) << Name(kind) << cp;
      }
    }
    plan.cp = 1;
  }
}

// The two holders of a stage share its micro-batches, so nothing is computed twice.
TEST(StepFlops, CountALayerOnceThatTwoRanksHold) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  plan.pp = 2;
  plan.schedule = ScheduleKind::kDualPipe;
  EXPECT_DOUBLE_EQ(FlopsOfStep(SmallGpt(), plan).hardware, FlopsOfStep(SmallGpt(), plan).model);
}

// In the second of 3 layers, queries see all of 8 tokens: 36 pairs. In the others they see 3
// tokens: 1 + 2 + 6 * 3 = 21 pairs. This is per head, with 2 + 5 GEMMs of 2 head_dim each.
TEST(StepFlops, CountTheWindowOfEachLayer) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  model.layers = 3;
  const double whole = FlopsOfStep(model, plan).model;
  model.attention_window = 3;
  model.global_attention_every = 2;
  const auto widths = static_cast<double>(model.heads * model.head_dim);
  EXPECT_DOUBLE_EQ(whole - FlopsOfStep(model, plan).model, 2 * (36 - 21) * 7 * 2 * widths);
}

// A query of an encoder sees all of 8 tokens: 64 pairs a head and layer, against 36.
TEST(StepFlops, CountAllPairsOfAnEncoder) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  const double causal = FlopsOfStep(model, plan).model;
  model.causal = false;
  const auto widths = static_cast<double>(model.layers * model.heads * model.head_dim);
  EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model - causal, (64 - 36) * 7 * 2 * widths);
  for (const int cp : {2, 4}) {
    const double one = FlopsOfStep(model, plan).model;
    plan.cp = cp;
    EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model, one) << cp;
  }
}

// Two layers in each stack, 5 tokens for the encoder and 3 for the decoder, hidden 16, heads of 4 *
// 4, MLP 64. Pairs of a layer: 25 in the encoder; 6 and 3 * 5 in the decoder; 7 products of 2 * 16
// each. Linears, 3 passes of 2 flop: encoder rows pass 4 * 256 + 2 * 1024 weights, and per decoder
// layer the keys' and values' 2 * 256; decoder rows pass those of a layer, 2 * 256 more, and the
// head once.
TEST(StepFlops, CountBothStacksOfAnEncoderDecoder) {
  Plan plan;
  plan.sequence = 8;
  plan.encoder_sequence = 5;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  model.layers = model.encoder_layers = 2;
  model.norm = NormKind::kRmsNorm;
  model.attention_bias = model.output_bias = model.mlp_bias = false;
  model.positions = PositionKind::kRelative;
  model.relative_buckets = 8;
  const double pairs = 2 * (25 + 6 + 15) * 7 * 2 * 16;
  const double layer = 4 * 256 + 2 * 1024, head = 16 * 32;
  const double linears = 6 * (2 * 5 * (layer + 2 * 256) + 3 * (2 * (layer + 2 * 256) + head));
  EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model, pairs + linears);
  plan.tp = 2;
  EXPECT_DOUBLE_EQ(FlopsOfStep(model, plan).model, pairs + linears);
}

// Two chunks of 4 tokens: 2 * 10 pairs in place of 36.
TEST(StepFlops, CountThePairsWithinChunks) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  const double whole = FlopsOfStep(model, plan).model;
  model.attention_chunk = 4;
  const auto widths = static_cast<double>(model.layers * model.heads * model.head_dim);
  EXPECT_DOUBLE_EQ(whole - FlopsOfStep(model, plan).model, (36 - 20) * 7 * 2 * widths);
}

// In layers 2 and 4 of 4 the MLP is one expert of half the width: 2 GEMMs less of 3 passes each,
// and a router more.
TEST(StepFlops, CountExpertsInEveryNthLayer) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = plan.global_batch = 1;
  ModelSpec model = SmallGpt();
  model.layers = 4;
  model.mlp_bias = false;
  const double dense = FlopsOfStep(model, plan).model;
  model.experts = 2;
  model.experts_per_token = 1;
  model.expert_ffn_hidden = model.ffn_hidden / 2;
  model.expert_every = 2;
  const auto hidden = static_cast<double>(model.hidden);
  const double less = 2 * 3 * 2 * 8 * 2 * hidden * static_cast<double>(model.ffn_hidden / 2);
  const double router = 2 * 3 * 2 * 8 * 2 * hidden;
  EXPECT_DOUBLE_EQ(dense - FlopsOfStep(model, plan).model, less - router);
}

}  // namespace
}  // namespace foretrain
