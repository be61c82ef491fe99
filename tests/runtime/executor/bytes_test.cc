// The bytes forecast for each communication op equal the bytes moved in a run.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/executor/step_bytes.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

void ExpectBytesOfTheForecast(const ModelSpec& model, const Plan& plan) {
  SCOPED_TRACE(Describe(plan));
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  TrainingOptions one;
  one.steps = 1;
  const Trained trained = TrainTiny(model, plan, one);
  const StepBytes predicted = PredictedBytes(*program, trained.routing);
  EXPECT_GE(predicted.size(), 8U);
  EXPECT_EQ(predicted, BytesOf(trained.timeline));
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

// Without a capacity, the forecast assumes even routing; it matches the run once it has the
// measured counts.
TEST(Bytes, OfDroplessExpertsAreThoseOfTheRunOnceItsCountsAreBound) {
  Plan plan = TinyPlan();
  plan.dp = 4;
  plan.ep = 2;
  for (const int pieces : {1, 3}) {
    plan.moe_pieces = pieces;
    for (const int zero_stage : {0, 3}) {
      plan.zero_stage = zero_stage;
      ExpectBytesOfTheForecast(TinyExperts(), plan);
    }
  }
  plan.dp = plan.tp = 2;
  plan.ep = 4;
  plan.moe_pieces = 1;
  plan.expert_tp = 1;
  plan.sequence_parallel = true;
  plan.recompute = RecomputeKind::kFull;
  ExpectBytesOfTheForecast(TinyExperts(), plan);
}

// A rank sends rows of its 16 * 2 tokens: 32 numbers of 4 bytes each. The way back moves as many
// bytes as came, and over all ranks the same.
TEST(Bytes, OfDroplessExpertsGoHomeAsTheyCame) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 2;
  TrainingOptions options;
  options.steps = 1;
  const Trained trained = TrainTiny(TinyExperts(), plan, options);
  std::map<std::string, std::int64_t> bytes;
  std::set<std::int64_t> returned;
  const auto program = Compile(TinyExperts(), plan);
  ASSERT_TRUE(program.has_value());
  for (const Span& span : trained.timeline.spans) {
    if (span.queue != Queue::kEp) continue;
    const InstructionKey key = UnpackId(span.op);
    for (const Instruction& instruction : program->ranks[0].step) {
      if (!(instruction.key == key)) continue;
      const Block& block = program->blocks[static_cast<std::size_t>(instruction.block)];
      const std::string& name = block.ops[static_cast<std::size_t>(OpNumber(span.op))].name;
      bytes[name] += span.bytes;
      if (name == "experts.dispatch") {
        EXPECT_EQ(span.bytes, 16 * 2 * 32 * 4);
      }
      if (name == "experts.return") returned.insert(span.bytes);
    }
  }
  EXPECT_EQ(bytes.at("experts.return"), bytes.at("experts.dispatch"));
  EXPECT_EQ(bytes.at("experts.dispatch.input_grad"), bytes.at("experts.return.output_grad"));
  EXPECT_GT(returned.size(), 1U) << "all choices are even";
  // Counts for two members and four experts, from 3 layers and 4 micro-batches a rank.
  EXPECT_EQ(trained.routing.size(), 2U * 3 * 4);
  for (const RoutedCounts& routed : trained.routing) {
    EXPECT_EQ(std::accumulate(routed.counts.begin(), routed.counts.end(), 0), 2 * 16 * 2);
  }
}

// 3 layers with experts, and two MTP layers in one block; 4 micro-batches a rank, two members, four
// experts. Each router assigns 2 * 16 tokens to 2 experts.
TEST(Bytes, OfSeveralMtpLayersAreToldByRouter) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 2;
  ModelSpec model = TinyMtp();
  model.predict_ahead = 2;
  ExpectBytesOfTheForecast(model, plan);
  TrainingOptions options;
  options.steps = 1;
  std::map<std::string, int> told;
  std::set<std::vector<std::int32_t>> routed_counts;
  for (const RoutedCounts& routed : TrainTiny(model, plan, options).routing) {
    ++told[routed.router];
    EXPECT_EQ(std::accumulate(routed.counts.begin(), routed.counts.end(), 0), 2 * 16 * 2);
    if (!routed.router.empty()) routed_counts.insert(routed.counts);
  }
  EXPECT_EQ(told, (std::map<std::string, int>{{"", 2 * 3 * 4}, {"ahead.", 8}, {"ahead.1.", 8}}));
  EXPECT_GT(routed_counts.size(), 4U) << "both routers chose alike";
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

// Compared with a count by hand too.
TEST(Bytes, OfContextParallelismAreThoseOfTheRun) {
  Plan plan = TinyPlan();
  plan.cp = 2;
  plan.dp = 2;
  plan.zero_stage = 1;
  // 4 samples of 8 tokens a rank, 4 layers. Llama: 32 columns of q, 16 each of k and v; 4 bytes.
  const std::int64_t tokens = std::int64_t{4} * 8 * 4 * 4;
  const std::map<ContextParallelKind, std::int64_t> expected = {
      // [k | v] travels once forward and once backward, its gradient twice.
      {ContextParallelKind::kRing, tokens * 32 * 4},
      // The own [k | v] twice, and the gradient for both ranks.
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
