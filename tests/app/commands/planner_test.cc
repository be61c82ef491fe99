// Forecasting commands as a newcomer calls them: defaults, units, files and widths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/table.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

nlohmann::json Json(const ProgramEnd& end) {
  return nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
}

// Characters of the longest line of `text`, of those that belong to a table: lines that explain are
// wrapped by the terminal.
int LongestLine(const std::string& text) {
  int longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, TextWidth(line));
  return longest;
}

TEST(Defaults, AreThoseOfPlanInPredict) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), "predict --model llama3.2-1b --layers 2 --cluster 8xh100");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, HasSubstr("precision-bf16"));
  EXPECT_THAT(end.output, HasSubstr("defaults: precision bf16, sequence 8192 (llama3.2-1b is made "
                                    "for 131072), batch 8 samples"));
  EXPECT_THAT(end.output, HasSubstr("network 50 GB/s per GPU and direction (DGX H100)"));
  EXPECT_THAT(end.output, Not(HasSubstr("devices are used")));
}

TEST(Defaults, GiveWayToOptionsAndAreNotNamedThen) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(),
                                      "predict --model llama3.2-1b --layers 2 --cluster 8xh100 "
                                      "--precision fp32 --sequence 512 --global-batch 8");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, AllOf(Not(HasSubstr("bf16")), Not(HasSubstr("defaults:"))));
}

TEST(Defaults, LeaveACpuInFp32) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "predict --layers 1 --ranks 1");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, HasSubstr("defaults: precision fp32, sequence 256"));
}

TEST(Predict, SaysThatDevicesAreLeftUnused) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), "predict --model gpt2-124m --layers 2 --cluster 8xh100 --dp 4");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, HasSubstr("4 of 8 devices are used; --dp 8 uses all"));
}

TEST(Predict, NamesWhatWouldGiveThePlanItsRanks) {
  const TemporaryFolder folder;
  const ProgramEnd local = RunForetrain(folder.path(), "predict --layers 1 --dp 4 --ranks 2");
  EXPECT_EQ(local.code, 2);
  EXPECT_THAT(local.errors, HasSubstr("give --ranks 4"));
  const ProgramEnd cluster =
      RunForetrain(folder.path(), "predict --model gpt2-124m --layers 2 --dp 12 --cluster 8xh100");
  EXPECT_EQ(cluster.code, 2);
  EXPECT_THAT(cluster.errors, HasSubstr("give --cluster 2x8xh100-80gb-sxm"));
}

// tokens/s a device times the devices is tokens/s; FLOP/s over the peak is MFU.
TEST(Predict, ShowsRatesOfADeviceThatAgreeWithThoseOfTheJob) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(
      folder.path(), "predict --model gpt2-124m --cluster 4xh100 --precision fp8 --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json json = Json(end);
  const double tokens_per_s = json.at("tokens_per_s");
  EXPECT_NEAR(json.at("tokens_per_s_per_device").get<double>() * 4 / tokens_per_s, 1, 1e-6);
  const double flop_per_s = json.at("model_flop_per_s_per_device");
  const double peak = json.at("peak_flop_per_s_per_device");
  EXPECT_NEAR(flop_per_s / peak / json.at("mfu").get<double>(), 1, 1e-6);
  EXPECT_EQ(json.at("peak_format"), "fp8");
  EXPECT_DOUBLE_EQ(peak, 1979e12);
}

TEST(Predict, CountsKAndMInPowersOfTwo) {
  const TemporaryFolder folder;
  const std::string model = "predict --model gpt2-124m --layers 2 --cluster 8xh100 ";
  const ProgramEnd end =
      RunForetrain(folder.path(), model + "--sequence 1k --global-batch 0.5M --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(Json(end).at("options").at("sequence"), 1024);
  EXPECT_EQ(Json(end).at("options").at("global_batch"), 512);
  const ProgramEnd refused =
      RunForetrain(folder.path(), model + "--sequence 1000 --global-batch 4M");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("4194304 tokens"), HasSubstr("give 4194 samples")));
}

