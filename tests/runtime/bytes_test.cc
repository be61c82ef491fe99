// What a forecast says that each op of communication moves is what a run moves.
#include <gtest/gtest.h>

#include "step_bytes.h"
#include "training.h"

namespace foretrain {
namespace {

void ExpectBytesOfTheForecast(const ModelSpec& model, const Plan& plan) {
  SCOPED_TRACE(Describe(plan));
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  TrainingOptions one;
  one.steps = 1;
  const StepBytes predicted = PredictedBytes(*program);
  EXPECT_GE(predicted.size(), 8U);
  EXPECT_EQ(predicted, BytesOf(TrainTiny(model, plan, one).timeline));
}

TEST(Bytes, OfAdaptersAreThoseOfTheRun) {
  for (int zero = 0; zero < 4; ++zero) {
    Plan plan = TinyPlan();
    plan.dp = plan.tp = plan.pp = 2;
    plan.zero_stage = zero;
    plan.method = TrainingMethod::kLora;
    plan.sequence_parallel = zero % 2 == 1;
    plan.clip_norm = 1;
    ExpectBytesOfTheForecast(TinyGpt(), plan);
  }
}

TEST(Bytes, OfShardsAreThoseOfTheRun) {
  for (int zero = 0; zero < 4; ++zero) {
    for (const GatherFormat format :
         {GatherFormat::kFp32, GatherFormat::kBf16, GatherFormat::kFp8, GatherFormat::kInt8}) {
      if (zero < 3 && format != GatherFormat::kFp32) continue;
      Plan plan = TinyPlan();
      plan.dp = 4;
      plan.pp = 2;
      plan.zero_stage = zero;
      plan.gather_format = format;
      plan.replicas = zero > 0 ? 2 : 1;
      plan.loss_scale = 256;
      plan.clip_norm = 1;
      ExpectBytesOfTheForecast(TinyGpt(), plan);
    }
  }
}

TEST(Bytes, OfExpertsAreThoseOfTheRun) {
  Plan plan = TinyPlan();
  plan.dp = 4;
  plan.ep = 2;
  plan.capacity_factor = 1.25;
  for (const int zero_stage : {0, 1, 3}) {
    plan.zero_stage = zero_stage;
    ExpectBytesOfTheForecast(TinyExperts(), plan);
  }
}

TEST(Bytes, OfTensorParallelSumsAreThoseOfTheRun) {
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
  for (const Plan& one : plans) ExpectBytesOfTheForecast(TinyGpt(), one);
}

// By a hand count too.
TEST(Bytes, OfContextParallelismAreThoseOfTheRun) {
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
    ExpectBytesOfTheForecast(TinyLlama(), plan);
    TrainingOptions one;
    one.steps = 1;
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(plan.World()), 0);
    for (const Span& span : TrainTiny(TinyLlama(), plan, one).timeline.spans) {
      if (span.op_class == OpClass::kCpComm)
        of_rank[static_cast<std::size_t>(span.rank)] += span.bytes;
    }
    for (const std::int64_t moved : of_rank) EXPECT_EQ(moved, bytes) << Name(kind);
  }
}

}  // namespace
}  // namespace foretrain
