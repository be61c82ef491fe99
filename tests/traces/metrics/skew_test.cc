#include "traces/metrics/skew.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/traces/timelines.h"
#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

CommunicationGroups OneGroup(Queue queue, int ranks) {
  CommunicationGroups groups;
  groups.of[static_cast<std::size_t>(queue)].assign(static_cast<std::size_t>(ranks), 0);
  return groups;
}

Timeline WithWindows(std::vector<Span> spans, int ranks) {
  Timeline timeline;
  timeline.world = ranks;
  timeline.spans = std::move(spans);
  for (int rank = 0; rank < ranks; ++rank) {
    timeline.steps.push_back({0, 100, 0, static_cast<std::int16_t>(rank)});
  }
  SortTimeline(timeline);
  return timeline;
}

const OpId kSum = PackId({.kind = InstructionKind::kAllReduce, .part = 1}, 0);

// Both end at 60. Rank 0 starts at 10 and waits for rank 1 until 40; 10 to 25 overlaps with its own
// compute. So rank 0 waits 15, and both move bytes for 20.
TEST(ExposedParts, SplitACollectiveAtTheLastArrival) {
  const Timeline timeline = WithWindows({SpanOf(Queue::kCompute, OpClass::kGemm, 0, 25, kNoOp, 0),
                                         SpanOf(Queue::kReduce, OpClass::kDpComm, 10, 60, kSum, 0),
                                         SpanOf(Queue::kCompute, OpClass::kGemm, 0, 40, kNoOp, 1),
                                         SpanOf(Queue::kReduce, OpClass::kDpComm, 40, 60, kSum, 1)},
                                        2);
  EXPECT_EQ(ExposedPartsOf(timeline, OneGroup(Queue::kReduce, 2), 0, false),
            (ExposedParts{.wire_ns = 40, .skew_ns = 15}));
  // In a forecast the span itself starts at the last arrival.
  EXPECT_EQ(ExposedPartsOf(timeline, OneGroup(Queue::kReduce, 2), 0, true),
            (ExposedParts{.wire_ns = 55}));
}

TEST(ExposedParts, AreUnknownWhereAMemberIsMissing) {
  const Timeline timeline =
      WithWindows({SpanOf(Queue::kReduce, OpClass::kDpComm, 10, 60, kSum, 0)}, 1);
  EXPECT_EQ(ExposedPartsOf(timeline, OneGroup(Queue::kReduce, 2), 0, false),
            (ExposedParts{.unknown_ns = 50}));
  EXPECT_EQ(ExposedPartsOf(timeline, {}, 0, false), (ExposedParts{.unknown_ns = 50}));
}

// The receiver arrives at 0, the sender at 30; both end at 50.
TEST(ExposedParts, TakeASendAndItsReceiveForOne) {
  const auto id = [](InstructionKind kind) {
    return PackId({.kind = kind, .pass = Pass::kForward, .block = 4, .micro_batch = 2}, 0);
  };
  const Timeline timeline = WithWindows(
      {SpanOf(Queue::kSendNext, OpClass::kPpComm, 30, 50, id(InstructionKind::kSend), 0),
       SpanOf(Queue::kRecvPrev, OpClass::kPpComm, 0, 50, id(InstructionKind::kRecv), 1)},
      2);
  CommunicationGroups groups = OneGroup(Queue::kSendNext, 2);
  groups.of[static_cast<std::size_t>(Queue::kRecvPrev)] = {0, 0};
  EXPECT_EQ(ExposedPartsOf(timeline, groups, 0, false),
            (ExposedParts{.wire_ns = 40, .skew_ns = 30}));
}

// Two pairs of ranks run the same op at different times: a late rank of the second pair does not
// affect the first.
TEST(ExposedParts, KeepGroupsApart) {
  const Timeline timeline = WithWindows({SpanOf(Queue::kTp, OpClass::kTpComm, 0, 10, kSum, 0),
                                         SpanOf(Queue::kTp, OpClass::kTpComm, 4, 10, kSum, 1),
                                         SpanOf(Queue::kTp, OpClass::kTpComm, 50, 70, kSum, 2),
                                         SpanOf(Queue::kTp, OpClass::kTpComm, 65, 70, kSum, 3)},
                                        4);
  CommunicationGroups groups;
  groups.of[static_cast<std::size_t>(Queue::kTp)] = {0, 0, 1, 1};
  EXPECT_EQ(ExposedPartsOf(timeline, groups, 0, false),
            (ExposedParts{.wire_ns = 6 + 6 + 5 + 5, .skew_ns = 4 + 15}));
}

TEST(ExposedParts, SumToTheExposedCommunicationOfAnyTimeline) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const Timeline timeline = RandomTimeline(random, 3, 200);
    CommunicationGroups groups;
    for (auto& of : groups.of) of = {0, 0, round % 2 == 0 ? 0 : -1};
    for (const std::int32_t step : {0, 1, 3}) {
      std::int64_t exposed = 0;
      for (const StepWindow& window : timeline.steps) {
        if (window.step != step) continue;
        const RankClasses classes(SpansOfRank(timeline, window.rank));
        exposed += classes.In(window.start_ns, window.end_ns).exposed_communication_ns;
      }
      EXPECT_EQ(ExposedPartsOf(timeline, groups, step, false).Sum(), exposed);
      EXPECT_EQ(ExposedPartsOf(timeline, groups, step, true).Sum(), exposed);
    }
  }
}

}  // namespace
}  // namespace foretrain
