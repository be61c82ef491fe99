#include "sim/search/space/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/plan/preset.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int64_t> ValuesOf(const SearchSpace& space, std::string_view field) {
  for (const SearchChoice& choice : space.choices) {
    if (choice.field == &PlanFieldOf(field)) return choice.values;
  }
  return {PlanFieldOf(field).get(space.base)};
}

SearchSpace SpaceFor(std::string_view framework) {
  const Catalogue catalogue = BuiltInCatalogue().value();
  const ClusterSpec cluster = ParseCluster("16x8xh100", catalogue).value();
  const ModelSpec model = FindModel(catalogue, "llama3-70b")->spec;
  SearchSpace space = DefaultSpace(model, cluster, cluster.Devices(), Plan{});
  RestrictTo(FindFramework(BuiltInFrameworks().value(), framework).value(), model.layers, space);
  return space;
}

constexpr auto k1f1b = static_cast<std::int64_t>(ScheduleKind::k1f1b);
constexpr auto kInterleaved = static_cast<std::int64_t>(ScheduleKind::kInterleaved);

TEST(Frameworks, LeaveTheValuesThatTheyHave) {
  const SearchSpace any = SpaceFor("any");
  EXPECT_THAT(ValuesOf(any, "schedule"), ElementsAre(k1f1b, kInterleaved));
  EXPECT_THAT(ValuesOf(any, "pp"), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(any.rank_orders.size(), 2U);
  EXPECT_TRUE(any.orders_ranks);
  EXPECT_FALSE(SpaceFor("torchtitan").orders_ranks);  // it has one order
  EXPECT_FALSE(any.balances_layers);
  EXPECT_THAT(ValuesOf(SpaceFor("deepspeed"), "schedule"), ElementsAre(k1f1b));
  EXPECT_THAT(ValuesOf(SpaceFor("fsdp"), "pp"), ElementsAre(1));
}

TEST(Frameworks, LeaveEverythingToForetrain) {
  const SearchSpace space = SpaceFor("foretrain");
  EXPECT_TRUE(space.orders_ranks);
  EXPECT_TRUE(space.rank_orders.empty());
  EXPECT_TRUE(space.balances_layers);
  EXPECT_THAT(ValuesOf(space, "pp"), testing::Contains(64));
}

TEST(Frameworks, SayWhatTheyHave) {
  const Framework nanotron = FindFramework(BuiltInFrameworks().value(), "nanotron").value();
  const auto host = static_cast<std::int64_t>(OffloadTarget::kHost);
  EXPECT_FALSE(Has(nanotron, "offload_gradients", host));
  EXPECT_TRUE(Has(nanotron, "tp", 8));
}

Framework Named(std::string_view name) {
  return FindFramework(BuiltInFrameworks().value(), name).value();
}

// ZeRO-3 of DeepSpeed knows neither pipelines nor its own tensor parallelism.
TEST(Frameworks, RefusePlansThatBreakALimit) {
  const Framework deepspeed = Named("deepspeed");
  Plan plan;
  plan.zero_stage = 3;
  EXPECT_EQ(BrokenLimit(deepspeed, 80, plan), "");
  plan.pp = 2;
  EXPECT_EQ(BrokenLimit(deepspeed, 80, plan), "zero_stage 3 with pp 2: DeepSpeed does not have it");
  plan.zero_stage = 1;
  EXPECT_EQ(BrokenLimit(deepspeed, 80, plan), "");
  plan.zero_stage = 2;
  plan.pp = 1;
  plan.tp = 2;
  EXPECT_EQ(BrokenLimit(deepspeed, 80, plan), "");
}

// 126 layers on 8 x 8 virtual stages: two have one layer instead of two. On 16 stages of 84 layers
// twelve have five instead of six.
TEST(Frameworks, RefuseStagesThatOnlyAListOfLayersGives) {
  const Framework megatron = Named("megatron");
  Plan plan;
  plan.pp = plan.vpp = 8;
  plan.schedule = ScheduleKind::kInterleaved;
  EXPECT_EQ(BrokenLimit(megatron, 126, plan), "");
  EXPECT_EQ(BrokenLimit(megatron, 128, plan), "");
  plan.pp = 16;
  plan.vpp = 1;
  plan.schedule = ScheduleKind::k1f1b;
  EXPECT_THAT(BrokenLimit(megatron, 84, plan), HasSubstr("12 would have a layer fewer"));
  EXPECT_EQ(BrokenLimit(Named("foretrain"), 84, plan), "");
}

// Megatron-LM offloads activations without a pipeline and without any recomputation.
TEST(Frameworks, RefuseWhatRecomputationRulesOut) {
  const Framework megatron = Named("megatron");
  Plan plan;
  plan.offload_activations = OffloadTarget::kHost;
  EXPECT_EQ(BrokenLimit(megatron, 80, plan), "");
  plan.recompute = RecomputeKind::kFull;
  EXPECT_EQ(
      BrokenLimit(megatron, 80, plan),
      "offload_activations host with recompute full: Megatron-LM and Megatron Bridge does not "
      "have it");
  plan.recompute = RecomputeKind::kNone;
  plan.pp = 2;
  EXPECT_THAT(BrokenLimit(megatron, 80, plan), HasSubstr("with pp 2"));
}

// Tensors of dropless experts are as large as what arrives. foretrain's own are for all rows.
TEST(Frameworks, LeaveMemoryForTheRowsOfExpertsThatArrive) {
  const Catalogue catalogue = BuiltInCatalogue().value();
  const ClusterSpec cluster = ParseCluster("1x8xh100", catalogue).value();
  const ModelSpec model = FindModel(catalogue, "mixtral-8x7b")->spec;
  Plan base;
  base.global_batch = 64;
  base.sequence = 4096;
  SearchSpace space = DefaultSpace(model, cluster, 8, base);
  RestrictTo(Named("foretrain"), model.layers, space);
  EXPECT_EQ(space.expert_headroom, 0);
  EXPECT_TRUE(space.tunes_gathers);
  RestrictTo(Named("megatron"), model.layers, space);
  EXPECT_FALSE(space.tunes_gathers);
  for (const char* field : {"recompute", "cp", "schedule", "zero_stage"}) {
    space.Choose(field, {PlanFieldOf(field).get(Plan{})});
  }
  space.Choose("micro_batch", {1});
  const SpaceWalk walk(model, space, 8);
  Rejections rejected;
  int spread = 0;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          spread += plan.ep > 1 ? 1 : 0;
          EXPECT_EQ(plan.expert_headroom, plan.ep > 1 ? 1.25 : 0) << Describe(plan);
          return false;
        },
        [] { return false; }, rejected);
  }
  EXPECT_GT(spread, 0) << rejected.list().front().example;
}

