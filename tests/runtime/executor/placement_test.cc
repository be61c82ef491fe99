#include "runtime/executor/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

ModelSpec Tiny() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 16;
  model.heads = model.kv_heads = 2;
  model.head_dim = 8;
  model.ffn_hidden = 32;
  model.vocab = 32;
  model.max_sequence = 8;
  return model;
}

Program Compiled(std::string_view order) {
  Plan plan;
  plan.tp = plan.dp = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.rank_order = -1;
  for (int i = 0; plan.rank_order < 0; ++i) {
    if (NameOfRankOrder(i) == order) plan.rank_order = i;
  }
  auto program = Compile(Tiny(), plan, {.ranks = RankChoice::kAll});
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return *std::move(program);
}

// Ranks count tp first: 0 and 1 are tensor-parallel peers. In the default order they are
// neighbours. With dp first, ranks 0 and 2 are neighbours, which hold the same part of the model.
TEST(Placement, PutsTheFirstDegreeOfTheOrderOnNeighbouringSlots) {
  const Program usual = Compiled("tp-cp-ep-dp-pp");
  std::vector<int> ranks;
  for (const RankSlot& slot : SlotsOf(usual, {0, 1, 2, 3})) ranks.push_back(slot.rank);
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(DescribeGroups(usual.plan), "tp 0 1, 2 3; dp 0 2, 1 3");
  const Program swapped = Compiled("dp-tp-cp-ep-pp");
  ranks.clear();
  for (const RankSlot& slot : SlotsOf(swapped, {0, 1, 2, 3})) ranks.push_back(slot.rank);
  EXPECT_THAT(ranks, ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(DescribeGroups(swapped.plan), "tp 0 2, 1 3; dp 0 1, 2 3");
}

// Four slots: with eight cores each has two, with four one, with two every pair shares one.
TEST(Placement, DealsCoresToSlotsInOrder) {
  const Program program = Compiled("tp-cp-ep-dp-pp");
  const auto cores = [&](const std::vector<int>& usable) {
    std::vector<std::vector<int>> out;
    for (const RankSlot& slot : SlotsOf(program, usable)) out.push_back(slot.cores);
    return out;
  };
  EXPECT_THAT(cores({0, 1, 2, 3, 4, 5, 6, 7}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                           ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(cores({3, 5, 7, 9}),
              ElementsAre(ElementsAre(3), ElementsAre(5), ElementsAre(7), ElementsAre(9)));
  EXPECT_THAT(cores({4, 6}),
              ElementsAre(ElementsAre(4), ElementsAre(4), ElementsAre(6), ElementsAre(6)));
}

TEST(Placement, KeepsAThreadOnItsCores) {
  const std::vector<int> usable = UsableCores();
  std::vector<int> seen;
  std::thread thread([&] {
    ASSERT_TRUE(PinThread({usable.back()}).has_value());
    seen = UsableCores();
  });
  thread.join();
  EXPECT_THAT(seen, ElementsAre(usable.back()));
}

// Sums are taken in rank order wherever ranks are placed: training is bit-identical.
TEST(Placement, DoesNotChangeWhatIsTrained) {
  Plan plan = TinyPlan();
  plan.tp = plan.dp = 2;
  const Trained usual = TrainTiny(TinyGpt(), plan);
  plan.rank_order = Compiled("dp-tp-cp-ep-pp").plan.rank_order;
  const Trained swapped = TrainTiny(TinyGpt(), plan);
  EXPECT_EQ(usual.losses, swapped.losses);
  ASSERT_EQ(usual.parameters.size(), swapped.parameters.size());
  for (const auto& [name, tensor] : usual.parameters) {
    EXPECT_EQ(tensor.values, swapped.parameters.at(name).values) << name;
  }
}

// Each rank tells its loss from a thread of its own.
class CoreWatcher final : public RunSink {
 public:
  void OnScalars(const StepScalars& scalars) override { cores_[scalars.rank] = UsableCores(); }
  const std::map<int, std::vector<int>>& cores() const { return cores_; }

 private:
  std::map<int, std::vector<int>> cores_;  // by rank
};

TEST(Placement, KeepsEachRankOnTheCoresOfItsSlot) {
  const std::vector<int> usable = UsableCores();
  if (usable.size() < 2) GTEST_SKIP() << "one core alone; run this where a process has two";
  Plan plan = TinyPlan();
  plan.dp = 2;
  const ModelSpec model = TinyGpt();
  TrainJob job;
  job.program = std::make_shared<const Program>(*Compile(model, plan));
  job.steps = 1;
  job.executor.pin = true;
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  ASSERT_TRUE(data.has_value());
  CoreWatcher watcher;
  RealClock clock;
  const auto summary = Train(job, CpuDeviceApi(), clock, **data, watcher);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  for (const RankSlot& slot : SlotsOf(*job.program, usable)) {
    EXPECT_EQ(watcher.cores().at(slot.rank), slot.cores) << slot.rank;
  }
  EXPECT_EQ(UsableCores(), usable);  // this thread's are unchanged
}

}  // namespace
}  // namespace foretrain
