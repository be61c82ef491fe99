// The whole loop on one machine, small: forecast, train, list, compare, export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

constexpr const char* kTiny =
    "--model gpt-10m --layers 2 --sequence 32 --global-batch 4 --micro-batch 1 ";

std::string Text() {
  std::string text;
  for (int i = 0; text.size() < 20000; ++i)
    text += "line " + std::to_string(i % 97) + " of the text\n";
  return text;
}

// The parts of the bubble and of exposed communication of the drawn step add up; both stages wait.
void ExpectWaitsThatAddUp(const std::string& folder) {
  for (const std::string run : {"1", "2"}) {
    const ProgramEnd end = RunForetrain(folder, "analyze --json --run " + run);
    ASSERT_EQ(end.code, 0) << end.errors;
    const nlohmann::json metrics = LastLine(end.output);
    const nlohmann::json& waits = metrics.at("waits");
    double bubble_s = 0, exposed_s = 0;
    for (const auto& [cause, seconds] : waits.at("bubble").items()) {
      EXPECT_GE(seconds.get<double>(), 0) << cause << " of run " << run;
      bubble_s += seconds.get<double>();
    }
    for (const auto& [part, seconds] : waits.at("exposed_communication").items()) {
      EXPECT_GE(seconds.get<double>(), 0) << part << " of run " << run;
      exposed_s += seconds.get<double>();
    }
    EXPECT_EQ(waits.at("bubble").size(), 7U);
    EXPECT_GT(bubble_s, 0);
    EXPECT_NEAR(exposed_s, metrics.at("exposed_communication_s").get<double>(), 1e-6);
  }
}

TEST(Loop, TrainsAndExplainsARunOnTwoRanks) {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text.txt", Text());
  const ProgramEnd train =
      RunForetrain(folder.path(), std::string("train --json --ranks 2 --pp 2 --steps 4 ") + kTiny +
                                      "--data " + text);
  ASSERT_EQ(train.code, 0) << train.errors;
  const nlohmann::json summary = LastLine(train.output);
  EXPECT_EQ(summary.at("steps"), 4);
  EXPECT_GT(summary.at("tokens_per_s").get<double>(), 0);

  const ProgramEnd runs = RunForetrain(folder.path(), "runs --json");
  ASSERT_EQ(runs.code, 0) << runs.errors;
  const nlohmann::json list = LastLine(runs.output).at("runs");
  ASSERT_EQ(list.size(), 2U);  // the forecast and the run
  EXPECT_EQ(list[0].at("kind"), "predicted");
  EXPECT_EQ(list[1].at("kind"), "measured");
  EXPECT_EQ(list[1].at("status"), "finished");

  const ProgramEnd compare = RunForetrain(folder.path(), "compare --json");
  ASSERT_EQ(compare.code, 0) << compare.errors;
  const nlohmann::json comparison = LastLine(compare.output);
  EXPECT_GT(comparison.at("measured").at("step_time_s").get<double>(), 0);
  EXPECT_GT(comparison.at("predicted").at("step_time_s").get<double>(), 0);
  EXPECT_TRUE(comparison.at("gap").contains("gemm_s"));

  const ProgramEnd analyze = RunForetrain(folder.path(), "analyze");
  EXPECT_EQ(analyze.code, 0) << analyze.errors;
  EXPECT_THAT(analyze.output, testing::HasSubstr("rank   1 |"));
  EXPECT_THAT(analyze.output, testing::HasSubstr("suggestions: one option changed"));
  const ProgramEnd tried = RunForetrain(folder.path(), "analyze --json");
  const nlohmann::json changes = LastLine(tried.output).at("suggestions");
  // The same forecast as the one stored with the run.
  EXPECT_NEAR(changes.at("as_is_step_time_s").get<double>(),
              comparison.at("predicted").at("step_time_s").get<double>(), 1e-9);
  ExpectWaitsThatAddUp(folder.path());

  const ProgramEnd exported = RunForetrain(folder.path(), "export --out trace.json");
  ASSERT_EQ(exported.code, 0) << exported.errors;
  EXPECT_GT(std::filesystem::file_size(folder.path() + "/trace.json"), 10000U);
}

TEST(Loop, SaysHowToGoOnAfterARunOfStepsThatCanBeCompared) {
  const TemporaryFolder folder;
  const std::string train = std::string("train --ranks 1 ") + kTiny + "--data " +
                            folder.Write("text.txt", Text()) + " --steps ";
  const ProgramEnd one = RunForetrain(folder.path(), train + "1");
  EXPECT_THAT(one.output, testing::HasSubstr("recorded as run 2"));
  EXPECT_THAT(one.output, testing::Not(testing::HasSubstr("foretrain compare")));
  const ProgramEnd two = RunForetrain(folder.path(), train + "2");
  for (const std::string command : {"compare", "analyze"}) {
    const std::string said = command + " --store foretrain.db --run 4";
    EXPECT_THAT(two.output, testing::HasSubstr("foretrain " + said + "   "));
    EXPECT_EQ(RunForetrain(folder.path(), said).code, 0);
  }
}