TEST(Frameworks, LeaveNoPlanThatBreaksALimitToTheWalk) {
  const Catalogue catalogue = BuiltInCatalogue().value();
  const ModelSpec model = FindModel(catalogue, "llama3-70b")->spec;
  SearchSpace space = SpaceFor("deepspeed");
  for (const char* field : {"cp", "tp", "recompute", "offload_optimizer", "offload_activations",
                            "vocab_parallel", "sequence_parallel"}) {
    space.Choose(field, {PlanFieldOf(field).get(Plan{})});
  }
  space.Choose("micro_batch", {1});
  space.base.global_batch = 256;
  space.base.sequence = 4096;
  const SpaceWalk walk(model, space, 128);
  Rejections rejected;
  std::int64_t visited = 0;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          ++visited;
          EXPECT_TRUE(plan.pp == 1 || plan.zero_stage < 2) << Describe(plan);
          return false;
        },
        [] { return false; }, rejected);
  }
  EXPECT_GT(visited, 0) << rejected.list().front().example;
  EXPECT_EQ(visited + rejected.count(), walk.size());
}

TEST(Frameworks, NamePresetsForTheirSoftware) {
  const std::vector<Preset> presets = BuiltInPresets().value();
  const std::vector<Framework> frameworks = BuiltInFrameworks().value();
  for (const Framework& framework : frameworks) {
    if (framework.preset.empty()) continue;
    EXPECT_TRUE(FindPreset(presets, framework.preset).has_value()) << framework.name;
  }
  EXPECT_EQ(Named("megatron").preset, "megatron-core");
  EXPECT_EQ(Named("any").preset, "");
}

TEST(Frameworks, RefuseUnknownNamesFieldsAndValues) {
  const auto unknown = FindFramework(BuiltInFrameworks().value(), "megatrn");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("--for"), HasSubstr("Did you mean \"megatron\"?")));
  const auto refusal = [](std::string_view values) {
    const std::string text =
        R"({"frameworks": [{"name": "x", "title": "X", "source": "s", "values": )" +
        std::string(values) + "}]}";
    const auto read = ParseFrameworks(text, "f.json");
    return read ? std::string("accepted") : read.error().message;
  };
  EXPECT_EQ(refusal(R"({"tp": "1,2"})"), "accepted");
  EXPECT_THAT(refusal(R"({"tpp": "1"})"), AllOf(HasSubstr("f.json"), HasSubstr("tpp")));
  EXPECT_THAT(refusal(R"({"schedule": "2f2b"})"), HasSubstr("2f2b"));
  EXPECT_THAT(refusal(R"({"stage_layers": "1,2"})"), HasSubstr("stage_layers"));
  EXPECT_THAT(refusal(R"({}, "limits": [{"degree": "pq", "field": "zero_stage", "values": "1"}])"),
              AllOf(HasSubstr("f.json"), HasSubstr("degree")));
  EXPECT_THAT(refusal(R"({}, "limits": [{"degree": "pp", "field": "schedule", "values": "2f2b"}])"),
              HasSubstr("values"));
}

}  // namespace
}  // namespace foretrain
