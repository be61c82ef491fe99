// Each write, sync and truncation of a recording fails in turn. Slow: there are hundreds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/traces/fault_vfs.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr int kAdds = 12;
constexpr int kSpansOfAnAdd = 300;

std::vector<Span> SpansOfAdd(int add) {
  std::vector<Span> spans;
  for (int i = 0; i < kSpansOfAnAdd; ++i) {
    const std::int64_t at = 10 * (std::int64_t{add} * kSpansOfAnAdd + i);
    spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, at, at + 5, i, 0, add));
  }
  return spans;
}

// Result of a recording.
struct Outcome {
  bool began = false;     // BeginRun returned a recorder
  bool finished = false;  // Finish returned no Error
  int flushed = 0;        // Adds before the last Flush that returned no Error
  int errors = 0;
};

Outcome Record(const std::string& path) {
  Outcome outcome;
  const auto count = [&outcome](const Result<void>& result) {
    if (result.has_value()) return true;
    EXPECT_TRUE(result.error().code == ErrorCode::kResourceExhausted ||
                result.error().code == ErrorCode::kIo)
        << result.error().message;
    EXPECT_THAT(result.error().message, testing::HasSubstr("s.db"));
    ++outcome.errors;
    return false;
  };
  auto store = Store::Open(path, {.commit_rows = 500, .vfs = FaultVfs()});
  if (!store.has_value()) {
    count(tl::unexpected<Error>(store.error()));
    return outcome;
  }
  auto run = (*store)->BeginRun({.label = "faulty"});
  if (!run.has_value()) {
    count(tl::unexpected<Error>(run.error()));
    return outcome;
  }
  outcome.began = true;
  for (int add = 0; add < kAdds; ++add) {
    std::vector<Span> spans = SpansOfAdd(add);
    count((*run)->Add(spans));
    if (add % 4 == 3 && count((*run)->Flush())) outcome.flushed = add + 1;
  }
  outcome.finished = count((*run)->Finish(RunStatus::kFinished));
  count((*store)->Close());
  return outcome;
}

void CheckStore(const std::string& path, const Timeline& earlier, const Outcome& outcome) {
  EXPECT_THAT(Query(path, "PRAGMA integrity_check"), ElementsAre("ok"));
  const auto first = LoadFrom(path, 1);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ExpectSameTimeline(first->timeline, earlier);
  if (!outcome.began) return;
  const auto run = LoadFrom(path, 2);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  std::set<std::int64_t> starts;
  for (const Span& span : run->timeline.spans) {
    EXPECT_TRUE(starts.insert(span.start_ns).second) << "twice";
  }
  for (int add = 0; add < outcome.flushed; ++add) {
    for (const Span& span : SpansOfAdd(add)) ASSERT_TRUE(starts.contains(span.start_ns));
  }
  EXPECT_TRUE(outcome.errors > 0 || outcome.finished);
  if (outcome.finished) {
    EXPECT_EQ(run->info.status, RunStatus::kFinished);
    EXPECT_EQ(run->info.spans + run->info.totals.dropped, kAdds * kSpansOfAnAdd);
  }
}

// Fails each call in turn until none is left.
void Sweep(bool sticky, FaultKind kind) {
  const TempFolder folder(/*in_memory=*/true);
  std::mt19937_64 random(83);
  const Timeline earlier = RandomTimeline(random, 2, 300);
  const std::string good = folder.File("good.db");
  ASSERT_EQ(StoreTimeline(good, earlier), 1);
  int points = 0;
  for (bool fired = true; fired; ++points) {
    const std::string path = folder.File("s.db");
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path + part);
    std::filesystem::copy_file(good, path);
    ArmFault(points, sticky, kind);
    const Outcome outcome = Record(path);
    fired = DisarmFault();
    CheckStore(path, earlier, outcome);
    if (testing::Test::HasFailure()) {
      FAIL() << "at call " << points;
    }
    EXPECT_TRUE(fired || outcome.errors == 0);
    ASSERT_LT(points, 5'000);
  }
  EXPECT_GE(points, 170);
  testing::Test::RecordProperty("points", points);
}

TEST(FaultyDisk, FullOnceIsAnErrorOrRecovers) { Sweep(false, FaultKind::kFull); }
TEST(FaultyDisk, FullForGoodIsAnError) { Sweep(true, FaultKind::kFull); }
TEST(FaultyDisk, FailingOnceIsAnErrorOrRecovers) { Sweep(false, FaultKind::kIo); }
TEST(FaultyDisk, FailingForGoodIsAnError) { Sweep(true, FaultKind::kIo); }

}  // namespace
}  // namespace foretrain
