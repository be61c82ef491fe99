// Structures that the threads of a run share, under many operations by 32 threads: nothing is lost,
// nothing comes twice, and the order of each writer stays. FORETRAIN_OPERATIONS sets the number for
// each structure; tools/nightly runs a million under ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "profiler/span_recorder.h"
#include "runtime/data/read_ahead.h"
#include "runtime/device/memory_ledger.h"
#include "runtime/executor/compute_turns.h"
#include "runtime/run/gate.h"
#include "runtime/run/loss_spikes.h"
#include "tests/number_of_cases.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/ranks/inproc_ranks.h"
#include "tests/runtime/ranks/rank_threads.h"

namespace foretrain {
namespace {

constexpr int kThreads = 32;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::int64_t OperationsOfAThread() { return std::max<std::int64_t>(1, Operations() / kThreads); }

// Call c of rank r adds r + c: the sum is 32 c + 496, exact in fp32. Every second call gathers.
TEST(ManyOperations, OfTheCommunicatorGiveEveryRankItsResult) {
  RealClock clock;
  InprocRanks world(kThreads, clock, 600 * kSecond);
  std::atomic<std::int64_t> wrong{0};
  RunRanks(clock, kThreads, [&](int rank) {
    Communicator& comm = world.Open(rank);
    std::array<float, kThreads> out{};
    for (std::int64_t call = 0; call < OperationsOfAThread(); ++call) {
      const auto base = static_cast<float>(call % 1000);
      const float in = base + static_cast<float>(rank);
      const bool gathers = call % 2 == 1;
      const auto done = comm.Call(MakeCall(gathers ? OpKind::kAllGather : OpKind::kAllReduce,
                                           gathers ? kThreads : 1, &in, out.data(), rank),
                                  {});
      ASSERT_TRUE(done.has_value()) << done.error().message;
      if (!gathers) {
        wrong += out[0] != kThreads * base + 496 ? 1 : 0;
        continue;
      }
      for (int i = 0; i < kThreads; ++i) {
        wrong += out[static_cast<std::size_t>(i)] != base + static_cast<float>(i) ? 1 : 0;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Each thread has a buffer of 1 + its number bytes that becomes live and dead. A sample says what
// is live, so it differs from the one before by one buffer.
TEST(ManyOperations, OfTheMemoryLedgerAddUp) {
  RankProgram rank;
  for (int i = 0; i < kThreads; ++i) rank.buffers.push_back({.bytes = 1 + i});
  MemoryLedger ledger(rank);
  RealClock clock;
  std::vector<MemorySample> samples;
  std::atomic<int> running{kThreads};
  std::thread reader([&] {
    while (running > 0) ledger.Drain(samples);
  });
  RunRanks(clock, kThreads, [&](int thread) {
    const std::array<std::int32_t, 1> buffer{thread};
    for (std::int64_t i = 0; i < OperationsOfAThread(); ++i) {
      ledger.Change(i, buffer, 1);
      ledger.Change(i, buffer, -1);
    }
    --running;
  });
  reader.join();
  ledger.Drain(samples);
  ASSERT_EQ(std::ssize(samples), 2 * kThreads * OperationsOfAThread());
  std::int64_t before = 0, time_ns = 0, wrong = 0;
  std::array<std::int64_t, kThreads + 1> balance{};  // live minus dead, by size
  for (const MemorySample& sample : samples) {
    const std::int64_t change = sample.bytes - before;
    const std::int64_t size = std::abs(change);
    wrong += size < 1 || size > kThreads || sample.time_ns < time_ns ? 1 : 0;
    if (size >= 1 && size <= kThreads) {
      std::int64_t& live = balance[static_cast<std::size_t>(size)];
      live += change > 0 ? 1 : -1;
      wrong += live != 0 && live != 1 ? 1 : 0;
    }
    before = sample.bytes;
    time_ns = sample.time_ns;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(before, 0);
  EXPECT_LE(ledger.Peak(Space::kDevice), kThreads * (kThreads + 1) / 2);
}

TEST(ManyOperations, OfTheSpanRecorderLoseNothingAndKeepTheOrder) {
  SpanRecorder recorder;
  std::vector<SpanLane*> lanes;
  for (int i = 0; i < kThreads; ++i) lanes.push_back(&recorder.AddLane());
  RealClock clock;
  std::array<std::int64_t, kThreads> next{};
  std::vector<Span> spans;
  std::int64_t wrong = 0;
  const auto drain = [&] {
    spans.clear();
    recorder.Drain(spans);
    for (const Span& span : spans) {
      wrong += span.op != next[static_cast<std::size_t>(span.rank)]++ || span.end_ns != span.op + 1;
    }
  };
  std::atomic<int> running{kThreads};
  std::thread reader([&] {
    while (running > 0) drain();
  });
  RunRanks(clock, kThreads, [&](int thread) {
    SpanLane& lane = *lanes[static_cast<std::size_t>(thread)];
    for (std::int64_t i = 0; i < OperationsOfAThread(); ++i) {
      const Span span{
          .start_ns = i, .end_ns = i + 1, .op = i, .rank = static_cast<std::int16_t>(thread)};
      lane.Record([&] { lane.Add(span); });
      if (i % 100 == 99) lane.MarkStep();
    }
    --running;
  });
  reader.join();
  drain();
  EXPECT_EQ(wrong, 0);
  for (const std::int64_t spans_of_lane : next) EXPECT_EQ(spans_of_lane, OperationsOfAThread());
}

TEST(ManyOperations, OfAGateWakeEverySleeper) {
  RealClock clock;
  RunControl control;
  Gate gate(clock, control);
  std::atomic<std::int64_t> arrived{0};
  RunRanks(clock, kThreads, [&](int) {
    for (std::int64_t round = 1; round <= OperationsOfAThread(); ++round) {
      if (arrived.fetch_add(1) + 1 == kThreads * round) gate.Wake();
      ASSERT_EQ(gate.Wait([&] { return arrived.load() >= kThreads * round; }, kNever),
                WaitEnd::kReady);
    }
  });
  EXPECT_EQ(arrived, kThreads * OperationsOfAThread());
}

// The counter is no atomic: ThreadSanitizer sees two holders at once.
TEST(ManyOperations, OfComputeTurnsExcludeEachOther) {
  RealClock clock;
  RunControl control;
  ComputeTurns turns(clock, control, /*on=*/true);
  std::int64_t taken = 0;
  RunRanks(clock, kThreads, [&](int thread) {
    for (std::int64_t i = 0; i < OperationsOfAThread(); ++i) {
      ComputeTurns::Turn turn;
      ASSERT_EQ(turns.Take(thread + 1, kNever, turn), WaitEnd::kReady);
      ++taken;
    }
  });
  EXPECT_EQ(taken, kThreads * OperationsOfAThread());
}

// Readers see whole records, and those of a ring in the order of their start.
TEST(ManyOperations, OfTheFlightRecorderAreReadWhole) {
  FlightRecorder flight(kThreads);
  RealClock clock;
  std::atomic<int> running{kThreads};
  std::int64_t read = 0, wrong = 0;
  const auto is_whole = [](const FlightRecord& record) {
    return record.time_ns == 10 * record.op && record.step == record.op / 100;
  };
  const auto read_all = [&] {
    for (int rank = 0; rank < kThreads; ++rank) {
      OpId before = -1;
      for (const FlightRecord& record : flight.Ring(rank)) {
        wrong += !is_whole(record) || record.op <= before;
        before = record.op;
        ++read;
      }
      const auto last = flight.Last(rank);
      wrong += last.has_value() && !is_whole(*last);
    }
  };
  std::thread reader([&] {
    while (running > 0) read_all();
  });
  RunRanks(clock, kThreads, [&](int rank) {
    for (std::int64_t i = 0; i < OperationsOfAThread(); ++i) {
      flight.Begin(rank, {i, 10 * i, static_cast<std::int32_t>(i / 100), Queue::kCompute,
                          FlightPhase::kRunning});
      flight.SetPhase(rank, Queue::kCompute, FlightPhase::kEnded);
    }
    --running;
  });
  reader.join();
  read_all();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(read, kThreads * std::min<std::int64_t>(OperationsOfAThread(), FlightRecorder::kRing));
}

TEST(ManyOperations, OfReadAheadGiveWhatTheSourceGives) {
  CountingBatches source;
  ReadAhead ahead(source);
  RealClock clock;
  std::atomic<std::int64_t> wrong{0};
  RunRanks(clock, kThreads, [&](int thread) {
    std::vector<std::int32_t> ids(4), targets(4), expected_ids(4), expected_targets(4);
    CountingBatches alone;
    for (std::int64_t step = 0; step < OperationsOfAThread(); ++step) {
      const BatchRequest request{step, thread % 8, thread / 8, 0};
      ASSERT_TRUE(ahead.Fill(request, ids, targets).has_value());
      ASSERT_TRUE(alone.Fill(request, expected_ids, expected_targets).has_value());
      wrong += ids != expected_ids || targets != expected_targets;
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Ranks run at most a step apart, as in a training.
TEST(ManyOperations, OfTheSpikeGuardGiveAllRanksOneAnswer) {
  RealClock clock;
  RunControl control;
  Gate gate(clock, control);
  SpikeGuard guard;
  std::atomic<std::int64_t> arrived{0}, wrong{0}, skipped{0};
  RunRanks(clock, kThreads, [&](int) {
    for (std::int64_t step = 0; step < OperationsOfAThread(); ++step) {
      const bool spike = step % 200 == 199;
      const bool skips = guard.Skips(step, spike ? 30.0F : 3.0F);
      wrong += skips != spike;
      skipped += skips;
      if (arrived.fetch_add(1) + 1 == kThreads * (step + 1)) gate.Wake();
      ASSERT_EQ(gate.Wait([&] { return arrived.load() >= kThreads * (step + 1); }, kNever),
                WaitEnd::kReady);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(skipped, kThreads * (OperationsOfAThread() / 200));
}

TEST(ManyOperations, OfRunControlKeepTheFirstErrorAlone) {
  for (std::int64_t run = 0; run < OperationsOfAThread() / 10 + 1; ++run) {
    RealClock clock;
    RunControl control;
    std::atomic<int> first{-1};
    std::atomic<int> accepted{0};
    RunRanks(clock, 8, [&](int rank) {
      if (!control.Fail(rank, {ErrorCode::kIo, std::to_string(rank)})) return;
      ++accepted;
      first = rank;
    });
    ASSERT_EQ(accepted, 1);
    ASSERT_EQ(control.FirstError()->message, std::to_string(first));
  }
}

}  // namespace
}  // namespace foretrain
