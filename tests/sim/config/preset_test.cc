#include "sim/config/plan/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/models.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kGood = R"({
  "name": "mine", "aliases": ["my-own"], "title": "My own system", "axes": ["tp", "pp", "dp"],
  "options": {
    "schedule": {"value": "interleaved", "also": ["1f1b"], "source": "a paper"},
    "vpp": {"value": 2, "also": [3], "needs": "pp", "source": "its section 2"},
    "clip_norm": {"value": 1.5, "source": "its code"}
  },
  "omits": ["Dropout."]
})";

Preset Good() {
  auto preset = PresetFromJson(kGood, "mine.json");
  EXPECT_TRUE(preset.has_value()) << preset.error().message;
  return *std::move(preset);
}

TEST(Preset, HasWhatItsFileSays) {
  const Preset preset = Good();
  EXPECT_EQ(preset.name, "mine");
  EXPECT_EQ(preset.plan.schedule, ScheduleKind::kInterleaved);
  EXPECT_EQ(preset.plan.vpp, 2);
  EXPECT_EQ(preset.plan.clip_norm, 1.5);
  ASSERT_EQ(preset.options.size(), 3U);
  EXPECT_THAT(preset.options[0].also,
              testing::ElementsAre(static_cast<std::int64_t>(ScheduleKind::k1f1b)));
  EXPECT_EQ(preset.options[0].needs, nullptr);
  EXPECT_EQ(preset.options[1].needs, &PlanFieldOf("pp"));
  EXPECT_EQ(preset.options[1].source, "its section 2");
  EXPECT_THAT(preset.omits, testing::ElementsAre("Dropout."));
}

// A 16-bit plan gets the system's formats unless the user or an option sets them. Weights outside
// the device are fp32. An fp32 plan has no choice of formats.
TEST(Preset, GivesSixteenBitPlansTheFormatsOfItsSystem) {
  Preset preset = Good();
  preset.system.weights = WeightStorage::kAlone;
  preset.system.gradients = GradientFormat::kCompute;
  Plan plan;
  ApplyFormats(preset, {}, plan);
  EXPECT_EQ(plan.gradients, Plan{}.gradients);
  plan.precision = Precision::kBf16;
  ApplyFormats(preset, {}, plan);
  EXPECT_EQ(plan.weights, WeightStorage::kAlone);
  EXPECT_EQ(plan.gradients, GradientFormat::kCompute);
  plan.weights = WeightStorage::kMaster;
  const std::vector<const PlanField*> kept = {&PlanFieldOf("weights")};
  ApplyFormats(preset, kept, plan);
  EXPECT_EQ(plan.weights, WeightStorage::kMaster);
  plan.offload_parameters = OffloadTarget::kHost;
  ApplyFormats(preset, {}, plan);
  EXPECT_EQ(plan.weights, WeightStorage::kFp32);
  preset.options.push_back({&PlanFieldOf("gradients"), {}, nullptr, "its section 3"});
  plan.gradients = GradientFormat::kFp32;
  ApplyFormats(preset, {}, plan);
  EXPECT_EQ(plan.gradients, GradientFormat::kFp32);
}

// Kernels that overlap collectives with their products need no pieces in the program, unless pieces
// were requested.
TEST(Preset, LeavesPiecesToKernelsThatHideThem) {
  Preset preset = Good();
  Plan plan;
  plan.tp_tiles = 4;
  ApplySoftware(preset, {}, plan);
  EXPECT_EQ(plan.tp_tiles, 4);
  preset.system.tp_overlap = 0.5;
  const std::vector<const PlanField*> kept = {&PlanFieldOf("tp_tiles")};
  ApplySoftware(preset, kept, plan);
  EXPECT_EQ(plan.tp_tiles, 4);
  ApplySoftware(preset, {}, plan);
  EXPECT_EQ(plan.tp_tiles, 1);
}

// A pipeline of FSDP keeps parameters gathered: only the optimizer's state is sharded on the wire.
TEST(Preset, GathersOnceAStepWithAPipeline) {
  Preset preset = Good();
  preset.system.pipeline_gathers_once = true;
  Plan plan;
  plan.zero_stage = 3;
  ApplySoftware(preset, {}, plan);
  EXPECT_EQ(plan.zero_stage, 3);
  plan.pp = 2;
  const std::vector<const PlanField*> kept = {&PlanFieldOf("zero_stage")};
  ApplySoftware(preset, kept, plan);
  EXPECT_EQ(plan.zero_stage, 3);
  ApplySoftware(preset, {}, plan);
  EXPECT_EQ(plan.zero_stage, 1);
}

struct BadPreset {
  std::string_view from, to;
  std::vector<std::string> told;  // texts that the message contains
};

