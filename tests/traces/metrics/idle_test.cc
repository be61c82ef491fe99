#include "traces/metrics/idle.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/traces/timelines.h"
#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

IdleCauses CausesOf(const std::vector<Span>& spans, std::int64_t start_ns, std::int64_t end_ns) {
  const RankClasses classes(spans);
  return RankIdle(spans, classes.DeviceBusy()).In(start_ns, end_ns);
}

Span Ready(Span span, std::int64_t ready_ns) {
  span.ready_ns = ready_ns;
  return span;
}

// A gap 10..50. The next op's inputs are ready at 30, and its launch is unknown: it waits for the
// inputs until 30, then for the host.
TEST(RankIdle, WithoutLaunchesSplitsAGapWhereTheInputsCame) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10),
      Ready(SpanOf(Queue::kCompute, OpClass::kGemm, 50, 60), 30),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60), (IdleCauses{.dependency_ns = 20, .host_ns = 20}));
}

// Inputs at 20, launch started at 40, start at 50: the whole gap is the host's.
TEST(RankIdle, BlamesTheHostWhereItIssuedAfterTheInputsCame) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kHost, OpClass::kHost, 40, 45, /*op=*/7),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, /*op=*/6),
      Ready(SpanOf(Queue::kCompute, OpClass::kGemm, 50, 60, /*op=*/7), 20),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60), (IdleCauses{.host_ns = 40}));
}

// Launched long ago, inputs at 45: 10..45 waits for the inputs, 45..50 for the start.
TEST(RankIdle, BlamesTheInputsWhereTheOpHadBeenIssued) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kHost, OpClass::kHost, 2, 4, /*op=*/7),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, /*op=*/6),
      Ready(SpanOf(Queue::kCompute, OpClass::kGemm, 50, 60, /*op=*/7), 45),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60), (IdleCauses{.dependency_ns = 35, .host_ns = 5}));
}

// Launched at 30, inputs at 45: the host until 30, the inputs until 45, the launch until 50.
TEST(RankIdle, SplitsAGapWhereTheOpWasIssued) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kHost, OpClass::kHost, 30, 33, /*op=*/7),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, /*op=*/6),
      Ready(SpanOf(Queue::kCompute, OpClass::kGemm, 50, 60, /*op=*/7), 45),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60), (IdleCauses{.dependency_ns = 15, .host_ns = 25}));
}

// A reduction: launched at 20, this rank arrived at 35, the last peer at 50.
TEST(RankIdle, SplitsAGapBeforeCommunicationInThree) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kHost, OpClass::kHost, 20, 22, /*op=*/7),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, /*op=*/6),
      Ready(SpanOf(Queue::kReduce, OpClass::kDpComm, 50, 60, /*op=*/7), 35),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60),
            (IdleCauses{.dependency_ns = 15, .peer_ns = 15, .host_ns = 10}));
}

// A receive: this rank arrived at 15, the sender at 50.
TEST(RankIdle, BlamesPeersForCommunicationThatHadArrived) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10),
      Ready(SpanOf(Queue::kRecvPrev, OpClass::kPpComm, 50, 60), 15),
  };
  EXPECT_EQ(CausesOf(spans, 0, 60), (IdleCauses{.dependency_ns = 5, .peer_ns = 35}));
}

TEST(RankIdle, CutsGapsToTheWindowAndDrainsAfterTheLastOp) {
  const std::vector<Span> spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10),
      Ready(SpanOf(Queue::kCompute, OpClass::kGemm, 50, 60), 30),
  };
  EXPECT_EQ(CausesOf(spans, 20, 40), (IdleCauses{.dependency_ns = 10, .host_ns = 10}));
  EXPECT_EQ(CausesOf(spans, 35, 70), (IdleCauses{.host_ns = 15, .drain_ns = 10}));
  EXPECT_EQ(CausesOf({}, 0, 5), (IdleCauses{.drain_ns = 5}));
}

TEST(RankIdle, SumsToTheTimeWithNothingOnTheDevice) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 100; ++round) {
    const Timeline timeline = RandomTimeline(random, 1, 200);
    const RankClasses classes(timeline.spans);
    const RankIdle idle(timeline.spans, classes.DeviceBusy());
    for (const StepWindow& window : timeline.steps) {
      const ClassTimes times = classes.In(window.start_ns, window.end_ns);
      ASSERT_EQ(idle.In(window.start_ns, window.end_ns).Sum(), times.host_ns + times.idle_ns);
    }
  }
}

}  // namespace
}  // namespace foretrain
