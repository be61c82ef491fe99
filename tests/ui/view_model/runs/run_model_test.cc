#include "ui/view_model/runs/run_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TrainingNews Output(std::string text) { return {.output = std::move(text)}; }
TrainingNews Ended(int exit_code, int signal = 0) {
  TrainingNews news;
  news.end = TrainingEnd{exit_code, signal};
  return news;
}

RunModel Started(const std::string& steps = "4") {
  RunModel model;
  Start({.data = "book.txt", .steps = steps}, model);
  return model;
}

TEST(RunForm, BecomesArgumentsOfTrain) {
  const RunForm form{.model = "gpt-10m",
                     .data = "my book.txt",
                     .steps = "20",
                     .ranks = "2",
                     .device = "cpu",
                     .store = "runs.db",
                     .options = "--dp 2 --schedule '1f1b'"};
  const auto words = ArgumentsOf(form);
  ASSERT_TRUE(words.has_value());
  EXPECT_THAT(*words, ElementsAre("train", "--model", "gpt-10m", "--data", "my book.txt", "--steps",
                                  "20", "--ranks", "2", "--device", "cpu", "--store", "runs.db",
                                  "--dp", "2", "--schedule", "1f1b", "--json"));
  EXPECT_THAT(JoinWords(*words), HasSubstr("--data 'my book.txt' --steps 20"));
  const auto again = SplitWords(JoinWords(*words));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, *words);
}

TEST(RunForm, NeedsDataAndClosedQuotes) {
  EXPECT_THAT(ArgumentsOf({}).error().message, HasSubstr("data: give a text"));
  const auto open = ArgumentsOf({.data = "x", .options = "--dp '2"});
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(open.error().message, HasSubstr("opens and does not close"));
}

TEST(RunForm, GoesOnFromACheckpointWithTheOptionsOfItsRun) {
  RunForm form{.model = "gpt-10m", .data = {}, .steps = "40", .ranks = "2", .store = "runs.db"};
  form.options = "--lr 1e-4";
  form.save = form.resume = "my checkpoints";
  const auto words = ArgumentsOf(form);
  ASSERT_TRUE(words.has_value()) << words.error().message;
  EXPECT_THAT(*words, ElementsAre("train", "--resume=my checkpoints", "--steps", "40", "--store",
                                  "runs.db", "--save=my checkpoints", "--lr", "1e-4", "--json"));
  form.resume.clear();
  form.data = "book.txt";
  EXPECT_THAT(*ArgumentsOf(form), testing::Contains("--save=my checkpoints"));
}

// Steps of 64 tokens: 32 tokens/s took 2 s, where 1.5 s were forecast.
TEST(RunModel, TellsHowItDoesAgainstItsForecast) {
  RunModel model;
  EXPECT_FALSE(model.PredictedTokensPerS().has_value());
  EXPECT_FALSE(model.PredictedResidentBytes().has_value());
  TrainingNews news;
  news.output =
      "{\"step\":0,\"loss\":5.5,\"step_time_s\":2,\"predicted_step_time_s\":1.5,"
      "\"tokens_per_s\":32,\"predicted_resident_bytes\":1000}\n";
  Take(news, model);
  ASSERT_TRUE(model.PredictedTokensPerS().has_value());
  EXPECT_DOUBLE_EQ(*model.PredictedTokensPerS(), 64 / 1.5);
  EXPECT_DOUBLE_EQ(model.PredictedResidentBytes().value_or(0), 1000);
  EXPECT_EQ(AgainstForecast(32, 64 / 1.5), "25.0 % under forecast");
  EXPECT_EQ(AgainstForecast(1.1, 1), "10.0 % over forecast");
  EXPECT_EQ(AgainstForecast(1.0004, 1), "as forecast");
}

