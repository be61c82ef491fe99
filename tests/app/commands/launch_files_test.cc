// --from, --strict and --emit as a user types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kScript =
    "#!/bin/bash\n"
    "TP=2\n"
    "torchrun --nproc_per_node 4 --nnodes 1 pretrain_gpt.py \\\n"
    "  --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \\\n"
    "  --max-position-embeddings 32 --vocab-size 256 --hidden-dropout 0 --attention-dropout 0 \\\n"
    "  --micro-batch-size 1 --global-batch-size 8 --tensor-model-parallel-size $TP \\\n"
    "  --lr 1e-3 --moe-z-loss-coeff 1e-3\n";

TEST(LaunchFileOption, IsForecastWithAnAccountOfItsKeys) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  const ProgramEnd end = RunForetrain(folder.path(), "predict --from megatron:run.sh --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto json = nlohmann::json::parse(end.output);
  EXPECT_EQ(json["options"]["tp"], 2);
  EXPECT_EQ(json["options"]["dp"], 2);
  EXPECT_EQ(json["options"]["global_batch"], 8);
  EXPECT_EQ(json["launch"]["trainer"], "megatron");
  EXPECT_EQ(json["launch"]["ranks"], 4);
  EXPECT_EQ(json["launch"]["not_modelled"][0]["key"], "moe-z-loss-coeff");
  const ProgramEnd other =
      RunForetrain(folder.path(), "predict --from megatron:run.sh --global-batch 16 --json");
  ASSERT_EQ(other.code, 0) << other.errors;
  EXPECT_EQ(nlohmann::json::parse(other.output)["options"]["global_batch"], 16);
}

TEST(LaunchFileOption, RefusesWhatIsNotModelledIfStrict) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  const ProgramEnd end = RunForetrain(folder.path(), "predict --from megatron:run.sh --strict");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("run.sh line 7"), HasSubstr("moe-z-loss-coeff")));
  EXPECT_EQ(RunForetrain(folder.path(), "predict --from megatron").code, 2);
  EXPECT_EQ(RunForetrain(folder.path(), "predict --from megatron:none.sh").code, 2);
}

TEST(LaunchFileOption, IsWrittenAndReadAgain) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  const ProgramEnd end = RunForetrain(
      folder.path(), "predict --from megatron:run.sh --emit megatron --out again.sh --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(nlohmann::json::parse(end.output)["emitted"]["unsaid"], "");
  const ProgramEnd again = RunForetrain(folder.path(), "predict --from megatron:again.sh --json");
  ASSERT_EQ(again.code, 0) << again.errors << folder.Read("again.sh");
  EXPECT_EQ(nlohmann::json::parse(again.output)["options"],
            nlohmann::json::parse(end.output)["options"]);
}

TEST(LaunchFileOption, LeavesTheSplitToASearch) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  const ProgramEnd end =
      RunForetrain(folder.path(), "plan --from megatron:run.sh --emit megatron --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto json = nlohmann::json::parse(end.output);
  EXPECT_GT(json["plans_evaluated"], 1);
  EXPECT_THAT(json["emitted"]["text"].get<std::string>(), HasSubstr("--global-batch-size 8"));
}

TEST(LaunchFileOption, GivesATrainingItsStepsAndLearningRate) {
  const TemporaryFolder folder;
  folder.Write("run.sh", std::string(kScript).substr(0, std::string(kScript).rfind("--lr")) +
                             "--lr 5e-4 --train-iters 2\n");
  std::string text;
  for (int i = 0; i < 400; ++i) text += "one line of a book\n";
  folder.Write("book.txt", text);
  const std::string train = "train --from megatron:run.sh --data book.txt --json";
  const auto steps = [&](const std::string& more) {
    const ProgramEnd end = RunForetrain(folder.path(), train + more);
    EXPECT_EQ(end.code, 0) << end.errors;
    std::vector<double> rates;
    std::istringstream lines(end.output);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_object() && json.contains("learning_rate") && json.contains("loss")) {
        rates.push_back(json["learning_rate"]);
      }
    }
    return rates;
  };
  EXPECT_THAT(steps(""), testing::ElementsAre(testing::DoubleNear(5e-4, 1e-9),
                                              testing::DoubleNear(5e-4, 1e-9)));
  EXPECT_THAT(steps(" --steps 1 --lr 1e-3"), testing::ElementsAre(testing::DoubleNear(1e-3, 1e-9)));
}

