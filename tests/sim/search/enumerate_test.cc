// Compares the plans that a search keeps with an evaluation of every plan of its space. Also:
// better machines and more memory never give worse plans.
#include "sim/search/space/enumerate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/layouts.h"

namespace foretrain {
namespace {

class Enumerated : public testing::Test {
 protected:
  void SetUp() override {
    const auto catalogue = BuiltInCatalogue();
    ASSERT_TRUE(catalogue.has_value());
    model_ = ResolveModel("gpt2-774m", "test", *catalogue)->model;
    cluster_ = *ParseCluster("1x8xa100-80gb-sxm", *catalogue);
    Plan base;
    base.sequence = 1024;
    base.global_batch = 64;
    base.precision = Precision::kBf16;
    space_ = DefaultSpace(model_, cluster_, kRanks, base);
    space_.Choose("cp", {1});
    space_.Choose("tp_tiles", {1});
    space_.Choose("vocab_parallel", {0});
    space_.Choose("micro_batch", {1, 2, 8});
    space_.Choose("vpp", {2});
    space_.Choose("offload_activations", {0});
    space_.Choose("offload_optimizer", {0});
    options_.memory_bytes = cluster_.device.memory_bytes;
  }

  CostModel Costs() const { return *CostModel::Make(cluster_, DeriveProfile(cluster_)); }
  Enumeration Found() const {
    const CostModel costs = Costs();
    auto found = EnumeratePlans(model_, costs, space_, kRanks, options_);
    EXPECT_TRUE(found.has_value());
    return found.has_value() ? *std::move(found) : Enumeration{};
  }

  static constexpr int kRanks = 8;
  ModelSpec model_;
  ClusterSpec cluster_;
  SearchSpace space_;
  EnumerateOptions options_;
};

TEST_F(Enumerated, KeepsTheFastestAndTheUsefulPartOfTheFrontOfAllPlans) {
  const CostModel costs = Costs();
  const SpaceWalk walk(model_, space_, kRanks);
  Evaluator evaluator(model_, costs, AllPlanFields());
  struct Figures {
    double step_s;
    std::int64_t bytes;
    Plan plan;
  };
  std::vector<Figures> all;
  Rejections rejected;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          const Evaluation estimate = evaluator.Evaluate(plan);
          if (estimate.memory_bytes > options_.memory_bytes) return false;
          all.push_back({estimate.step_s, estimate.memory_bytes, plan});
          return true;
        },
        [] { return false; }, rejected);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Figures& a, const Figures& b) { return a.step_s < b.step_s; });
  const Enumeration found = Found();
  EXPECT_EQ(found.evaluated + found.rejected.count(), walk.size());
  // The fastest, at most 16 of one layout.
  std::vector<Figures> fastest;
  for (const Figures& one : all) {
    const auto alike = std::count_if(fastest.begin(), fastest.end(), [&](const Figures& other) {
      return HasSameLayout(one.plan, other.plan);
    });
    if (alike < 16) fastest.push_back(one);
  }
  ASSERT_EQ(found.fastest.size(), options_.kept);
  ASSERT_GT(fastest.size(), options_.kept);
  ASSERT_GT(fastest[options_.kept].step_s, all[options_.kept].step_s);  // the limit matters
  for (std::size_t i = 0; i < options_.kept; ++i) {
    EXPECT_DOUBLE_EQ(found.fastest[i].estimate.step_s, fastest[i].step_s) << i;
  }
  // Minimum memory for each time, up to twice the fastest.
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  std::vector<Figures> front;
  for (const Figures& figures : all) {
    if (figures.step_s > kSlowFront * all.front().step_s) break;
    if (figures.bytes < min) front.push_back(figures);
    min = std::min(min, figures.bytes);
  }
  ASSERT_FALSE(front.empty());
  std::int64_t found_min = std::numeric_limits<std::int64_t>::max();
  for (const Candidate& candidate : found.front) {
    if (candidate.estimate.step_s > kSlowFront * all.front().step_s) continue;
    found_min = std::min(found_min, candidate.estimate.memory_bytes);
  }
  EXPECT_EQ(found_min, front.back().bytes);
}

