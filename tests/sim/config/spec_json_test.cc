#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/config/cluster/cluster_json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_json.h"
#include "sim/config/plan/plan_values.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kModel = R"({
  "name": "small", "layers": 2, "hidden": 64, "heads": 4, "ffn_hidden": 256, "vocab": 1000, "max_sequence": 128,
  "norm": "rmsnorm", "mlp": "swiglu", "positions": "rope",
  "attention_bias": false, "projection_bias": false, "tied_embeddings": true)";

std::string Model(std::string_view more) { return std::string(kModel) + std::string(more) + "}"; }

std::string ModelRefusal(const std::string& text) {
  const auto model = ModelFromJson(text, "m.json");
  return model ? "accepted" : model.error().message;
}

TEST(ModelJson, ReadsAModelAndFillsInTheHeads) {
  const auto model = ModelFromJson(Model(""), "m.json");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->name, "small");
  EXPECT_EQ(model->kv_heads, 4);
  EXPECT_EQ(model->head_dim, 16);
  EXPECT_EQ(model->norm, NormKind::kRmsNorm);
  EXPECT_EQ(model->mlp, MlpKind::kSwiglu);
  EXPECT_EQ(model->positions, PositionKind::kRope);
  EXPECT_FALSE(model->attention_bias);
  EXPECT_TRUE(model->tied_embeddings);
  EXPECT_EQ(model->rope_theta, 10000);
}

TEST(ModelJson, ReadsBackWhatItWrote) {
  ModelSpec model = *ModelFromJson(Model(""), "m.json");
  model.name = "a \"b\" \xc3\xa9";
  model.kv_heads = 2;
  model.head_dim = 20;
  model.rope_theta = 1e6 / 3;
  model.norm_epsilon = 1e-7 / 3;
  model.attention_window = 77;
  model.global_attention_every = 3;
  model.norm = NormKind::kLayerNorm;
  model.mlp = MlpKind::kGelu;
  model.positions = PositionKind::kLearned;
  const auto again = ModelFromJson(ToJson(model), "again");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, model);
}

TEST(ModelJson, RefusesFieldsByNameWithValueAndRemedy) {
  EXPECT_THAT(ModelRefusal(Model(", \"kv_heads\": 3")),
              AllOf(HasSubstr("m.json: kv_heads 3"), HasSubstr("nearest: 2")));
  EXPECT_THAT(ModelRefusal(Model(", \"kv_head\": 2")),
              AllOf(HasSubstr("m.json: kv_head"), HasSubstr("kv_heads")));
  EXPECT_THAT(ModelRefusal(Model(", \"norm_epsilon\": \"small\"")),
              HasSubstr("m.json: norm_epsilon"));
  EXPECT_THAT(ModelRefusal(Model(", \"attention_window\": -1")),
              AllOf(HasSubstr("attention_window"), HasSubstr("-1")));
  EXPECT_THAT(ModelRefusal("{\"layers\": 1e3}"),
              AllOf(HasSubstr("m.json: layers"), HasSubstr("integer")));
  EXPECT_THAT(ModelRefusal("{\"layers\": 0}"),
              AllOf(HasSubstr("layers"), HasSubstr("1 to 2147483647"), HasSubstr("is 0")));
  EXPECT_THAT(ModelRefusal("{}"), HasSubstr("layers: is missing"));
  EXPECT_THAT(ModelRefusal("[1]"), HasSubstr("m.json: must be an object"));
  EXPECT_THAT(ModelRefusal("{"), HasSubstr("m.json: line 1"));
}

TEST(ModelJson, RefusesAnUnknownKindWithTheNearest) {
  std::string text = Model("");
  text.replace(text.find("rmsnorm"), 7, "rms_nrm");
  EXPECT_THAT(ModelRefusal(text),
              AllOf(HasSubstr("norm"), HasSubstr("rms_nrm"), HasSubstr("\"rmsnorm\"")));
}

TEST(ModelJson, AsksForTheHeadDimWhereHiddenIsNoMultipleOfHeads) {
  std::string text = Model("");
  text.replace(text.find("\"heads\": 4"), 10, "\"heads\": 6");
  EXPECT_THAT(ModelRefusal(text),
              AllOf(HasSubstr("head_dim"), HasSubstr("hidden 64"), HasSubstr("heads 6")));
}

TEST(PlanJson, ReadsAPlanWithDefaults) {
  const auto plan =
      PlanFromJson(R"({"dp": 2, "sequence": 128, "global_batch": 8, "micro_batch": 2})", "p.json");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  Plan expected;
  expected.dp = 2;
  expected.sequence = 128;
  expected.global_batch = 8;
  expected.micro_batch = 2;
  EXPECT_EQ(*plan, expected);
}

