#include "sim/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/learn/forecast_error.h"
#include "sim/search/advice/dependencies.h"
#include "sim/search/advice/fit.h"
#include "sim/search/advice/pairs.h"
#include "sim/search/advice/sensitivity.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/device_counts.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

class Search : public testing::Test {
 protected:
  void SetUp() override {
    const auto catalogue = BuiltInCatalogue();
    ASSERT_TRUE(catalogue.has_value());
    const auto model = ResolveModel("gpt2-124m", "test", *catalogue);
    ASSERT_TRUE(model.has_value());
    model_ = model->model;
    const auto cluster = ParseCluster("1x8xa100-80gb-sxm", *catalogue);
    ASSERT_TRUE(cluster.has_value());
    auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
    ASSERT_TRUE(costs.has_value());
    costs_.emplace(*std::move(costs));
    Plan base;
    base.sequence = 1024;
    base.global_batch = 64;
    base.precision = DefaultPrecision(*cluster);
    space_ = DefaultSpace(model_, *cluster, 8, base);
    space_.Choose("tp_tiles", {1});
    space_.Choose("cp", {1});
    options_.ranks = 8;
    options_.simulated = 3;
  }

  ModelSpec model_;
  std::optional<CostModel> costs_;
  SearchSpace space_;
  SearchOptions options_;
};

// Plans share most of their errors, so the order of two is more certain than either time. A plan
// that takes half as long again is slower with at least 90 %.
TEST_F(Search, SaysHowSurelyTheFirstPlanIsFaster) {
  options_.simulated = 16;
  const auto result = SearchPlans(model_, *costs_, space_, options_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const RankedPlan& first = result->plans.front();
  EXPECT_EQ(first.first_is_faster, 1);
  bool tied = false;
  for (std::size_t i = 1; i < result->plans.size(); ++i) {
    const RankedPlan& plan = result->plans[i];
    EXPECT_GE(plan.first_is_faster, 0.5 - 1e-9);
    EXPECT_LE(plan.first_is_faster, 1 - kDisturbed / 2);
    EXPECT_EQ(plan.tied, plan.first_is_faster < kToldApart);
    EXPECT_FALSE(plan.tied && plan.step_s > 1.5 * first.step_s);
    tied = tied || plan.tied;
  }
  EXPECT_EQ(first.tied, tied);
}

TEST_F(Search, RanksSimulatedPlansAndCountsTheWholeSpace) {
  const auto result = SearchPlans(model_, *costs_, space_, options_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->evaluated + result->pruned, SpaceWalk(model_, space_, 8).size());
  ASSERT_GE(result->plans.size(), 3U);
  for (std::size_t i = 0; i < result->plans.size(); ++i) {
    const RankedPlan& plan = result->plans[i];
    EXPECT_TRUE(ValidatePlan(plan.plan, model_).has_value());
    EXPECT_EQ(plan.plan.World(), 8);
    if (i > 0) {
      EXPECT_GE(plan.step_s, result->plans[i - 1].step_s);
    }
    EXPECT_GE(plan.step_s, plan.estimate.bound_s * (1 - 1e-9)) << Describe(plan.plan);
    EXPECT_GE(plan.step_s, result->bound_s * (1 - 1e-9));
    EXPECT_LE(plan.memory.peak.total, costs_->cluster().device.memory_bytes);
  }
  EXPECT_GE(result->gap, 0);
  EXPECT_LT(result->gap, 1);
}

TEST_F(Search, FindsTheSameWithAnyNumberOfThreads) {
  const auto one = SearchPlans(model_, *costs_, space_, options_);
  options_.threads = 3;
  const auto three = SearchPlans(model_, *costs_, space_, options_);
  ASSERT_TRUE(one.has_value() && three.has_value());
  EXPECT_EQ(one->evaluated, three->evaluated);
  EXPECT_EQ(one->pruned, three->pruned);
  EXPECT_EQ(one->bound_s, three->bound_s);
  ASSERT_EQ(one->plans.size(), three->plans.size());
  for (std::size_t i = 0; i < one->plans.size(); ++i) {
    EXPECT_EQ(one->plans[i].plan, three->plans[i].plan);
    EXPECT_EQ(one->plans[i].step_s, three->plans[i].step_s);
  }
}

TEST_F(Search, EndsWhenItIsCancelled) {
  options_.cancelled = [] { return true; };
  const auto result = SearchPlans(model_, *costs_, space_, options_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kAborted);
}

// A user who stops a search does not wait for it: whatever it is at, it ends within 200 ms. Each
// search is stopped later than the one before, until one ends by itself. Times are those of the
// processor, which other processes do not lengthen; sanitizers make every search slower.
TEST_F(Search, EndsWithin200MsOfBeingCancelled) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double kMaxSeconds = 2.0;
#else
  constexpr double kMaxSeconds = 0.2;
#endif
  const auto now_s = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  options_.simulated = 16;
  int cancelled = 0;
  for (double wait_s = 0.005; wait_s < 2; wait_s *= 2) {
    const double stop_s = now_s() + wait_s;
    options_.cancelled = [&] { return now_s() >= stop_s; };
    const auto result = SearchPlans(model_, *costs_, space_, options_);
    if (result.has_value()) break;
    EXPECT_EQ(result.error().code, ErrorCode::kAborted);
    EXPECT_LE(now_s() - stop_s, kMaxSeconds) << "cancelled after " << wait_s << " s";
    ++cancelled;
  }
  EXPECT_GE(cancelled, 1);
}

