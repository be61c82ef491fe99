#include "sim/search/space/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
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
  RestrictTo(FindFramework(BuiltInFrameworks().value(), framework).value(), space);
  return space;
}

constexpr auto k1f1b = static_cast<std::int64_t>(ScheduleKind::k1f1b);
constexpr auto kInterleaved = static_cast<std::int64_t>(ScheduleKind::kInterleaved);

TEST(Frameworks, LeaveTheValuesThatTheyHave) {
  const SearchSpace any = SpaceFor("any");
  EXPECT_THAT(ValuesOf(any, "schedule"), ElementsAre(k1f1b, kInterleaved));
  EXPECT_THAT(ValuesOf(any, "pp"), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(ValuesOf(any, "rank_order").size(), 2U);
  EXPECT_FALSE(any.orders_ranks);
  EXPECT_FALSE(any.balances_layers);
  EXPECT_THAT(ValuesOf(SpaceFor("megatron"), "zero_stage"), ElementsAre(0, 1));
  EXPECT_THAT(ValuesOf(SpaceFor("fsdp"), "pp"), ElementsAre(1));
}

TEST(Frameworks, LeaveEverythingToForetrain) {
  const SearchSpace space = SpaceFor("foretrain");
  EXPECT_TRUE(space.orders_ranks);
  EXPECT_TRUE(space.balances_layers);
  EXPECT_THAT(ValuesOf(space, "pp"), testing::Contains(64));
}

TEST(Frameworks, SayWhatTheyHave) {
  const Framework nanotron = FindFramework(BuiltInFrameworks().value(), "nanotron").value();
  const auto host = static_cast<std::int64_t>(OffloadTarget::kHost);
  EXPECT_FALSE(Has(nanotron, "offload_gradients", host));
  EXPECT_TRUE(Has(nanotron, "tp", 8));
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
}

}  // namespace
}  // namespace foretrain
