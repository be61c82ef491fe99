// A run that is written in the form of PyTorch's profiler and imported again has the metrics of the
// run itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

using Metrics = std::map<std::pair<std::string, int>, double>;  // by name and step

Metrics MetricsOf(const TemporaryFolder& folder, const std::string& store) {
  const ProgramEnd end = RunForetrain(
      folder.path(),
      "sql " + store +
          " \"SELECT name, step, value FROM v_metric WHERE rank = -1 AND run_id = 1\" --json");
  EXPECT_EQ(end.code, 0) << end.errors;
  Metrics metrics;
  const nlohmann::json answer = LastLine(end.output);
  for (const nlohmann::json& row : answer.at("rows")) {
    metrics[{row[0].get<std::string>(), row[1].get<int>()}] = row[2].get<double>();
  }
  return metrics;
}

class KinetoForm : public testing::TestWithParam<const char*> {};

// The forecast of a training: its times do not depend on the machine's load. What waits for inputs
// and what for its launch cannot be told from a trace without launches, so their sum is compared.
TEST_P(KinetoForm, GivesBackEachMetricWithinOnePercent) {
  const TemporaryFolder folder;
  SmallTraining(folder);  // for its text
  const ProgramEnd train = RunForetrain(
      folder.path(),
      std::string("train --model gpt-10m --layers 2 --hidden 128 --heads 4 --sequence 64 "
                  "--global-batch 8 --data text.txt --steps 1 ") +
          GetParam());
  ASSERT_EQ(train.code, 0) << train.errors;
  const ProgramEnd written =
      RunForetrain(folder.path(), "export --run 1 --form kineto --out traces");
  ASSERT_EQ(written.code, 0) << written.errors;
  const ProgramEnd imported = RunForetrain(folder.path(), "import traces --store again.db");
  ASSERT_EQ(imported.code, 0) << imported.errors;

  const Metrics own = MetricsOf(folder, "foretrain.db");
  const Metrics again = MetricsOf(folder, "again.db");
  int compared = 0;
  for (const char* name :
       {"step_time_s", "window_s", "compute_s", "exposed_communication_s", "exposed_copy_s",
        "host_s", "idle_s", "peer_wait_s", "drain_s", "peak_device_bytes"}) {
    for (const auto& [key, value] : own) {
      if (key.first != name) continue;
      const auto found = again.find(key);
      ASSERT_NE(found, again.end()) << name << " of step " << key.second;
      // Times against the step's, because some are 0.
      const auto window = own.find({"window_s", key.second});
      const double scale =
          key.first.ends_with("_s") && window != own.end() ? window->second : value;
      EXPECT_NEAR(found->second, value, 0.01 * scale) << name << " of step " << key.second;
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

INSTANTIATE_TEST_SUITE_P(Plans, KinetoForm,
                         testing::Values("--ranks 2 --dp 2", "--ranks 2 --dp 2 --zero 3",
                                         "--ranks 2 --dp 1 --tp 2", "--ranks 2 --dp 1 --cp 2",
                                         "--ranks 2 --dp 1 --pp 2 --micro-batch 1",
                                         "--ranks 4 --dp 1 --pp 2 --tp 2 --micro-batch 1"));

TEST(ExportKineto, NamesPlanAndGroupsToTheImport) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 2 ").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --form kineto --out traces").code, 0);
  EXPECT_THAT(folder.Read("traces/rank-0.json"), HasSubstr("ProfilerStep#0"));
  EXPECT_THAT(
      folder.Read("traces/rank-1.json"),
      HasSubstr("\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 2}"));
  const ProgramEnd imported = RunForetrain(folder.path(), "import traces --store again.db");
  ASSERT_EQ(imported.code, 0) << imported.errors;
  EXPECT_THAT(imported.output, HasSubstr("dp 2, tp 1, pp 1, cp 1, ep 1"));
}

TEST(ExportKineto, RefusesASecondRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 1 ").code, 0);
  const ProgramEnd end = RunForetrain(folder.path(), "export --form kineto --against 1");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("--against with --form kineto: it holds one run"));
}

}  // namespace
}  // namespace foretrain