// The run of the file has its program, so the gap is attributed. With half the batch the program is
// another, and the answer says so.
TEST(LaunchFileOption, IsTheForecastThatARunIsComparedWith) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "one line of a book\n";
  folder.Write("book.txt", text);
  const ProgramEnd train =
      RunForetrain(folder.path(), "train --from megatron:run.sh --data book.txt --steps 3 --json");
  ASSERT_EQ(train.code, 0) << train.errors;
  const ProgramEnd compare = RunForetrain(folder.path(), "compare --from megatron:run.sh --json");
  ASSERT_EQ(compare.code, 0) << compare.errors;
  const auto json = nlohmann::json::parse(compare.output);
  EXPECT_EQ(json["against"], 0);
  EXPECT_EQ(json["launch"]["trainer"], "megatron");
  EXPECT_TRUE(json.contains("gap")) << compare.output;
  const auto stored = nlohmann::json::parse(RunForetrain(folder.path(), "compare --json").output);
  EXPECT_EQ(json["run"], stored["run"]);
  EXPECT_NEAR(json["predicted"]["step_time_s"].get<double>() /
                  stored["predicted"]["step_time_s"].get<double>(),
              1, 1e-3);
  const ProgramEnd other =
      RunForetrain(folder.path(), "compare --from megatron:run.sh --global-batch 4");
  ASSERT_EQ(other.code, 0) << other.errors;
  EXPECT_THAT(other.output, AllOf(HasSubstr("keys used"), HasSubstr("different programs")));
}

TEST(LaunchFileOption, IsRefusedByCompareWithAnotherForecast) {
  const TemporaryFolder folder;
  folder.Write("run.sh", kScript);
  ASSERT_EQ(RunForetrain(folder.path(), "predict --from megatron:run.sh --store foretrain.db").code,
            0);
  const ProgramEnd both = RunForetrain(folder.path(), "compare --from megatron:run.sh --against 1");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.errors, HasSubstr("give one of the two"));
  const ProgramEnd none = RunForetrain(folder.path(), "compare --from megatron:run.sh");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no measured run"));
  const ProgramEnd plan = RunForetrain(folder.path(), "compare --tp 2");
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.errors, HasSubstr("need --from"));
}

// A plan for a trainer has its software: the command below the answer and the trainer's own file
// give its step time again. Megatron-LM overlaps tensor parallelism if the file asks for it.
TEST(TrainerOption, ForecastsAsTheLaunchFileThatIsWritten) {
  const TemporaryFolder folder;
  const std::string machine = " --cluster 4xh100 ";
  const ProgramEnd plan =
      RunForetrain(folder.path(),
                   "plan --for megatron --model llama3-8b --layers 4 --tp 2 --sequence 1024 "
                   "--global-batch 16 --emit megatron --strict --out run.sh --json" +
                       machine);
  ASSERT_EQ(plan.code, 0) << plan.errors;
  const auto json = nlohmann::json::parse(plan.output);
  EXPECT_THAT(folder.Read("run.sh"), HasSubstr("--tp-comm-overlap"));
  double step_s = 0;
  for (const auto& one : json["plans"]) {
    if (one["recommended"]) step_s = one["step_time_s"];
  }
  ASSERT_GT(step_s, 0);
  const std::string command = json["command"];
  EXPECT_THAT(command, HasSubstr("--for megatron"));
  const auto step_of = [&](const std::string& arguments) {
    const ProgramEnd end = RunForetrain(folder.path(), arguments + " --json");
    EXPECT_EQ(end.code, 0) << end.errors;
    return nlohmann::json::parse(end.output)["step_time_s"].get<double>();
  };
  EXPECT_NEAR(step_of(command.substr(command.find(' ') + 1)) / step_s, 1, 1e-6) << command;
  EXPECT_NEAR(step_of("predict --from megatron:run.sh" + machine) / step_s, 1, 0.01);
  EXPECT_EQ(RunForetrain(folder.path(), "plan --for megatrn --model gpt2-124m" + machine).code, 2);
}

// With --strict a plan that the trainer's file cannot say is refused.
TEST(TrainerOption, ProposesWhatTheTrainersFileSays) {
  const TemporaryFolder folder;
  for (const std::string trainer : {"megatron", "torchtitan", "nanotron"}) {
    for (const std::string degree : {"--tp 2", "--pp 2"}) {
      const ProgramEnd plan = RunForetrain(
          folder.path(), "plan --for " + trainer + " --emit " + trainer + " --strict " + degree +
                             " --model llama3-8b --layers 4 --cluster 4xh100 --sequence 1024 "
                             "--global-batch 16 --json");
      EXPECT_EQ(plan.code, 0) << trainer << degree << plan.errors;
    }
  }
}

}  // namespace
}  // namespace foretrain
