#include "ui/view_model/timeline/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;

// Starts of the path's parts in the run's own time.
std::vector<std::int64_t> Starts(const CriticalPath& path) {
  std::vector<std::int64_t> starts;
  for (const PathPart& part : path.parts) starts.push_back(part.start_ns);
  return starts;
}

TEST(CriticalPath, GoesBackAlongTheRankThatEndsLast) {
  CompareInput input;
  // Rank 0 ends at 250 after a gap of 50; rank 1 ends at 200.
  input.measured =
      RunOfSpans({ComputeSpan({}, 0, 100), ComputeSpan({.op = 1}, 150, 250),
                  ComputeSpan({.rank = 1}, 0, 120), ComputeSpan({.rank = 1, .op = 1}, 120, 200)});
  const CompareModel model = ModelOf(input);
  const CriticalPath path = CriticalPathOf(model, Side::kMeasured);
  EXPECT_THAT(Starts(path), ElementsAre(0, 150));
  EXPECT_EQ(path.compute_ns, 200);
  EXPECT_EQ(path.wait_ns, 50);
  EXPECT_EQ(path.LengthNs(), 250);
}

TEST(CriticalPath, CrossesToTheRankThatArrivedLastAtACollective) {
  // Both ranks meet in a collective [100, 130): rank 0 arrived at 60, rank 1 at 100. Then rank 0
  // runs until 200. The path: rank 1's [0, 100), the collective, rank 0's [130, 200).
  const auto meet = [](int rank, std::int64_t start_ns, std::int64_t ready_ns) {
    Span span = SendSpan({.rank = rank}, start_ns, 130);
    span.op = PackId({.kind = InstructionKind::kAllReduce});
    span.op_class = OpClass::kDpComm;
    span.queue = Queue::kReduce;
    span.ready_ns = ready_ns;
    return span;
  };
  CompareInput input;
  input.measured =
      RunOfSpans({ComputeSpan({}, 0, 60), meet(0, 60, 60), ComputeSpan({.op = 1}, 130, 200),
                  ComputeSpan({.rank = 1}, 0, 100), meet(1, 100, 100)});
  const CompareModel model = ModelOf(input);
  const CriticalPath path = CriticalPathOf(model, Side::kMeasured);
  ASSERT_EQ(path.parts.size(), 3U);
  const auto& spans = model.TimelineOf(Side::kMeasured).spans;
  EXPECT_EQ(spans[path.parts[0].span].rank, 1);
  EXPECT_EQ(spans[path.parts[2].span].rank, 0);
  EXPECT_THAT(Starts(path), ElementsAre(0, 100, 130));
  EXPECT_EQ(path.compute_ns, 170);
  EXPECT_EQ(path.communication_ns, 30);
  EXPECT_EQ(path.wait_ns, 0);
}

TEST(CriticalPath, SumsToTheStepOfASimulatedPipeline) {
  const CompareInput input = SampleInput({.stages = 4, .layers = 4, .micro_batches = 4});
  const CompareModel model = ModelOf(input);
  for (const Side side : kSides) {
    const CriticalPath path = CriticalPathOf(model, side);
    ASSERT_FALSE(path.parts.empty());
    std::int64_t before = path.parts.front().start_ns;
    for (const PathPart& part : path.parts) {
      EXPECT_LE(before, part.start_ns);
      EXPECT_LE(part.start_ns, part.end_ns);
      before = part.end_ns;
    }
    const SideModel& of = model.Of(side);
    EXPECT_LE(path.LengthNs(), of.step_end_ns - of.step_start_ns);
    EXPECT_GE(path.LengthNs(), (of.step_end_ns - of.step_start_ns) * 9 / 10);
  }
}

TEST(CriticalPath, IsEmptyWithoutSpans) {
  const CompareInput nothing;
  EXPECT_TRUE(CriticalPathOf(ModelOf(nothing), Side::kMeasured).parts.empty());
  CompareInput input;
  input.measured = RunOfSpans({});
  EXPECT_TRUE(CriticalPathOf(ModelOf(input), Side::kMeasured).parts.empty());
  // Spans without length do not make it run for ever.
  input.measured = RunOfSpans({ComputeSpan({}, 5, 5), ComputeSpan({.op = 1}, 5, 5)});
  EXPECT_LE(CriticalPathOf(ModelOf(input), Side::kMeasured).parts.size(), 2U);
}

}  // namespace
}  // namespace foretrain::ui