// A run of 4,096 tokens a step that another process records.
TEST(FollowedRun, IsReadFromItsSeries) {
  RunProgress progress;
  progress.info.id = 7;
  progress.info.status = RunStatus::kRunning;
  progress.tokens_per_step = 4096;
  progress.predicted_step_s = 1.5;
  EXPECT_EQ(ModelOf(progress).phase, RunPhase::kStarting);
  progress.series = {{"core_wait_s", -1, 9, 0, 0.1},   {"loss", -1, 0, 0, 5.5},
                     {"loss", -1, 1, 0, 5.25},         {"resident_bytes", -1, 0, 0, 100},
                     {"resident_bytes", -1, 1, 0, 80}, {"tokens_per_s", -1, 1, 0, 2048}};
  RunModel model = ModelOf(progress);
  EXPECT_EQ(model.phase, RunPhase::kTraining);
  EXPECT_TRUE(model.IsGoing());
  EXPECT_EQ(model.followed, 7);
  ASSERT_THAT(model.log.steps(), SizeIs(2));
  EXPECT_EQ(model.log.steps()[1].loss, 5.25);
  EXPECT_DOUBLE_EQ(model.log.steps()[1].seconds, 2);
  EXPECT_DOUBLE_EQ(model.PredictedTokensPerS().value_or(0), 4096 / 1.5);
  EXPECT_EQ(model.peak_resident_bytes, 100);
  EXPECT_FALSE(model.CanCompare());
  progress.info.status = RunStatus::kFailed;
  progress.info.message = "rank 1 ended";
  model = ModelOf(progress);
  EXPECT_EQ(model.phase, RunPhase::kFailed);
  EXPECT_EQ(model.reason, "rank 1 ended");
  EXPECT_TRUE(model.CanCompare());
}

TEST(FollowedRun, IsTheNewestThatIsRecorded) {
  std::vector<RunInfo> runs(4);
  EXPECT_EQ(RunningOf({}), 0);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].id = static_cast<RunId>(i) + 1;
  runs[0].status = RunStatus::kFinished;
  runs[3].kind = RunKind::kPredicted;
  EXPECT_EQ(RunningOf(runs), 3);
}

TEST(SplitWords, TakesQuotesAndBackslashes) {
  EXPECT_THAT(*SplitWords("  a  'b c' \"d'e\" f\\ g '' "),
              ElementsAre("a", "b c", "d'e", "f g", ""));
  EXPECT_THAT(*SplitWords(""), SizeIs(0));
}

TEST(RunModel, ReadsStepsFromPiecesOfLines) {
  RunModel model = Started();
  EXPECT_EQ(model.phase, RunPhase::kStarting);
  Take(Output("{\"step\":0,\"loss\":5.5,\"step_ti"), model);
  EXPECT_EQ(model.phase, RunPhase::kStarting);
  Take(
      Output("me_s\":2,\"tokens_per_s\":100,\"gradient_norm\":1.5}\n{\"step\":1,\"loss\":5.25,"
             "\"step_time_s\":1,\"tokens_per_s\":200}\n{\"step\":2,\"loss\":null,\"step_time_s\":3,"
             "\"tokens_per_s\":400}\n"),
      model);
  EXPECT_EQ(model.phase, RunPhase::kTraining);
  ASSERT_THAT(model.log.steps(), SizeIs(3));
  EXPECT_EQ(model.log.steps()[0].loss, 5.5);
  EXPECT_EQ(model.log.steps()[0].gradient_norm, 1.5);
  EXPECT_TRUE(std::isnan(model.log.steps()[2].loss));
  // Three of four steps; the first warms up, so medians are over 1 s and 3 s, 200 and 400 tokens/s.
  EXPECT_EQ(model.Progress(), 0.75);
  EXPECT_EQ(model.MedianStepS(), 2.0);
  EXPECT_EQ(model.TokensPerS(), 300.0);
  EXPECT_EQ(model.SecondsLeft(), 2.0);
  EXPECT_FALSE(model.CanCompare());
  Take(Output("{\"schema\":1,\"run\":7,\"forecast\":6,\"steps\":4}\n"), model);
  Take(Ended(0), model);
  EXPECT_EQ(model.phase, RunPhase::kDone);
  EXPECT_EQ(model.log.run(), 7);
  EXPECT_EQ(model.log.forecast(), 6);
  EXPECT_EQ(model.reason, "all steps are done");
  EXPECT_TRUE(model.CanCompare());
  EXPECT_EQ(model.Progress(), 1.0);
}

TEST(RunModel, TellsOfCheckpoints) {
  RunModel model = Started();
  Take(Output("{\"checkpoint\":\"c/step-2\",\"steps\":2}\n{\"checkpoint\":\"\",\"steps\":4,"
              "\"checkpoint_error\":\"rank 1: the disk is full\"}\n"),
       model);
  EXPECT_THAT(model.log.lines(),
              ElementsAre("saved c/step-2", "no checkpoint: rank 1: the disk is full"));
  Take(Ended(0), model);
  EXPECT_EQ(model.phase, RunPhase::kDone);
}

