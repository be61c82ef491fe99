// `check` as a user types it: launch files alone, with a log, and logs as measurements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A Llama of 16 layers on 8 GPUs. `more` replaces options before it.
std::string Script(const std::string& more) {
  return "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py \\\n"
         "  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 \\\n"
         "  --max-position-embeddings 1024 --vocab-size 32000 --bf16 --swiglu --normalization "
         "RMSNorm --position-embedding-type rope \\\n"
         "  --hidden-dropout 0 --attention-dropout 0 --use-distributed-optimizer "
         "--overlap-grad-reduce --micro-batch-size 4 --global-batch-size 64 \\\n"
         "  " +
         more + "\n";
}

nlohmann::json Json(const ProgramEnd& end) {
  return nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
}

// The findings of a kind.
std::vector<nlohmann::json> Of(const nlohmann::json& answer, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const auto& finding : answer.at("findings")) {
    if (finding.at("kind") == kind) found.push_back(finding);
  }
  return found;
}

// Lines of `steps` steps of Megatron-LM, `step_s` each.
std::string Log(int steps, double step_s) {
  std::string text;
  for (int i = 1; i <= steps; ++i) {
    text += " iteration " + std::to_string(i) + "/ 500 | elapsed time per iteration (ms): " +
            std::to_string(step_s * 1e3 * (i == 1 ? 8 : 1)) + " | global batch size:    64 |\n";
  }
  return text;
}

TEST(CheckOfAFile, NamesAPlanThatCannotExistWithItsKey) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script("--tensor-model-parallel-size 8 --num-attention-heads 12 "
                                "--hidden-size 1536"));
  const ProgramEnd end =
      RunForetrain(folder.path(), "check --from megatron:run.sh --cluster 1x8xh100 --json");
  EXPECT_EQ(end.code, 1) << end.errors;
  const auto plans = Of(Json(end), "plan");
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].at("severity"), "error");
  EXPECT_THAT(plans[0].at("text").get<std::string>(), HasSubstr("tp 8: must divide"));
  EXPECT_EQ(plans[0].at("key"), "tensor-model-parallel-size");
  // Degrees that do not divide the ranks.
  folder.Write("run.sh", Script("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3"));
  const ProgramEnd ranks =
      RunForetrain(folder.path(), "check --from megatron:run.sh --cluster 1x8xh100 --wide");
  EXPECT_EQ(ranks.code, 1) << ranks.errors;
  EXPECT_THAT(ranks.output, AllOf(HasSubstr("error"), HasSubstr("multiples of 6 ranks")));
}

TEST(CheckOfAFile, SaysWhatDoesNotFitAndWhatHelpsInTheTrainersKeys) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script("--num-layers 48 --hidden-size 8192 --num-attention-heads 64"));
  const ProgramEnd end =
      RunForetrain(folder.path(), "check --from megatron:run.sh --cluster 1x8xh100 --json");
  EXPECT_EQ(end.code, 1) << end.errors;
  const auto memory = Of(Json(end), "memory");
  ASSERT_FALSE(memory.empty()) << end.output;
  EXPECT_EQ(memory[0].at("severity"), "error");
  EXPECT_THAT(memory[0].at("text").get<std::string>(), HasSubstr("of a device that has"));
  EXPECT_FALSE(memory[0].at("helps").empty());
}

TEST(CheckOfAFile, WarnsOfTensorParallelismThatLeavesTheNodeAndOfUnknownKeys) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script("--tensor-model-parallel-size 8 --sequence-parallel "
                                "--no-such-option 3 --nnodes 2"));
  const ProgramEnd end =
      RunForetrain(folder.path(), "check --from megatron:run.sh --cluster 2x4xh100 --json");
  ASSERT_EQ(end.code, 0) << end.errors << end.output;
  const nlohmann::json answer = Json(end);
  const auto placement = Of(answer, "placement");
  ASSERT_FALSE(placement.empty());
  EXPECT_EQ(placement[0].at("key"), "tensor-model-parallel-size");
  EXPECT_EQ(placement[0].at("line"), 5);
  EXPECT_THAT(placement[0].at("text").get<std::string>(), HasSubstr("leaves the links of a node"));
  const auto keys = Of(answer, "key");
  ASSERT_FALSE(keys.empty());
  EXPECT_EQ(keys[0].at("key"), "no-such-option");
  EXPECT_FALSE(Of(answer, "speed").empty());
}

TEST(CheckOfAFile, AssumesNodesOfEightGpusWithoutACluster) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script(""));
  const ProgramEnd end = RunForetrain(folder.path(), "check --from megatron:run.sh");
  ASSERT_EQ(end.code, 0) << end.errors << end.output;
  EXPECT_THAT(end.output, HasSubstr("assumed: --cluster 1x8xh100, because none is given"));
}