// Simulations follow the enumeration, which takes the first half of the progress. The thread that
// is asked tells each of its simulations.
TEST_F(Search, SimulatesNoFurtherPlanOnceItIsCancelled) {
  constexpr double kEnumerated = 0.5;
  options_.simulated = 16;
  options_.threads = 1;
  int simulated = 0;
  options_.progress = [&](double share, std::int64_t) { simulated += share > kEnumerated; };
  ASSERT_TRUE(SearchPlans(model_, *costs_, space_, options_).has_value());
  const int all = simulated;
  ASSERT_GE(all, 16);
  for (const int last : {1, all / 2, all - 1}) {
    simulated = 0;
    options_.cancelled = [&] { return simulated >= last; };
    const auto result = SearchPlans(model_, *costs_, space_, options_);
    ASSERT_FALSE(result.has_value()) << "cancelled after " << last << " of " << all;
    EXPECT_EQ(result.error().code, ErrorCode::kAborted);
    EXPECT_EQ(simulated, last);
  }
}

TEST_F(Search, TellsHowFarItIs) {
  double last = 0;
  std::int64_t compared = 0;
  options_.progress = [&](double share, std::int64_t evaluated) {
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
    last = share;
    compared = evaluated;
  };
  ASSERT_TRUE(SearchPlans(model_, *costs_, space_, options_).has_value());
  EXPECT_GT(last, 0.5);
  EXPECT_GT(compared, 0);
}