TEST(Loop, GivesTheSameLossAgain) {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text.txt", Text());
  const std::string command =
      std::string("train --json --ranks 2 --dp 2 --steps 3 --clip 1 ") + kTiny + "--data " + text;
  const ProgramEnd first = RunForetrain(folder.path(), command);
  const ProgramEnd second = RunForetrain(folder.path(), command);
  ASSERT_EQ(first.code, 0) << first.errors;
  ASSERT_EQ(second.code, 0) << second.errors;
  EXPECT_EQ(LastLine(first.output).at("loss"), LastLine(second.output).at("loss"));
}

// All losses, and the bytes of the checkpoint: parameters, moments and random state of both ranks.
TEST(Loop, GivesTheSameBitsAfterAHundredSteps) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --capture off --steps 100 ";
  const ProgramEnd first = RunForetrain(folder.path(), train + "--save one");
  const ProgramEnd second = RunForetrain(folder.path(), train + "--save two");
  ASSERT_EQ(first.code, 0) << first.errors;
  ASSERT_EQ(second.code, 0) << second.errors;
  ASSERT_EQ(LossesOf(first.output).size(), 100U);
  EXPECT_EQ(LossesOf(first.output), LossesOf(second.output));
  for (const std::string rank : {"0", "1"}) {
    const std::string part = "/step-00000100/rank-0000" + rank + ".safetensors";
    EXPECT_GT(folder.Read("one" + part).size(), 100'000U);
    EXPECT_TRUE(folder.Read("one" + part) == folder.Read("two" + part)) << part;
  }
}

// docs/training.md recommends it to hold back an update that is not finite.
TEST(Loop, GivesTheSameLossesUnderALimitThatNoGradientReaches) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 4 ";
  const ProgramEnd without = RunForetrain(folder.path(), train);
  const ProgramEnd with = RunForetrain(folder.path(), train + "--clip 1e30");
  ASSERT_EQ(with.code, 0) << with.errors;
  EXPECT_EQ(LastLine(with.output).at("loss"), LastLine(without.output).at("loss"));
  EXPECT_NE(with.output.find("gradient_norm"), std::string::npos);
  EXPECT_EQ(without.output.find("gradient_norm"), std::string::npos);
}

TEST(Loop, StoresNoMetricsOfSpansThatWereNotRecorded) {
  const TemporaryFolder folder;
  const ProgramEnd train =
      RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3 --capture off");
  ASSERT_EQ(train.code, 0) << train.errors;
  EXPECT_THAT(train.output, testing::HasSubstr("step time"));
  EXPECT_THAT(train.output, testing::Not(testing::HasSubstr("idle")));
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_span WHERE run_id = 2"), 0);
  // One value for the run and one for each of three steps.
  const std::string count = "SELECT count(*) FROM v_metric WHERE run_id = 2 AND name = ";
  EXPECT_EQ(ValueIn(folder, count + "'step_time_s'"), 4);
  EXPECT_EQ(ValueIn(folder, count + "'idle_s'"), 0);
  const ProgramEnd analyze = RunForetrain(folder.path(), "analyze");
  EXPECT_EQ(analyze.code, 0);
  EXPECT_THAT(analyze.output, testing::HasSubstr("--capture off"));
}

TEST(Loop, SearchesPlansThatTrainAndPredictAccept) {
  const TemporaryFolder folder;
  const ProgramEnd plan = RunForetrain(folder.path(), "plan --json --model gpt-10m --ranks 2");
  ASSERT_EQ(plan.code, 0) << plan.errors;
  const nlohmann::json result = LastLine(plan.output);
  EXPECT_GT(result.at("plans_evaluated").get<int>(), 10);
  ASSERT_FALSE(result.at("plans").empty());
  const double best = result.at("plans")[0].at("step_time_s").get<double>();
  for (const nlohmann::json& other : result.at("plans"))
    EXPECT_GE(other.at("step_time_s").get<double>(), best);
}

TEST(Loop, FitNamesCommandsWithAllTheyTake) {
  const TemporaryFolder folder;
  const ProgramEnd fit = RunForetrain(
      folder.path(), "fit --models gpt-10m --method full --ranks 2 --max-memory 2GiB --json");
  ASSERT_EQ(fit.code, 0) << fit.errors;
  const std::string command = LastLine(fit.output).at("rows").at(0).at("command");
  EXPECT_THAT(command, testing::StartsWith("foretrain train --data FILE --model gpt-10m "));
  EXPECT_THAT(command, testing::HasSubstr(" --ranks 2"));
  EXPECT_THAT(command, testing::HasSubstr(" --max-memory 2GiB"));
}

TEST(Loop, EveryCommandExplainsItself) {
  const TemporaryFolder folder;
  const ProgramEnd help = RunForetrain(folder.path(), "--help");
  EXPECT_EQ(help.code, 0);
  for (const char* command :
       {"models", "clusters", "devices", "plan", "predict", "train", "compare", "analyze",
        "calibrate", "bench", "export", "runs", "view", "demo"}) {
    EXPECT_THAT(help.output, testing::HasSubstr(command));
    const ProgramEnd end = RunForetrain(folder.path(), std::string(command) + " --help");
    EXPECT_EQ(end.code, 0) << command;
    EXPECT_THAT(end.output, testing::HasSubstr("--json")) << command;
  }
}

}  // namespace
}  // namespace foretrain
