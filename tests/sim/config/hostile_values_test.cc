// Property tests: whatever value a field has, a spec is accepted within its bounds, or refused with
// the name of the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/checked.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr int kRounds = 100'000;

// Values at and beyond every limit of a count, and random ones.
class Hostile {
 public:
  std::int64_t Integer() {
    static constexpr std::int64_t kEdges[] = {std::numeric_limits<std::int64_t>::min(),
                                              -(std::int64_t{1} << 40),
                                              -1,
                                              0,
                                              1,
                                              2,
                                              3,
                                              255,
                                              8190,
                                              8191,
                                              (1 << 18) - 1,
                                              1 << 18,
                                              (1 << 18) + 1,
                                              1 << 20,
                                              (1 << 20) + 1,
                                              kMaxModelCount,
                                              kMaxModelCount + 1,
                                              std::int64_t{1} << 40,
                                              std::int64_t{1} << 56,
                                              (std::int64_t{1} << 56) + 1,
                                              std::int64_t{1} << 62,
                                              std::numeric_limits<std::int64_t>::max()};
    if (Below(2) == 0) return kEdges[Below(std::size(kEdges))];
    return static_cast<std::int64_t>(engine_()) >> Below(64);
  }
  int Int() { return static_cast<int>(static_cast<std::uint32_t>(Integer())); }
  double Real() {
    static const double kEdges[] = {std::nan(""),
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(),
                                    -1,
                                    -0.0,
                                    0,
                                    1e-320,
                                    1e-5,
                                    0.999,
                                    1,
                                    2,
                                    1e17,
                                    1e18,
                                    1e21,
                                    1e22,
                                    1e308};
    return kEdges[Below(std::size(kEdges))];
  }
  std::size_t Below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }

 private:
  std::mt19937_64 engine_{20240607};
};

Plan GoodPlan() {
  Plan plan;
  plan.dp = plan.tp = plan.pp = 2;
  plan.sequence = 1024;
  plan.global_batch = 64;
  plan.micro_batch = 4;
  return plan;
}

struct CountField {
  const char* name;
  std::int64_t ModelSpec::*member;
  std::int64_t low;
};

constexpr CountField kModelCounts[] = {{"layers", &ModelSpec::layers, 1},
                                       {"hidden", &ModelSpec::hidden, 1},
                                       {"heads", &ModelSpec::heads, 1},
                                       {"kv_heads", &ModelSpec::kv_heads, 1},
                                       {"head_dim", &ModelSpec::head_dim, 1},
                                       {"ffn_hidden", &ModelSpec::ffn_hidden, 1},
                                       {"vocab", &ModelSpec::vocab, 1},
                                       {"max_sequence", &ModelSpec::max_sequence, 1},
                                       {"attention_window", &ModelSpec::attention_window, 0}};

void ExpectAcceptedModelIsSound(const ModelSpec& model) {
  EXPECT_GT(ParameterCount(model), 0);
  EXPECT_LE(ParameterCount(model), kMaxProduct);
  EXPECT_GT(model.QkvWidth(), 0);
  EXPECT_GT(model.MlpUpWidth(), 0);
}

TEST(HostileValues, OneBadCountOfAModelIsRefusedByName) {
  Hostile hostile;
  int refused = 0;
  for (int i = 0; i < kRounds; ++i) {
    const CountField& field = kModelCounts[hostile.Below(std::size(kModelCounts))];
    ModelSpec model = Gpt2();
    model.positions = hostile.Below(2) == 0 ? PositionKind::kRope : PositionKind::kLearned;
    const std::int64_t value = hostile.Integer();
    model.*field.member = value;
    const auto valid = ValidateModel(model);
    if (value < field.low || value > kMaxModelCount) {
      ASSERT_FALSE(valid.has_value()) << field.name << " " << value;
    }
    if (valid) {
      ExpectAcceptedModelIsSound(model);
      continue;
    }
    ++refused;
    ASSERT_THAT(valid.error().message, HasSubstr(field.name));
  }
  EXPECT_GT(refused, kRounds / 4);
}