// An H100 is rated at 700 W.
TEST(PlanGoal, BoundsTheEnergyOfTheDevicesByTheirRatedPower) {
  const TemporaryFolder folder;
  const std::string command =
      "plan --model gpt2-124m --layers 2 --cluster 2xh100 --sequence 128 --tokens 1B";
  const ProgramEnd end = RunForetrain(folder.path(), command + " --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json json = Json(end);
  const double seconds = json.at("training_time_s");
  EXPECT_NEAR(json.at("training_energy_j").get<double>() / (seconds * 2 * 700), 1, 1e-6);
  EXPECT_THAT(RunForetrain(folder.path(), command).output, HasSubstr("Wh at 700 W a device"));
}

// The allocator's free blocks come on top of what a plan needs: the limit holds without them.
TEST(PlanMemory, KeepsTheLimitWithoutTheBlocksThatTheAllocatorKeeps) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(
      folder.path(), "plan --model gpt2-124m --layers 2 --cluster 2xh100 --sequence 128 --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json json = Json(end);
  for (const auto& plan : json.at("plans")) {
    const double cached = plan.at("cached_memory_gib");
    EXPECT_GE(cached, 0);
    EXPECT_LE(plan.at("device_memory_gib").get<double>() - cached,
              json.at("memory_limit_gib").get<double>());
  }
}

TEST(PlanFiles, AreWrittenByPlanAndPredictAndReadByBoth) {
  const TemporaryFolder folder;
  const std::string model = "--model gpt2-124m --layers 2 --cluster 2xh100 ";
  const ProgramEnd plan =
      RunForetrain(folder.path(), "plan " + model + "--sequence 128 --out best.json --json");
  ASSERT_EQ(plan.code, 0) << plan.errors;
  const ProgramEnd predict =
      RunForetrain(folder.path(), "predict " + model + "--plan best.json --out again.json --json");
  ASSERT_EQ(predict.code, 0) << predict.errors;
  EXPECT_EQ(folder.Read("best.json"), folder.Read("again.json"));
  nlohmann::json recommended;
  const nlohmann::json found = Json(plan);
  for (const auto& one : found.at("plans")) {
    if (one.at("recommended")) recommended = one;
  }
  EXPECT_EQ(nlohmann::json::parse(folder.Read("best.json")), recommended.at("options"));
  EXPECT_EQ(Json(predict).at("plan"), recommended.at("plan"));
  EXPECT_NEAR(
      Json(predict).at("step_time_s").get<double>() / recommended.at("step_time_s").get<double>(),
      1, 1e-6);
}

TEST(Catalogues, ShowModelsAndClustersOfFiles) {
  const TemporaryFolder folder;
  const ProgramEnd gpt2 = RunForetrain(folder.path(), "models gpt2-124m");
  ASSERT_EQ(gpt2.code, 0) << gpt2.errors;
  const std::string model = folder.Write("model.json", gpt2.output);
  EXPECT_EQ(RunForetrain(folder.path(), "models " + model).output, gpt2.output);
  const ProgramEnd nodes = RunForetrain(folder.path(), "clusters 2x8xh100");
  ASSERT_EQ(nodes.code, 0) << nodes.errors;
  const std::string cluster = folder.Write("cluster.json", nodes.output);
  EXPECT_EQ(RunForetrain(folder.path(), "clusters " + cluster).output, nodes.output);
}

TEST(Tables, AreAtMost120CharactersWideAndWholeIfAsked) {
  const TemporaryFolder folder;
  for (const std::string command :
       {"models", "clusters", "presets", "fit --models gpt2-124m --cluster 1x8xh100"}) {
    const ProgramEnd end = RunForetrain(folder.path(), command);
    ASSERT_EQ(end.code, 0) << command << end.errors;
    std::string table = end.output;
    // Commands below the table of `fit`, and notes, are no part of it.
    if (command.starts_with("fit")) table.resize(table.rfind("\n\nforetrain "));
    if (command.starts_with("fit")) table = table.substr(table.find("\n\n"));
    if (command == "clusters") table.resize(table.find("\n\n"));
    EXPECT_LE(LongestLine(table), kTableWidth) << command;
  }
  const ProgramEnd wide = RunForetrain(folder.path(), "clusters --wide");
  EXPECT_THAT(wide.output, AllOf(HasSubstr("aliases"), HasSubstr("DGX H100")));
  const ProgramEnd csv = RunForetrain(folder.path(), "models --csv");
  EXPECT_THAT(csv.output, AllOf(HasSubstr("name,parameters,"), HasSubstr("\nllama3-8b,")));
}

TEST(Help, OfManyOptionsIsThatOfTheMainOnes) {
  const TemporaryFolder folder;
  const std::string main = RunForetrain(folder.path(), "plan --help").output;
  const std::string all = RunForetrain(folder.path(), "plan --help all").output;
  EXPECT_LT(std::count(main.begin(), main.end(), '\n'), 60);
  EXPECT_THAT(main, AllOf(HasSubstr("--model "), HasSubstr("--cluster "), Not(HasSubstr("--nic ")),
                          HasSubstr(" more options: foretrain plan --help all\n")));
  EXPECT_THAT(all,
              AllOf(HasSubstr("--model "), HasSubstr("--nic "), Not(HasSubstr("more options"))));
  EXPECT_EQ(RunForetrain(folder.path(), "help plan all").output, all);
  EXPECT_EQ(RunForetrain(folder.path(), "fit --help all").output,
            RunForetrain(folder.path(), "fit --help").output);
}

TEST(Help, OfACommandAndTheVersionHaveTheUsualNames) {
  const TemporaryFolder folder;
  EXPECT_EQ(RunForetrain(folder.path(), "help plan").output,
            RunForetrain(folder.path(), "plan --help").output);
  EXPECT_EQ(RunForetrain(folder.path(), "help").output,
            RunForetrain(folder.path(), "--help").output);
  EXPECT_EQ(RunForetrain(folder.path(), "-V").output,
            RunForetrain(folder.path(), "--version").output);
  const ProgramEnd unknown = RunForetrain(folder.path(), "help plam");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("Did you mean \"plan\"?"));
}