TEST(Preset, OfABadFileIsRefusedByFieldAndValue) {
  const std::vector<BadPreset> all = {
      {"\"axes\": [\"tp\"", "\"axes\": [\"tpp\"", {"mine.json", "axes", "tpp", "dp, cp, tp"}},
      {"\"vpp\"", "\"vvp\"", {"mine.json", "vvp", "field of a plan"}},
      {"\"interleaved\"", "\"interleave\"", {"schedule", "interleave", "interleaved"}},
      {"[\"1f1b\"]", "[\"2f2b\"]", {"also", "2f2b", "schedule"}},
      {"\"value\": 2", "\"value\": 0", {"vpp", "0", "1"}},
      {"\"value\": 1.5, ", "", {"clip_norm", "value"}},
      {"\"needs\": \"pp\"", "\"needs\": \"zero\"", {"needs", "zero"}},
      {", \"source\": \"its code\"", "", {"clip_norm", "source"}},
      {"\"title\": \"My own system\", ", "", {"title"}},
      {"\"omits\"", "\"omit\"", {"omit"}},
  };
  for (const BadPreset& bad : all) {
    std::string text(kGood);
    const std::size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, bad.from.size(), bad.to);
    const auto preset = PresetFromJson(text, "mine.json");
    ASSERT_FALSE(preset.has_value()) << bad.to;
    for (const std::string& told : bad.told) {
      EXPECT_THAT(preset.error().message, HasSubstr(told)) << bad.from;
    }
  }
}

TEST(Preset, SpreadsPrimeFactorsOverItsAxesInTurn) {
  const Preset preset = Good();
  const ModelSpec model = Gpt2();  // 12 layers, 12 heads
  const auto spread = [&](int ranks, std::vector<const PlanField*> kept = {}, Plan plan = {}) {
    SpreadRanks(preset, model, ranks, kept, plan);
    return std::vector<int>{plan.tp, plan.pp, plan.dp};
  };
  EXPECT_THAT(spread(1), testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(spread(8), testing::ElementsAre(2, 2, 2));
  EXPECT_THAT(spread(16), testing::ElementsAre(4, 2, 2));
  EXPECT_THAT(spread(24), testing::ElementsAre(6, 2, 2)) << "3 first";
  // tp 8 does not divide 12 heads; 2 chunks on each of 8 ranks need more than 12 layers.
  EXPECT_THAT(spread(512), testing::ElementsAre(4, 4, 32));
  EXPECT_THAT(spread(7), testing::ElementsAre(1, 1, 7)) << "7 heads of 12 or 14 layers of 12";
  Plan given;
  given.tp = 4;
  EXPECT_THAT(spread(16, {&PlanFieldOf("tp")}, given), testing::ElementsAre(4, 2, 2));
  EXPECT_THAT(spread(6, {&PlanFieldOf("tp")}, given), testing::ElementsAre(4, 1, 1));
}

TEST(Preset, GivesWayToWhatIsKeptAndDropsWhatNeedsMoreRanks) {
  const Preset preset = Good();
  Plan plan;
  plan.clip_norm = 9;
  const std::vector<const PlanField*> kept = {&PlanFieldOf("clip_norm")};
  ApplyPreset(preset, kept, plan);
  EXPECT_EQ(plan.clip_norm, 9);
  EXPECT_EQ(plan.schedule, ScheduleKind::kInterleaved);
  EXPECT_EQ(plan.vpp, 1) << "one stage";
  plan.pp = 2;
  ApplyPreset(preset, kept, plan);
  EXPECT_EQ(plan.vpp, 2);
}

TEST(Preset, IsFoundByNameOrAliasElseWithAHint) {
  const std::vector<Preset> presets = AllPresets();
  const auto name = [&](std::string_view text) { return FindPreset(presets, text)->name; };
  EXPECT_EQ(name("megatron-sp"), "megatron-sp");
  EXPECT_EQ(name(" DeepSeek-V3 "), "dualpipe");
  const auto unknown = FindPreset(presets, "torchtitn");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("torchtitn"), HasSubstr("torchtitan"), HasSubstr("presets")));
}

TEST(Preset, NamesAreUniqueAndEveryOptionHasASource) {
  std::set<std::string> names;
  const std::vector<Preset> presets = AllPresets();
  EXPECT_GE(presets.size(), 40U);
  for (const Preset& preset : presets) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    for (const std::string& alias : preset.aliases)
      EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_FALSE(preset.axes.empty()) << preset.name;
    EXPECT_FALSE(preset.options.empty()) << preset.name;
    for (const PresetOption& option : preset.options) {
      EXPECT_GE(option.source.size(), 20U) << preset.name << " " << option.field->name;
    }
  }
}

class EachPreset : public testing::TestWithParam<Preset> {};

TEST_P(EachPreset, HoldsOnAnyPowerOfTwoOfRanks) {
  const ModelSpec model = ModelFor(GetParam(), Gpt2());
  for (const int ranks : {1, 2, 4, 8, 16, 64, 1024}) {
    Plan plan = ToyPlan(GetParam(), model, ranks);
    plan.sequence = 1024;
    EXPECT_EQ(plan.World(), ranks);
    const auto valid = ValidatePlan(plan, model);
    EXPECT_TRUE(valid.has_value()) << ranks << " ranks: " << valid.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, EachPreset, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
