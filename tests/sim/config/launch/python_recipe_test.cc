// Recipes in Python: what is read, and what only a run would tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/config/launch/syntax/launch_text.h"
#include "tests/sim/config/launch/launch_reading.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// "key value" lines; a value that the file does not give is its reason in brackets.
std::string Entries(const std::string& text) {
  const auto read = ReadLaunchText(text, LaunchSyntax::kPython, "recipe.py");
  if (!read.has_value()) return read.error().message;
  std::string out;
  for (const LaunchItem& entry : read->entries) {
    out +=
        entry.key + " " + (entry.unknown.empty() ? entry.value : "[" + entry.unknown + "]") + "\n";
  }
  return out;
}

TEST(PythonRecipe, GivesNamedArgumentsOfNestedCalls) {
  EXPECT_EQ(Entries("from bridge import ConfigContainer\n"
                    "BATCH = 2_048  # samples\n"
                    "model = GPTModelProvider(num_layers=32, hidden_size=4096,\n"
                    "                         attention_backend=AttnBackend.flash)\n"
                    "config = ConfigContainer(\n"
                    "    model=model,\n"
                    "    train=TrainingConfig(global_batch_size=BATCH, train_iters=1e3),\n"
                    "    tokenizer=None, tags=['a', \"b\"], env={'rank': 1},\n"
                    ")\n"),
            "recipe ConfigContainer\n"
            "model.num_layers 32\n"
            "model.hidden_size 4096\n"
            "model.attention_backend flash\n"
            "train.global_batch_size 2048\n"
            "train.train_iters 1e3\n"
            "tags a b\n"
            "env.rank 1\n");
}

TEST(PythonRecipe, GivesAssignmentsAndDefaultsOfParameters) {
  EXPECT_EQ(Entries("def pretrain(tp: int = 4, name='x', *, pp=None):\n"
                    "    \"\"\"A text\n    of two lines.\"\"\"\n"
                    "    cfg = llama3_8b_pretrain_config()\n"
                    "    cfg.model.tensor_model_parallel_size = tp\n"
                    "    cfg.model.pipeline_model_parallel_size = pp\n"
                    "    cfg['train'].micro_batch_size = 1\n"
                    "    cfg.train.micro_batch_size = \\\n        2\n"
                    "    return cfg\n"),
            "recipe llama3_8b_pretrain_config\n"
            "model.tensor_model_parallel_size 4\n"
            "train.micro_batch_size 2\n");
}

// Arithmetic, results of functions, imported names and what stands under a condition.
TEST(PythonRecipe, MarksWhatOnlyARunWouldTell) {
  EXPECT_EQ(Entries("cfg = base()\n"
                    "cfg.train.global_batch_size = 4 * 8\n"
                    "cfg.train.save = f'{home}/ckpt'\n"
                    "cfg.model.num_layers = LAYERS\n"
                    "if fast:\n"
                    "    cfg.model.recompute_granularity = 'full'\n"
                    "cfg.model.bf16 = True\n"),
            "recipe base\n"
            "train.global_batch_size [computed in the recipe]\n"
            "train.save [computed in the recipe]\n"
            "model.num_layers [the variable LAYERS, which the file does not set]\n"
            "model.recompute_granularity [set under a condition]\n"
            "model.bf16 true\n");
}

TEST(PythonRecipe, IsRefusedWithFileLineAndRemedy) {
  EXPECT_THAT(Entries("cfg = base(\n  tp=1\n"),
              AllOf(HasSubstr("recipe.py line"), HasSubstr("not closed"), HasSubstr("YAML")));
  EXPECT_THAT(Entries("cfg = base()\ncfg.name = 'a\n"),
              AllOf(HasSubstr("recipe.py line 2"), HasSubstr("closing")));
  EXPECT_THAT(Entries("import os\nos.environ['A'] = '1'\nprint(1)\n"), HasSubstr("A 1"));
  EXPECT_THAT(Entries("print('hello')\n"), HasSubstr("sets no option"));
  EXPECT_THAT(Entries("cfg = " + std::string(2000, '(')), HasSubstr("nested too deeply"));
}

// Each line doubles the tree of the one before.
TEST(PythonRecipe, ThatGrowsWithoutEndIsRefused) {
  std::string text = "v0 = C(a=1, b=2)\n";
  for (int i = 1; i < 64; ++i) {
    const std::string before = "v" + std::to_string(i - 1);
    text += "v" + std::to_string(i) + " = C(a=" + before + ", b=" + before + ")\n";
  }
  EXPECT_THAT(Entries(text), AllOf(HasSubstr("recipe.py line"), HasSubstr("too large")));
}

TEST(PythonRecipe, NamesTheModelOfItsBase) {
  const auto launch = ReadText("megatron", "recipe.py",
                               "cfg = qwen3_30b_a3b_pretrain_config()\n"
                               "cfg.train.micro_batch_size = 1\n"
                               "cfg.train.global_batch_size = 8\n"
                               "cfg.model.seq_length = 4096\n"
                               "cfg.model.bf16 = True\n");
  ASSERT_TRUE(launch.has_value()) << launch.error().message;
  EXPECT_EQ(launch->model_name, "qwen3-30b-a3b");
  ASSERT_FALSE(launch->account.notes.empty());
  EXPECT_THAT(launch->account.notes[0], HasSubstr("qwen3_30b_a3b_pretrain_config is not read"));
}

}  // namespace
}  // namespace foretrain
