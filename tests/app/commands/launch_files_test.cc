// --from, --strict and --emit as a user types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace
}  // namespace foretrain