TEST(PlanJson, ReadsASwitchWhereAChoiceHasAMeaningForOne) {
  const auto fuse = [](const char* value) {
    const auto plan = PlanFromJson(
        std::string(R"({"sequence": 8, "global_batch": 1, "micro_batch": 1, "fuse": )") + value +
            "}",
        "p.json");
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    return plan->fuse;
  };
  EXPECT_EQ(fuse("false"), FusionKind::kNone);
  EXPECT_EQ(fuse("true"), FusionKind::kNorms);
  EXPECT_EQ(fuse("\"all\""), FusionKind::kAll);
  const auto other = PlanFromJson(
      R"({"sequence": 8, "global_batch": 1, "micro_batch": 1, "recompute": true})", "p.json");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("p.json: recompute"));
}

TEST(PlanJson, ReadsBackWhatItWrote) {
  Plan plan;
  plan.dp = 3;
  plan.tp = 4;
  plan.pp = 5;
  plan.sequence = 2048;
  plan.global_batch = 36;
  plan.micro_batch = 2;
  plan.clip_norm = 1.0 / 3;
  plan.bucket_bytes = 12345;
  for (const auto schedule : {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
    for (const auto recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
      for (const int zero : {0, 1, 3}) {
        plan.schedule = schedule;
        plan.recompute = recompute;
        plan.zero_stage = zero;
        const auto again = PlanFromJson(ToJson(plan), "again");
        ASSERT_TRUE(again.has_value()) << again.error().message;
        EXPECT_EQ(*again, plan);
      }
    }
  }
}

// A plan that differs from the default in `field` only; it may be invalid.
Plan PlanWithOther(const PlanField& field) {
  Plan plan;
  plan.sequence = plan.global_batch = plan.micro_batch = 1;
  if (field.number != nullptr) {
    plan.*field.number = field.max / 4;
  } else if (field.list != nullptr) {
    plan.*field.list = {2, 1, 3};
  } else if (field.slots != nullptr) {
    plan.*field.slots = SlotOrder::FromCsv("0F0,0B0\n", "").value();
    plan.schedule = ScheduleKind::kCustom;
  } else {
    const std::int64_t value = field.get(plan);
    field.set(plan, value < field.high ? value + 1 : value - 1);
  }
  return plan;
}

TEST(PlanJson, WritesAndReadsEveryFieldThatIsNotTheDefault) {
  for (const PlanField& field : PlanFields()) {
    SCOPED_TRACE(field.name);
    const Plan plan = PlanWithOther(field);
    if (!ValidatePlan(plan)) continue;  // needs another field to change too
    const std::string text = ToJson(plan);
    EXPECT_THAT(text, HasSubstr("\"" + std::string(field.name) + "\""));
    const auto again = PlanFromJson(text, "again");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, plan);
  }
}

TEST(PlanJson, ReadsModulesByBothOfTheirNames) {
  const auto modules = [](const std::string& names) {
    return PlanFromJson(
        "{\"sequence\": 8, \"global_batch\": 1, \"micro_batch\": 1, "
        "\"recompute\": \"selective\", \"recompute_modules\": " +
            names + "}",
        "p.json");
  };
  const auto ours = modules(R"(["norm", "mlp"])");
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(ours->recompute_modules, BitOf(RecomputeModule::kNorm) | BitOf(RecomputeModule::kMlp));
  const auto theirs = modules(R"(["layernorm", "mlp"])");
  ASSERT_TRUE(theirs.has_value()) << theirs.error().message;
  EXPECT_EQ(*theirs, *ours);
  const auto again = PlanFromJson(ToJson(*ours), "again");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, *ours);
  const auto wrong = modules(R"(["norms"])");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("\"norms\" is none of core-attention, norm, "));
  EXPECT_THAT(wrong.error().message, HasSubstr("Did you mean \"norm\"?"));
}

TEST(PlanValues, OfModulesAreOneSet) {
  const PlanField& field = PlanFieldOf("recompute_modules");
  Plan plan;
  const auto set = SetPlanField(field, "core_attn, mla-up,moe", plan);
  ASSERT_TRUE(set.has_value()) << set.error().message;
  EXPECT_EQ(TextOf(field, plan), "core-attention,mla-up,experts");
  const auto wrong = SetPlanField(field, "norm,attn", plan);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("--recompute-modules: \"attn\" is none of "));
  ASSERT_TRUE(SetPlanField(field, "default", plan).has_value());
  EXPECT_EQ(plan.recompute_modules, 0U);
}

TEST(PlanFields, HaveNamesAndOptionsOfTheirOwn) {
  std::set<std::string_view> names;
  for (const PlanField& field : PlanFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(field.options.starts_with("--")) << field.name;
    EXPECT_FALSE(HasDefault(field, PlanWithOther(field))) << field.name;
  }
}

