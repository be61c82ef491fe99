#include "sim/memory/peak_memory.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/program/blocks/parameters.h"

namespace foretrain {
namespace {

// A Llama of 4 layers of width 1024, MLP 4096, vocabulary 8192, 512 tokens.
ModelSpec Wide() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 1024;
  model.heads = model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden = 4096;
  model.vocab = 8192;
  model.max_sequence = 512;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = false;
  model.tied_embeddings = false;
  return model;
}

Plan Bf16(std::int64_t micro_batches = 4) {
  Plan plan;
  plan.sequence = 512;
  plan.micro_batch = 2;
  plan.global_batch = 2 * micro_batches;
  plan.precision = Precision::kBf16;
  return plan;
}

// Bytes in use equal the closed form, apart from rounding to 512 bytes of a few hundred blocks per
// step. Fused kernels hold nothing else.
TEST(ReservedPeak, IsInUseWhatTheClosedFormSays) {
  for (const RecomputeKind recompute :
       {RecomputeKind::kNone, RecomputeKind::kSelective, RecomputeKind::kFull}) {
    Plan plan = Bf16();
    plan.recompute = recompute;
    const std::int64_t closed = PlannedPeak(Wide(), plan, {}).total;
    const ReservedMemory reserved = ReservedPeak(Wide(), plan, {}, SystemOptions{}, 0);
    EXPECT_GE(reserved.allocated, closed) << Describe(plan);
    // Blocks that are not split keep up to 1 MiB more than was requested.
    EXPECT_LE(reserved.allocated, closed + (64 << 20)) << Describe(plan);
    EXPECT_GE(reserved.reserved, reserved.allocated);
  }
}

TEST(ReservedPeak, DoesNotGrowWithMicroBatchesBeyondThePipelines) {
  const auto of = [](std::int64_t count) {
    return ReservedPeak(Wide(), Bf16(count), {}, SystemOptions{}, 0).reserved;
  };
  EXPECT_EQ(of(8), of(64));
}

// A SwiGLU of 4 layers keeps 2 x 1024 rows x 4096 x 2 bytes more per layer, 32 MiB in all.
// Gradients of all parameters are 2 bytes each, and so are DDP's copies.
TEST(ReservedPeak, CountsWhatTheSystemHoldsBesideTheProgram) {
  const ModelSpec model = Wide();
  const auto of = [&](const Plan& plan, const SystemOptions& system) {
    return ReservedPeak(model, plan, {}, system, 0).allocated;
  };
  const std::int64_t plain = of(Bf16(), {});
  SystemOptions eager;
  eager.fused_elementwise = false;
  EXPECT_NEAR(GibFromBytes(of(Bf16(), eager) - plain), 4.0 * 1024 * 4096 * 2 / kGiB, 0.001);
  SystemOptions ddp;
  ddp.ddp_buckets = true;
  Plan two = Bf16();
  two.dp = 2;
  const std::int64_t without = of(two, {});
  const double parameters = static_cast<double>(CountParameters(model, two).all);
  EXPECT_NEAR(GibFromBytes(of(two, ddp) - without), 2 * parameters / kGiB, 0.001);
  two.zero_stage = 1;
  EXPECT_EQ(of(two, ddp), of(two, {}));
}

// N parameters in bf16 with gradients reduced in bf16; one rank of two updates half. Its flat
// gradients are N bytes and their fp32 copy 2 N bytes, on top of 2 N + 2 N of weights and gradients
// and 12 N / 2 of masters and moments. That is the peak, because one short micro-batch needs less.
TEST(ReservedPeak, CopiesGradientsOfTheOwnPartForTheUpdate) {
  ModelSpec model = Wide();
  Plan plan = Bf16(1);
  plan.sequence = model.max_sequence = 16;
  plan.micro_batch = plan.global_batch = 1;
  plan.gradients = GradientFormat::kCompute;
  plan.dp = 2;
  plan.global_batch = 2;
  plan.zero_stage = 1;
  SystemOptions system;
  system.flat_update = true;
  const auto n = static_cast<double>(CountParameters(model, plan).all);
  const ReservedMemory held = ReservedPeak(model, plan, {}, system, 0);
  EXPECT_NEAR(static_cast<double>(held.allocated) / n, 2 + 2 + 6 + 1 + 2, 0.05);
  plan.gradients = GradientFormat::kFp32;  // the reduced gradient serves the update as it is
  EXPECT_EQ(ReservedPeak(model, plan, {}, system, 0).allocated,
            ReservedPeak(model, plan, {}, SystemOptions{}, 0).allocated);
}

// Gradients of the same model are reduced in fp32, 4 N bytes. They are copied for that in pieces of
// more than 1,000,000 elements, each closed by one tensor. The table of 8192 x 1024 is the largest.
// One of 16 ranks updates N / 16, less than the table: the norm's copy has 8 N / 16 bytes, and
// those of the update have 2 + 4 instead of 8.
TEST(ReservedPeak, CopiesGradientsForTheirSumAndNorm) {
  ModelSpec model = Wide();
  Plan plan = Bf16(1);
  plan.sequence = model.max_sequence = 16;
  plan.micro_batch = 1;
  plan.dp = 2;
  plan.global_batch = 2;
  plan.zero_stage = 1;
  SystemOptions sums;
  sums.flat_reduce_elements = 1'000'000;
  const auto n = static_cast<double>(CountParameters(model, plan).all);
  const double table = 8192 * 1024;
  const ReservedMemory summed = ReservedPeak(model, plan, {}, sums, 0);
  EXPECT_NEAR(static_cast<double>(summed.allocated), (2 + 4 + 6) * n + 4 * (1e6 + table), 0.05 * n);
  plan.gradients = GradientFormat::kCompute;
  plan.dp = 16;
  plan.global_batch = 16;
  SystemOptions norm;
  norm.flat_update = norm.wide_norm = true;
  const ReservedMemory normed = ReservedPeak(model, plan, {}, norm, 0);
  EXPECT_NEAR(static_cast<double>(normed.allocated), (4 + (12 + 8) / 16.0) * n, 0.05 * n);
}

// 1024 rows of 8192 logits: the program holds 4 bytes and a gradient of 2; systems that keep 16
// bits hold 2 and 2, or 2 alone. Eager kernels hold 2 + 4 bytes more than the program. Metrics
// after a backward, when its activations are gone, hold none then.
TEST(ReservedPeak, CountsLogitsAsTheSystemKeepsThem) {
  const ModelSpec model = Wide();
  const auto of = [&](const SystemOptions& system) {
    return static_cast<double>(ReservedPeak(model, Bf16(), {}, system, 0).allocated);
  };
  const double logits = 1024 * 8192;
  const double program = of({});
  SystemOptions system;
  system.logit_bytes = 4;
  EXPECT_NEAR((program - of(system)) / logits, 2, 0.1);
  system.logit_bytes = 2;
  EXPECT_NEAR((program - of(system)) / logits, 4, 0.1);
  SystemOptions eager;
  eager.fused_loss = false;
  EXPECT_NEAR((of(eager) - program) / logits, 6, 0.1);
  eager.late_metrics = true;
  EXPECT_NEAR((of(eager) - program) / logits, 0, 0.1);
}

// An eager RMSNorm keeps its input in fp32 instead of 16 bits, and 16 bits before its weight: 4
// bytes more per number, twice per layer and once in the head.
TEST(ReservedPeak, CountsWhatEagerNormsKeep) {
  SystemOptions eager;
  eager.fused_norm = false;
  const auto of = [&](const SystemOptions& system) {
    return static_cast<double>(ReservedPeak(Wide(), Bf16(), {}, system, 0).allocated);
  };
  EXPECT_NEAR((of(eager) - of({})) / (4.0 * 1024 * 1024), 2 * 4 + 1, 0.6);
}

// With parameters sharded over two ranks, a layer is gathered while the previous one computes: two
// layers of bf16 are held. If memory is freed one gather later, three are held: 4 x 1024 x 1024 + 3
// x 1024 x 4096 elements more are in use.
TEST(ReservedPeak, FreesGatheredParametersAGatherLater) {
  Plan plan = Bf16();
  plan.dp = 2;
  plan.global_batch *= 2;
  plan.zero_stage = 3;
  plan.recompute = RecomputeKind::kFull;
  SystemOptions late;
  late.late_gathers = 1;
  const std::int64_t soon = ReservedPeak(Wide(), plan, {}, SystemOptions{}, 0).allocated;
  const std::int64_t later = ReservedPeak(Wide(), plan, {}, late, 0).allocated;
  const double layer = 2.0 * (4 * 1024 * 1024 + 3 * 1024 * 4096);
  EXPECT_GE(static_cast<double>(later - soon), 0.95 * layer);
  EXPECT_LE(static_cast<double>(later - soon), 3.05 * layer);  // and gradients likewise, in fp32
}

// Memory that communication has used is freed later, so more is in use at once.
TEST(ReservedPeak, HoldsWhatAnotherQueueHasTouched) {
  Plan plan = Bf16();
  plan.tp = 2;
  plan.sequence_parallel = plan.vocab_parallel = true;
  plan.recompute = RecomputeKind::kFull;
  SystemOptions late;
  late.late_free_ops = 50;
  const ReservedMemory soon = ReservedPeak(Wide(), plan, {}, SystemOptions{}, 0);
  const ReservedMemory later = ReservedPeak(Wide(), plan, {}, late, 0);
  EXPECT_GT(later.reserved, soon.reserved);
}

}  // namespace
}  // namespace foretrain
