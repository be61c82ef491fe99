// `train --eval-fraction` and `--eval-data` as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/app/commands/small_run.h"
#include "tests/app/runs/pair.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<nlohmann::json> LinesOf(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::vector<nlohmann::json> all;
  while (std::getline(lines, line)) {
    all.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return all;
}

TEST(EvaluationOption, ShowsAndStoresTheLossOfHeldOutData) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 5 --eval-every 2 --eval-batches 2 ";
  const ProgramEnd end =
      RunForetrain(folder.path(), train + "--eval-fraction 0.2 --metrics steps.jsonl");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("step 2/5  evaluation loss "));
  EXPECT_THAT(end.output, HasSubstr(", evaluation loss "));
  std::vector<int> steps;
  double last = 0;
  for (const nlohmann::json& line : LinesOf(folder.Read("steps.jsonl"))) {
    if (!line.contains("evaluation_loss")) continue;
    steps.push_back(line.at("step"));
    last = line.at("evaluation_loss");
    EXPECT_GT(line.at("evaluation_s"), 0.0);
    EXPECT_GT(line.at("predicted_evaluation_s"), 0.0);
  }
  EXPECT_THAT(steps, ElementsAre(1, 3, 4));  // after every second step, and after the last
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_counter WHERE name = 'evaluation_loss'"), 3);

  // The same tokens from a file of their own, after the same training: the same loss.
  const std::string text = folder.Read("text.txt");
  const auto kept = static_cast<std::size_t>(static_cast<double>(text.size()) * 0.8);
  folder.Write("text.txt", text.substr(0, kept));
  folder.Write("tail.txt", text.substr(kept));
  const ProgramEnd other = RunForetrain(folder.path(), train + "--eval-data tail.txt --json");
  ASSERT_EQ(other.code, 0) << other.errors;
  EXPECT_EQ(LastLine(other.output).at("evaluation_loss"), last);
}

// A number of a command's lines of JSON that are of a step and have it.
std::vector<double> NumbersIn(const std::string& output, const char* name) {
  std::vector<double> numbers;
  for (const nlohmann::json& line : LinesOf(output)) {
    if (line.contains(name) && line.contains("step")) numbers.push_back(line.at(name));
  }
  return numbers;
}

TEST(EvaluationOption, HasTheLossOfThreadsWhereRanksAreProcesses) {
  const TemporaryFolder folder;
  const char* const evaluation = "evaluation_loss";
  // Two layers, without the plan.
  std::string small = SmallTraining(folder);
  small.replace(small.find("--layers 1"), 10, "--layers 2");
  small.replace(small.find("--dp 2"), 6, "");
  for (const char* const plan :
       {"--dp 2 ", "--dp 2 --zero 3 --ema 0.9 ", "--tp 2 ", "--pp 2 ", "--cp 2 "}) {
    const std::string train = small + plan +
                              "--json --steps 5 --eval-every 2 --eval-batches 2 "
                              "--eval-fraction 0.2 ";
    const ProgramEnd threads = RunForetrain(folder.path(), train + "--store threads.db");
    ASSERT_EQ(threads.code, 0) << threads.errors;
    const ProgramEnd apart = RunCommand(folder.path(), Pair(train, train));
    EXPECT_EQ(folder.Read("codes"), "0 0\n") << apart.errors << folder.Read("err1");
    EXPECT_EQ(NumbersIn(apart.output, evaluation), NumbersIn(threads.output, evaluation)) << plan;
    EXPECT_EQ(NumbersIn(apart.output, evaluation).size(), 3U) << plan << apart.output;
    EXPECT_EQ(NumbersIn(apart.output, "loss"), NumbersIn(threads.output, "loss")) << plan;
  }
}

TEST(EvaluationOption, IsTheSameInAllProcesses) {
  const TemporaryFolder folder;
  const std::string train =
      SmallTraining(folder) + "--json --steps 5 --eval-every 2 --eval-fraction 0.2 --timeout 60s ";
  const ProgramEnd end =
      RunCommand(folder.path(), Pair(train + "--eval-batches 2", train + "--eval-batches 1"));
  EXPECT_EQ(folder.Read("codes"), "2 2\n") << end.errors;
  EXPECT_THAT(folder.Read("err1"), HasSubstr("rank 1 has another command than rank 0"));
}

// A signal that comes to one process, at whatever moment, ends both after the same step.
TEST(EvaluationOption, EndsWithASignalToOneProcess) {
  for (const char* const delay : {"0", "0.05", "0.1"}) {
    const TemporaryFolder folder;
    const std::string train = SmallTraining(folder) +
                              "--json --steps 100000 --eval-every 1 --eval-batches 1 "
                              "--eval-fraction 0.2 --save --timeout 60s ";
    const ProgramEnd end = RunCommand(folder.path(), Pair(train, train,
                                                          kAfterAStep + std::string("sleep ") +
                                                              delay + "; kill -TERM $other) & "));
    EXPECT_EQ(folder.Read("codes"), "143 143\n") << end.errors << folder.Read("err1");
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/checkpoints"));
  }
}

TEST(EvaluationOption, IsRefusedWhereItCannotBe) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 2 ";
  for (const auto& [option, says] :
       {std::pair{"--eval-fraction 0.2 --eval-every 0", "--eval-every: 0 is below 1"},
        std::pair{"--eval-fraction 0.2 --eval-batches -1", "--eval-batches: -1 is below 1"},
        std::pair{"--eval-fraction 1.5", "--eval-fraction: \"1.5\""},
        std::pair{"--eval-fraction 0.2 --eval-data text.txt", "names the data already"},
        std::pair{"--eval-data missing.txt", "missing.txt"},
        std::pair{"--eval-fraction 0.2 --eval-batches 1000", "use --eval-batches 15"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), train + option);
    EXPECT_EQ(end.code, 2) << option;
    EXPECT_THAT(end.errors, HasSubstr(says)) << option;
  }
}

}  // namespace
}  // namespace foretrain