TEST(PlanJson, RefusesFieldsByNameWithValueAndRemedy) {
  const auto refusal = [](std::string_view more) {
    const std::string text =
        R"({"sequence": 128, "global_batch": 8, "micro_batch": 2, )" + std::string(more) + "}";
    const auto plan = PlanFromJson(text, "p.json");
    return plan ? std::string("accepted") : plan.error().message;
  };
  EXPECT_EQ(refusal("\"dp\": 4"), "accepted");
  EXPECT_THAT(refusal("\"dp\": 3"),
              AllOf(HasSubstr("p.json: global_batch 8"), HasSubstr("nearest: 6 or 12")));
  EXPECT_THAT(refusal("\"dp\": 0"),
              AllOf(HasSubstr("p.json: dp"), HasSubstr("from 1 to 1048576"), HasSubstr("is 0")));
  EXPECT_THAT(refusal("\"zero_stage\": 4"),
              AllOf(HasSubstr("p.json: zero_stage"), HasSubstr("from 0 to 3"), HasSubstr("is 4")));
  EXPECT_THAT(refusal("\"schedule\": \"1f1\""),
              AllOf(HasSubstr("schedule"), HasSubstr("\"1f1b\"")));
  EXPECT_THAT(refusal("\"recompute\": true"), HasSubstr("recompute"));
  EXPECT_THAT(refusal("\"zero\": 1"), HasSubstr("p.json: zero: is not a known field"));
  EXPECT_THAT(refusal("\"zero_stag\": 1"), HasSubstr("\"zero_stage\""));
  EXPECT_THAT(refusal("\"clip_norm\": -1"), HasSubstr("clip_norm"));
  EXPECT_THAT(refusal("\"pp\": 1048576, \"tp\": 1048576"), HasSubstr("at most 1048576"));
  const auto missing = PlanFromJson(R"({"sequence": 1, "global_batch": 1})", "p.json");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("micro_batch: is missing"));
}

class ClusterJson : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = BuiltInCatalogue();
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    catalogue_ = *std::move(parsed);
  }
  std::string Refusal(std::string_view text) const {
    const auto cluster = ClusterFromJson(text, "c.json", catalogue_);
    return cluster ? "accepted" : cluster.error().message;
  }
  Catalogue catalogue_;
};

TEST_F(ClusterJson, ReadsBackWhatItWrote) {
  std::vector<ClusterSpec> clusters;
  for (const std::string_view text : {"64x8xA100-80GB-SXM", "8xa100-pcie", "v100"}) {
    clusters.push_back(ParseCluster(text, catalogue_).value());
  }
  clusters.push_back(ParseCluster("16x4xtpu-v4", catalogue_).value());
  clusters.push_back(ParseCluster("64x8xh100", catalogue_).value());
  clusters.back().network_tiers = {{2, 25e9}, {32, 12.5e9}};
  clusters.back().measured_network = {{2, 20e9, 10e9}, {8, 10e9, 5e9}};
  clusters.back().member_launch_s = 1e-4;
  clusters.back().network_reduces = true;
  clusters.back().adapters_per_node = 4;
  clusters.back().collectives = CollectiveAlgorithm::kParameterServer;
  clusters.back().parameter_servers = 3;
  clusters.push_back(LocalCluster(12, 31 * kGiB + 5, 3).value());
  for (ClusterSpec& cluster : clusters) {
    cluster.link_latency_s = 1e-6 / 3;
    const auto again = ClusterFromJson(ToJson(cluster), "again", catalogue_);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, cluster);
  }
}

