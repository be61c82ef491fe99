// Imports traces as a user does: the command, its output, and the views of the stored run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Two steps of one matrix product of `product_us` and one all-reduce overlapped with its second
// half.
std::string Trace(int rank, int product_us) {
  std::string events;
  for (int step = 0; step < 2; ++step) {
    const int start = 1000 * step;
    events += fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":1000}},)"
        R"({{"ph":"X","cat":"kernel","name":"gemm_bf16","pid":0,"tid":7,"ts":{},"dur":{}}},)"
        R"({{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":{},"dur":{}}},)",
        step, start, start, product_us, start + product_us / 2, product_us);
  }
  events.pop_back();
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
         R"(,"world_size":2},"traceEvents":[)" + events + "]}";
}

// A folder of traces is imported and compared with a forecast in one command.
TEST(CompareTrace, ImportsAFolderAndPairsItWithAForecast) {
  const TemporaryFolder folder;
  const ProgramEnd predicted =
      RunForetrain(folder.path(),
                   "predict --model gpt2-124m --cluster 1x2xh100-sxm --dp 2 --sequence 128 "
                   "--global-batch 2 --store s.db");
  ASSERT_EQ(predicted.code, 0) << predicted.errors;
  std::filesystem::create_directory(folder.path() + "/traces");
  folder.Write("traces/rank0.json", Trace(0, 400));
  folder.Write("traces/rank1.json", Trace(1, 500));
  folder.Write("traces/notes.txt", "not a trace");
  const std::string compare = "compare --store s.db --against 1 --trace ";
  const ProgramEnd end = RunForetrain(folder.path(), compare + "traces --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const json told = json::parse(end.output);
  EXPECT_EQ(told.at("run"), 2);
  // Two ranks with a product and an all-reduce each: both have their like in the forecast.
  EXPECT_EQ(told.at("structure").at("kernels"), 4);
  EXPECT_EQ(told.at("structure").at("paired_kernels"), 4);
  EXPECT_FALSE(told.at("only_predicted").empty());
  EXPECT_TRUE(told.at("only_measured").empty());

  const ProgramEnd both = RunForetrain(folder.path(), compare + "traces --run 2");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.errors, HasSubstr("--run 2 with --trace"));
  std::filesystem::create_directory(folder.path() + "/empty");
  const ProgramEnd none = RunForetrain(folder.path(), compare + "empty");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("empty: has no trace"));
}

TEST(Import, AddsARunThatAnalyzeAndCompareRead) {
  const TemporaryFolder folder;
  folder.Write("r0.json", Trace(0, 400));
  folder.Write("r1.json", Trace(1, 400));
  folder.Write("slower.json", Trace(0, 600));
  const ProgramEnd end =
      RunForetrain(folder.path(), "import r1.json r0.json --store s.db --name two --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const json imported = json::parse(end.output).at("runs").at(0);
  EXPECT_EQ(imported.at("run"), 1);
  EXPECT_EQ(imported.at("label"), "two");
  EXPECT_EQ(imported.at("ranks"), 2);
  EXPECT_EQ(imported.at("steps"), 2);
  EXPECT_EQ(imported.at("spans"), 8);

  const ProgramEnd analyzed = RunForetrain(folder.path(), "analyze --store s.db --json");
  ASSERT_EQ(analyzed.code, 0) << analyzed.errors;
  const json metrics = json::parse(analyzed.output);
  EXPECT_NEAR(metrics.at("step_time_s").get<double>(), 1e-3, 1e-12);
  EXPECT_NEAR(metrics.at("overlap").get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("exposed_communication_s").get<double>(), 200e-6, 1e-12);
  EXPECT_THAT(RunForetrain(folder.path(), "analyze --store s.db").output,
              AllOf(HasSubstr("run 1 (imported, finished): two"), HasSubstr("####")));

  ASSERT_EQ(RunForetrain(folder.path(), "import slower.json --store s.db").code, 0);
  const ProgramEnd compared =
      RunForetrain(folder.path(), "compare --store s.db --run 2 --against 1");
  ASSERT_EQ(compared.code, 0) << compared.errors;
  // Only rank 0 is in both runs. 400 us became 600: calls of the same name are paired.
  EXPECT_THAT(compared.output, AllOf(HasSubstr("slower.json"), HasSubstr("+50.0 %"),
                                     HasSubstr("gemm_bf16"), HasSubstr("a trace has no program")));
}

// The all-reduce without a group leaves the plan open, which the answer says.
TEST(Import, TakesAFolderAsOneRunAndSaysWhatItTellsOfThePlan) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/traces");
  folder.Write("traces/rank10.json", Trace(1, 500));
  folder.Write("traces/rank9.json", Trace(0, 400));
  folder.Write("traces/notes.txt", "not a trace");
  const ProgramEnd end = RunForetrain(folder.path(), "import traces --store s.db --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const json run = json::parse(end.output).at("runs").at(0);
  EXPECT_EQ(run.at("ranks"), 2);
  EXPECT_EQ(run.at("label"), "rank9.json, rank10.json");
  const json& fields = run.at("inferred_plan").at("fields");
  EXPECT_EQ(fields.size(), 10U);
  for (const json& field : fields) EXPECT_FALSE(field.at("evidence").get<std::string>().empty());
  const ProgramEnd analyzed = RunForetrain(folder.path(), "analyze --store s.db --run 1 --json");
  ASSERT_EQ(analyzed.code, 0) << analyzed.errors;
  EXPECT_EQ(json::parse(analyzed.output).at("inferred_plan"), run.at("inferred_plan"));
  std::filesystem::create_directory(folder.path() + "/empty");
  EXPECT_EQ(RunForetrain(folder.path(), "import empty --store s.db").code, 2);
}

TEST(Import, StandsBesideAForecast) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), "predict --model gpt-10m --ranks 1 --store s.db").code, 0);
  folder.Write("t.json", Trace(0, 400));
  const ProgramEnd end = RunForetrain(folder.path(), "import t.json --store s.db --forecast 1");
  ASSERT_EQ(end.code, 0) << end.errors;
  const ProgramEnd compared = RunForetrain(folder.path(), "compare --store s.db --json");
  ASSERT_EQ(compared.code, 0) << compared.errors;
  const json metrics = json::parse(compared.output);
  EXPECT_EQ(metrics.at("against"), 1);
  EXPECT_NEAR(metrics.at("measured").at("step_time_s").get<double>(), 1e-3, 1e-12);
  EXPECT_THAT(RunForetrain(folder.path(), "compare --store s.db").output,
              AllOf(HasSubstr("gemm"), HasSubstr("400 us")));
}

