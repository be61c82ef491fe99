// foretrain's own exports are read back exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/traces/import/trace_text.h"
#include "tests/traces/timelines.h"
#include "traces/export/chrome_trace.h"

namespace foretrain {
namespace {

std::string Export(const std::vector<std::pair<std::string, Timeline>>& runs,
                   std::int64_t shift_ns = 0) {
  std::string text;
  ChromeTraceWriter writer([&text](std::string_view more) {
    text += more;
    return Result<void>();
  });
  EXPECT_TRUE(writer.Begin().has_value());
  for (const auto& [title, timeline] : runs) {
    EXPECT_TRUE(writer.AddRun(timeline, {.title = title, .shift_ns = shift_ns}).has_value());
  }
  EXPECT_TRUE(writer.End().has_value());
  return text;
}

auto Fields(const Span& span) {
  return std::tuple(span.start_ns, span.end_ns, span.op, span.bytes, span.step, span.rank,
                    span.queue, span.op_class);
}

TEST(OwnTrace, GivesTheSameSpansStepsAndMemory) {
  std::mt19937_64 random(5);
  Timeline before = RandomTimeline(random, 3, 200);
  for (Span& span : before.spans) {
    span.ready_ns = std::min(span.ready_ns, span.start_ns);
    if (!IsValidId(span.op)) span.op = kNoOp;
  }
  before.op_names.clear();
  before.op_names[NameKey(PackId({.pass = Pass::kForward, .block = 1}, 3))] = "mlp.up";
  before.spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, 1'000'000'000, 1'000'000'007,
                                PackId({.pass = Pass::kForward, .block = 1, .micro_batch = 2}, 3)));
  SortTimeline(before);
  const TraceRun run = ReadGood({Export({{"measured 4 (a run)", before}})});
  EXPECT_EQ(run.label, "measured 4 (a run)");
  const Timeline& after = run.timeline;
  EXPECT_EQ(after.world, 3);
  ASSERT_EQ(after.spans.size(), before.spans.size());
  for (std::size_t i = 0; i < after.spans.size(); ++i) {
    EXPECT_EQ(Fields(after.spans[i]), Fields(before.spans[i])) << i;
    EXPECT_EQ(after.spans[i].ready_ns, before.spans[i].ready_ns) << i;
  }
  ASSERT_EQ(after.steps.size(), before.steps.size());
  for (std::size_t i = 0; i < after.steps.size(); ++i) {
    EXPECT_EQ(after.steps[i].start_ns, before.steps[i].start_ns);
    EXPECT_EQ(after.steps[i].end_ns, before.steps[i].end_ns);
    EXPECT_EQ(after.steps[i].step, before.steps[i].step);
  }
  EXPECT_EQ(after.op_names, before.op_names);
  const auto peaks = MemoryPeaks(before);
  const auto again = MemoryPeaks(after);
  ASSERT_EQ(again.size(), peaks.size());
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    EXPECT_EQ(again[i].bytes, peaks[i].bytes);
    EXPECT_EQ(again[i].parts, peaks[i].parts);
  }
}

TEST(OwnTrace, OfTwoRunsIsTwoRuns) {
  std::mt19937_64 random(6);
  const Timeline timeline = RandomTimeline(random, 2, 20);
  const auto runs = ReadTexts({Export({{"predicted 1", timeline}, {"measured 2", timeline}})});
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].label, "predicted 1");
  EXPECT_EQ((*runs)[1].label, "measured 2");
  EXPECT_EQ((*runs)[1].timeline.spans.size(), 40U);
}

TEST(OwnTrace, OfAnImportedRunGivesTheSameAgain) {
  const TraceRun first = ReadGood({KinetoTrace(Complete("kernel", "relu", "d1", 0, 5) + "," +
                                               Complete("kernel", "gemm", "d1", 10, 5))});
  const TraceRun second = ReadGood({Export({{"imported 1", first.timeline}})});
  ASSERT_EQ(second.timeline.spans.size(), 2U);
  EXPECT_EQ(second.timeline.spans[1].op, first.timeline.spans[1].op);
  EXPECT_EQ(second.timeline.op_names, first.timeline.op_names);
}

// Times were shifted, and overlapping spans stood on a thread of their own.
TEST(OwnTrace, TakesAwayTheShiftAndJoinsTheThreadsOfAQueue) {
  Timeline before;
  before.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 100, 200),
                  SpanOf(Queue::kCompute, OpClass::kAttention, 150, 300)};
  before.steps = {{50, 400, 0, 0}};
  before.memory = {{.time_ns = 120, .bytes = 7}};
  const Timeline after = ReadGood({Export({{"measured 4", before}}, 1'000'000)}).timeline;
  ASSERT_EQ(after.spans.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(Fields(after.spans[i]), Fields(before.spans[i]));
  EXPECT_EQ(after.steps.at(0).start_ns, 50);
  EXPECT_EQ(after.memory.at(0).time_ns, 120);
}

}  // namespace
}  // namespace foretrain
