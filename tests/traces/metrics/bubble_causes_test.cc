#include "traces/metrics/bubble_causes.h"

#include <gtest/gtest.h>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

// One pass of a stage's only block, in nanoseconds.
Span PassOf(int stage, Pass pass, int micro_batch, std::int64_t start_ns, std::int64_t end_ns) {
  const InstructionKey key{.pass = pass, .block = stage + 1, .micro_batch = micro_batch};
  return SpanOf(Queue::kCompute, OpClass::kGemm, start_ns, end_ns, PackId(key, 0), stage);
}

BubbleCauses CausesOfOnly(Timeline timeline, int stages) {
  SortTimeline(timeline);
  const auto pipelines = PipelinesOf(stages, stages);
  const auto bubbles = PipelineBubbles(timeline, pipelines);
  EXPECT_EQ(bubbles.size(), 1U);
  const auto causes = CausesOfBubbles(timeline, pipelines, bubbles, 0);
  EXPECT_TRUE(causes.has_value());
  if (!causes.has_value()) return {};
  // The parts sum to the whole bubble.
  const auto period_ns = static_cast<double>(bubbles[0].end_ns - bubbles[0].start_ns);
  EXPECT_NEAR(causes->Sum(), bubbles[0].bubble * period_ns * 1e-9, 1e-15);
  return *causes;
}

// Two stages, four micro-batches, F = 10, B = 20: a period of 150 with 120 of work. Stage 0 waits
// 30 between its passes, stage 1 10 before the first and 20 after the last: means of 15, 5 and 10.
TEST(BubbleCauses, OfUniform1F1BAreTheScheduleAlone) {
  const BubbleCauses causes = CausesOfOnly(Uniform1F1B(2, 4, 10, 20), 2);
  EXPECT_NEAR(causes.warm_up_s, 5e-9, 1e-15);
  EXPECT_NEAR(causes.steady_s, 15e-9, 1e-15);
  EXPECT_NEAR(causes.cool_down_s, 10e-9, 1e-15);
  EXPECT_NEAR(causes.imbalance_s, 0, 1e-15);
  EXPECT_NEAR(causes.transfers_s, 0, 1e-15);
  EXPECT_NEAR(causes.rest_s, 0, 1e-15);
}

// Stage 0 takes 10 and 20 for forward and backward, stage 1 20 and 40; two micro-batches.
//   measured:        0 F0 0-10, F1 10-20, B0 70-90, B1 130-150   period 150, work 60 and 120
//                    1 F0 10-30, B0 30-70, F1 70-90, B1 90-130
//   15 and 30 each:  0 F0 0-15, F1 15-30, B0 60-90, B1 105-135   period 135, work 90 each
//                    1 F0 15-30, B0 30-60, F1 60-75, B1 75-105 So the schedule takes 135 - 90 = 45,
//                    of which (0 + 15) / 2 before and (0 + 30) / 2 after, and imbalance 150 - 135 =
//                    15.
Timeline Uneven() {
  Timeline timeline;
  timeline.world = 2;
  timeline.spans = {PassOf(0, Pass::kForward, 0, 0, 10),   PassOf(0, Pass::kForward, 1, 10, 20),
                    PassOf(0, Pass::kBackward, 0, 70, 90), PassOf(0, Pass::kBackward, 1, 130, 150),
                    PassOf(1, Pass::kForward, 0, 10, 30),  PassOf(1, Pass::kBackward, 0, 30, 70),
                    PassOf(1, Pass::kForward, 1, 70, 90),  PassOf(1, Pass::kBackward, 1, 90, 130)};
  return timeline;
}

TEST(BubbleCauses, OfUnlikeStagesAreImbalance) {
  const BubbleCauses causes = CausesOfOnly(Uneven(), 2);
  EXPECT_NEAR(causes.warm_up_s, 7.5e-9, 1e-15);
  EXPECT_NEAR(causes.steady_s, 22.5e-9, 1e-15);
  EXPECT_NEAR(causes.cool_down_s, 15e-9, 1e-15);
  EXPECT_NEAR(causes.imbalance_s, 15e-9, 1e-15);
  EXPECT_NEAR(causes.transfers_s, 0, 1e-15);
  EXPECT_NEAR(causes.rest_s, 0, 1e-15);
}

// One micro-batch: F 10, a transfer of 5, F 10, B 10, a transfer of 7 whose receiver was ready 40
// earlier, B 10, delayed by 3: 0-10, 15-25, 25-35, 45-55.
//   period 55, work 20, schedule 40 - 20, transfers 12, rest 3
TEST(BubbleCauses, OfTransfersAreTheirTimeOnTheWire) {
  Timeline timeline;
  timeline.world = 2;
  timeline.spans = {PassOf(0, Pass::kForward, 0, 0, 10), PassOf(1, Pass::kForward, 0, 15, 25),
                    PassOf(1, Pass::kBackward, 0, 25, 35), PassOf(0, Pass::kBackward, 0, 45, 55)};
  const auto move = [&timeline](InstructionKind kind, Queue queue, Pass pass, int block, int rank,
                                std::int64_t start_ns, std::int64_t end_ns) {
    const InstructionKey key{.kind = kind, .pass = pass, .block = block};
    timeline.spans.push_back(
        SpanOf(queue, OpClass::kPpComm, start_ns, end_ns, PackId(key, 0), rank));
  };
  move(InstructionKind::kSend, Queue::kSendNext, Pass::kForward, 1, 0, 10, 15);
  move(InstructionKind::kRecv, Queue::kRecvPrev, Pass::kForward, 1, 1, 0, 15);
  move(InstructionKind::kSend, Queue::kSendPrev, Pass::kBackward, 2, 1, 35, 42);
  move(InstructionKind::kRecv, Queue::kRecvNext, Pass::kBackward, 2, 0, 15, 42);
  const BubbleCauses causes = CausesOfOnly(timeline, 2);
  EXPECT_NEAR(causes.ScheduleSeconds(), 20e-9, 1e-15);
  EXPECT_NEAR(causes.imbalance_s, 0, 1e-15);
  EXPECT_NEAR(causes.transfers_s, 12e-9, 1e-15);
  EXPECT_NEAR(causes.rest_s, 3e-9, 1e-15);
}