TEST(RunModel, SaysWhyARunFailed) {
  RunModel model = Started();
  Take(Output("{\"error\":\"--data: no such file\",\"exit_code\":2,\"schema\":1}\n"), model);
  Take(Ended(2), model);
  EXPECT_EQ(model.phase, RunPhase::kFailed);
  EXPECT_EQ(model.reason, "--data: no such file");
  EXPECT_FALSE(model.CanCompare());

  // Without its own message the last line counts, even if it is unfinished.
  model = Started();
  TrainingNews news;
  news.errors = "warming up\nrank 1: out of memory";
  Take(news, model);
  Take(Ended(3), model);
  EXPECT_EQ(model.reason, "rank 1: out of memory");

  model = Started();
  Take(Ended(0, SIGKILL), model);
  EXPECT_EQ(model.phase, RunPhase::kFailed);
  EXPECT_THAT(model.reason, HasSubstr("run out of memory"));
  model = Started();
  Take(Ended(0, SIGSEGV), model);
  EXPECT_THAT(model.reason, HasSubstr("a fault"));
  model = Started();
  Take(Ended(1), model);
  EXPECT_EQ(model.reason, "the plan does not fit this machine (exit code 1)");
}

TEST(RunModel, TellsAStopFromAFailure) {
  for (const TrainingEnd end : {TrainingEnd{130, 0}, TrainingEnd{0, SIGINT}}) {
    RunModel model = Started();
    Take(Ended(end.exit_code, end.signal), model);
    EXPECT_EQ(model.phase, RunPhase::kStopped);
  }
}

TEST(RunModel, SaysWhyARunDidNotStart) {
  RunModel model;
  FailToStart({ErrorCode::kResourceExhausted, "no process can be made"}, model);
  EXPECT_EQ(model.phase, RunPhase::kFailed);
  EXPECT_EQ(model.reason, "no process can be made");
  EXPECT_FALSE(model.IsGoing());
}

TEST(RunModel, KeepsABoundedNumberOfLinesAndReadings) {
  RunModel model = Started();
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i) + "\n";
  Take(Output(text + std::string(10 * kMaxLineBytes, 'x') + "\n{not json}\n"), model);
  EXPECT_THAT(model.log.lines(), SizeIs(kMaxLines));
  EXPECT_EQ(model.log.lines().back(), "{not json}");
  EXPECT_THAT(model.log.lines()[kMaxLines - 2], SizeIs(kMaxLineBytes));
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(kMaxReadings); ++i) {
    TrainingNews news;
    news.resident_bytes = i;
    Take(news, model);
  }
  // 0, 2, 4, ... of 4,097.
  ASSERT_THAT(model.resident_bytes, SizeIs(kMaxReadings / 2 + 1));
  EXPECT_EQ(model.resident_bytes[1], 2);
  EXPECT_EQ(model.peak_resident_bytes, static_cast<std::int64_t>(kMaxReadings));
}

TEST(FoldCurve, KeepsTheExtremesOfEachColumn) {
  // Value i of six lies at 2 i / 5 of three columns: two values per column.
  const std::vector<double> values{4, 9, 1, 7, 3, 2};
  const std::vector<CurveColumn> folded = FoldCurve(values, 6, 3);
  ASSERT_THAT(folded, SizeIs(3));
  EXPECT_EQ(folded[0].low, 4.0);
  EXPECT_EQ(folded[0].high, 9.0);
  EXPECT_EQ(folded[1].low, 1.0);
  EXPECT_EQ(folded[1].high, 7.0);
  EXPECT_EQ(folded[1].last, 7.0);
  EXPECT_EQ(folded[2].column, 2);
  EXPECT_EQ(folded[2].last, 2.0);
}

TEST(FoldCurve, LeavesRoomForWhatIsToComeAndOutWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{4, nan, 1};
  const std::vector<CurveColumn> folded = FoldCurve(values, 5, 5);
  ASSERT_THAT(folded, SizeIs(2));
  EXPECT_EQ(folded[0].column, 0);
  EXPECT_EQ(folded[1].column, 2);
  EXPECT_THAT(FoldCurve({}, 0, 10), SizeIs(0));
  EXPECT_EQ(FoldCurve(std::vector<double>{3}, 0, 10)[0].column, 0);
}

}  // namespace
}  // namespace foretrain::ui
