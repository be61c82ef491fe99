#include "runtime/run/run_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/run/flight.h"
#include "runtime/run/gate.h"
#include "tests/runtime/ranks/rank_threads.h"

namespace foretrain {
namespace {

TEST(VirtualClock, JumpsToTheEarliestSleeperWhenAllWait) {
  VirtualClock clock;
  RunControl control;
  std::vector<std::int64_t> woke(3);
  RunRanks(clock, 3, [&](int rank) {
    Gate gate(clock, control);
    gate.Sleep(1000 * (rank + 1));
    gate.Sleep(10);
    woke[static_cast<std::size_t>(rank)] = clock.Now();
  });
  EXPECT_EQ(woke, (std::vector<std::int64_t>{1010, 2010, 3010}));
}

TEST(VirtualClock, StandsStillWhileAThreadRuns) {
  VirtualClock clock;
  RunControl control;
  Gate gate(clock, control);
  std::atomic<bool> done{false};
  RunRanks(clock, 2, [&](int rank) {
    if (rank == 0) {
      // Waits up to 1 s for a change that the other thread makes at time 0, after real work.
      EXPECT_EQ(gate.Wait([&] { return done.load(); }, 1'000'000'000), WaitEnd::kReady);
      EXPECT_EQ(clock.Now(), 0);
    } else {
      volatile int spin = 0;
      for (int i = 0; i < 1'000'000; ++i) spin = spin + 1;
      done.store(true);
      gate.Wake();
    }
  });
}

TEST(VirtualClock, ReachesADeadlineAtOnceWhenNobodyCanRun) {
  VirtualClock clock;
  RunControl control;
  RunRanks(clock, 2, [&](int rank) {
    Gate gate(clock, control);
    const std::int64_t deadline = rank == 0 ? 600'000'000'000 : 700'000'000'000;
    EXPECT_EQ(gate.Wait([] { return false; }, deadline), WaitEnd::kTimeout);
    EXPECT_EQ(clock.Now(), deadline);
  });
}

TEST(Gate, ReturnsAbortedToAllSleepers) {
  RealClock clock;
  RunControl control;
  Gate gate(clock, control);
  RunRanks(clock, 4, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(control.Fail(0, {ErrorCode::kIo, "first"}));
      EXPECT_FALSE(control.Fail(0, {ErrorCode::kIo, "second"}));
    } else {
      EXPECT_EQ(gate.Wait([] { return false; }, kNever), WaitEnd::kAborted);
    }
  });
  EXPECT_EQ(control.FirstError()->message, "first");
}

TEST(Gate, WakesEverySleeperOfEveryRound) {
  RealClock clock;
  RunControl control;
  Gate gate(clock, control);
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::atomic<int> arrived{0};
  RunRanks(clock, kThreads, [&](int) {
    for (int round = 1; round <= kRounds; ++round) {
      if (arrived.fetch_add(1) + 1 == kThreads * round) gate.Wake();
      ASSERT_EQ(gate.Wait([&] { return arrived.load() >= kThreads * round; }, kNever),
                WaitEnd::kReady);
    }
  });
}

TEST(FlightRecorder, KeepsTheNewestAndNamesWhatHoldsARankUp) {
  FlightRecorder flight(2);
  EXPECT_FALSE(flight.Last(0).has_value());
  for (int i = 0; i < 3000; ++i) {
    flight.Begin(0, {i, 10 * i, i / 100, Queue::kCompute, FlightPhase::kRunning});
    flight.SetPhase(0, Queue::kCompute, FlightPhase::kEnded);
  }
  const auto ring = flight.Ring(0);
  ASSERT_EQ(ring.size(), 1024U);
  EXPECT_EQ(ring.front().op, 3000 - 1024);
  EXPECT_EQ(ring.back().op, 2999);
  EXPECT_EQ(flight.Last(0)->op, 2999);
  flight.Begin(0, {5000, 50'000, 40, Queue::kReduce, FlightPhase::kRunning});
  flight.SetPhase(0, Queue::kReduce, FlightPhase::kAtPeers);
  EXPECT_EQ(flight.Last(0)->op, 5000) << "waits for peers: nothing runs";
  flight.Begin(0, {5001, 50'001, 40, Queue::kCompute, FlightPhase::kRunning});
  flight.Begin(0, {5002, 50'002, 40, Queue::kH2d, FlightPhase::kRunning});
  EXPECT_EQ(flight.Last(0)->op, 5001) << "of those that run, the one that started first";
  EXPECT_TRUE(flight.Ring(1).empty());
}

}  // namespace
}  // namespace foretrain
