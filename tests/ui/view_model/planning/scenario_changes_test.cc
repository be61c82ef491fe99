#include "ui/view_model/planning/scenario_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/clock.h"
#include "tests/ui/planning_samples.h"

namespace foretrain::ui {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Scenario Start() { return SampleScenario("gpt2-124m", "1x8xh100-sxm", 4, 2, 1, 32, 256); }

std::vector<std::string> TextsOf(const Scenario& before, const Scenario& after) {
  std::vector<std::string> texts;
  for (const ScenarioChange& change : ChangesOf(before, after)) texts.push_back(change.text);
  return texts;
}

TEST(ScenarioChanges, NameFieldsAndKeepDegreesTogether) {
  const Scenario before = Start();
  EXPECT_THAT(ChangesOf(before, before), IsEmpty());
  EXPECT_EQ(DescribeChanges(before, before), "nothing");
  Scenario after = before;
  after.plan.dp = 8;
  after.plan.tp = 1;
  after.plan.micro_batch = 2;
  after.cluster.device.memory_bytes_per_s *= 2;
  const std::vector<std::string> texts = TextsOf(before, after);
  ASSERT_THAT(texts, SizeIs(3));
  EXPECT_THAT(texts[0], HasSubstr("tp 2 to 1"));
  EXPECT_THAT(texts[0], HasSubstr("dp 4 to 8"));
  EXPECT_EQ(texts[1], "micro batch 1 to 2");
  EXPECT_THAT(texts[2], HasSubstr("GB/s"));
}

TEST(ScenarioChanges, LeadFromOneScenarioToTheOther) {
  const Scenario before = Start();
  Scenario after = before;
  after.plan.dp = 2;
  after.plan.pp = 2;
  after.plan.zero_stage = 1;
  after.cluster.nodes = after.machine.cluster.nodes = 2;
  after.cluster.network_bytes_per_s = after.machine.cluster.network_bytes_per_s = 5e10;
  Scenario made = before;
  for (const ScenarioChange& change : ChangesOf(before, after)) change.apply(made);
  EXPECT_EQ(made.plan, after.plan);
  EXPECT_EQ(made.cluster, after.cluster);
  EXPECT_EQ(made.machine.cluster, after.machine.cluster);
}

// Effects are told in order and sum to the difference of both forecasts.
TEST(ExplainDifference, SumsToTheDifference) {
  SystemClock clock;
  StepMaker maker(clock);
  const Scenario before = Start();
  Scenario after = before;
  after.plan.dp = 8;
  after.plan.tp = 1;
  after.plan.zero_stage = 1;
  after.cluster.device.memory_bytes_per_s /= 2;
  const auto explained = ExplainDifference(before, after, maker, [] { return false; });
  ASSERT_TRUE(explained.has_value()) << explained.error().message;
  ASSERT_THAT(explained->effects, SizeIs(3));
  double step_s = 0;
  std::int64_t memory_bytes = 0;
  for (const ChangeEffect& effect : explained->effects) {
    step_s += effect.step_s;
    memory_bytes += effect.memory_bytes;
  }
  EXPECT_NEAR(step_s, explained->after.step_s - explained->before.step_s, 1e-12);
  EXPECT_EQ(memory_bytes, explained->after.device.Total() - explained->before.device.Total());
  // Half the bandwidth of memory makes the step longer.
  EXPECT_GT(explained->effects[2].step_s, 0.0);
}

// Micro-batches of 8 do not divide a batch of 4 a rank: legal only with the larger batch.
TEST(ExplainDifference, JoinsAChangeThatIsNotLegalByItself) {
  SystemClock clock;
  StepMaker maker(clock);
  const Scenario before = Start();
  Scenario after = before;
  after.plan.micro_batch = 16;
  after.plan.global_batch = 64;
  const auto explained = ExplainDifference(before, after, maker, [] { return false; });
  ASSERT_TRUE(explained.has_value()) << explained.error().message;
  ASSERT_THAT(explained->effects, SizeIs(1));
  EXPECT_THAT(explained->effects[0].text, HasSubstr("micro batch 1 to 16"));
  EXPECT_THAT(explained->effects[0].text, HasSubstr("global batch 32 to 64"));
}

TEST(ExplainDifference, FailsForAPlanThatIsRefused) {
  SystemClock clock;
  StepMaker maker(clock);
  Scenario after = Start();
  after.plan.dp = 64;
  const auto refused = ExplainDifference(Start(), after, maker, [] { return false; });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  Scenario other = Start();
  other.plan.zero_stage = 1;
  const auto aborted = ExplainDifference(Start(), other, maker, [] { return true; });
  ASSERT_FALSE(aborted.has_value());
  EXPECT_EQ(aborted.error().code, ErrorCode::kAborted);
}

TEST(ScenarioHistory, GoesBackAndForth) {
  ScenarioHistory history;
  EXPECT_EQ(history.Undo(), nullptr);
  Scenario scenario = Start();
  history.Add(scenario);
  scenario.plan.zero_stage = 1;
  history.Add(scenario);
  scenario.plan.micro_batch = 2;
  history.Add(scenario);
  ASSERT_THAT(history.entries(), SizeIs(3));
  EXPECT_EQ(history.entries()[2].text, "micro batch 1 to 2");
  EXPECT_EQ(history.Undo()->plan.micro_batch, 1);
  EXPECT_EQ(history.Undo()->plan.zero_stage, 0);
  EXPECT_EQ(history.Undo(), nullptr);
  EXPECT_EQ(history.Redo()->plan.zero_stage, 1);
  // A new change forgets what was undone.
  scenario = history.entries()[1].scenario;
  scenario.plan.global_batch = 64;
  history.Add(scenario);
  EXPECT_THAT(history.entries(), SizeIs(3));
  EXPECT_EQ(history.Redo(), nullptr);
  EXPECT_EQ(history.GoTo(0)->plan.zero_stage, 0);
}

// A drag over 2, 4 and 8 is one entry.
TEST(ScenarioHistory, KeepsADragAsOneEntry) {
  ScenarioHistory history;
  Scenario scenario = Start();
  history.Add(scenario);
  for (const int micro : {2, 4, 8}) {
    scenario.plan.micro_batch = micro;
    history.Add(scenario);
    history.Add(scenario);
  }
  ASSERT_THAT(history.entries(), SizeIs(2));
  EXPECT_EQ(history.entries()[1].text, "micro batch 1 to 8");
  EXPECT_EQ(history.Undo()->plan.micro_batch, 1);
}

}  // namespace
}  // namespace foretrain::ui
