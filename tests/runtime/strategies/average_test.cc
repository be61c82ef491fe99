// Moving averages of parameters in a whole run.
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"
#include "tests/runtime/whole_tensors.h"

namespace foretrain {
namespace {

struct Case {
  const char* name;
  void (*change)(Plan& plan);
};

const Case kCases[] = {
    {"one rank", [](Plan&) {}},
    {"zero 1", [](Plan& p) { p.dp = 2, p.zero_stage = 1; }},
    {"zero 3", [](Plan& p) { p.dp = 2, p.zero_stage = 3; }},
    {"masters", [](Plan& p) { p.dp = 2, p.zero_stage = 1, p.precision = Precision::kBf16; }},
    {"tp and pp", [](Plan& p) { p.tp = p.pp = 2; }},
    {"clipped momentum",
     [](Plan& p) { p.optimizer = OptimizerKind::kMomentum, p.clip_norm = 0.5; }},
    {"muon", [](Plan& p) { p.dp = 2, p.zero_stage = 1, p.optimizer = OptimizerKind::kMuon; }}};

Plan PlanOf(const Case& c) {
  Plan plan = TinyPlan();
  plan.average_decay = 0.9;
  c.change(plan);
  return plan;
}

// Runs of one, two and three steps give the parameters after each step. The average starts from the
// first weights.
TEST(Average, FollowsTheParametersOfEachStep) {
  const ModelSpec model = TinyGpt();
  TrainingOptions options;
  const auto initial = ReadTensors(model, InitialWeights(model, options.seed));
  ASSERT_TRUE(initial.has_value()) << initial.error().message;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Plan plan = PlanOf(c);
    TensorMap expected = *initial;
    for (options.steps = 1; options.steps <= 3; ++options.steps) {
      const Trained trained = TrainTiny(model, plan, options);
      ASSERT_EQ(trained.averages.size(), expected.size());
      for (auto& [name, tensor] : expected) {
        const std::vector<float>& now = trained.parameters.at(name).values;
        for (std::size_t i = 0; i < now.size(); ++i) {
          tensor.values[i] += (now[i] - tensor.values[i]) * static_cast<float>(1 - 0.9);
        }
        EXPECT_EQ(trained.averages.at(name).values, tensor.values) << name;
      }
    }
  }
}

TEST(Average, ChangesNoBitOfTheTraining) {
  for (const Case& c : kCases) {
    Plan plan = PlanOf(c);
    const Trained with = TrainTiny(TinyGpt(), plan);
    plan.average_decay = 0;
    EXPECT_TRUE(SameBits(with, TrainTiny(TinyGpt(), plan))) << c.name;
  }
}

TEST(Average, GoesOnFromACheckpointToTheBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    ExpectGoesOnToTheBit(TinyGpt(), PlanOf(c));
  }
}

TEST(Average, IsMissedInACheckpointWithoutIt) {
  SavedRun run{.folder = FreshFolder()};
  ASSERT_TRUE(TrainSaved(TinyGpt(), TinyPlan(), run).has_value());
  run.from = run.folder;
  run.steps = 6;
  const auto resumed = TrainSaved(TinyGpt(), PlanOf(kCases[0]), run);
  ASSERT_FALSE(resumed.has_value());
  EXPECT_NE(resumed.error().message.find("resume without --ema"), std::string::npos)
      << resumed.error().message;
}

// 4 bytes of each parameter, shared by the ranks of ZeRO-1.
TEST(Average, TakesFourBytesOfEachParameter) {
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.dp = 2, plan.zero_stage = 1;
  const auto bytes = [&](double decay) {
    plan.average_decay = decay;
    const auto program = Compile(model, plan);
    std::int64_t all = 0;
    for (const Buffer& buffer : program->ranks[0].buffers) {
      if (buffer.persistent) all += buffer.bytes;
    }
    return all;
  };
  const auto program = Compile(model, plan);
  std::int64_t elements = 0;
  for (const Bucket& bucket : program->ranks[0].buckets) elements += bucket.elements;
  EXPECT_EQ(bytes(0.5) - bytes(0), 4 * elements / 2);
}

}  // namespace
}  // namespace foretrain