TEST(CheckOfAFile, RefusesBadInputWithCode2) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script(""));
  folder.Write("notes.txt", "nothing of a trainer\n");
  folder.Write("other.log", "steps: 10 loss: 9.5 iter time (s): 0.5 samples/sec: 31\n");
  folder.Write("titan.log", "step: 10 loss: 7.1 tps: 3,402 tflops: 200.1\n");
  for (const auto& [options, message] :
       {std::pair{"check", "--from megatron:run.sh"},
        std::pair{"check --from megatron:none.sh", "none.sh"},
        std::pair{"check --from megatron:notes.txt", "no option of Megatron-LM"},
        std::pair{"check --from megatron:run.sh --log none.log", "none.log"},
        std::pair{"check --from megatron:run.sh --log notes.txt", "no line about a step"},
        std::pair{"check --from megatron:run.sh --log titan.log", "is a log of torchtitan"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), options);
    EXPECT_EQ(end.code, 2) << options << end.output;
    EXPECT_THAT(end.errors, HasSubstr(message)) << options;
  }
}

// The forecast is some 0.1 s: ten times that is outside any interval.
TEST(CheckOfALog, EndsWithCode1IfTheRunIsSlowerThanTheInterval) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script(""));
  const std::string check =
      "check --from megatron:run.sh --cluster 1x8xh100 --log train.log --json";
  folder.Write("train.log", Log(50, 0.001));
  const nlohmann::json fast = Json(RunForetrain(folder.path(), check));
  EXPECT_EQ(fast.at("verdict"), "faster");
  const double forecast_s = fast.at("predicted_step_time_s");
  folder.Write("train.log", Log(50, forecast_s));
  const ProgramEnd same = RunForetrain(folder.path(), check);
  EXPECT_EQ(same.code, 0) << same.errors;
  EXPECT_EQ(Json(same).at("verdict"), "as-forecast");
  EXPECT_EQ(Json(same).at("log").at("warm_up_lines"), 1);
  EXPECT_NEAR(Json(same).at("step_time_s").get<double>() / forecast_s, 1, 1e-3);
  folder.Write("train.log", Log(50, 10 * forecast_s));
  const ProgramEnd slow = RunForetrain(folder.path(), check);
  EXPECT_EQ(slow.code, 1) << slow.errors;
  EXPECT_EQ(Json(slow).at("causes").at(0).at("cause"), "not-explained");
  EXPECT_EQ(Json(slow).at("causes").at(0).at("known_from"), "possible");
}

TEST(CheckOfALog, FollowsTheLogWhereItRanAnotherBatch) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script(""));
  folder.Write("train.log",
               "  micro_batch_size ................................ 1\n" + Log(50, 0.2));
  const ProgramEnd end = RunForetrain(
      folder.path(), "check --from megatron:run.sh --cluster 1x8xh100 --log train.log --json");
  const nlohmann::json answer = Json(end);
  ASSERT_EQ(answer.at("differences").size(), 1U) << end.errors;
  EXPECT_EQ(answer.at("differences").at(0).at("key"), "micro_batch_size");
  EXPECT_THAT(answer.at("plan").get<std::string>(), HasSubstr("mb1"));
}

TEST(CheckOfALog, NamesThePausesThatAKeyOfTheFileExplains) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script("--save-interval 20"));
  std::string log;
  for (int i = 1; i <= 200; ++i) {
    log += " iteration " + std::to_string(i) +
           "/ 500 | elapsed time per iteration (ms): " + std::to_string(i % 20 == 0 ? 900 : 100) +
           " |\n";
  }
  folder.Write("train.log", log);
  const ProgramEnd end = RunForetrain(
      folder.path(), "check --from megatron:run.sh --cluster 1x8xh100 --log train.log --json");
  bool named = false;
  const nlohmann::json answer = Json(end);
  for (const auto& cause : answer.at("causes")) {
    if (cause.at("cause") != "pauses") continue;
    named = true;
    EXPECT_THAT(cause.at("text").get<std::string>(), HasSubstr("save-interval 20"));
  }
  EXPECT_TRUE(named) << end.output << end.errors;
}

TEST(Learning, TakesALogOfTheLaunchFilesTrainer) {
  const TemporaryFolder folder;
  folder.Write("run.sh", Script(""));
  const std::string launch = " --from megatron:run.sh --cluster 1x8xh100 ";
  const nlohmann::json before = Json(RunForetrain(folder.path(), "predict --json" + launch));
  const double step_s = before.at("step_time_s");
  folder.Write("train.log", Log(50, 1.4 * step_s));
  const ProgramEnd learned =
      RunForetrain(folder.path(), "calibrate --from-run train.log --json" + launch);
  ASSERT_EQ(learned.code, 0) << learned.errors;
  EXPECT_NEAR(Json(learned).at("runs").at(0).at("step_time_s").get<double>(), 1.4 * step_s,
              1e-3 * step_s);
  const nlohmann::json after = Json(RunForetrain(folder.path(), "predict --json" + launch));
  EXPECT_GT(after.at("step_time_s").get<double>(), 1.1 * step_s);
  const ProgramEnd alone = RunForetrain(folder.path(), "calibrate" + launch);
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.errors, HasSubstr("--from-run"));
}

}  // namespace
}  // namespace foretrain
