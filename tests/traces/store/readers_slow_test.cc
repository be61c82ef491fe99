// Readers beside a recorder. Slow: they read for seconds. FORETRAIN_READ_SECONDS sets how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/base/child.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kMiB = 1 << 20;
constexpr int kSpansOfAStep = 500;
constexpr int kStepsPerSecond = 100;

int ReadSeconds() {
  const char* asked = std::getenv("FORETRAIN_READ_SECONDS");
  return asked == nullptr ? 3 : std::max(1, std::atoi(asked));
}

std::vector<Span> SpansOfStep(std::int64_t step) {
  std::vector<Span> spans;
  for (int i = 0; i < kSpansOfAStep; ++i) {
    const std::int64_t at = 10 * (step * kSpansOfAStep + i);
    spans.push_back(
        SpanOf(Queue::kCompute, OpClass::kGemm, at, at + 5, i, 0, static_cast<int>(step)));
  }
  return spans;
}

// Records 50,000 spans a second for ever and reports the step once a second.
std::string RecordAtAPace(const std::string& path, const Child::Report& report) {
  auto store = Store::Open(path, {.commit_interval_ns = 50'000'000});
  if (!store.has_value()) return store.error().message;
  auto run = (*store)->BeginRun({});
  if (!run.has_value()) return run.error().message;
  auto next = steady_clock::now();
  for (std::int64_t step = 0;; ++step) {
    std::vector<Span> spans = SpansOfStep(step);
    if (!(*run)->Add(spans).has_value()) return "add failed";
    if (step % kStepsPerSecond == 0) report(step);
    next += std::chrono::microseconds(1'000'000 / kStepsPerSecond);
    std::this_thread::sleep_until(next);
  }
}

double CpuMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// The newest five steps, as a desktop reads them while a run goes on. The median is that of the
// processor's time, which other programs do not lengthen; the deadline of 99 % leaves room for
// them. The recorder goes on: all but the last two seconds of the spans it was given are stored
// at its death.
TEST(Readers, AreServedInTimeBesideARecorderOf50000SpansASecond) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  Child child([&path](const Child::Report& report) { return RecordAtAPace(path, report); });
  ASSERT_TRUE(child.NextReport().has_value());
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  std::vector<double> read_ms, cpu_ms;
  std::size_t most = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(ReadSeconds());
  for (std::int32_t first = 0; steady_clock::now() < end;) {
    const auto begin = steady_clock::now();
    const double used = CpuMilliseconds();
    const auto run = reader->LoadRun(1, {.steps = std::pair{first, first + 4}});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    cpu_ms.push_back(CpuMilliseconds() - used);
    read_ms.push_back(
        std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count());
    most = std::max(most, run->timeline.spans.size());
    ASSERT_LE(run->timeline.spans.size(), 5U * kSpansOfAStep);
    first = std::max(0, run->info.last_step.value_or(0) - 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  child.Kill();
  std::int64_t given = 0;
  while (const auto step = child.NextReport()) given = *step;
  const std::int64_t stored = reader->FindRun(1)->last_step.value_or(0);
  std::sort(read_ms.begin(), read_ms.end());
  std::sort(cpu_ms.begin(), cpu_ms.end());
  const double median_ms = cpu_ms[cpu_ms.size() / 2];
  const double slow_ms = read_ms[read_ms.size() * 99 / 100];
  std::printf(
      "%zu reads of a run of %lld steps: median %.2f ms of the processor, %.2f ms in all, "
      "99 %% below %.2f ms\n",
      read_ms.size(), static_cast<long long>(stored), median_ms, read_ms[read_ms.size() / 2],
      slow_ms);
  EXPECT_EQ(most, 5U * kSpansOfAStep);
  EXPECT_LE(median_ms, 50.0);
  EXPECT_LE(slow_ms, 2'000.0);
  EXPECT_GE(stored, given - 2 * kStepsPerSecond);
}

// A reader that rests between reads holds no transaction, so the recorder can move its log into the
// file.
TEST(Readers, ThatRestDoNotMakeTheLogGrow) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  std::int64_t step = 0;
  std::uintmax_t longest = 0;
  // Two million spans are 46 MiB, and their frames in the log more.
  for (; step < 4'000; ++step) {
    std::vector<Span> spans = SpansOfStep(step);
    FT_ASSERT_OK((*run)->Add(spans));
    if (step % 200 != 0) continue;
    FT_ASSERT_OK((*run)->Flush());
    ASSERT_TRUE(reader->LoadRun(1, {.steps = std::pair{0, 1}}).has_value());
    longest = std::max(longest, std::filesystem::file_size(path + "-wal"));
  }
  FT_ASSERT_OK((*run)->Flush());
  EXPECT_GT(std::filesystem::file_size(path), 40U * kMiB);
  EXPECT_LE(longest, 32U * kMiB);
  std::printf("file %.0f MiB, log at most %.1f MiB\n",
              static_cast<double>(std::filesystem::file_size(path)) / kMiB,
              static_cast<double>(longest) / kMiB);
}

}  // namespace
}  // namespace foretrain