TEST(HostileValues, AnyMixOfBadModelValuesIsSoundOrRefused) {
  Hostile hostile;
  for (int i = 0; i < kRounds; ++i) {
    ModelSpec model = Gpt2();
    for (std::size_t n = hostile.Below(6); n > 0; --n) {
      model.*kModelCounts[hostile.Below(std::size(kModelCounts))].member = hostile.Integer();
    }
    if (hostile.Below(4) == 0) model.rope_theta = hostile.Real();
    if (hostile.Below(4) == 0) model.norm_epsilon = hostile.Real();
    model.mlp = hostile.Below(2) == 0 ? MlpKind::kSwiglu : MlpKind::kGelu;
    model.tied_embeddings = hostile.Below(2) == 0;
    const auto valid = ValidateModel(model);
    if (!valid) {
      ASSERT_FALSE(valid.error().message.empty());
      continue;
    }
    ExpectAcceptedModelIsSound(model);
    if (i % 16 != 0) continue;
    const auto again = ModelFromJson(ToJson(model), "again");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(*again, model);
  }
}

// Sets a field of `plan` to a hostile value and returns the field's name.
const char* Spoil(Hostile& hostile, Plan& plan) {
  switch (hostile.Below(9)) {
    case 0:
      plan.dp = hostile.Int();
      return "dp";
    case 1:
      plan.tp = hostile.Int();
      return "tp";
    case 2:
      plan.pp = hostile.Int();
      return "pp";
    case 3:
      plan.sequence = hostile.Integer();
      return "sequence";
    case 4:
      plan.global_batch = hostile.Integer();
      return "global_batch";
    case 5:
      plan.micro_batch = hostile.Integer();
      return "micro_batch";
    case 6:
      plan.zero_stage = hostile.Int();
      return "zero_stage";
    case 7:
      plan.clip_norm = hostile.Real();
      return "clip_norm";
    default:
      plan.bucket_bytes = hostile.Integer();
      return "bucket_bytes";
  }
}

void ExpectAcceptedPlanIsSound(const Plan& plan) {
  EXPECT_GE(plan.World(), 1);
  EXPECT_LE(plan.World(), kMaxRanks);
  EXPECT_GE(plan.MicroBatches(), 1);
  EXPECT_LE(plan.MicroBatches(), kMaxMicroBatches);
  EXPECT_EQ(plan.MicroBatches() * plan.dp * plan.micro_batch, plan.global_batch);
}

TEST(HostileValues, OneBadFieldOfAPlanIsRefusedByName) {
  Hostile hostile;
  const ModelSpec model = Gpt2();
  int refused = 0;
  for (int i = 0; i < kRounds; ++i) {
    Plan plan = GoodPlan();
    const std::string field = Spoil(hostile, plan);
    const auto valid = ValidatePlan(plan, model);
    (void)Describe(plan);
    if (valid) {
      ExpectAcceptedPlanIsSound(plan);
      continue;
    }
    ++refused;
    ASSERT_THAT(valid.error().message, HasSubstr(field));
  }
  EXPECT_GT(refused, kRounds / 4);
}

// Alone, a field beyond the limit also spoils the batch, which hides whether the limit is checked.
TEST(HostileValues, OneRankTooManyInEachStageIsRefused) {
  Plan plan = GoodPlan();
  plan.dp = kMaxRanks / 4 + 1;
  plan.global_batch = std::int64_t{plan.dp} * plan.micro_batch;
  const auto valid = ValidatePlan(plan, Gpt2());
  ASSERT_FALSE(valid.has_value());
  EXPECT_THAT(valid.error().message, HasSubstr("ranks, at most"));
}

TEST(HostileValues, AnyMixOfBadPlanValuesIsSoundOrRefused) {
  Hostile hostile;
  ModelSpec model = Gpt2();
  model.positions = PositionKind::kRope;
  for (int i = 0; i < kRounds; ++i) {
    Plan plan = GoodPlan();
    for (std::size_t n = hostile.Below(5); n > 0; --n) Spoil(hostile, plan);
    const auto valid = ValidatePlan(plan, model);
    if (!valid) {
      ASSERT_FALSE(valid.error().message.empty());
      continue;
    }
    ExpectAcceptedPlanIsSound(plan);
    const auto again = PlanFromJson(ToJson(plan), "again");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(*again, plan);
  }
}

