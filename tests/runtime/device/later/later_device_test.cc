// Training on an asynchronous device: with events between its queues instead of waits for each op,
// every plan gives the same bits as on a synchronous device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/device/later/later_training.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

TEST(OnLaterDevice, PlansTrainAsOnTheCpuToTheBit) {
  ExpectTrainsAlikeLater(TinyPlan(), "one rank");
  for (const auto& cases : {Cases(), ContextCases(), OffloadCases()}) {
    for (std::size_t i = 0; i < cases.size(); i += 32) {  // later_device_nightly_test.cc has all
      ExpectTrainsAlikeLater(cases[i].plan, cases[i].name);
    }
  }
}

TEST(OnLaterDevice, ExpertsTrainAsOnTheCpuToTheBit) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 2;
  plan.clip_norm = 0.5;
  const Trained expected = TrainTiny(TinyExperts(), plan);
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  Later().Reset();
  Later().delays = 3;
  EXPECT_TRUE(SameBits(expected, TrainTiny(TinyExperts(), plan, options)));
}

TEST(OnLaterDevice, QueuesHoldEachOtherUpThere) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  Later().Reset();
  Later().delays = 4;
  (void)TrainTiny(TinyGpt(), plan, options);
  EXPECT_GT(Later().waits, 0);
}

// Every op of every step has one span, in order on its queue, after the ops whose results it reads.
TEST(OnLaterDevice, SpansAreThoseOfTheDevicesClock) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  Later().Reset();
  Later().delays = 5;
  const Trained expected = TrainTiny(TinyGpt(), plan);
  const Trained trained = TrainTiny(TinyGpt(), plan, options);
  using Key = std::tuple<int, int, OpId>;
  std::map<Key, const Span*> spans;
  for (const Span& span : trained.timeline.spans) {
    EXPECT_TRUE(spans.emplace(Key(span.rank, span.step, span.op), &span).second);
    EXPECT_LE(span.ready_ns, span.start_ns);
    EXPECT_LE(span.start_ns, span.end_ns);
  }
  EXPECT_EQ(spans.size(), expected.timeline.spans.size());
  for (const Span& span : expected.timeline.spans) {
    const auto found = spans.find(Key(span.rank, span.step, span.op));
    ASSERT_NE(found, spans.end());
    EXPECT_EQ(found->second->bytes, span.bytes);
    EXPECT_EQ(found->second->queue, span.queue);
  }
  // One op at a time on each queue.
  std::map<std::pair<int, Queue>, std::vector<const Span*>> queues;
  for (const auto& [key, span] : spans) queues[{span->rank, span->queue}].push_back(span);
  for (auto& [queue, of_queue] : queues) {
    if (queue.second == Queue::kHost) continue;
    std::sort(of_queue.begin(), of_queue.end(),
              [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
    for (std::size_t i = 1; i < of_queue.size(); ++i) {
      EXPECT_GE(of_queue[i]->start_ns, of_queue[i - 1]->end_ns) << Name(queue.second);
    }
  }
  EXPECT_EQ(trained.timeline.steps.size(), expected.timeline.steps.size());
}

TEST(OnLaterDevice, EachRankHasItsShareOfMultiprocessors) {
  Plan plan = TinyPlan();
  plan.pp = 4;
  const Trained expected = TrainTiny(TinyGpt(), plan);
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  options.sm_share = 30;  // rounded up to 32 (multiples of 8): four shares are 128 of 132
  Later().Reset();
  EXPECT_TRUE(SameBits(expected, TrainTiny(TinyGpt(), plan, options)));
  EXPECT_GE(Later().shared_queues, 4 * 2);  // at least a host and a compute queue
  EXPECT_EQ(Later().Live(), 0);

  auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value());
  const auto shared = std::make_shared<const Program>(*std::move(program));
  RealClock clock;
  ExecutorOptions too_many;
  too_many.sm_share = 40;
  auto made = Executor::Make(shared, *options.api, clock, too_many);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(made.error().message, testing::HasSubstr("132 multiprocessors"));
  made = Executor::Make(shared, CpuDeviceApi(), clock, too_many);
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, testing::HasSubstr("cpu: this device cannot share out"));
}

TEST(OnLaterDevice, PeakIsThePlans) {
  const Trained expected = TrainTiny(TinyGpt(), TinyPlan());
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  Later().Reset();
  const Trained trained = TrainTiny(TinyGpt(), TinyPlan(), options);
  // With one compute queue the order is the same, so the same buffers are live. Only the next
  // micro-batch, tokens and targets, may be loaded while this one is in use.
  const Plan plan = TinyPlan();
  const auto batch =
      2 * plan.micro_batch * plan.sequence * static_cast<std::int64_t>(sizeof(std::int32_t));
  ASSERT_EQ(trained.summary.peak_bytes.size(), 1U);
  ASSERT_EQ(expected.summary.peak_bytes.size(), 1U);
  EXPECT_THAT(trained.summary.peak_bytes[0] - expected.summary.peak_bytes[0],
              testing::AnyOf(0, batch, -batch));
}

}  // namespace
}  // namespace foretrain
