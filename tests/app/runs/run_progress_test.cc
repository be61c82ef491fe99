#include "app/runs/run_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// Four samples of 16 tokens a step; run 1 is the forecast.
TEST(RunProgress, HasTheSeriesOfTheJobAndItsForecast) {
  const TemporaryFolder folder;
  const ProgramEnd ran = RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3");
  ASSERT_EQ(ran.code, 0) << ran.errors;
  const auto progress = ProgressOfStoredRun(folder.path() + "/foretrain.db", 2);
  ASSERT_TRUE(progress.has_value()) << progress.error().message;
  EXPECT_EQ(progress->info.id, 2);
  EXPECT_EQ(progress->info.status, RunStatus::kFinished);
  EXPECT_DOUBLE_EQ(progress->tokens_per_step, 64);
  EXPECT_GT(progress->predicted_step_s, 0);
  const auto losses = std::count_if(progress->series.begin(), progress->series.end(),
                                    [](const Counter& counter) { return counter.name == "loss"; });
  EXPECT_EQ(losses, 3);
  for (const Counter& counter : progress->series) {
    EXPECT_EQ(counter.rank, -1);
    EXPECT_GE(counter.step, 0);
  }
}

TEST(RunProgress, SaysWhyThereIsNone) {
  const TemporaryFolder folder;
  const auto missing = ProgressOfStoredRun(folder.path() + "/none.db", 1);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("none.db"));
}

}  // namespace
}  // namespace foretrain