TEST(Import, RefusesWhatItCannotReadAndLeavesNoStore) {
  const TemporaryFolder folder;
  folder.Write("bad.json", "{\"traceEvents\": [nonsense]}");
  folder.Write("t.json", Trace(0, 400));
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const ProgramEnd end = RunForetrain(folder.path(), "import " + arguments + " --store s.db");
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(why));
  };
  refused("bad.json", "bad.json: no JSON at byte 19");
  refused("missing.json", "missing.json");
  refused("t.json bad.json", "bad.json: no JSON");
  refused("", "at least one trace");
  EXPECT_EQ(RunCommand(folder.path(), "test -e s.db").code, 1);
  refused("t.json --forecast 7", "s.db");
}

TEST(Import, OfAnExportGivesTheSameMetrics) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), "predict --model gpt-10m --ranks 1 --store s.db").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --store s.db --run 1 --out out.json").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "import out.json --store again.db").code, 0);
  const auto metric = [&](const std::string& store, const std::string& name) {
    const ProgramEnd end = RunForetrain(folder.path(), "analyze --json --run 1 --store " + store);
    EXPECT_EQ(end.code, 0) << end.errors;
    return json::parse(end.output).at(name).dump();
  };
  EXPECT_EQ(metric("again.db", "memory_gib"), metric("s.db", "memory_gib"));
  EXPECT_EQ(RunForetrain(folder.path(), "export --store again.db --run 1 --out out2.json").code, 0);
  // Apart from its title, the second text equals the first.
  const std::string first = folder.Read("out.json"), second = folder.Read("out2.json");
  EXPECT_EQ(first.substr(first.find("\"ph\":\"X\"")).size(),
            second.substr(second.find("\"ph\":\"X\"")).size());
}

// Stores that `view` has made of traces, with XDG_CACHE_HOME=cache.
std::vector<std::string> CachedStores(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path() + "/cache/foretrain")) {
    if (entry.path().extension() == ".db") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(View, OpensATraceByImportingItOnceIntoThePrivateCache) {
  const TemporaryFolder folder;
  folder.Write("t.json", Trace(0, 400));
  const auto view = [&](const std::string& trace) {
    return RunCommand(folder.path(), "XDG_CACHE_HOME=\"$PWD/cache\" \"$FORETRAIN\" view " + trace +
                                         " --view time --screenshot x.png --size 800x600");
  };
  const ProgramEnd end = view("t.json");
  if (end.errors.find("no desktop") != std::string::npos ||
      end.errors.find("no driver") != std::string::npos) {
    GTEST_SKIP() << end.errors;
  }
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(CachedStores(folder).size(), 1U);
  ASSERT_EQ(view("t.json").code, 0);
  EXPECT_EQ(CachedStores(folder).size(), 1U);  // not imported again
  const auto permissions =
      std::filesystem::status(folder.path() + "/cache/foretrain").permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_all);

  // Another trace of this name, also one with the size and time of the first, has its own store.
  ASSERT_EQ(RunCommand(folder.path(), "mkdir other").code, 0);
  folder.Write("other/t.json", Trace(0, 500));
  ASSERT_EQ(RunCommand(folder.path(), "touch -r t.json other/t.json").code, 0);
  ASSERT_EQ(view("other/t.json").code, 0);
  EXPECT_EQ(CachedStores(folder).size(), 2U);
  ASSERT_EQ(RunCommand(folder.path(),
                       "touch -r t.json mark && cp other/t.json t.json && touch -r mark t.json")
                .code,
            0);
  ASSERT_EQ(view("t.json").code, 0);
  EXPECT_EQ(CachedStores(folder).size(), 3U);

  folder.Write("bad.json", "[{]");
  EXPECT_THAT(view("bad.json").errors, HasSubstr("bad.json: no JSON at byte"));
  EXPECT_EQ(CachedStores(folder).size(), 3U);
}

TEST(View, RefusesACacheThatIsALink) {
  const TemporaryFolder folder;
  folder.Write("t.json", Trace(0, 400));
  const ProgramEnd end =
      RunCommand(folder.path(),
                 "mkdir cache elsewhere && ln -s ../elsewhere cache/foretrain && "
                 "XDG_CACHE_HOME=\"$PWD/cache\" "
                 "\"$FORETRAIN\" view t.json --view time --screenshot x.png --size 800x600");
  if (end.errors.find("no desktop") != std::string::npos) {
    GTEST_SKIP() << "needs a build with the desktop (tools/test installs its packages): "
                 << end.errors;
  }
  EXPECT_EQ(end.code, 2) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("cache/foretrain: is not a folder"));
}

}  // namespace
}  // namespace foretrain
