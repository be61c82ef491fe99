// What a forecast says that each op of communication moves is what a run moves.
#include <gtest/gtest.h>

#include <map>

#include "sim/simulate/simulate.h"
#include "training.h"

namespace foretrain {
namespace {

using Bytes = std::map<std::pair<int, OpId>, std::int64_t>;  // by rank and op, of step 0

Bytes BytesOf(const Timeline& timeline) {
  Bytes bytes;
  for (const Span& span : timeline.spans) {
    if (span.step == 0 && IsCommunication(span.op_class)) bytes[{span.rank, span.op}] = span.bytes;
  }
  return bytes;
}

// Every op takes as long as any other.
ProgramCosts EvenCosts(const Program& program) {
  ProgramCosts costs;
  costs.seconds = {1e-6};
  costs.launch_s = costs.load = costs.error = {0.0};
  costs.measured_threads = {1.0};
  costs.provenance = {Provenance::kMeasured};
  for (const RankProgram& rank : program.ranks) {
    costs.row_of.emplace_back(static_cast<std::size_t>(rank.op_count), 0);
    costs.domain.push_back(rank.rank);
    costs.weight.push_back(1);
  }
  return costs;
}

void ExpectBytesOfTheRun(const Plan& plan) {
  SCOPED_TRACE(Describe(plan));
  const auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto forecast = Simulate(*program, EvenCosts(*program), {.min_steps = 1, .max_steps = 1});
  ASSERT_TRUE(forecast.has_value()) << forecast.error().message;
  TrainingOptions one;
  one.steps = 1;
  const Bytes predicted = BytesOf(forecast->timeline);
  EXPECT_GT(predicted.size(), 8U * 4U);
  EXPECT_EQ(predicted, BytesOf(TrainTiny(TinyGpt(), plan, one).timeline));
}

TEST(Bytes, OfAdaptersAreThoseOfTheRun) {
  for (int zero = 0; zero < 4; ++zero) {
    Plan plan = TinyPlan();
    plan.dp = plan.tp = plan.pp = 2;
    plan.zero_stage = zero;
    plan.method = TrainingMethod::kLora;
    plan.sequence_parallel = zero % 2 == 1;
    plan.clip_norm = 1;
    ExpectBytesOfTheRun(plan);
  }
}

TEST(Bytes, OfAForecastAreThoseOfTheRun) {
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
      ExpectBytesOfTheRun(plan);
    }
  }
}

}  // namespace
}  // namespace foretrain
