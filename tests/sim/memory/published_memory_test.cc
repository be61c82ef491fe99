// Activations and states of the models of Korthikanti et al. 2022 (arXiv 2205.05198), with dropout,
// attention that writes its scores out, and fp16. Values in GiB from Calculon's stored profiles of
// the same models: s = 2048, V = 51200, t = 8.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr double kTolerance = 0.001;

struct Published {
  const char* name;
  std::int64_t heads, hidden, layers;
  int pp, vpp;
  std::int64_t micro_batch;
  double none, selective, state, state_with_embedding;
  // fractions of `none`: with sequence parallelism, selective recomputation, both, and full
  // recomputation
  double sequence_share, selective_share, both_share, full_share;
};
const std::vector<Published> kPublished = {
    {"22B", 64, 6144, 48, 1, 1, 4, 59.250, 9.5625, 45.5625, 46.22, 0.668, 0.494, 0.161, 0.076},
    {"175B", 96, 12288, 96, 8, 3, 1, 66.844, 12.352, 45.5625, 46.88, 0.620, 0.565, 0.185, 0.087},
    {"530B", 128, 20480, 105, 35, 3, 1, 114.023, 23.076, 31.641, 33.84, 0.583, 0.619, 0.202, 0.095},
    {"1T", 160, 25600, 128, 64, 1, 1, 131.250, 26.563, 32.959, 35.71, 0.583, 0.619, 0.202, 0.095}};

ModelSpec ModelOf(const Published& of) {
  ModelSpec model;
  model.layers = of.layers;
  model.hidden = of.hidden;
  model.heads = model.kv_heads = of.heads;
  model.head_dim = of.hidden / of.heads;
  model.ffn_hidden = 4 * of.hidden;
  model.vocab = 51200;
  model.max_sequence = 2048;
  return model;
}

Plan PlanOf(const Published& of) {
  Plan plan;
  plan.tp = 8;
  plan.pp = of.pp;
  plan.vpp = of.vpp;
  plan.schedule = of.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::k1f1b;
  plan.vocab_parallel = true;
  plan.sequence = 2048;
  plan.micro_batch = of.micro_batch;
  plan.global_batch = 8 * of.pp * of.micro_batch;
  plan.precision = Precision::kFp16;
  plan.attention = AttentionAlgorithm::kStandard;
  plan.dropout = plan.attention_dropout = 0.1;
  return plan;
}

// Bytes that one layer's forward keeps for its backward.
std::int64_t KeptOfLayer(const ModelSpec& model, const Plan& plan) {
  std::int64_t bytes = 0;
  const BlockRequest request{.recompute = plan.recompute};
  for (const TensorSlot& slot : BuildBlock({model, plan}, request).slots) {
    const bool kept = slot.role == SlotRole::kInput || slot.role == SlotRole::kSaved;
    if (kept) bytes += slot.bytes;
  }
  return bytes;
}

// Maximum number of layers of the first rank whose forward has run and whose backward has not.
std::int64_t LayersInFlight(const ModelSpec& model, const Plan& plan) {
  const PipelineShape shape{plan.pp, static_cast<int>(plan.MicroBatches()), plan.vpp};
  const std::int64_t of_chunk = model.layers / plan.Stages();
  std::int64_t now = 0, max = 0;
  for (const Slot& slot : MakeSlots(plan.schedule, shape, /*rank=*/0)) {
    if (slot.pass == Pass::kForward) now += of_chunk;
    if (slot.pass == Pass::kBackward) now -= of_chunk;
    max = std::max(max, now);
  }
  return max;
}

double ActivationsGib(const Published& of, bool rows, RecomputeKind recompute) {
  const ModelSpec model = ModelOf(of);
  Plan plan = PlanOf(of);
  plan.sequence_parallel = rows;
  plan.recompute = recompute;
  return GibFromBytes(KeptOfLayer(model, plan) * LayersInFlight(model, plan));
}

TEST(PublishedMemory, OfActivationsIsWhatBlocksKeep) {
  for (const Published& of : kPublished) {
    const double none = ActivationsGib(of, false, RecomputeKind::kNone);
    EXPECT_NEAR(none, of.none, kTolerance * of.none) << of.name;
    const double both = ActivationsGib(of, true, RecomputeKind::kSelective);
    EXPECT_NEAR(both, of.selective, kTolerance * of.selective) << of.name;
    // Printed to three digits.
    EXPECT_NEAR(ActivationsGib(of, true, RecomputeKind::kNone) / none, of.sequence_share, 6e-4);
    EXPECT_NEAR(ActivationsGib(of, false, RecomputeKind::kSelective) / none, of.selective_share,
                6e-4);
    EXPECT_NEAR(both / none, of.both_share, 6e-4) << of.name;
    EXPECT_NEAR(ActivationsGib(of, false, RecomputeKind::kFull) / none, of.full_share, 6e-4);
  }
}

// 18 bytes a parameter: fp16 weights 2, fp32 gradients 4, masters 4, two moments 8. The first rank
// holds its layers, an eighth of the tokens' table, and the positions'.
TEST(PublishedMemory, OfStatesIsWhatTheFirstRankHolds) {
  for (const Published& of : kPublished) {
    const ModelSpec model = ModelOf(of);
    const PeakMemory peak = PlannedPeak(model, PlanOf(of), {});
    std::int64_t state = 0;
    for (const Category category : {Category::kParameters, Category::kGradients,
                                    Category::kMasterWeights, Category::kOptimizerState}) {
      state += peak.bytes[static_cast<std::size_t>(category)];
    }
    const double layers = static_cast<double>(of.layers) / of.pp,
                 h = static_cast<double>(of.hidden);
    const double blocks = 18 * 12 * layers * h * h / 8;
    EXPECT_NEAR(blocks / kGiB, of.state, kTolerance * of.state) << of.name;
    // Further parameters: the share of the token table; positions; of a layer its norms, 4 h, and
    // biases, 2 h of outputs that are summed over ranks and 7 h / t; the last norm if there is one
    // stage.
    const double more =
        51200 * h / 8 + 2048 * h + layers * (6 * h + 7 * h / 8) + (of.pp == 1 ? 2 * h : 0);
    EXPECT_NEAR(static_cast<double>(state), blocks + 18 * more, 1e-4 * blocks) << of.name;
  }
}

// The whole first rank: its layers, and the embedding's mask of sbh / t per micro-batch in flight.
// If it is also the last stage, 4 sbh / t (1 + V / h) for the last norm, the head's input and fp32
// logits. Temporaries of a layer are not kept activations.
TEST(PublishedMemory, OfTheFirstRankIsThatOfLayersEmbeddingAndHead) {
  const Published& of = kPublished[1];
  const ModelSpec model = ModelOf(of);
  Plan plan = PlanOf(of);
  plan.sequence_parallel = true;
  plan.recompute = RecomputeKind::kSelective;
  const PeakMemory peak = PlannedPeak(model, plan, {});
  const double activations =
      GibFromBytes(peak.bytes[static_cast<std::size_t>(Category::kActivations)]);
  const double sbh = 2048.0 * static_cast<double>(of.hidden);
  // In flight: 31 chunks of 4 layers; 15 or 16 micro-batches whose embedding has run; outputs that
  // wait for their send.
  const double mask = 16 * sbh / 8 / kGiB;
  EXPECT_NEAR(activations, of.selective + mask, 0.01 * of.selective);
}

}  // namespace
}  // namespace foretrain
