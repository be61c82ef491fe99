#include "runtime/data/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"
#include "tests/runtime/training.h"
#include "traces/metrics/data_wait.h"

namespace foretrain {
namespace {

// Notes which thread read which step, and can fail.
struct NotingBatches : CountingBatches {
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    const std::lock_guard lock(mutex);
    readers.emplace_back(request.step, std::this_thread::get_id());
    if (request.step == failing_step) return Fail(ErrorCode::kIo, "the disk is gone");
    return CountingBatches::Fill(request, ids, targets);
  }
  std::vector<std::int64_t> StepsReadBy(std::thread::id thread) {
    const std::lock_guard lock(mutex);
    std::vector<std::int64_t> steps;
    for (const auto& [step, reader] : readers) {
      if (reader == thread) steps.push_back(step);
    }
    return steps;
  }

  std::int64_t failing_step = -1;
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::thread::id>> readers;  // guarded by mutex
};

std::int32_t FirstId(ReadAhead& ahead, std::int64_t step) {
  std::vector<std::int32_t> ids(4), targets(4);
  const auto end = ahead.Fill({step, 0, 0, 0}, ids, targets);
  EXPECT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(targets[0], ids[0] + 1);
  return ids[0];
}

TEST(ReadAhead, ReadsAllButTheFirstStepOnItsOwnThread) {
  NotingBatches batches;
  {
    ReadAhead ahead(batches);
    for (std::int64_t step = 0; step < 5; ++step) {
      // The second request is that of another tensor-parallel rank.
      EXPECT_EQ(FirstId(ahead, step), step * 10000);
      EXPECT_EQ(FirstId(ahead, step), step * 10000);
    }
  }
  // Both requests of step 0 were not foreseen.
  EXPECT_EQ(batches.StepsReadBy(std::this_thread::get_id()), (std::vector<std::int64_t>{0, 0}));
}

TEST(ReadAhead, GivesAnErrorToTheStepThatItBelongsTo) {
  NotingBatches batches;
  batches.failing_step = 2;
  ReadAhead ahead(batches);
  EXPECT_EQ(FirstId(ahead, 0), 0);
  EXPECT_EQ(FirstId(ahead, 1), 10000);
  std::vector<std::int32_t> ids(4), targets(4);
  const auto end = ahead.Fill({2, 0, 0, 0}, ids, targets);
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().message, "the disk is gone");
}

// A run that looks for a bad value reads a step again, and a resumed run begins anywhere.
TEST(ReadAhead, GivesAnyStepInAnyOrder) {
  NotingBatches batches;
  ReadAhead ahead(batches, 3);
  for (const std::int64_t step : {7, 8, 8, 3, 4, 100, 99, 7}) {
    EXPECT_EQ(FirstId(ahead, step), step * 10000);
  }
}

// A text whose batch for a step comes 60 ms after the end of the step before.
struct SlowBatches : BatchSource {
  SlowBatches(BatchSource& the_text, std::int64_t the_steps) : text(the_text), steps(the_steps) {}
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    if (request.step < steps) {
      for (int i = 0; i < 10'000 && ended < request.step - 1; ++i) Sleep(1);
      Sleep(60);
    }
    return text.Fill(request, ids, targets);
  }
  static void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

  BatchSource& text;
  const std::int64_t steps;
  std::atomic<std::int64_t> ended{-1};  // the last step that has ended
};

struct EndSink : RecordingSink {
  explicit EndSink(SlowBatches& the_batches) : batches(the_batches) {}
  void OnScalars(const StepScalars& more) override { batches.ended = more.step; }
  SlowBatches& batches;
};

// Each step waits, whatever is read ahead. The wait is a span of its own before the load's.
TEST(ReadAhead, ShowsTheWaitForASlowSource) {
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.micro_batch = plan.global_batch;
  auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value());
  const auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  ASSERT_TRUE(data.has_value());
  SlowBatches batches(**data, /*the_steps=*/3);
  TrainJob job;
  job.program = std::make_shared<const Program>(*std::move(program));
  job.steps = 3;
  job.executor.record_spans = true;
  RealClock clock;
  EndSink sink(batches);
  const auto summary = Train(job, CpuDeviceApi(), clock, batches, sink);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  Timeline& timeline = sink.timeline;
  SortTimeline(timeline);
  for (std::int32_t step = 0; step < 3; ++step) {
    const Span* wait = nullptr;
    const Span* load = nullptr;
    for (const Span& span : timeline.spans) {
      if (span.step != step) continue;
      if (IsDataWait(span.op)) wait = &span;
      if (UnpackId(span.op).kind == InstructionKind::kLoadBatch && !IsDataWait(span.op))
        load = &span;
    }
    ASSERT_NE(wait, nullptr) << step;
    ASSERT_NE(load, nullptr) << step;
    EXPECT_EQ(wait->op_class, OpClass::kHost);
    EXPECT_EQ(wait->queue, load->queue);
    EXPECT_EQ(wait->end_ns, load->start_ns);
    EXPECT_GE(wait->end_ns - wait->start_ns, kMinDataWaitNs);
    EXPECT_GT(DataWaitOf(timeline, step).waited_ns, 0);
  }
  // The first step has nothing read ahead: it waits for all of it.
  EXPECT_GE(DataWaitOf(timeline, 0).waited_ns, 60'000'000);
}

}  // namespace
}  // namespace foretrain
