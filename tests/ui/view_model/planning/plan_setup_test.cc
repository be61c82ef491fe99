#include "ui/view_model/planning/plan_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/planning_samples.h"

namespace foretrain::ui {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class PlanSetupTest : public testing::Test {
 protected:
  Result<PlanRequest> Get() { return Resolve(setup_, catalogue_, std::nullopt, files_); }

  PosixFileSystem files_;
  Catalogue catalogue_ = *BuiltInCatalogue();
  PlanSetup setup_ = SampleSetup();
};

TEST_F(PlanSetupTest, BecomesASpaceOfTheConstraintsOnTheCluster) {
  const auto request = Get();
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->model.name, "gpt2-124m");
  EXPECT_EQ(request->cluster.Devices(), 4);
  EXPECT_EQ(request->space.base.sequence, 256);
  EXPECT_EQ(request->space.base.global_batch, 16);
  for (const SearchChoice& choice : request->space.choices) {
    if (choice.field->name == "micro_batch") {
      EXPECT_EQ(choice.values, (std::vector<std::int64_t>{1, 2}));
    }
  }
}

TEST_F(PlanSetupTest, LaysOtherRatesOverTheCatalogues) {
  setup_.other_rates = {{"memory", 40.0}, {"arithmetic", 500.0}};
  const auto request = Get();
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->cluster.device.memory_bytes, std::int64_t{40} << 30);
  EXPECT_DOUBLE_EQ(request->cluster.device.bf16_flop_per_s, 500e12);
  // Other formats scale in proportion: fp8 is twice bf16 on H100.
  EXPECT_NEAR(request->cluster.device.fp8_flop_per_s, 1000e12, 2e12);
  EXPECT_EQ(request->machine.cluster.device.memory_bytes, std::int64_t{80} << 30);
}

TEST_F(PlanSetupTest, RefusesWhatItDoesNotKnowWithASentence) {
  setup_.model = "gpt9";
  EXPECT_THAT(Get().error().message, HasSubstr("gpt9"));
  setup_ = SampleSetup();
  setup_.constraints = {{"schedule", "2f2b"}};
  EXPECT_THAT(Get().error().message, HasSubstr("2f2b"));
  setup_ = SampleSetup();
  setup_.other_rates = {{"memory", 1e9}};
  EXPECT_THAT(Get().error().message, HasSubstr("memory"));
  setup_ = SampleSetup();
  setup_.gpu = std::string(kLocal);
  EXPECT_THAT(Get().error().message, HasSubstr("choose a GPU"));
}

// FSDP has no pipelines, so no plan of the space may have one; a constraint says otherwise.
TEST_F(PlanSetupTest, HoldsTheSpaceToATrainer) {
  EXPECT_THAT(TrainerNames(), Contains("megatron"));
  setup_.constraints.clear();
  setup_.trainer = "fsdp";
  const auto request = Get();
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_THAT(request->origin, HasSubstr("preset"));
  bool checked = false;
  for (const SearchChoice& choice : request->space.choices) {
    if (choice.field->name != "pp") continue;
    EXPECT_EQ(choice.values, (std::vector<std::int64_t>{1}));
    checked = true;
  }
  EXPECT_TRUE(checked || request->space.base.pp == 1);
  EXPECT_THAT(CommandOf(setup_), HasSubstr(" --for fsdp"));
  setup_.trainer = "nobody";
  EXPECT_THAT(Get().error().message, HasSubstr("nobody"));
}

TEST_F(PlanSetupTest, FiltersNamesByTheirLettersInAnyCase) {
  EXPECT_THAT(ModelNames(catalogue_, "LLAMA3-8"), Contains("llama3-8b"));
  EXPECT_THAT(ModelNames(catalogue_, "LLAMA3-8"), Not(Contains("gpt2-124m")));
  EXPECT_THAT(GpuNames(catalogue_, "h100"), Contains("h100-80gb-sxm"));
  EXPECT_TRUE(GpuNames(catalogue_, "no such").empty());
}

TEST_F(PlanSetupTest, FollowsAnAdviceThatNamesOptions) {
  setup_.constraints.clear();
  EXPECT_TRUE(Follow("--zero 3 --recompute full", setup_));
  EXPECT_EQ(setup_.constraints,
            (std::vector<Constraint>{{"zero_stage", "3"}, {"recompute", "full"}}));
  EXPECT_TRUE(Follow("--sequence 128", setup_));
  EXPECT_EQ(setup_.sequence, 128);
  EXPECT_FALSE(Follow("16 devices", setup_));
}

TEST_F(PlanSetupTest, ReadsAClusterAsTheCommandLineSpellsIt) {
  ASSERT_TRUE(SetCluster("64x8xa100-80gb-sxm", setup_).has_value());
  EXPECT_EQ(setup_.nodes, 64);
  EXPECT_EQ(setup_.devices_per_node, 8);
  EXPECT_EQ(setup_.gpu, "a100-80gb-sxm");
  ASSERT_TRUE(SetCluster("rtx4090", setup_).has_value());
  EXPECT_EQ(setup_.nodes * setup_.devices_per_node, 1);
  EXPECT_FALSE(SetCluster("0x8xh100", setup_).has_value());
}

}  // namespace
}  // namespace foretrain::ui