TEST_F(Enumerated, FindsTheSameFastestPlanWithoutTheFront) {
  const Enumeration with = Found();
  options_.front = false;
  options_.kept = 1;
  const Enumeration without = Found();
  ASSERT_EQ(without.fastest.size(), 1U);
  EXPECT_EQ(without.fastest.front().estimate.step_s, with.fastest.front().estimate.step_s);
  EXPECT_LT(without.evaluated, with.evaluated);
}

// There are more units than kUnitsApart, so that results of the first ones end evaluations of the
// last. Plans that may not be on the front are kept for their time alone.
TEST_F(Enumerated, KeepsOnTheFrontWhatMayBeOnIt) {
  const Enumeration all = Found();
  options_.may_be_on_front = [](const Plan& plan) { return plan.micro_batch == 1; };
  const Enumeration some = Found();
  ASSERT_EQ(some.fastest.size(), all.fastest.size());
  for (std::size_t i = 0; i < all.fastest.size(); ++i) {
    EXPECT_EQ(some.fastest[i].plan, all.fastest[i].plan);
  }
  EXPECT_EQ(some.bound_s, all.bound_s);
  EXPECT_EQ(some.evaluated + some.rejected.count(), all.evaluated + all.rejected.count());
  ASSERT_FALSE(some.front.empty());
  for (const Candidate& one : some.front) EXPECT_EQ(one.plan.micro_batch, 1);
  const auto others = std::count_if(all.front.begin(), all.front.end(),
                                    [](const Candidate& one) { return one.plan.micro_batch != 1; });
  EXPECT_GT(others, 0);
}

TEST_F(Enumerated, FindsTheSameWithAnyNumberOfThreads) {
  space_.Choose("cp", {1, 2, 4, 8});
  space_.Choose("cp_kind", {static_cast<std::int64_t>(ContextParallelKind::kAllGather)});
  const SpaceWalk walk(model_, space_, kRanks);
  ASSERT_GE(walk.Units().size(), 8U);
  const Enumeration one = Found();
  EXPECT_EQ(one.evaluated + one.rejected.count(), walk.size());
  for (const int threads : {2, 7}) {
    options_.threads = threads;
    const Enumeration several = Found();
    EXPECT_EQ(several.evaluated, one.evaluated) << threads;
    EXPECT_EQ(several.bound_s, one.bound_s) << threads;
    ASSERT_EQ(several.fastest.size(), one.fastest.size());
    for (std::size_t i = 0; i < one.fastest.size(); ++i) {
      EXPECT_EQ(several.fastest[i].plan, one.fastest[i].plan) << threads << ' ' << i;
    }
    ASSERT_EQ(several.front.size(), one.front.size());
  }
}

TEST_F(Enumerated, IsNeverSlowerWithMoreMemory) {
  double before_s = std::numeric_limits<double>::infinity();
  for (const std::int64_t gib : {12, 16, 24, 32, 48, 64, 80}) {
    options_.memory_bytes = gib << 30;
    const Enumeration found = Found();
    if (found.fastest.empty()) continue;
    EXPECT_LE(found.fastest.front().estimate.step_s, before_s) << gib;
    before_s = found.fastest.front().estimate.step_s;
  }
  EXPECT_LT(before_s, std::numeric_limits<double>::infinity());
}

TEST_F(Enumerated, IsNeverSlowerWithFasterLinks) {
  double before_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 6; ++i) {
    const Enumeration found = Found();
    ASSERT_FALSE(found.fastest.empty());
    EXPECT_LE(found.fastest.front().estimate.step_s, before_s * (1 + 1e-9)) << i;
    before_s = found.fastest.front().estimate.step_s;
    cluster_.device.link_bytes_per_s *= 1.7;
  }
}

TEST_F(Enumerated, BoundsTheFastestFromBelow) {
  const Enumeration found = Found();
  EXPECT_GT(found.bound_s, 0);
  EXPECT_LE(found.bound_s, found.fastest.front().estimate.step_s);
}

