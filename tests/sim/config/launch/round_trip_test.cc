// A plan that is written as another trainer's file, read again and compiled is the same program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "sim/config/launch/write_launch.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_values.h"
#include "sim/program/ir/program.h"
#include "tests/paths.h"
#include "tests/sim/config/launch/launch_reading.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

constexpr int kRanks = 8;

// A Llama that splits over eight ranks in every way; with experts, a Mixtral.
ModelSpec SmallLlama(bool has_experts) {
  ModelSpec model;
  model.layers = 16;
  model.hidden = 64;
  model.heads = model.kv_heads = 8;
  model.head_dim = 8;
  model.ffn_hidden = 128;
  model.vocab = 256;
  model.max_sequence = 64;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = model.tied_embeddings = false;
  model.norm_epsilon = 1e-6;
  if (has_experts) {
    model.experts = 8;
    model.experts_per_token = 2;
    model.expert_ffn_hidden = 64;
  }
  return model;
}

const char* FileOf(LaunchSyntax syntax) {
  switch (syntax) {
    case LaunchSyntax::kJson:
      return "run.json";
    case LaunchSyntax::kToml:
      return "run.toml";
    case LaunchSyntax::kYaml:
      return "run.yaml";
    default:
      return "run.sh";
  }
}

// The preset's plan as it is trained: in the dialect's usual formats.
Plan PlanOfPreset(const Preset& preset, const ModelSpec& model, Precision precision) {
  Plan plan = ToyPlan(preset, model, kRanks);
  plan.precision = precision;
  ApplyFormats(preset, {}, plan);
  return plan;
}

// One preset in one dialect. A file that says all gives the program again, to the last bit of its
// hash; otherwise `why` is the sentence that `--emit` tells.
struct Trip {
  bool same = false;
  std::string why;
};

// Fails the test if the writer leaves nothing unsaid and the program is another.
Trip TripOf(const Dialect& dialect, const std::vector<Dialect>& dialects, const Plan& plan,
            const ModelSpec& model) {
  const auto written = WriteLaunch(dialect, dialects, plan, model, "llama3-8b", kRanks);
  if (!written.has_value()) {
    EXPECT_EQ(written.error().code, ErrorCode::kUnsupported) << written.error().message;
    return {false, written.error().message};
  }
  if (!written->unsaid.empty()) return {false, Join(written->unsaid, ", ")};
  const auto launch = ReadText(dialect.name, FileOf(dialect.syntax), written->text);
  EXPECT_TRUE(launch.has_value()) << launch.error().message << "\n" << written->text;
  if (!launch.has_value()) return {};
  Plan read;
  for (const auto& [field, text] : launch->options) {
    const auto set = SetPlanField(PlanFieldOf(field), text, read);
    EXPECT_TRUE(set.has_value()) << set.error().message;
  }
  if (read.sequence == 0) read.sequence = plan.sequence;
  ModelSpec same = model;
  if (!launch->model.empty()) {
    const auto model_read = ModelFromJson(launch->model, "written");
    EXPECT_TRUE(model_read.has_value()) << model_read.error().message;
    if (!model_read.has_value()) return {};
    same = *model_read;
  }
  const auto before = Compile(model, plan), after = Compile(same, read);
  EXPECT_TRUE(before.has_value()) << before.error().message;
  EXPECT_TRUE(after.has_value()) << after.error().message << "\n" << written->text;
  if (!before.has_value() || !after.has_value()) return {};
  EXPECT_EQ(before->hash, after->hash) << Describe(plan) << " and " << Describe(read) << "\n"
                                       << written->text;
  return {before->hash == after->hash, ""};
}

// The presets of docs/launch-files.md that the dialect says in full.
std::vector<std::string> SaidInDocs(const std::string& dialect) {
  std::ifstream file(SourcePath("docs/launch-files.md"));
  const std::string start = "| `" + dialect + "` | ";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(start)) continue;
    const std::string cell =
        line.substr(start.size(), line.find(" |", start.size()) - start.size());
    std::vector<std::string> names;
    for (const std::string_view name : Split(cell, ',')) names.emplace_back(Trim(name));
    if (names == std::vector<std::string>{"none"}) names.clear();
    return names;
  }
  ADD_FAILURE() << "docs/launch-files.md has no row of " << dialect;
  return {};
}

class RoundTrip : public testing::TestWithParam<const char*> {};

