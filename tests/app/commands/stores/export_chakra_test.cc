// A run that is written as execution traces of Chakra and imported again has the metrics of the
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// Metrics of one step of a run.
std::map<std::string, double> MetricsOf(const TemporaryFolder& folder, const std::string& store,
                                        const std::string& step) {
  const ProgramEnd end = RunForetrain(
      folder.path(), "sql " + store +
                         " \"SELECT name, value FROM v_metric WHERE rank = -1 AND run_id = 1 AND "
                         "step = " +
                         step + "\" --json");
  EXPECT_EQ(end.code, 0) << end.errors;
  std::map<std::string, double> metrics;
  const nlohmann::json answer = LastLine(end.output);
  for (const nlohmann::json& row : answer.at("rows")) {
    metrics[row[0].get<std::string>()] = row[1].get<double>();
  }
  return metrics;
}

class ChakraForm : public testing::TestWithParam<const char*> {};

TEST_P(ChakraForm, GivesBackTheStepOfAForecastWithinOnePercent) {
  const TemporaryFolder folder;
  SmallTraining(folder);  // for its text
  const ProgramEnd train = RunForetrain(
      folder.path(),
      std::string("train --model gpt-10m --layers 2 --hidden 128 --heads 4 --sequence 64 "
                  "--global-batch 8 --data text.txt --steps 1 ") +
          GetParam());
  ASSERT_EQ(train.code, 0) << train.errors;
  const ProgramEnd written = RunForetrain(folder.path(), "export --run 1 --form chakra");
  ASSERT_EQ(written.code, 0) << written.errors;
  EXPECT_EQ(written.output, "wrote execution\n");
  const ProgramEnd imported = RunForetrain(folder.path(), "import execution --store again.db");
  ASSERT_EQ(imported.code, 0) << imported.errors;
  const nlohmann::json last = LastLine(
      RunForetrain(folder.path(),
                   "sql foretrain.db \"SELECT max(step) FROM v_step WHERE run_id = 1\" --json")
          .output);
  const auto own =
      MetricsOf(folder, "foretrain.db", std::to_string(last.at("rows")[0][0].get<int>()));
  const auto again = MetricsOf(folder, "again.db", "0");
  for (const char* name : {"compute_s", "exposed_communication_s"}) {
    ASSERT_TRUE(own.contains(name) && again.contains(name)) << name;
    EXPECT_NEAR(again.at(name), own.at(name), 0.01 * own.at("window_s")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, ChakraForm,
                         testing::Values("--ranks 2 --dp 2", "--ranks 2 --dp 1 --tp 2",
                                         "--ranks 2 --dp 1 --pp 2 --micro-batch 1"));

// A forecast holds two classes of eight ranks; each rank gets a file. Groups are those of tp 2 and
// dp 4.
TEST(ExportChakra, WritesAFileForEachRankOfAForecast) {
  const TemporaryFolder folder;
  const ProgramEnd forecast = RunForetrain(
      folder.path(),
      "predict --model gpt2-124m --layers 2 --cluster 1x8xh100 --dp 4 --tp 2 --sequence 256 "
      "--global-batch 8 --store runs.db");
  ASSERT_EQ(forecast.code, 0) << forecast.errors;
  const ProgramEnd written =
      RunForetrain(folder.path(), "export --store runs.db --form chakra --out et --json");
  ASSERT_EQ(written.code, 0) << written.errors;
  EXPECT_EQ(written.output, "{\"schema\":1,\"out\":\"et\",\"runs\":[1]}\n");
  const std::string first = folder.Read("et/rank.0.et");
  EXPECT_THAT(first, HasSubstr("process_groups"));
  EXPECT_FALSE(folder.Read("et/rank.7.et").empty());
  const nlohmann::json groups = nlohmann::json::parse(folder.Read("et/comm_groups.json"));
  int pairs = 0, fours = 0;
  for (const auto& [name, ranks] : groups.items()) {
    pairs += ranks.size() == 2 ? 1 : 0;
    fours += ranks.size() == 4 ? 1 : 0;
  }
  EXPECT_EQ(pairs, 4);
  EXPECT_EQ(fours, 2);
}

TEST(ExportChakra, RefusesASecondRunAndUnknownSteps) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 2 ").code, 0);
  const ProgramEnd against = RunForetrain(folder.path(), "export --form chakra --against 1");
  EXPECT_EQ(against.code, 2);
  EXPECT_THAT(against.errors, HasSubstr("--against with --form chakra: it holds one run"));
  const ProgramEnd step = RunForetrain(folder.path(), "export --form chakra --step 77");
  EXPECT_EQ(step.code, 2);
  EXPECT_THAT(step.errors, HasSubstr("run 2 has no step 77"));
}

}  // namespace
}  // namespace foretrain