TEST(PlanValues, ReadSequencesAndBatchesInTokens) {
  EXPECT_EQ(ParseTokenCount("--sequence", "8192").value(), 8192);
  EXPECT_EQ(ParseTokenCount("--sequence", " 8k").value(), 8 * 1024);
  EXPECT_EQ(ParseTokenCount("--sequence", "0.5M").value(), 512 * 1024);
  for (const char* text : {"8x", "k", "", "0.3", "-1k", "4096M", "8kk"}) {
    const auto read = ParseTokenCount("--sequence", text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_THAT(read.error().message, HasSubstr("--sequence")) << text;
  }
  Plan plan;
  plan.sequence = 4096;
  const PlanField& batch = PlanFieldOf("global_batch");
  ASSERT_TRUE(SetPlanField(batch, "4M", plan).has_value());
  EXPECT_EQ(plan.global_batch, 1024);
  ASSERT_TRUE(SetPlanField(batch, "4", plan).has_value());
  EXPECT_EQ(plan.global_batch, 4);
  const auto short_batch = SetPlanField(batch, "1k", plan);
  ASSERT_FALSE(short_batch.has_value());
  EXPECT_THAT(short_batch.error().message, HasSubstr("no whole number of samples of 4096"));
}

// Every field is written, so that a file keeps its meaning when defaults change.
TEST(PlanFiles, OfAllFieldsReadBackToTheSamePlan) {
  Plan plan;
  plan.sequence = 128;
  plan.global_batch = 8;
  plan.micro_batch = 2;
  plan.dp = 2;
  const std::string text = ToJson(plan, WrittenFields::kAll);
  for (const PlanField& field : PlanFields()) {
    EXPECT_THAT(text, HasSubstr("\"" + std::string(field.name) + "\"")) << field.name;
  }
  const auto read = PlanFromJson(text, "plan.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, plan);
}

TEST_F(ClusterJson, TakesADeviceOfTheCatalogueByName) {
  const auto cluster = ClusterFromJson(
      R"({"device": "h100", "nodes": 4, "devices_per_node": 8, "network_bytes_per_s": 4e10})",
      "c.json", catalogue_);
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  ClusterSpec expected = ParseCluster("4x8xh100", catalogue_).value();
  expected.network_bytes_per_s = 4e10;
  expected.assumptions = "host memory 2.00 TiB a node (DGX H100)";
  EXPECT_EQ(*cluster, expected);
}

TEST_F(ClusterJson, RefusesNetworksThatCannotBe) {
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 4, "network_tiers": [{"nodes": 2}]})"),
              HasSubstr("network_tiers[0].bytes_per_s: is missing"));
  EXPECT_THAT(
      Refusal(
          R"({"device": "h100", "nodes": 4, "network_tiers": [{"nodes": 2, "bytes_per_s": 6e10}]})"),
      HasSubstr("network_tiers bytes_per_s 60000000000: must be above 0 and at most 50000000000"));
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 4, "network_tiers": [
      {"nodes": 2, "bytes_per_s": 2e10}, {"nodes": 2, "bytes_per_s": 1e10}]})"),
              HasSubstr("network_tiers nodes 2: must be above 2"));
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 4, "measured_network": [
      {"nodes": 4, "reduce_bytes_per_s": 2e10, "gather_bytes_per_s": 1e10},
      {"nodes": 2, "reduce_bytes_per_s": 2e10, "gather_bytes_per_s": 1e10}]})"),
              HasSubstr("measured_network nodes 2: must be above 4"));
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 4, "measured_network": [
      {"nodes": 4, "reduce_bytes_per_s": 0, "gather_bytes_per_s": 1e10}]})"),
              HasSubstr("measured_network rate 0: must be above 0"));
  EXPECT_THAT(Refusal(R"({"device": "tpu-v4", "nodes": 4, "torus": [2, 3]})"),
              HasSubstr("torus: its extents make 6 devices; nodes x devices_per_node are 4"));
  EXPECT_THAT(Refusal(R"({"device": "h100", "collectives": "rings"})"),
              HasSubstr("c.json: collectives"));
}

TEST_F(ClusterJson, RefusesFieldsByNameWithValueAndRemedy) {
  EXPECT_THAT(Refusal("{}"), HasSubstr("c.json: device: is missing"));
  EXPECT_THAT(Refusal(R"({"device": "h101"})"),
              AllOf(HasSubstr("c.json: device"), HasSubstr("Did you mean")));
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 0})"),
              AllOf(HasSubstr("c.json: nodes"), HasSubstr("is 0")));
  EXPECT_THAT(Refusal(R"({"device": "h100", "node": 2})"),
              AllOf(HasSubstr("c.json: node"), HasSubstr("nodes")));
  EXPECT_THAT(Refusal(R"({"device": {"name": "x", "memory_bytes": 0}})"),
              HasSubstr("c.json: device.memory_bytes"));
  EXPECT_THAT(Refusal(R"({"device": {"name": "x", "memory_bytes": 1, "fp64": 1}})"),
              HasSubstr("device.fp64"));
  EXPECT_THAT(Refusal(R"({"device": {"name": "x", "memory_bytes": 1}})"),
              HasSubstr("device.memory_bytes_per_s 0"));
  EXPECT_THAT(Refusal(R"({"device": {"name": "x", "memory_bytes": 1, "memory_bytes_per_s": 1}})"),
              HasSubstr("bf16_flop_per_s 0"));
  EXPECT_THAT(
      Refusal(R"({"device": {"name": "x", "memory_bytes": 1}, "is_cpu": true, "nodes": 2})"),
      HasSubstr("network_bytes_per_s 0"));
  EXPECT_EQ(Refusal(R"({"device": {"name": "x", "memory_bytes": 1}, "is_cpu": true})"), "accepted");
  EXPECT_THAT(Refusal(R"({"device": "h100", "nodes": 1048576, "devices_per_node": 2})"),
              HasSubstr("c.json: nodes 1048576 x devices_per_node 2"));
}

}  // namespace
}  // namespace foretrain