// Every preset is said in full, or the writer names what it cannot say. A preset counts if it is
// said in one of the formats in which the dialect's users train. FORETRAIN_SHOW_UNSAID=1 prints
// reasons.
TEST_P(RoundTrip, GivesTheProgramOfEveryPresetOrNamesWhatIsUnsaid) {
  const std::vector<Dialect> dialects = AllDialects();
  const auto dialect = FindDialect(dialects, GetParam(), "--emit");
  ASSERT_TRUE(dialect.has_value()) << dialect.error().message;
  std::vector<std::string> said;
  for (const Preset& preset : AllPresets()) {
    const ModelSpec model = ModelFor(preset, SmallLlama(preset.Has(PlanFieldOf("ep"))));
    bool same = false;
    std::string why;
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      const Plan plan = PlanOfPreset(preset, model, precision);
      if (const auto valid = ValidatePlan(plan, model); !valid) {
        if (why.empty()) why = valid.error().message;
        continue;
      }
      const Trip trip = TripOf(*dialect, dialects, plan, model);
      same = same || trip.same;
      if (!trip.same) why = trip.why;
    }
    if (same) said.push_back(preset.name);
    EXPECT_TRUE(same || !why.empty()) << preset.name;
    if (!same && std::getenv("FORETRAIN_SHOW_UNSAID") != nullptr) {
      std::printf("%s %s: %s\n", GetParam(), preset.name.c_str(), why.c_str());
    }
  }
  EXPECT_EQ(said, SaidInDocs(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dialects, RoundTrip,
                         testing::Values("megatron", "torchtitan", "deepspeed", "nanotron",
                                         "huggingface", "mlperf"),
                         [](const auto& test) { return std::string(test.param); });

TEST(WrittenLaunch, NamesWhatTheTrainerCannotBeTold) {
  const std::vector<Dialect> dialects = AllDialects();
  const auto dialect = FindDialect(dialects, "nanotron", "--emit");
  ASSERT_TRUE(dialect.has_value());
  const ModelSpec model = SmallLlama(false);
  Plan plan;
  plan.dp = 2;
  plan.tp = 2;
  plan.sequence_parallel = plan.vocab_parallel = true;
  plan.sequence = 16;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  plan.bucket_bytes = 1'000'000'000'000;
  plan.loss_chunks = 4;
  const auto written = WriteLaunch(*dialect, dialects, plan, model, "", 8);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_THAT(written->unsaid, testing::ElementsAre("--loss-chunks 4 (the file: 1)"));
  plan.tp = 1;
  plan.sequence_parallel = plan.vocab_parallel = false;
  plan.loss_chunks = 1;
  plan.cp = 2;
  const auto huggingface = FindDialect(dialects, "huggingface", "--emit");
  ASSERT_TRUE(huggingface.has_value());
  const auto refused = WriteLaunch(*huggingface, dialects, plan, model, "llama3-8b", 8);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST(WrittenLaunch, KeepsAdafactorForTheHuggingFaceTrainer) {
  const std::vector<Dialect> dialects = AllDialects();
  const auto dialect = FindDialect(dialects, "huggingface", "--emit");
  ASSERT_TRUE(dialect.has_value());
  const ModelSpec model = SmallLlama(false);
  Plan plan;
  plan.dp = 8;
  plan.sequence = 16;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  plan.optimizer = OptimizerKind::kAdafactor;
  const auto written = WriteLaunch(*dialect, dialects, plan, model, "llama3-8b", kRanks);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_THAT(written->text, testing::HasSubstr("optim: \"adafactor\""));
  const auto read = ReadText("huggingface", "run.yaml", written->text);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(OptionIn(*read, "optimizer"), "adafactor");
}

// Megatron-LM's --rotary-base takes no exponent.
TEST(WrittenLaunch, HasWholeNumbersWithoutAnExponent) {
  const std::vector<Dialect> dialects = AllDialects();
  const auto dialect = FindDialect(dialects, "megatron", "--emit");
  ASSERT_TRUE(dialect.has_value());
  ModelSpec model = SmallLlama(false);
  model.rope_theta = 5e5;
  Plan plan;
  plan.sequence = 16;
  plan.micro_batch = plan.global_batch = 1;
  const auto written = WriteLaunch(*dialect, dialects, plan, model, "", 8);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_THAT(written->text, testing::HasSubstr("--rotary-base 500000 "));
}

// A capacity of 0 would drop all tokens there.
TEST(WrittenLaunch, SaysNothingOfChunksAndCapacityThatAPlanLacks) {
  const std::vector<Dialect> dialects = AllDialects();
  const auto dialect = FindDialect(dialects, "megatron", "--emit");
  ASSERT_TRUE(dialect.has_value());
  Plan plan;
  plan.sequence = 16;
  plan.pp = 2;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  const auto written = WriteLaunch(*dialect, dialects, plan, SmallLlama(false), "", 8);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_THAT(written->text, testing::HasSubstr("--pipeline-model-parallel-size 2 "));
  EXPECT_THAT(written->text, testing::Not(testing::HasSubstr("virtual")));
  EXPECT_THAT(written->text, testing::Not(testing::HasSubstr("capacity")));
}

}  // namespace
}  // namespace foretrain
