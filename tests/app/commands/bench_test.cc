// `foretrain bench` on the command line: the rows of the table on this machine's CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "app/bench/training_bench.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(Bench, HasARowForEachScheduleOnBothDevices) {
  for (const bool cuda : {false, true}) {
    std::set<std::string> names;
    for (const TableRow& row : TableRows(cuda)) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
    }
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v",
                                 "dualpipe", "dualpipe-v", "pipedream", "pipedream-2bw"}) {
      EXPECT_EQ(names.count(std::string("pp4-") + schedule), 1U) << schedule;
    }
  }
}

// GPT-2 124M: 12 layers of width 768, 12 heads, an MLP of four times that, 50,257 tokens.
TEST(Bench, TellsPyTorchTheShapeOfARowThatItCanRun) {
  JsonWriter json;
  const auto rows = ChooseRows(TableRows(true), "gpt2-124m-b64-bf16");
  ASSERT_TRUE(rows.has_value());
  ASSERT_TRUE(WritePeer(json, rows->front()).has_value());
  const std::string text = json.Take();
  EXPECT_THAT(text, HasSubstr("\"family\":\"gpt2\",\"layers\":12,\"hidden\":768,\"heads\":12"));
  EXPECT_THAT(text, HasSubstr("\"ffn_hidden\":3072,\"vocab\":50257,\"sequence\":1024"));
  EXPECT_THAT(text, HasSubstr("\"micro_batch\":64,\"global_batch\":64,\"precision\":\"bf16\""));
  JsonWriter none;
  const auto pipeline = ChooseRows(TableRows(true), "pp4-1f1b");
  ASSERT_TRUE(pipeline.has_value());
  ASSERT_TRUE(WritePeer(none, pipeline->front()).has_value());
  EXPECT_EQ(none.Take(), "null");
}

TEST(Bench, RefusesARowThatItHasNot) {
  const auto rows = ChooseRows(TableRows(false), "gpt-b8-fp32,none");
  ASSERT_FALSE(rows.has_value());
  EXPECT_THAT(rows.error().message, HasSubstr("--only: no row \"none\"; there are gpt-b8-fp32, "));
}

TEST(Bench, ListsAllRowsForScripts) {
  const TemporaryFolder folder;
  for (const char* device : {"cpu", "cuda"}) {
    const ProgramEnd end =
        RunForetrain(folder.path(), std::string("bench --list --json --device ") + device);
    ASSERT_EQ(end.code, 0) << end.errors;
    const auto result = nlohmann::json::parse(end.output);
    EXPECT_EQ(result["rows"].size(), TableRows(std::string(device) == "cuda").size());
  }
}

nlohmann::json RowOf(const TemporaryFolder& folder, const std::string& options) {
  const ProgramEnd end =
      RunForetrain(folder.path(), "bench --only gpt-b1-fp32 --steps 2 --json " + options);
  EXPECT_EQ(end.code, 0) << end.errors;
  const auto result = nlohmann::json::parse(end.output);
  EXPECT_EQ(result["rows"].size(), 1U);
  const nlohmann::json row = result["rows"][0];
  EXPECT_EQ(row["name"], "gpt-b1-fp32");
  for (const char* of : {"predicted", "measured"}) {
    EXPECT_GT(row[of]["step_time_s"].get<double>(), 0) << of;
  }
  return row;
}

TEST(Bench, RunsARowBesideItsForecast) {
  const TemporaryFolder folder;
  const nlohmann::json row = RowOf(folder, "--spans 1000000 --store bench.db");
  // Executor and forecast use the same memory plan.
  EXPECT_DOUBLE_EQ(row["predicted"]["peak_memory_gib"].get<double>(),
                   row["measured"]["peak_memory_gib"].get<double>());
}

TEST(Bench, KeepsToTheSpansItMayRecord) {
  const TemporaryFolder folder;
  const nlohmann::json row = RowOf(folder, "--spans 1 --store bench.db");
  EXPECT_FALSE(row["measured"].contains("peak_memory_gib"));  // not recorded
  const ProgramEnd runs = RunForetrain(folder.path(), "runs --store bench.db --json");
  EXPECT_EQ(runs.code, 0) << runs.errors;
  EXPECT_THAT(runs.output, HasSubstr("\"spans\":0"));
}

TEST(Bench, TellsARowThatDoesNotFitFromOneThatFailed) {
  TableResult result;
  result.name = "large";
  result.does_not_fit = "1 ranks on one device need 60 GiB";
  EXPECT_THAT(TableText({result}), HasSubstr("large: 1 ranks on one device need 60 GiB\n"));
  const auto row = nlohmann::json::parse(TableJson({result}, "cuda"))["rows"][0];
  EXPECT_EQ(row["does_not_fit"], result.does_not_fit);
  EXPECT_FALSE(row.contains("failed"));
}

TEST(Bench, SaysWhyThereIsNoGpuToRunOn) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), "bench --device cuda --only gpt2-124m-b4-bf16 --store bench.db");
  if (end.code == 0) GTEST_SKIP() << "this machine has a GPU; run where there is none";
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("--device cuda: "));
  EXPECT_THAT(end.errors, HasSubstr("use --device cpu"));
}

}  // namespace
}  // namespace foretrain