TEST(Completion, OfBashCompletesCommandsOptionsAndWords) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunCommand(folder.path(), "$FORETRAIN completion bash > c.sh").code, 0);
  const auto completed = [&](const std::string& words, int at) {
    return RunCommand(folder.path(), "bash -c 'source ./c.sh; COMP_WORDS=(foretrain " + words +
                                         "); COMP_CWORD=" + std::to_string(at) +
                                         "; _foretrain; echo ${COMPREPLY[*]}'")
        .output;
  };
  EXPECT_EQ(completed("pre", 1), "presets predict\n");
  EXPECT_EQ(completed("plan --sched", 2), "--schedule --schedule-file\n");
  EXPECT_EQ(completed("plan --offload-optimizer h", 3), "host\n");
}

TEST(Completion, OfEveryShellAndTheManPageNameEveryCommand) {
  const TemporaryFolder folder;
  for (const std::string form : {"bash", "zsh", "fish", "man"}) {
    const ProgramEnd end = RunForetrain(folder.path(), "completion " + form);
    ASSERT_EQ(end.code, 0) << end.errors;
    for (const char* command : {"plan", "predict", "train", "completion"}) {
      EXPECT_THAT(end.output, HasSubstr(command)) << form;
    }
  }
  const ProgramEnd end = RunForetrain(folder.path(), "completion tcsh");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("none of bash, zsh, fish, man"));
}

}  // namespace
}  // namespace foretrain
