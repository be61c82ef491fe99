// State of a store after its recorder was killed. Slow: each kill waits for a random moment.
// FORETRAIN_KILLS sets the number of kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/base/child.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr int kSpansOfAStep = 400;

int Kills() {
  const char* asked = std::getenv("FORETRAIN_KILLS");
  return asked == nullptr ? 20 : std::max(1, std::atoi(asked));
}

// Span number `i` of the recorder below.
Span NumberedSpan(std::int64_t i) {
  Span span = SpanOf(i % 2 == 0 ? Queue::kCompute : Queue::kTp, OpClass::kGemm, 10 * i, 10 * i + 7,
                     i % 4'000, 0, static_cast<int>(i / kSpansOfAStep));
  span.bytes = i;
  return span;
}

// Records forever; reports the number of spans acknowledged by Flush.
std::string RecordForEver(const std::string& path, const Child::Report& report) {
  auto store = Store::Open(path, {.commit_rows = 1'000, .commit_interval_ns = 5'000'000});
  if (!store.has_value()) return store.error().message;
  auto run = (*store)->BeginRun({.label = "killed"});
  if (!run.has_value()) return run.error().message;
  report(0);
  for (std::int64_t next = 0;;) {
    std::vector<Span> spans;
    for (int i = 0; i < kSpansOfAStep; ++i) spans.push_back(NumberedSpan(next++));
    if (!(*run)->Add(spans).has_value()) return "add failed";
    if (next % (5 * kSpansOfAStep) != 0) continue;
    if (!(*run)->Flush().has_value()) return "flush failed";
    report(next);
  }
}

// Compares the last number reported before the child's death with the spans that are left.
void CheckWhatIsLeft(const std::string& path, RunId id, std::int64_t acknowledged) {
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  const auto run = reader->LoadRun(id);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->info.status, RunStatus::kInterrupted);
  std::vector<bool> there;
  for (const Span& span : run->timeline.spans) {
    const auto number = static_cast<std::size_t>(span.bytes);
    if (there.size() <= number) there.resize(number + 1);
    there[number] = true;
    const Span expected = NumberedSpan(span.bytes);
    ASSERT_EQ(std::memcmp(&span, &expected, sizeof(Span)), 0);
  }
  // All acknowledged spans are there, and of the rest the first ones handed over.
  EXPECT_GE(std::ssize(there), acknowledged);
  EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](bool is) { return is; }));
  EXPECT_EQ(std::ssize(there), std::ssize(run->timeline.spans));
  if (acknowledged > 0) {
    EXPECT_GE(run->info.last_step.value_or(-1), acknowledged / kSpansOfAStep - 1);
  }
}

TEST(KilledRecorder, LosesNothingThatWasAcknowledged) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(59);
  const Timeline earlier = RandomTimeline(random, 2, 500);
  ASSERT_EQ(StoreTimeline(path, earlier), 1);
  const RunId end = 2 + Kills();
  for (RunId id = 2; id < end; ++id) {
    Child child([&path](const Child::Report& report) { return RecordForEver(path, report); });
    ASSERT_EQ(child.NextReport(), 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    child.Kill();
    std::int64_t acknowledged = 0;
    while (const auto report = child.NextReport()) acknowledged = *report;
    ASSERT_EQ(child.Wait(), "died");
    CheckWhatIsLeft(path, id, acknowledged);
  }
  EXPECT_THAT(Query(path, "PRAGMA integrity_check"), ElementsAre("ok"));
  const auto run = LoadFrom(path, 1);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ExpectSameTimeline(run->timeline, earlier);
}

