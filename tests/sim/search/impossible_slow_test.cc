// Impossible requests are refused with the limit that they break and a value that would work. Slow:
// advice on a model that is far too large searches spaces of up to hundreds of devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

ModelSpec Model(const char* name) { return ResolveModel(name, "test", *BuiltInCatalogue())->model; }

// Impossible requests end within seconds of the processor, under sanitizers too. The time is
// printed.
class Deadline {
 public:
  ~Deadline() {
    const double seconds = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    std::printf("told in %.3f s\n", seconds);
    EXPECT_LE(seconds, 10.0);
  }

 private:
  const std::clock_t begin_ = std::clock();
};

struct Impossible {
  const char* model;
  std::function<void(Plan&)> make;
  std::string binding, remedy;
};

// GPT-2 of 124 M has 12 heads, 12 layers and 1,024 learned positions; Mixtral has 8 experts.
TEST(Impossible, PlansNameWhatBindsAndTheNearestValueThatWouldDo) {
  const std::vector<Impossible> all = {
      {"gpt2-124m", [](Plan& p) { p.tp = 5; }, "tp 5", "4 or 6"},
      {"gpt2-124m", [](Plan& p) { p.dp = 8, p.global_batch = 1; }, "global_batch 1", "nearest: 8"},
      {"gpt2-124m", [](Plan& p) { p.sequence = 4096; }, "sequence 4096", "at most 1024"},
      {"gpt2-124m", [](Plan& p) { p.pp = 24; }, "pp 24", "at most pp 12"},
      {"gpt2-124m", [](Plan& p) { p.vpp = 2; }, "vpp 2", "use schedule interleaved or vpp 1"},
      {"gpt2-124m",
       [](Plan& p) {
         p.pp = 4, p.vpp = 3, p.schedule = ScheduleKind::kInterleaved, p.global_batch = 11;
       },
       "11 micro-batches", "nearest global_batch: 8 or 12"},
      {"gpt2-124m", [](Plan& p) { p.pp = 4, p.schedule = ScheduleKind::kDualPipeV; },
       "4 micro-batches", "global_batch 8"},
      {"gpt2-124m", [](Plan& p) { p.cp = 3; }, "cp 3", "nearest sequence: 1020 or 1026"},
      {"gpt2-124m", [](Plan& p) { p.sequence_parallel = true; }, "sequence_parallel 1", "use tp 2"},
      {"mixtral-8x7b", [](Plan& p) { p.dp = 8, p.ep = 3, p.global_batch = 8; }, "ep 3",
       "nearest ep: 2"},
  };
  for (const Impossible& one : all) {
    Plan plan;
    plan.sequence = 1024;
    plan.micro_batch = 1;
    plan.global_batch = 4;
    one.make(plan);
    const Deadline deadline;
    const auto refused = ValidatePlan(plan, Model(one.model));
    ASSERT_FALSE(refused.has_value()) << one.binding;
    EXPECT_THAT(refused.error().message, HasSubstr(one.binding));
    EXPECT_THAT(refused.error().message, HasSubstr(one.remedy));
  }
}

TEST(Impossible, ClustersWithoutDevicesAreRefused) {
  const Deadline deadline;
  const auto refused = ParseCluster("0x8xa100-80gb-sxm", *BuiltInCatalogue());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("from 1 to"));
}

class ImpossibleSearch : public testing::Test {
 protected:
  Result<SearchResult> Search(const char* model, int ranks, std::int64_t memory_bytes,
                              const std::function<void(SearchSpace&)>& change) {
    const auto cluster = ParseCluster("1x8xa100-80gb-sxm", *BuiltInCatalogue());
    const auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
    const ModelSpec spec = Model(model);
    Plan base;
    base.sequence = 1024;
    base.global_batch = 8;
    base.precision = Precision::kBf16;
    SearchSpace space = DefaultSpace(spec, *cluster, ranks, base);
    change(space);
    SearchOptions options;
    options.ranks = ranks;
    options.memory_bytes = memory_bytes;
    const Deadline deadline;
    return SearchPlans(spec, *costs, space, options);
  }
};

// 70 B parameters in bf16 are 140 GB by themselves.
TEST_F(ImpossibleSearch, OfAModelFarTooLargeTellsHowManyDevicesWouldDo) {
  const auto found = Search("llama3-70b", 1, std::int64_t{8} << 30, [](SearchSpace& space) {
    space.Choose("offload_optimizer", {0});
    space.Choose("offload_activations", {0});
  });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(found.error().message,
              HasSubstr("a device has 80.0 GiB, of which a plan may use 8.00 GiB"));
  EXPECT_THAT(found.error().message, HasSubstr(" devices: "));
}

TEST_F(ImpossibleSearch, OfSplitsThatDoNotMakeTheRanksNamesThem) {
  const auto found = Search("gpt2-124m", 8, 0, [](SearchSpace& space) {
    for (const char* axis : {"tp", "pp", "cp"}) space.Choose(axis, {1});
    space.Choose("dp", {3});
  });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(found.error().message, HasSubstr("makes 8 ranks"));
}

}  // namespace
}  // namespace foretrain
