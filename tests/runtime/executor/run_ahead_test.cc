// Small run_ahead limits do not change training, even if a send waits for a receive many ops later.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

std::vector<float> LossesWithRunAhead(const ModelSpec& model, const Plan& plan, int run_ahead,
                                      const TrainingOptions& as) {
  std::vector<float> losses;
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  EXPECT_TRUE(data.has_value()) << data.error().message;
  if (!program.has_value() || !data.has_value()) return losses;
  RealClock clock;
  ExecutorOptions options;
  options.timeout_ns = 60'000'000'000;
  options.run_ahead = run_ahead;
  options.poison = true;
  options.seed = as.seed;
  options.learning_rate = [rate = as.learning_rate](std::int64_t) { return rate; };
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                 CpuDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  if (!executor.has_value()) return losses;
  EXPECT_TRUE(FillParameters(**executor, InitialWeights(model, as.seed)).has_value());
  RecordingSink sink;
  const auto summary = (*executor)->Run(as.steps, **data, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  losses.resize(static_cast<std::size_t>(as.steps), 0);
  for (const StepScalars& scalars : sink.scalars) {
    if (scalars.loss.has_value()) losses[static_cast<std::size_t>(scalars.step)] = *scalars.loss;
  }
  return losses;
}

// Six stages of one layer on three ranks, 8 micro-batches in 2 rounds of 4: the last rank's sends
// to the first wait for a pass further away than run_ahead.
TEST(RunAhead, TrainsAlikeWithHostsThatReadCountsInLongRounds) {
  ModelSpec model = TinyExperts();
  model.layers = 6;
  Plan single = TinyPlan();
  single.global_batch = 16;
  Plan plan = single;
  plan.pp = 3;
  plan.vpp = 2;
  plan.schedule = ScheduleKind::kInterleaved;
  plan.dp = plan.ep = 2;
  plan.recompute = RecomputeKind::kFull;
  TrainingOptions as;
  as.steps = 2;
  const Trained alone = TrainTiny(model, single, as);
  for (const int run_ahead : {1, 8, 64}) {
    SCOPED_TRACE(run_ahead);
    const std::vector<float> losses = LossesWithRunAhead(model, plan, run_ahead, as);
    ASSERT_EQ(losses.size(), alone.losses.size());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(losses[step], alone.losses[step], kLossTolerance * alone.losses[step]);
    }
  }
}

}  // namespace
}  // namespace foretrain