// A batch of one sample cannot be split over two data-parallel ranks, nor 20 heads over eight.
TEST_F(Enumerated, RefusesASpaceWithoutAPlanAndSaysWhy) {
  const CostModel costs = Costs();
  SearchOptions options;
  options.ranks = kRanks;
  space_.base.global_batch = 1;
  space_.Choose("dp", {8});
  space_.Choose("tp", {1});
  space_.Choose("pp", {1});
  const auto few = SearchPlans(model_, costs, space_, options);
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(few.error().message, testing::HasSubstr("batch"));
  space_.base.global_batch = 64;
  space_.Choose("dp", {1});
  space_.Choose("tp", {8});
  const auto heads = SearchPlans(model_, costs, space_, options);
  ASSERT_FALSE(heads.has_value());
  EXPECT_THAT(heads.error().message, testing::HasSubstr("heads"));
}

// Also for experts: whole families are skipped by time and by memory, and nothing that a visit of
// each plan finds is lost, including the lowest bound.
TEST_F(Enumerated, LosesNothingOfExpertsToFamilies) {
  model_ = ResolveModel("mixtral-8x7b", "test", *BuiltInCatalogue())->model;
  model_.layers = 4;
  for (const char* field : {"tp", "pp", "dp"}) space_.Choose(field, {1, 2, 4, 8});
  space_.Choose("micro_batch", {1, 4});
  space_.Choose("schedule", {static_cast<std::int64_t>(ScheduleKind::k1f1b),
                             static_cast<std::int64_t>(ScheduleKind::kZbH1)});
  space_.Choose("vpp", {1});
  space_.Choose("ep", {1, 2, 8});
  space_.Choose("expert_tp", {0, 1});
  options_.kept = 8;
  options_.memory_bytes = std::int64_t{40} << 30;
  const CostModel costs = Costs();
  const SpaceWalk walk(model_, space_, kRanks);
  Evaluator evaluator(model_, costs, AllPlanFields());
  std::vector<double> all_s;
  double bound_s = std::numeric_limits<double>::infinity();
  Rejections rejected;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          const Evaluation estimate = evaluator.Evaluate(plan);
          if (estimate.memory_bytes > options_.memory_bytes) return false;
          all_s.push_back(estimate.step_s);
          bound_s = std::min(bound_s, estimate.bound_s);
          return true;
        },
        [] { return false; }, rejected);
  }
  std::sort(all_s.begin(), all_s.end());
  const Enumeration found = Found();
  EXPECT_EQ(found.evaluated + found.rejected.count(), walk.size());
  EXPECT_LT(found.evaluated, static_cast<std::int64_t>(all_s.size()));
  EXPECT_DOUBLE_EQ(found.bound_s, bound_s);
  ASSERT_EQ(found.fastest.size(), options_.kept);
  for (std::size_t i = 0; i < options_.kept; ++i) {
    EXPECT_DOUBLE_EQ(found.fastest[i].estimate.step_s, all_s[i]) << i;
  }
}

// Each field at both ends of its range: every plan is ranked or counted, none leaves a limit, and
// no size overflows an integer (the asan preset would tell).
TEST_F(Enumerated, KeepsItsCountsWithAbsurdSizes) {
  model_ = ResolveModel("gpt2-124m", "test", *BuiltInCatalogue())->model;
  const CostModel costs = Costs();
  for (const PlanField& field : PlanFields()) {
    if (field.type != PlanFieldType::kInteger && field.type != PlanFieldType::kSize) continue;
    SearchSpace space;
    space.base.sequence = 1024;
    space.base.global_batch = 64;
    space.base.micro_batch = 1;
    space.base.precision = Precision::kBf16;
    for (const char* axis : {"dp", "tp", "pp"}) space.Choose(axis, {1, 2, 8});
    space.Choose(field.name, {field.low, field.high});
    const auto found = EnumeratePlans(model_, costs, space, kRanks, options_);
    ASSERT_TRUE(found.has_value()) << field.name;
    const SpaceWalk walk(model_, space, kRanks);
    EXPECT_EQ(found->evaluated + found->rejected.count(), walk.size()) << field.name;
    for (const Candidate& candidate : found->fastest) {
      EXPECT_TRUE(ValidatePlan(candidate.plan, model_).has_value()) << field.name;
      EXPECT_GT(candidate.estimate.step_s, 0) << field.name;
      EXPECT_LE(candidate.estimate.memory_bytes, options_.memory_bytes) << field.name;
    }
  }
}

}  // namespace
}  // namespace foretrain