// The first forward of stage 0 takes 15 instead of 10, all others as before: mean 12.5.
//   measured:     0 F0 0-15, F1 15-25, B0 75-95, B1 135-155  period 155, work 65 and 120, mean 92.5
//                 1 F0 15-35, B0 35-75, F1 75-95, B1 95-135
//   means:        0 F0 0-12.5 and all of stage 1 earlier by 2.5: period 152.5
//   even stages:  forwards of 16.25, backwards of 30: period 138.75
TEST(BubbleCauses, OfPassesOfOneStageThatTakeUnlikeLongAreVariation) {
  Timeline timeline = Uneven();
  timeline.spans[0].end_ns += 5;
  for (std::size_t i = 1; i < timeline.spans.size(); ++i) {
    timeline.spans[i].start_ns += 5;
    timeline.spans[i].end_ns += 5;
  }
  const BubbleCauses causes = CausesOfOnly(timeline, 2);
  EXPECT_NEAR(causes.ScheduleSeconds(), 46.25e-9, 1e-15);
  EXPECT_NEAR(causes.imbalance_s, 13.75e-9, 1e-15);
  EXPECT_NEAR(causes.variation_s, 2.5e-9, 1e-15);
  EXPECT_NEAR(causes.rest_s, 0, 1e-15);
}

// The second forward of stage 0 takes 15 instead of 10 and still ends before stage 1 needs it: the
// period stays 150. With the mean of 12.5 the first forward and everything after it would end 2.5
// later, so the imbalance above is reduced by that much.
TEST(BubbleCauses, OfPassesWhoseUnlikeLengthsSaveATimeAreNotBelowZero) {
  Timeline timeline = Uneven();
  timeline.spans[1].end_ns += 5;
  const BubbleCauses causes = CausesOfOnly(timeline, 2);
  EXPECT_NEAR(causes.Sum(), 57.5e-9, 1e-15);  // 150 - 92.5
  EXPECT_NEAR(causes.ScheduleSeconds(), 46.25e-9, 1e-15);
  EXPECT_NEAR(causes.imbalance_s, 11.25e-9, 1e-15);
  EXPECT_NEAR(causes.variation_s, 0, 1e-15);
  EXPECT_NEAR(causes.rest_s, 0, 1e-15);
}

// Even stages. The first forward had a processor to itself that both stages share: 5 instead of 10,
// and the second 15.
//   measured:     0 F0 0-5, F1 5-20, B0 35-55, B1 65-85     period 85, work 60 each
//                 1 F0 5-15, B0 15-35, F1 35-45, B1 45-65
//   means:        everything after F0 5 later: period 90, of which 5 before the first pass, 15
//   between and
//                 10 after the last, mean over stages Of those 30, at most 85 - 60 = 25 were waited
//                 for.
TEST(BubbleCauses, OfAScheduleAreLessWhereItsFirstPassesWereFaster) {
  Timeline timeline;
  timeline.world = 2;
  timeline.spans = {PassOf(0, Pass::kForward, 0, 0, 5),    PassOf(0, Pass::kForward, 1, 5, 20),
                    PassOf(0, Pass::kBackward, 0, 35, 55), PassOf(0, Pass::kBackward, 1, 65, 85),
                    PassOf(1, Pass::kForward, 0, 5, 15),   PassOf(1, Pass::kBackward, 0, 15, 35),
                    PassOf(1, Pass::kForward, 1, 35, 45),  PassOf(1, Pass::kBackward, 1, 45, 65)};
  const BubbleCauses causes = CausesOfOnly(timeline, 2);
  EXPECT_NEAR(causes.warm_up_s, 5e-9 * 25 / 30, 1e-15);
  EXPECT_NEAR(causes.steady_s, 15e-9 * 25 / 30, 1e-15);
  EXPECT_NEAR(causes.cool_down_s, 10e-9 * 25 / 30, 1e-15);
  EXPECT_NEAR(causes.variation_s, 0, 1e-15);
  EXPECT_NEAR(causes.Sum(), 25e-9, 1e-15);
}

TEST(BubbleCauses, AreNoneOfAStageAlone) {
  const Timeline timeline = Uniform1F1B(1, 3, 10, 20);
  const auto pipelines = PipelinesOf(1, 1);
  EXPECT_FALSE(
      CausesOfBubbles(timeline, pipelines, PipelineBubbles(timeline, pipelines), 0).has_value());
}

}  // namespace
}  // namespace foretrain
