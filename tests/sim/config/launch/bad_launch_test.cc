// A launch file that cannot be read ends in one sentence with file, line, key and remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/sim/config/launch/launch_reading.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kMegatron =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 \\\n"
    "  --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 256 \\\n"
    "  --micro-batch-size 1 --global-batch-size 8 ";

std::string ErrorOf(const std::string& dialect, const std::string& file, const std::string& text,
                    bool strict = false) {
  const auto launch = ReadText(dialect, file, text, strict);
  EXPECT_FALSE(launch.has_value());
  return launch.has_value() ? "" : launch.error().message;
}

TEST(BadLaunch, OfAnotherTrainerIsNamed) {
  EXPECT_THAT(ErrorOf("torchtitan", "run.sh", kMegatron),
              AllOf(HasSubstr("run.sh"), HasSubstr("--from megatron:run.sh")));
  EXPECT_THAT(ErrorOf("megatron", "run.sh", "echo hello\n"),
              AllOf(HasSubstr("run.sh"), HasSubstr("has no option of Megatron-LM")));
}

TEST(BadLaunch, WithAnUnknownKeyIsReadAndRefusedIfStrict) {
  const std::string text = std::string(kMegatron) + "\\\n  --new-fancy-option 3\n";
  const auto launch = ReadText("megatron", "run.sh", text);
  ASSERT_TRUE(launch.has_value()) << launch.error().message;
  ASSERT_EQ(launch->account.not_modelled.size(), 1U);
  EXPECT_EQ(launch->account.not_modelled[0].key, "new-fancy-option");
  EXPECT_EQ(launch->account.not_modelled[0].line, 4);
  EXPECT_THAT(ErrorOf("megatron", "run.sh", text, true),
              AllOf(HasSubstr("run.sh line 4"), HasSubstr("new-fancy-option"),
                    HasSubstr("leave out --strict")));
}

TEST(BadLaunch, WithAValueOfNoVersionIsRefused) {
  EXPECT_THAT(ErrorOf("megatron", "run.sh", std::string(kMegatron) + "--normalization DyT\n"),
              AllOf(HasSubstr("run.sh line 3"), HasSubstr("normalization"),
                    HasSubstr("none of LayerNorm, RMSNorm")));
  EXPECT_THAT(ErrorOf("megatron", "run.sh", std::string(kMegatron) + "--bf16 --fp16\n"),
              AllOf(HasSubstr("run.sh line 3"), HasSubstr("bf16"), HasSubstr("fp16"),
                    HasSubstr("remove one")));
}

TEST(BadLaunch, WhoseDegreesDoNotDivideTheRanksIsRefused) {
  EXPECT_THAT(
      ErrorOf("megatron", "run.sh", std::string(kMegatron) + "--tensor-model-parallel-size 3\n"),
      AllOf(HasSubstr("run.sh line 3: tensor-model-parallel-size"), HasSubstr("has 8")));
}

TEST(BadLaunch, WhoseValueOnlyACommandGivesIsRefusedAndNothingIsRun) {
  const std::string text = "TP=$(touch /tmp/foretrain-was-run; echo 2)\n" + std::string(kMegatron) +
                           "--tensor-model-parallel-size $TP\n";
  EXPECT_THAT(ErrorOf("megatron", "run.sh", text),
              AllOf(HasSubstr("run.sh line 4"), HasSubstr("tensor-model-parallel-size"),
                    HasSubstr("which is not run"), HasSubstr("give --tp")));
  EXPECT_THAT(ErrorOf("megatron", "run.sh",
                      std::string(kMegatron) + "--tensor-model-parallel-size $HOME\n"),
              AllOf(HasSubstr("${HOME}, which the file does not set")));
}

TEST(BadLaunch, WithKeysThatContradictEachOtherIsRefused) {
  EXPECT_THAT(
      ErrorOf("torchtitan", "run.toml",
              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = "
              "3\n[parallelism]\npipeline_parallel_degree = 2\n"
              "pipeline_parallel_microbatch_size = 2\n"),
      AllOf(HasSubstr("run.toml line 5: training.local_batch_size"), HasSubstr("no multiple")));
}

TEST(BadLaunch, OfAnotherSyntaxIsRefused) {
  EXPECT_THAT(ErrorOf("torchtitan", "run.toml", "[model\n"), HasSubstr("run.toml line 1"));
  EXPECT_THAT(ErrorOf("nanotron", "run.yaml", "a: [1, 2\n"), HasSubstr("run.yaml line"));
  EXPECT_THAT(ErrorOf("deepspeed", "ds.json", "{\"a\": }"), HasSubstr("ds.json"));
  EXPECT_THAT(ErrorOf("megatron", "run.sh", "A='x\n"), HasSubstr("run.sh line 1"));
}

TEST(BadLaunch, ThatGrowsWithoutEndIsRefused) {
  std::string text = "A=0123456789012345\n";
  for (int i = 0; i < 40; ++i) text += "A=\"$A$A\"\n";
  EXPECT_THAT(ErrorOf("megatron", "run.sh", text + kMegatron), HasSubstr("grows above"));
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "\"${A:-";
  EXPECT_THAT(ErrorOf("megatron", "run.sh", "B=" + deep), HasSubstr("does not end"));
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string of = std::string("*") + static_cast<char>(c - 1) + ", ";
    bomb += std::string(1, c) + ": &" + c + " [" + of + of + of + of + of + of + of + "1]\n";
  }
  EXPECT_THAT(ErrorOf("nanotron", "run.yaml", bomb), HasSubstr("entries"));
}

}  // namespace
}  // namespace foretrain
