#include "traces/metrics/bubble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr InstructionKey kForward{.pass = Pass::kForward, .block = 1};
constexpr InstructionKey kBackward{.pass = Pass::kBackward, .block = 1};

TEST(PipelinesOf, PutsStagesWorldOverPpApart) {
  EXPECT_THAT(PipelinesOf(8, 4), ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3, 5, 7)));
  EXPECT_THAT(PipelinesOf(2, 1), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

// p stages, m micro-batches, F = 10, B = 20: the period is (m + p - 1) * 30, work is m * 30.
TEST(PipelineBubbles, OfUniform1F1BAreTheTextbookFigures) {
  for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {4, 4}, {8, 16}, {1, 3}}) {
    const Timeline timeline = Uniform1F1B(p, m, 10, 20);
    const auto bubbles = PipelineBubbles(timeline, PipelinesOf(p, p));
    ASSERT_EQ(bubbles.size(), 1U);
    EXPECT_EQ(bubbles[0].end_ns - bubbles[0].start_ns, (m + p - 1) * 30);
    EXPECT_EQ(bubbles[0].work_ns.front(), m * 30);
    EXPECT_DOUBLE_EQ(bubbles[0].bubble, static_cast<double>(p - 1) / (m + p - 1));
    ASSERT_TRUE(bubbles[0].bubble_overhead.has_value());
    EXPECT_NEAR(*bubbles[0].bubble_overhead, static_cast<double>(p - 1) / m, 1e-12);
  }
}

// Stage 0 works 10 + 30 of 100 ns, stage 1 works 20 + 40.
//   bubble = ((1 - 0.4) + (1 - 0.6)) / 2 = 0.5        overhead = 100 / 60 - 1
TEST(PipelineBubbles, OfUnevenStagesAverageTheSharesAndTakeTheLongestStage) {
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, PackId(kForward, 0), 0),
      SpanOf(Queue::kCompute, OpClass::kGemm, 70, 100, PackId(kBackward, 0), 0),
      SpanOf(Queue::kCompute, OpClass::kGemm, 10, 30, PackId(kForward, 0), 1),
      SpanOf(Queue::kCompute, OpClass::kGemm, 30, 70, PackId(kBackward, 0), 1),
  };
  SortTimeline(timeline);
  const auto bubbles = PipelineBubbles(timeline, PipelinesOf(2, 2));
  ASSERT_EQ(bubbles.size(), 1U);
  EXPECT_THAT(bubbles[0].work_ns, ElementsAre(40, 60));
  EXPECT_DOUBLE_EQ(bubbles[0].bubble, 0.5);
  EXPECT_DOUBLE_EQ(*bubbles[0].bubble_overhead, 100.0 / 60.0 - 1.0);
}

// Counted: forward 0..10, its tp collective 10..15, recomputation 20..25, backward 30..50: 40 of
// 50. Not counted: load before, send, bucket reduction, launches, optimizer.
TEST(PipelineBubbles, CountPassesWithTheirCollectivesAlone) {
  const InstructionKey send{.kind = InstructionKind::kSend, .pass = Pass::kForward, .block = 1};
  const InstructionKey reduce{.kind = InstructionKind::kReduceScatter, .part = 1};
  const InstructionKey update{.kind = InstructionKind::kOptimizerStep, .pass = Pass::kUpdate};
  const InstructionKey again{.pass = Pass::kRecompute, .block = 1};
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kHost, OpClass::kHost, -20, 28, PackId(kForward, 0)),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, PackId(kForward, 0)),
      SpanOf(Queue::kTp, OpClass::kTpComm, 10, 15, PackId(kForward, 1)),
      SpanOf(Queue::kSendNext, OpClass::kPpComm, 15, 20, PackId(send, 0)),
      SpanOf(Queue::kCompute, OpClass::kGemm, 20, 25, PackId(again, 0)),
      SpanOf(Queue::kCompute, OpClass::kGemm, 30, 50, PackId(kBackward, 0)),
      SpanOf(Queue::kReduce, OpClass::kDpComm, 25, 60, PackId(reduce, 0)),
      SpanOf(Queue::kCompute, OpClass::kMemoryBound, 60, 70, PackId(update, 0)),
  };
  SortTimeline(timeline);
  const auto bubbles = PipelineBubbles(timeline, PipelinesOf(1, 1));
  ASSERT_EQ(bubbles.size(), 1U);
  EXPECT_EQ(bubbles[0].start_ns, 0);
  EXPECT_EQ(bubbles[0].end_ns, 50);
  EXPECT_THAT(bubbles[0].work_ns, ElementsAre(40));
  EXPECT_DOUBLE_EQ(bubbles[0].bubble, 0.2);
}

TEST(PipelineBubbles, LeaveOutRanksAndStepsThatTheTimelineLacks) {
  Timeline timeline = Uniform1F1B(2, 4, 10, 20);
  // A step with only a recorded forward pass has no period.
  timeline.spans.push_back(
      SpanOf(Queue::kCompute, OpClass::kGemm, 900, 910, PackId(kForward, 0), 0, /*step=*/1));
  SortTimeline(timeline);
  // Ranks 2 and 3 represent none of the simulated classes.
  const std::vector<Pipeline> pipelines = {{2, 3}, {0, 1}};
  const auto bubbles = PipelineBubbles(timeline, pipelines);
  ASSERT_EQ(bubbles.size(), 1U);
  EXPECT_EQ(bubbles[0].pipeline, 1);
  EXPECT_EQ(bubbles[0].step, 0);
}

// A period 100..200 in steady state: stage 0 works 100..150 for step 0 and 160..200 for step 1,
// stage 1 all the time. The bubble is (0.1 + 0) / 2.
TEST(PipelineBubbles, OfAsynchronousSchedulesCountWorkOfAnyStepInTheWindow) {
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 90, 150, PackId(kBackward, 0), 0, 0),
      SpanOf(Queue::kCompute, OpClass::kGemm, 160, 220, PackId(kForward, 0), 0, 1),
      SpanOf(Queue::kCompute, OpClass::kGemm, 50, 120, PackId(kForward, 0), 1, 0),
      SpanOf(Queue::kCompute, OpClass::kGemm, 120, 250, PackId(kBackward, 0), 1, 1),
  };
  timeline.steps = {{.start_ns = 90, .end_ns = 200, .step = 0, .rank = 0},
                    {.start_ns = 100, .end_ns = 210, .step = 0, .rank = 1}};
  SortTimeline(timeline);
  const auto bubbles = PipelineBubbles(timeline, PipelinesOf(2, 2), {.asynchronous = true});
  ASSERT_EQ(bubbles.size(), 1U);
  EXPECT_THAT(bubbles[0].work_ns, ElementsAre(90, 100));
  EXPECT_DOUBLE_EQ(bubbles[0].bubble, 0.05);
}

}  // namespace
}  // namespace foretrain
