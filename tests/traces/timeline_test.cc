#include "traces/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> StartsOf(const Timeline& timeline) {
  std::vector<std::int64_t> starts;
  for (const Span& span : timeline.spans) starts.push_back(span.start_ns);
  return starts;
}

TEST(SortTimeline, OrdersSpansByRankQueueAndStart) {
  Timeline timeline;
  timeline.spans = {
      {.start_ns = 9, .end_ns = 10, .rank = 1, .queue = Queue::kCompute},
      {.start_ns = 5, .end_ns = 6, .rank = 0, .queue = Queue::kTp},
      {.start_ns = 7, .end_ns = 8, .rank = 0, .queue = Queue::kCompute},
      {.start_ns = 1, .end_ns = 2, .rank = 0, .queue = Queue::kCompute},
      {.start_ns = 3, .end_ns = 4, .rank = 0, .queue = Queue::kHost},
  };
  SortTimeline(timeline);
  EXPECT_THAT(StartsOf(timeline), ElementsAre(3, 1, 7, 5, 9));
}

TEST(SortTimeline, KeepsTheOrderOfSamplesOfOneMoment) {
  Timeline timeline;
  timeline.memory = {{.time_ns = 5, .bytes = 10},
                     {.time_ns = 1, .bytes = 3},
                     {.time_ns = 5, .bytes = 4},
                     {.time_ns = 5, .bytes = 7}};
  timeline.steps = {{.start_ns = 4, .end_ns = 6, .step = 1},
                    {.start_ns = 0, .end_ns = 4, .step = 0}};
  SortTimeline(timeline);
  std::vector<std::int64_t> bytes;
  for (const MemorySample& sample : timeline.memory) bytes.push_back(sample.bytes);
  EXPECT_THAT(bytes, ElementsAre(3, 10, 4, 7));
  EXPECT_EQ(timeline.steps[0].step, 0);
}

TEST(NameKey, ClearsTheMicroBatchAlone) {
  const InstructionKey key{.pass = Pass::kBackward, .block = 4, .micro_batch = 77, .part = 3};
  InstructionKey without = key;
  without.micro_batch = 0;
  EXPECT_EQ(NameKey(PackId(key, 6)), PackId(without, 6));
  EXPECT_EQ(NameKey(PackId(without, 6)), PackId(without, 6));
  EXPECT_EQ(NameKey(kNoOp), kNoOp);
}

}  // namespace
}  // namespace foretrain
