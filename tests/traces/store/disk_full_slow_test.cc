// Recording onto a disk that fills up. Slow: writing is retried after a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/base/child.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMiB = 1 << 20;
// A message comes within this time of the last row that was stored. Writing is retried meanwhile.
constexpr double kMaxSeconds = 2.0;

Timeline Earlier() {
  std::mt19937_64 random(67);
  return RandomTimeline(random, 2, 500);
}

std::vector<Span> SpansFrom(std::int64_t first) {
  std::vector<Span> spans;
  for (std::int64_t i = first; i < first + 1'000; ++i) {
    spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, 10 * i, 10 * i + 5, i % 4'000));
  }
  return spans;
}

// Records into `path` until it fails, makes room and continues. Returns "ok", or what was wrong.
//   make_room  removes the limit
std::string FillAndGoOn(const std::string& path, const std::function<bool()>& make_room) {
  auto store = Store::Open(path, {.commit_rows = 2'000, .commit_interval_ns = 1'000'000});
  if (!store.has_value()) return "open: " + store.error().message;
  auto run = (*store)->BeginRun({.label = "filling"});
  if (!run.has_value()) return "begin: " + run.error().message;
  std::int64_t added = 0;
  std::optional<Error> error;
  auto stored = Clock::now();  // when the last Flush returned
  for (int i = 0; i < 1'000 && !error.has_value(); ++i) {
    std::vector<Span> spans = SpansFrom(added);
    added += std::ssize(spans);
    const Result<void> result = (*run)->Add(spans);
    if (!result.has_value()) error = result.error();
    if (i % 10 != 9 || error.has_value()) continue;
    const Result<void> flushed = (*run)->Flush();
    if (!flushed.has_value()) error = flushed.error();
    if (flushed.has_value()) stored = Clock::now();
  }
  if (!error.has_value()) return "never full";
  const double waited_s = std::chrono::duration<double>(Clock::now() - stored).count();
  std::printf("the message came after %.2f s\n", waited_s);
  if (waited_s > kMaxSeconds) return "the message took " + std::to_string(waited_s) + " s";
  if (error->code != ErrorCode::kResourceExhausted) return "another error: " + error->message;
  for (const char* part :
       {path.c_str(), "free on its file system", "was committed before is safe"}) {
    if (error->message.find(part) == std::string::npos) return "message: " + error->message;
  }
  // All committed rows can be read while nothing can be written.
  const auto meanwhile = LoadFrom(path, (*run)->id());
  if (!meanwhile.has_value()) return "reading: " + meanwhile.error().message;
  // Recording may continue without a record; each call returns the error.
  std::vector<Span> more = SpansFrom(added);
  added += std::ssize(more);
  if ((*run)->Add(more).has_value()) return "no error while full";
  if (!make_room()) return "no room made";
  const Result<void> flushed = (*run)->Flush();
  if (!flushed.has_value()) return "flush: " + flushed.error().message;
  more = SpansFrom(added);
  added += std::ssize(more);
  const Result<void> later = (*run)->Add(more);
  if (!later.has_value()) return "after room was made: " + later.error().message;
  const Result<void> finished = (*run)->Finish(RunStatus::kFinished);
  if (!finished.has_value()) return "finish: " + finished.error().message;
  const auto loaded = LoadFrom(path, (*run)->id());
  if (!loaded.has_value()) return "load: " + loaded.error().message;
  if (std::ssize(loaded->timeline.spans) + loaded->info.totals.dropped != added) {
    return "of " + std::to_string(added) + " spans " + std::to_string(loaded->info.spans) +
           " are stored and " + std::to_string(loaded->info.totals.dropped) + " counted as dropped";
  }
  if (loaded->info.totals.dropped != 0) return "dropped what it had room to keep";
  return "ok";
}

void ExpectWhole(const std::string& path) {
  const auto run = LoadFrom(path, 1);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ExpectSameTimeline(run->timeline, Earlier());
}

bool LimitFiles(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

TEST(FullDisk, IsAnErrorThatRecordingRecoversFrom) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  ASSERT_EQ(StoreTimeline(path, Earlier()), 1);
  for (const int mib : {1, 3}) {
    const std::string result = InChild([&path, mib] {
      signal(SIGXFSZ, SIG_IGN);
      if (!LimitFiles(static_cast<rlim_t>(mib * kMiB))) return std::string("no limit");
      return FillAndGoOn(path, [] { return LimitFiles(RLIM_INFINITY); });
    });
    EXPECT_EQ(result, "ok") << mib << " MiB";
  }
  ExpectWhole(path);
}

TEST(FullFileSystem, IsAnErrorThatRecordingRecoversFrom) {
  for (const int mib : {2, 4, 8}) {
    const TempFolder folder;
    const std::string result = InChild([&folder, mib]() -> std::string {
      if (!MountMemory(folder.File(""), mib * kMiB)) return "not permitted";
      const std::string path = folder.File("s.db");
      const std::string ballast = folder.File("ballast");
      if (StoreTimeline(path, Earlier()) != 1) return "not stored";
      WriteBytes(ballast, std::string(static_cast<std::size_t>(mib * kMiB / 2), 'x'));
      // Room for the waiting rows and the log's copy of them.
      const std::string filled =
          FillAndGoOn(path, [&] { return RemountWithBytes(folder.File(""), 256 * kMiB); });
      if (filled != "ok") return filled;
      const auto run = LoadFrom(path, 1);
      if (!run.has_value()) return run.error().message;
      return SameTimeline(run->timeline, Earlier()) ? "ok" : "the earlier run changed";
    });
    if (result == "not permitted") GTEST_SKIP() << "mounting a file system is not permitted here";
    EXPECT_EQ(result, "ok") << mib << " MiB";
  }
}

// Nothing makes room: the store closes with an Error, and committed rows stay. The run appears as
// interrupted by a process that is gone. A new recorder works once there is room.
TEST(FullDisk, LeavesAReadableStoreBehind) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  ASSERT_EQ(StoreTimeline(path, Earlier()), 1);
  const std::string result = InChild([&path]() -> std::string {
    signal(SIGXFSZ, SIG_IGN);
    auto store = Store::Open(path, {.commit_rows = 1'000, .max_waiting_rows = 20'000});
    auto run = (*store)->BeginRun({});
    if (!run.has_value()) return run.error().message;
    std::vector<Span> spans = SpansFrom(0);
    if (!(*run)->Add(spans).has_value() || !(*run)->Flush().has_value()) return "not recorded";
    if (!LimitFiles(0)) return "no limit";
    for (int i = 0; i < 100; ++i) {
      spans = SpansFrom(1'000 * i);
      // Returns at once, also if no more rows can wait.
      const bool recorded = (*run)->Add(spans).has_value();
      if (recorded && i > 50) return "recorded on a full disk";
    }
    if ((*run)->Finish(RunStatus::kFinished).has_value()) return "finished";
    if ((*store)->Close().has_value()) return "closed";
    return "ok";
  });
  EXPECT_EQ(result, "ok");
  ExpectWhole(path);
  const auto run = LoadFrom(path, 2);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->info.status, RunStatus::kInterrupted);
  EXPECT_EQ(run->timeline.spans.size(), 1'000U);
  EXPECT_EQ(StoreTimeline(path, Earlier()), 3);
}

// Room for the end of a run may be left where there is none for its rows.
TEST(FullDisk, FinishesNoRunWithoutItsRows) {
  int without_rows = 0;
  for (int kib = 64; kib <= 1024; kib += 64) {
    const TempFolder folder;
    const std::string path = folder.File("s.db");
    const std::string result = InChild([&path, kib]() -> std::string {
      signal(SIGXFSZ, SIG_IGN);
      auto store = Store::Open(path, {.commit_rows = 100'000});
      auto run = (*store)->BeginRun({});
      if (!run.has_value()) return run.error().message;
      if (!LimitFiles(static_cast<rlim_t>(kib) * 1024)) return "no limit";
      std::vector<Span> spans;
      for (int i = 0; i < 50; ++i) {
        for (const Span& span : SpansFrom(1'000 * i)) spans.push_back(span);
      }
      (void)(*run)->Add(spans);
      const bool finished = (*run)->Finish(RunStatus::kFinished).has_value();
      (void)(*store)->Close();
      return finished ? "finished" : "ok";
    });
    const auto run = LoadFrom(path, 1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    const bool whole = run->timeline.spans.size() == 50'000U;
    EXPECT_TRUE(whole || result != "finished") << kib;
    EXPECT_EQ(run->info.status, whole ? RunStatus::kFinished : RunStatus::kInterrupted) << kib;
    without_rows += run->info.totals.dropped == 50'000 ? 1 : 0;
  }
  EXPECT_GT(without_rows, 0);
}

}  // namespace
}  // namespace foretrain