std::int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Records for ever as a training run does, without a Flush. Each span begins when it is added.
std::string RecordWithoutFlush(const std::string& path, const Child::Report& report) {
  auto store = Store::Open(path);
  if (!store.has_value()) return store.error().message;
  auto run = (*store)->BeginRun({.label = "killed"});
  if (!run.has_value()) return run.error().message;
  report(0);
  for (;;) {
    const std::int64_t now_ns = NowNs();
    std::vector<Span> spans{SpanOf(Queue::kCompute, OpClass::kGemm, now_ns, now_ns + 1)};
    if (!(*run)->Add(spans).has_value()) return "add failed";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// By default a batch is committed every quarter of a second.
TEST(KilledRecorder, LosesLessThanASecondOfSpansThatNoFlushCovers) {
  const TempFolder folder;
  std::mt19937_64 random(63);
  double largest_s = 0;
  for (int round = 0; round < std::max(4, Kills() / 4); ++round) {
    const std::string path = folder.File(std::to_string(round));
    Child child([&path](const Child::Report& report) { return RecordWithoutFlush(path, report); });
    ASSERT_EQ(child.NextReport(), 0);
    std::this_thread::sleep_for(std::chrono::microseconds(400'000 + random() % 400'000));
    const std::int64_t killed_ns = NowNs();
    child.Kill();
    ASSERT_EQ(child.Wait(), "died");
    const auto run = LoadFrom(path, 1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    std::int64_t newest_ns = 0;
    for (const Span& span : run->timeline.spans) newest_ns = std::max(newest_ns, span.start_ns);
    const double lost_s = 1e-9 * static_cast<double>(killed_ns - newest_ns);
    EXPECT_LT(lost_s, 1.0) << run->timeline.spans.size() << " spans are stored";
    largest_s = std::max(largest_s, lost_s);
  }
  std::printf("at most the last %.2f s are lost\n", largest_s);
}

// Killed while it creates a store, begins, finishes and deletes runs: each run is complete or
// absent.
TEST(KilledRecorder, LeavesRunsWholeOrAbsent) {
  const TempFolder folder;
  std::mt19937_64 random(61);
  const Timeline timeline = RandomTimeline(random, 2, 3'000);
  const int rounds = Kills();
  for (int round = 0; round < rounds; ++round) {
    const std::string path = folder.File(std::to_string(round));
    Child child([&](const Child::Report& report) -> std::string {
      report(0);
      for (RunId id = 1;; ++id) {
        StoreTimeline(path, timeline);
        if (id > 1 && !DeleteRun(path, id - 1).has_value()) return "not deleted";
      }
    });
    ASSERT_EQ(child.NextReport(), 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
    child.Kill();
    ASSERT_EQ(child.Wait(), "died");
    const auto reader = StoreReader::Open(path);
    if (!reader.has_value()) {
      // Killed while it was created: the next recorder creates it.
      ASSERT_EQ(reader.error().code, ErrorCode::kInvalidArgument) << reader.error().message;
      EXPECT_EQ(StoreTimeline(path, timeline), 1);
      continue;
    }
    const auto runs = reader->ListRuns();
    ASSERT_TRUE(runs.has_value()) << runs.error().message;
    for (const RunInfo& info : *runs) {
      const auto run = reader->LoadRun(info.id);
      ASSERT_TRUE(run.has_value()) << run.error().message;
      if (info.status == RunStatus::kFinished) ExpectSameTimeline(run->timeline, timeline);
    }
    EXPECT_THAT(Query(path, "PRAGMA integrity_check"), ElementsAre("ok"));
    EXPECT_THAT(Query(path,
                      "SELECT count(*) FROM track WHERE run_id NOT IN "
                      "(SELECT run_id FROM run)"),
                ElementsAre("0"));
  }
}

// Readers next to a recorder in another process never get an Error, so never half a batch (its
// checksum would fail), and never fewer spans than before.
TEST(Reader, SeesWholeBatchesWhileAnotherProcessRecords) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  Child child([&path](const Child::Report& report) { return RecordForEver(path, report); });
  ASSERT_EQ(child.NextReport(), 0);
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  std::size_t spans = 0;
  int grew = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    const auto run = reader->LoadRun(1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    EXPECT_EQ(run->info.status, RunStatus::kRunning);
    ASSERT_GE(run->timeline.spans.size(), spans);
    grew += run->timeline.spans.size() > spans ? 1 : 0;
    spans = run->timeline.spans.size();
  }
  EXPECT_GT(grew, 2);
}

}  // namespace
}  // namespace foretrain
