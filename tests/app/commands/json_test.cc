// `--json` of every command prints one object whose keys docs/json.md lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Objects whose keys are data: names of ranks, fields, reasons and so on.
const std::set<std::string> kNamed = {
    "memory_gib", "memory_sources", "options", "pruned_because", "gap", "metrics", "sensitivity"};

void AddKeys(const nlohmann::json& value, std::set<std::string>& keys) {
  if (value.is_array()) {
    for (const auto& element : value) AddKeys(element, keys);
  }
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) {
    keys.insert(key);
    if (!kNamed.contains(key) || !inner.is_object()) AddKeys(inner, keys);
  }
}

std::string TextOfDocs() {
  std::ifstream file(SourcePath("docs/json.md"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Json, HasTheKeysThatTheNotesName) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder)).code, 0);
  const std::string docs = TextOfDocs();
  ASSERT_NE(docs, "");
  // With a finding, a difference and causes.
  folder.Write(
      "run.sh",
      "torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers 2 --hidden-size 1024 "
      "--num-attention-heads 8 --seq-length 256 --max-position-embeddings 256 "
      "--vocab-size 8000 --bf16 --micro-batch-size 1 --global-batch-size 64 --no-such 1\n");
  folder.Write(
      "train.log",
      "  seq_length ........ 512\n iteration 1/ 9 | elapsed time per iteration (ms): 1.0 |\n"
      " iteration 2/ 9 | elapsed time per iteration (ms): 1.0 |\n");
  for (const std::string command :
       {"models", "clusters", "presets", "devices",
        "plan --layers 2 --global-batch 4 --sequence 32", "predict --layers 2 --sequence 32",
        "fit --models gpt2-124m --cluster 1x8xh100", "runs", "compare", "analyze",
        "analyze --by op", "analyze --by rank", "export --out t.json", "import t.json",
        "bench --simulate", "bench --search", "predict --layers 2 --sequence 32 --explain '*'",
        "calibrate --from-run foretrain.db:2 --out l",
        "check --from megatron:run.sh --log train.log"}) {
    const ProgramEnd end = RunForetrain(folder.path(), command + " --json");
    ASSERT_EQ(end.code, 0) << command << end.errors;
    const auto json = nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << command << ": " << end.output.substr(0, 300);
    EXPECT_EQ(json.value("schema", 0), 1) << command;
    std::set<std::string> keys;
    AddKeys(json, keys);
    for (const std::string& key : keys) {
      EXPECT_NE(docs.find("`" + key + "`"), std::string::npos) << command << ": " << key;
    }
  }
}

TEST(Json, PartsOfAStepSumToIt) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder)).code, 0);
  const nlohmann::json step = LastLine(RunForetrain(folder.path(), "compare --json").output);
  for (const char* side : {"predicted", "measured"}) {
    double sum = 0;
    for (const char* part :
         {"compute_s", "exposed_communication_s", "exposed_copy_s", "host_s", "idle_s"}) {
      sum += step.at(side).at(part).get<double>();
    }
    // Values are means over two ranks; the step is the longer rank's window.
    const double time = step.at(side).at("step_time_s").get<double>();
    EXPECT_LE(sum, time * (1 + 1e-9)) << side;
    EXPECT_GT(sum, time / 2) << side;
  }
}

TEST(Help, NamesModelsAndClustersThatThereAre) {
  const TemporaryFolder folder;
  const std::regex example("--(model|cluster) ([a-z0-9][^ \\n]*)");
  for (const char* command : {"", "predict", "plan", "train", "fit", "presets", "calibrate", "view",
                              "validate", "bench"}) {
    const std::string help = RunForetrain(folder.path(), std::string(command) + " --help").output;
    for (std::sregex_iterator at(help.begin(), help.end(), example), end; at != end; ++at) {
      const std::string name = (*at)[2].str().substr(0, (*at)[2].str().find_first_of(",`"));
      const std::string list = (*at)[1] == "model" ? "models " : "clusters ";
      if (name == "local") continue;
      EXPECT_EQ(RunForetrain(folder.path(), list + name).code, 0) << command << ": " << name;
    }
  }
}

}  // namespace
}  // namespace foretrain
