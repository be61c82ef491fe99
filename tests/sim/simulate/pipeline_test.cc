// Golden step times of pipeline schedules, one opaque op a slot, transfers that take no time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/memory/linked_peak.h"
#include "sim/program/schedules/schedule.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

struct SlotTimes {
  double forward_s = 1;
  double input_s = 1;
  double weight_s = 1;
};

// Adds the slots of one rank: each receives what it needs, works, and sends on what it made. With
// `early` a backward sends its input gradient before it makes weight gradients.
class PipelineRank {
 public:
  PipelineRank(HandMade& made, int p, int rank, bool early)
      : made_(made), p_(p), rank_(rank), early_(early) {}

  void Add(const Slot& slot, const SlotTimes& times) {
    if (slot.pass == Pass::kForward) {
      const int work = Work(slot, times.forward_s, /*receives_up=*/true);
      SendTo(work, /*up=*/true);
      saved_[slot.micro_batch] = {work};
    } else if (slot.pass == Pass::kBackward) {
      int work = Work(slot, early_ ? times.input_s : times.input_s + times.weight_s, false);
      SendTo(work, /*up=*/false);
      if (early_) work = made_.Add(rank_, Queue::kCompute, times.weight_s, "weight");
      saved_[slot.micro_batch].push_back(work);
    } else if (slot.pass == Pass::kBackwardInput) {
      SendTo(Work(slot, times.input_s, false), /*up=*/false);
    } else {
      saved_[slot.micro_batch].push_back(
          made_.Add(rank_, Queue::kCompute, times.weight_s, "weight"));
    }
  }

  // One byte a micro-batch, from its forward to its last backward.
  void AddActivations() {
    for (const auto& [micro_batch, ops] : saved_) {
      made_.AddBuffer(rank_, 1, Category::kActivations, ops);
    }
  }

 private:
  int Work(const Slot& slot, double seconds, bool receives_up) {
    const bool receives = receives_up ? rank_ > 0 : rank_ + 1 < p_;
    const int recv = receives ? made_.AddRecv(rank_, receives_up, 0.0) : -1;
    const int work = made_.Add(rank_, Queue::kCompute, seconds, std::string(Name(slot.pass)));
    if (receives) made_.Edge(rank_, recv, work);
    return work;
  }
  void SendTo(int work, bool up) {
    if (up ? rank_ + 1 == p_ : rank_ == 0) return;
    made_.Edge(rank_, work, made_.AddSend(rank_, up, 0.0));
  }

  HandMade& made_;
  int p_;
  int rank_;
  bool early_;
  std::map<int, std::vector<int>> saved_;  // micro-batch -> ops that touch its activations
};

HandMade Pipeline(ScheduleKind schedule, int p, int m, const SlotTimes& times, bool early) {
  HandMade made(p);
  for (int rank = 0; rank < p; ++rank) {
    PipelineRank built(made, p, rank, early);
    for (const Slot& slot : MakeSlots(schedule, p, m, rank)) built.Add(slot, times);
    built.AddActivations();
  }
  return made;
}

double Seconds(ScheduleKind schedule, int p, int m, const SlotTimes& times, bool early = false) {
  const HandMade made = Pipeline(schedule, p, m, times, early);
  const auto simulation =
      Simulate(made.program, made.costs, {.min_steps = 1, .max_steps = 1, .timeline = false});
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? simulation->first_step_s : 0.0;
}

struct Golden {
  SlotTimes times;
  int p;
  int m;
  double gpipe;
  double one_f_one_b;
  double zb_h1;
};

// GPipe and 1F1B: (m + p - 1)(F + I + W). ZB-H1: m (F + I + W) + (p - 1)(F + I - W).
TEST(PipelineSteps, TakeTheirGoldenTimes) {
  const Golden goldens[] = {{{1, 1, 1}, 4, 8, 33, 33, 27},
                            {{1, 1.2, 0.8}, 4, 8, 33, 33, 28.2},
                            {{1, 1, 1}, 8, 32, 117, 117, 103},
                            {{1, 1.2, 0.8}, 8, 32, 117, 117, 105.8}};
  for (const Golden& golden : goldens) {
    const auto& [times, p, m, gpipe, one_f_one_b, zb_h1] = golden;
    EXPECT_NEAR(Seconds(ScheduleKind::kGpipe, p, m, times), gpipe, 1e-9);
    EXPECT_NEAR(Seconds(ScheduleKind::k1f1b, p, m, times), one_f_one_b, 1e-9);
    EXPECT_NEAR(Seconds(ScheduleKind::kZbH1, p, m, times), zb_h1, 1e-9);
  }
}

// A stage need not wait for the weight gradients of the one after: (p - 1) W less.
TEST(PipelineSteps, GainByInputGradientsThatAreSentEarly) {
  EXPECT_NEAR(Seconds(ScheduleKind::kGpipe, 4, 8, {}, /*early=*/true), 30.0, 1e-9);
  EXPECT_NEAR(Seconds(ScheduleKind::k1f1b, 4, 8, {}, /*early=*/true), 30.0, 1e-9);
  EXPECT_NEAR(Seconds(ScheduleKind::kZbH1, 4, 8, {}, /*early=*/true), 27.0, 1e-9);
}

TEST(PipelineSteps, HoldAsManyActivationsAsTheScheduleKeepsInFlight) {
  const auto peaks = [](ScheduleKind schedule, int p, int m) {
    const HandMade made = Pipeline(schedule, p, m, {}, false);
    std::vector<std::int64_t> bytes;
    for (const RankProgram& rank : made.program.ranks) bytes.push_back(LinkedPeak(rank).total);
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  EXPECT_EQ(peaks(ScheduleKind::kGpipe, 4, 8), Bytes(4, 8));
  EXPECT_EQ(peaks(ScheduleKind::k1f1b, 4, 8), (Bytes{4, 3, 2, 1}));
  EXPECT_EQ(peaks(ScheduleKind::kZbH1, 4, 8), Bytes(4, 4));
  EXPECT_EQ(peaks(ScheduleKind::kGpipe, 8, 32), Bytes(8, 32));
  EXPECT_EQ(peaks(ScheduleKind::k1f1b, 8, 32), (Bytes{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(peaks(ScheduleKind::kZbH1, 8, 32), Bytes(8, 8));
}

// The first rank works from the first op of a step to its last, so steps do not overlap there; the
// timeline's memory peaks where the linked program's does.
TEST(PipelineSteps, RepeatWithThePeriodOfTheFirstRank) {
  const HandMade made = Pipeline(ScheduleKind::k1f1b, 4, 8, {}, false);
  const auto simulation = Simulate(made.program, made.costs);
  ASSERT_TRUE(simulation.has_value()) << simulation.error().message;
  EXPECT_TRUE(simulation->stable);
  EXPECT_NEAR(simulation->step_s, 33.0, 1e-9);
  for (const RankSummary& rank : simulation->ranks) {
    EXPECT_NEAR(rank.compute_s, 24.0, 1e-9);
    EXPECT_NEAR(rank.idle_s, 9.0, 1e-9);
  }
  std::vector<std::int64_t> most(4, 0);
  for (const MemorySample& sample : simulation->timeline.memory) {
    const auto rank = static_cast<std::size_t>(sample.rank);
    most[rank] = std::max(most[rank], sample.bytes);
  }
  EXPECT_EQ(most, (std::vector<std::int64_t>{4, 3, 2, 1}));
}

}  // namespace
}  // namespace foretrain
