// `train --eval-fraction` and `--eval-data` as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/app/commands/small_run.h"

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