// 124 M parameters with plain data parallelism need at least 16 bytes each, 2 GB.
TEST_F(Search, NamesTheChangesThatWouldFitWhereNothingDoes) {
  for (const char* field : {"tp", "pp", "zero_stage"}) {
    space_.Choose(field, {field[0] == 'z' ? 0 : 1});
  }
  space_.Choose("recompute", {0});
  space_.Choose("offload_optimizer", {0});
  space_.Choose("offload_activations", {0});
  // 1 GiB on top of the memory outside the program.
  Plan plan;
  plan.dp = 8;
  options_.memory_bytes =
      (std::int64_t{1} << 30) +
      DeviceOverheadOf(costs_->cluster(), plan, costs_->profile().system).Total();
  const auto result = SearchPlans(model_, *costs_, space_, options_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(result.error().message, HasSubstr("does not fit: the smallest plan"));
  EXPECT_THAT(result.error().message, HasSubstr("What would fit:"));
}

RankedPlan Tied(double compute_s, double bubble_s, double communication_s, std::int64_t bytes) {
  RankedPlan plan;
  plan.tied = true;
  plan.estimate.step_s = compute_s + bubble_s + communication_s;
  plan.estimate.parts = {compute_s, communication_s, bubble_s, 0, 0};
  plan.device.tensors = bytes;
  return plan;
}

TEST(MarkDependencies, NamesInWhatPlansThatAreAsFastDiffer) {
  std::vector<RankedPlan> plans = {Tied(80, 20, 0, 40), Tied(75, 0, 25, 40), Tied(78, 11, 11, 95)};
  MarkDependencies(plans, 100);
  EXPECT_THAT(plans[0].depends_most_on, HasSubstr("bubble: 20 %"));
  EXPECT_THAT(plans[1].depends_most_on, HasSubstr("overlapped communication: 25 %"));
  EXPECT_THAT(plans[2].depends_most_on, HasSubstr("memory"));
}

TEST(MarkDependencies, SaysNothingOfASinglePlan) {
  std::vector<RankedPlan> plans = {Tied(80, 20, 0, 40)};
  MarkDependencies(plans, 100);
  EXPECT_EQ(plans[0].depends_most_on, "");
}

// Only GEMMs take time: with a tenth more FLOP/s the step takes 1 / 1.1 as long.
TEST(SensitivityOf, IsThatOfTheRateThatAlonePays) {
  DeviceProfile profile = IdealProfile();
  for (Figure* rate :
       {&profile.rates.attention_forward_flop_per_s, &profile.rates.attention_backward_flop_per_s,
        &profile.rates.memory_bytes_per_s, &profile.rates.copy_bytes_per_s,
        &profile.rates.link_bytes_per_s, &profile.rates.network_bytes_per_s}) {
    rate->value = 1e20;
  }
  profile.rates.gemm_flop_per_s = {1e9, Provenance::kDefault};
  const auto costs = CostModel::Make(GpuCluster(1, 1), profile);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  const auto found = SensitivityOf(SmallGpt(), plan, *costs);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  ASSERT_EQ(found->size(), static_cast<std::size_t>(kResourceCount));
  EXPECT_NEAR((*found)[0].faster, 1 / 1.1 - 1, 1e-6);
  EXPECT_NEAR((*found)[0].slower, 1 / 0.9 - 1, 1e-6);
  EXPECT_NEAR((*found)[0].twice, -0.5, 1e-6);
  for (std::size_t r = 1; r < found->size(); ++r) EXPECT_NEAR((*found)[r].twice, 0, 1e-6) << r;
}

// 10^12 tokens at 10^6 a second are 10^6 s, 277.8 h; 100 devices at 2 an hour and 700 W.
TEST(CostOfTraining, CountsDeviceHours) {
  const TrainingCost cost = CostOfTraining(1e12, 1e6, 100, 2, 700);
  EXPECT_DOUBLE_EQ(cost.seconds, 1e6);
  EXPECT_NEAR(cost.money, 55'555.56, 0.01);
  EXPECT_DOUBLE_EQ(cost.energy_j, 7e10);
}

TEST(WithDevices, TakesWholeNodesOrPartOfOne) {
  const ClusterSpec cluster = GpuCluster(4, 8);
  ASSERT_TRUE(WithDevices(cluster, 16).has_value());
  EXPECT_EQ(WithDevices(cluster, 16)->nodes, 2);
  EXPECT_EQ(WithDevices(cluster, 4)->devices_per_node, 4);
  ASSERT_FALSE(WithDevices(cluster, 12).has_value());
  EXPECT_THAT(WithDevices(cluster, 12).error().message, HasSubstr("12 devices"));
}

TEST_F(Search, ComparesNumbersOfDevices) {
  const auto counts =
      CompareDeviceCounts(model_, *costs_, space_.base, {8, 2, 4}, 1, [] { return false; });
  ASSERT_TRUE(counts.has_value()) << counts.error().message;
  ASSERT_EQ(counts->size(), 3U);
  EXPECT_EQ((*counts)[0].devices, 2);
  for (const DeviceCount& count : *counts) {
    ASSERT_TRUE(count.best.has_value());
    EXPECT_EQ(count.best->plan.World(), count.devices);
    EXPECT_TRUE(count.pareto);  // more devices are faster
  }
}

// 80 GiB hold the model at its longest sequence; 1 GiB not even its state.
TEST_F(Search, FitTellsTheLongestSequenceAndWhatBreaks) {
  FitOptions options;
  options.memory_bytes = costs_->cluster().device.memory_bytes;
  const auto all = FitOf(model_, *costs_, options);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(all->sequence, 1024);
  EXPECT_THAT(all->breaks, HasSubstr("the model's 1024 tokens"));
  EXPECT_GT(all->tokens_per_s, 0);
  options.memory_bytes = std::int64_t{1} << 20;
  const auto none = FitOf(model_, *costs_, options);
  ASSERT_TRUE(none.has_value()) << none.error().message;
  EXPECT_FALSE(none->best.has_value());
  EXPECT_NE(none->breaks, "");
}

// Linears of Llama 3 8B: 32 layers of 2 * 4096^2 + 2 * 1024 * 4096 + 3 * 4096 * 14336
// numbers, 6.979e9; tables, head and norms 1.051e9; adapters of rank 8: 32 * 8 * (3 * 4096 + 14336
// + 6144 + 4096 + 28672 + 4096). In 4.127 bits and 2 bytes 5.74e9 bytes, in 2 bytes alone 16.1e9.
TEST_F(Search, FitKnowsWhatFourBitsTake) {
  const auto catalogue = BuiltInCatalogue();
  const auto model = ResolveModel("llama3-8b", "test", *catalogue);
  const auto cluster = ParseCluster("1x1xa100-80gb-sxm", *catalogue);
  ASSERT_TRUE(model.has_value() && cluster.has_value());
  const auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
  ASSERT_TRUE(costs.has_value());
  const double linears = 6'979'321'856, others = 1'050'939'392, adapters = 17'825'792;
  for (const TrainingMethod method : {TrainingMethod::kLora, TrainingMethod::kQlora}) {
    FitOptions options;
    options.method = method;
    options.memory_bytes = cluster->device.memory_bytes;
    const auto fit = FitOf(model->model, *costs, options);
    ASSERT_TRUE(fit.has_value()) << fit.error().message;
    ASSERT_TRUE(fit->best.has_value());
    const double bits = method == TrainingMethod::kQlora ? 4.127 : 16;
    EXPECT_NEAR(static_cast<double>(fit->best->estimate.memory.parameters),
                linears * bits / 8 + 2 * (others + adapters), 0.002e9)
        << Describe(fit->best->plan);
  }
}

// Llama 3 8B: 8.03e9 parameters, 16.1 GB in 16 bits, 32.1 GB of fp32 gradients. A device of 24 GiB
// holds the former, one of 16 GiB neither. The host takes up to 16 bytes a parameter, 128 GB.
TEST_F(Search, FitMovesGradientsAndThenParametersToTheHost) {
  const auto catalogue = BuiltInCatalogue();
  auto model = ResolveModel("llama3-8b", "test", *catalogue);
  auto cluster = ParseCluster("1x1xrtx4090", *catalogue);
  ASSERT_TRUE(model.has_value() && cluster.has_value());
  cluster->host_memory_bytes = std::int64_t{256} << 30;
  model->model.max_sequence = 512;
  const auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
  ASSERT_TRUE(costs.has_value());
  for (const std::int64_t gib : {24, 16}) {
    FitOptions options;
    options.memory_bytes = gib << 30;
    const auto fit = FitOf(model->model, *costs, options);
    ASSERT_TRUE(fit.has_value()) << fit.error().message;
    ASSERT_TRUE(fit->best.has_value()) << fit->breaks;
    const Plan& plan = fit->best->plan;
    EXPECT_EQ(plan.offload_gradients, OffloadTarget::kHost);
    EXPECT_EQ(plan.offload_parameters, gib == 16 ? OffloadTarget::kHost : OffloadTarget::kNone);
    EXPECT_LE(fit->best->estimate.memory_bytes, gib << 30);
  }
}

TEST_F(Search, AdvisesToMoveGradientsOrToTrainAdapters) {
  const auto catalogue = BuiltInCatalogue();
  const auto model = ResolveModel("llama3-8b", "test", *catalogue);
  auto cluster = ParseCluster("1x1xrtx4090", *catalogue);
  ASSERT_TRUE(model.has_value() && cluster.has_value());
  cluster->host_memory_bytes = std::int64_t{256} << 30;
  const auto costs = CostModel::Make(*cluster, DeriveProfile(*cluster));
  ASSERT_TRUE(costs.has_value());
  Plan base;
  base.sequence = 1024;
  base.global_batch = 8;
  base.precision = DefaultPrecision(*cluster);
  options_.ranks = 1;
  const auto result =
      SearchPlans(model->model, *costs, DefaultSpace(model->model, *cluster, 1, base), options_);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message,
              HasSubstr("--offload-optimizer host --offload-gradients host: "));
  EXPECT_THAT(result.error().message, HasSubstr("--method lora: "));
}

}  // namespace
}  // namespace foretrain
