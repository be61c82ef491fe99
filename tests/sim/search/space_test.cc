#include "sim/search/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/config/plan/plan_json.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

SearchSpace SmallSpace() {
  SearchSpace space;
  space.base.sequence = 8;
  space.base.global_batch = 16;
  space.Choose("dp", {1, 2, 4});
  space.Choose("tp", {1, 2, 3, 4});
  space.Choose("pp", {1, 2, 4});
  space.Choose("cp", {1, 2});
  space.Choose("cp_kind", {0, 1, 2});
  space.Choose("micro_batch", {1, 2, 3, 16});
  space.Choose("schedule", {static_cast<std::int64_t>(ScheduleKind::kGpipe),
                            static_cast<std::int64_t>(ScheduleKind::k1f1b),
                            static_cast<std::int64_t>(ScheduleKind::kInterleaved),
                            static_cast<std::int64_t>(ScheduleKind::kDualPipeV)});
  space.Choose("vpp", {2, 3});
  space.Choose("zero_stage", {0, 1, 3});
  space.Choose("sequence_parallel", {0, 1});
  space.Choose("vocab_parallel", {0, 1});
  space.Choose("tp_tiles", {1, 4});
  space.Choose("recompute", {0, 1});
  return space;
}

struct Visited {
  std::set<std::string> plans;
  std::int64_t calls = 0;
  Rejections rejected;
};
Visited VisitAll(const SpaceWalk& walk, bool fits) {
  Visited out;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          ++out.calls;
          out.plans.insert(ToJson(plan));
          return fits;
        },
        [] { return false; }, out.rejected);
  }
  return out;
}

// All combinations of the choices with `ranks` ranks, without cutting; those that pass the rules,
// in their plain form.
void AddAll(const ModelSpec& model, const SearchSpace& space, int ranks, std::size_t choice,
            Plan& plan, std::int64_t& count, std::set<std::string>& plans) {
  if (choice < space.choices.size()) {
    for (const std::int64_t value : space.choices[choice].values) {
      space.choices[choice].field->set(plan, value);
      AddAll(model, space, ranks, choice + 1, plan, count, plans);
    }
    return;
  }
  if (plan.World() != ranks) return;
  ++count;
  Plan plain = plan;
  if (plain.pp == 1) plain.schedule = ScheduleKind::k1f1b;
  if (plain.schedule != ScheduleKind::kInterleaved) plain.vpp = 1;
  if (plain.cp == 1) plain.cp_kind = ContextParallelKind::kRing;
  if (plain.tp == 1) plain.expert_tp = 0;
  if (plain.DataParallel() == 1) plain.zero_stage = 0;
  if (ValidatePlan(plain, model)) plans.insert(ToJson(plain));
}

TEST(SpaceWalk, VisitsEachPlanThatTheRulesAllowOnceAndCountsTheOthers) {
  const ModelSpec model = SmallGpt();
  const SearchSpace space = SmallSpace();
  for (const int ranks : {1, 4, 8}) {
    const SpaceWalk walk(model, space, ranks);
    const Visited visited = VisitAll(walk, true);
    Plan plan = space.base;
    std::int64_t count = 0;
    std::set<std::string> plans;
    AddAll(model, space, ranks, 0, plan, count, plans);
    EXPECT_EQ(walk.size(), count) << ranks;
    EXPECT_EQ(visited.plans, plans) << ranks;
    EXPECT_EQ(visited.calls, static_cast<std::int64_t>(plans.size())) << ranks;
    EXPECT_EQ(visited.calls + visited.rejected.count(), count) << ranks;
  }
}

// Whole experts need sequence parallelism, and ep then divides other ranks.
TEST(SpaceWalk, VisitsEachPlanOfExpertsThatTheRulesAllowOnce) {
  ModelSpec model = SmallGpt();
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 32;
  SearchSpace space;
  space.base.sequence = 8;
  space.base.global_batch = 16;
  space.Choose("ep", {1, 2, 3, 4, 8});
  space.Choose("expert_tp", {0, 1});
  space.Choose("dp", {1, 2, 4});
  space.Choose("tp", {1, 2, 4});
  space.Choose("pp", {1, 2});
  space.Choose("micro_batch", {1, 3, 4});
  space.Choose("sequence_parallel", {0, 1});
  for (const int ranks : {1, 4, 8}) {
    const SpaceWalk walk(model, space, ranks);
    const Visited visited = VisitAll(walk, true);
    Plan plan = space.base;
    std::int64_t count = 0;
    std::set<std::string> plans;
    AddAll(model, space, ranks, 0, plan, count, plans);
    EXPECT_EQ(visited.plans, plans) << ranks;
    EXPECT_EQ(visited.calls, static_cast<std::int64_t>(plans.size())) << ranks;
    EXPECT_EQ(visited.calls + visited.rejected.count(), count) << ranks;
  }
}

// Two values for each of two fields: if nothing is offloaded all fit; otherwise all four are tried.
TEST(SpaceWalk, MovesOffTheDeviceOnlyWhatDoesNotFit) {
  const ModelSpec model = SmallGpt();
  SearchSpace space;
  space.base.sequence = 8;
  space.base.global_batch = 4;
  space.base.micro_batch = 1;
  space.Choose("offload_activations", {1, 0});
  space.Choose("offload_optimizer", {0, 1});
  const SpaceWalk walk(model, space, 1);
  EXPECT_EQ(walk.size(), 4);
  const Visited fits = VisitAll(walk, true);
  EXPECT_EQ(fits.calls, 1);
  EXPECT_EQ(fits.rejected.count(), 3);
  EXPECT_EQ(VisitAll(walk, false).calls, 4);
}

TEST(SpaceWalk, HasNoPartsWhereNoSplitMakesTheRanks) {
  const ModelSpec model = SmallGpt();
  const SearchSpace space = SmallSpace();
  EXPECT_EQ(SpaceWalk(model, space, 5).parts(), 0U);
  EXPECT_EQ(SpaceWalk(model, space, 5).size(), 0);
}

// On one device, tensors are split over no ranks, so plans that ask for it are invalid.
TEST(CoarseSpace, HasAPlanForOneDevice) {
  const ModelSpec model = SmallGpt();
  SearchSpace space = SmallSpace();
  for (const char* degree : {"dp", "tp", "pp", "cp"}) space.Choose(degree, {1});
  const SearchSpace coarse = CoarseSpace(space);
  EXPECT_GT(VisitAll(SpaceWalk(model, coarse, 1), false).calls, 0);
}

TEST(Rejections, AddUpByReasonAndKeepTheFirstExample) {
  Rejections all, others;
  all.Add(kBreaksRule, 2, "first");
  others.Add(kIsSame, 5, "");
  others.Add(kBreaksRule, 3, "second");
  all.Add(others);
  ASSERT_EQ(all.list().size(), 2U);
  EXPECT_EQ(all.list()[0].count, 5);
  EXPECT_EQ(all.list()[0].example, "first");
  EXPECT_EQ(all.count(), 10);
}

}  // namespace
}  // namespace foretrain