TEST(HostileValues, AnyBadFieldOfAClusterIsRefusedByName) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const ClusterSpec good = ParseCluster("2x8xh100", *catalogue).value();
  struct RateField {
    const char* name;
    std::function<double&(ClusterSpec&)> member;
  };
  const RateField rates[] = {
      {"bf16_flop_per_s", [](ClusterSpec& c) -> double& { return c.device.bf16_flop_per_s; }},
      {"memory_bytes_per_s", [](ClusterSpec& c) -> double& { return c.device.memory_bytes_per_s; }},
      {"link_bytes_per_s", [](ClusterSpec& c) -> double& { return c.device.link_bytes_per_s; }},
      {"fp4_flop_per_s", [](ClusterSpec& c) -> double& { return c.device.fp4_flop_per_s; }},
      {"link_peer_bytes_per_s",
       [](ClusterSpec& c) -> double& { return c.device.link_peer_bytes_per_s; }},
      {"network_bytes_per_s", [](ClusterSpec& c) -> double& { return c.network_bytes_per_s; }},
      {"network_latency_s", [](ClusterSpec& c) -> double& { return c.network_latency_s; }}};
  struct MachineCount {
    const char* name;
    std::function<int&(ClusterSpec&)> member;
  };
  const MachineCount counts[] = {
      {"link_devices", [](ClusterSpec& c) -> int& { return c.device.link_devices; }},
      {"torus_axes", [](ClusterSpec& c) -> int& { return c.device.torus_axes; }},
      {"devices_per_pcie_switch",
       [](ClusterSpec& c) -> int& { return c.device.devices_per_pcie_switch; }},
      {"adapters_per_node", [](ClusterSpec& c) -> int& { return c.adapters_per_node; }},
      {"parameter_servers", [](ClusterSpec& c) -> int& { return c.parameter_servers; }},
      {"torus", [](ClusterSpec& c) -> int& { return c.torus.emplace_back(); }},
      {"network_tiers", [](ClusterSpec& c) -> int& {
         return c.network_tiers.emplace_back(NetworkTier{1, 1e9}).nodes;
       }}};
  Hostile hostile;
  for (int i = 0; i < kRounds; ++i) {
    ClusterSpec cluster = good;
    std::string field;
    switch (hostile.Below(7)) {
      case 0:
        cluster.nodes = hostile.Int();
        field = "nodes";
        break;
      case 1:
        cluster.devices_per_node = hostile.Int();
        field = "devices_per_node";
        break;
      case 2:
        cluster.device.memory_bytes = hostile.Integer();
        field = "memory_bytes";
        break;
      case 3:
        cluster.host_memory_bytes = hostile.Integer();
        field = "host_memory_bytes";
        break;
      case 4: {
        const MachineCount& count = counts[hostile.Below(std::size(counts))];
        count.member(cluster) = hostile.Int();
        field = count.name;
        break;
      }
      case 5:
        cluster.network_tiers.push_back({1 + static_cast<int>(hostile.Below(4)), hostile.Real()});
        field = "network_tiers";
        break;
      default: {
        const RateField& rate = rates[hostile.Below(std::size(rates))];
        rate.member(cluster) = hostile.Real();
        field = rate.name;
      }
    }
    const auto valid = ValidateCluster(cluster);
    if (!valid) {
      ASSERT_THAT(valid.error().message, HasSubstr(field));
      continue;
    }
    ASSERT_GE(cluster.Devices(), 1);
    ASSERT_LE(cluster.Devices(), kMaxRanks);
    ASSERT_TRUE(std::isfinite(cluster.device.memory_bytes_per_s));
    ASSERT_GT(cluster.device.memory_bytes_per_s, 0);
  }
}

TEST(HostileValues, NumbersInJsonAreRefusedByName) {
  Hostile hostile;
  static const char* const kTexts[] = {"-1",
                                       "0",
                                       "1e999",
                                       "-0",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "4611686018427387904",
                                       "1.5",
                                       "\"8\"",
                                       "null",
                                       "[]",
                                       "{}",
                                       "true",
                                       "1099511627776",
                                       "1e3",
                                       "NaN"};
  for (int i = 0; i < kRounds / 10; ++i) {
    const CountField& field = kModelCounts[hostile.Below(8)];
    std::string text = ToJson(Gpt2());
    const std::string start = "\"" + std::string(field.name) + "\": ";
    const std::size_t at = text.find(start) + start.size();
    const std::string value = kTexts[hostile.Below(std::size(kTexts))];
    text.replace(at, text.find(',', at) - at, value);
    const auto model = ModelFromJson(text, "m.json");
    if (model) {
      // Null means a missing field, which only these two may be.
      ASSERT_TRUE(value == "null" &&
                  (field.name == std::string("kv_heads") || field.name == std::string("head_dim")))
          << text;
    } else if (model.error().code == ErrorCode::kInvalidArgument) {
      ASSERT_THAT(model.error().message, HasSubstr(field.name));
    } else {
      ASSERT_THAT(model.error().message, HasSubstr("m.json: line"));
    }
  }
}

}  // namespace
}  // namespace foretrain
