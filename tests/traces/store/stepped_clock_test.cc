// A recording whose machine sets its clock back by an hour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

constexpr std::int64_t kHourNs = std::int64_t{3'600} * 1'000'000'000;

class SteppedClock final : public Clock {
 public:
  std::int64_t RealtimeNs() override { return system_.RealtimeNs() + offset_ns_; }
  std::int64_t MonotonicNs() override { return system_.MonotonicNs(); }
  void Step(std::int64_t ns) { offset_ns_ += ns; }

 private:
  SystemClock system_;
  std::atomic<std::int64_t> offset_ns_{0};
};

TEST(SteppedClock, LosesNoSpanAndStoresNoNegativeDuration) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(107);
  const Timeline timeline = RandomTimeline(random, 2, 500);
  SteppedClock clock;
  auto store =
      Store::Open(path, {.commit_rows = 100, .commit_interval_ns = 1'000'000, .clock = &clock});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  RunSetup setup;
  setup.world = timeline.world;
  auto run = (*store)->BeginRun(setup);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto half = timeline.spans.begin() + std::ssize(timeline.spans) / 2;
  std::vector<Span> first(timeline.spans.begin(), half), second(half, timeline.spans.end());
  FT_ASSERT_OK((*run)->Add(first));
  FT_ASSERT_OK((*run)->Flush());
  clock.Step(-kHourNs);
  FT_ASSERT_OK((*run)->Add(second));
  FT_ASSERT_OK((*run)->AddNote("after the step"));
  FT_ASSERT_OK((*run)->Flush());
  // The process lives, whatever its heartbeat says.
  EXPECT_EQ(StoreReader::Open(path)->FindRun(1)->status, RunStatus::kRunning);
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  FT_ASSERT_OK((*store)->Close());
  const auto loaded = LoadFrom(path, 1);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->info.status, RunStatus::kFinished);
  Timeline expected = loaded->timeline;
  expected.spans = timeline.spans;
  ExpectSameTimeline(loaded->timeline, expected);
  for (const Span& span : loaded->timeline.spans) EXPECT_GE(span.end_ns, span.start_ns);
  EXPECT_EQ(loaded->info.totals.invalid, 0);
}

}  // namespace
}  // namespace foretrain
