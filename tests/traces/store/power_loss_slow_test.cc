// State of a store after a loss of power, at each sync and between syncs. Slow: there are hundreds
// of moments. FORETRAIN_POWER_LOSSES sets the number of losses at each moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "tests/traces/power_vfs.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr int kAdds = 24;
constexpr int kSpansOfAnAdd = 400;
constexpr std::int64_t kFinished = kAdds + 1;

std::uint64_t LossesOfAMoment() {
  const char* asked = std::getenv("FORETRAIN_POWER_LOSSES");
  return asked == nullptr ? 4 : static_cast<std::uint64_t>(std::max(1, std::atoi(asked)));
}

std::vector<Span> SpansOfAdd(std::int64_t add) {
  std::vector<Span> spans;
  for (int i = 0; i < kSpansOfAnAdd; ++i) {
    const std::int64_t at = 10 * (add * kSpansOfAnAdd + i);
    spans.push_back(
        SpanOf(Queue::kCompute, OpClass::kGemm, at, at + 5, i, 0, static_cast<int>(add)));
  }
  return spans;
}

// Records run 2. `promised` is -1 until BeginRun has returned, then the number of adds before the
// last Flush that has returned, and kFinished once Finish has.
void Record(const std::string& path, std::atomic<std::int64_t>& promised) {
  auto store = Store::Open(path, {.commit_rows = 600, .vfs = PowerVfs()});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.label = "powerless"});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  promised = 0;
  for (int add = 0; add < kAdds; ++add) {
    std::vector<Span> spans = SpansOfAdd(add);
    FT_ASSERT_OK((*run)->Add(spans));
    if (add % 4 != 3) continue;
    FT_ASSERT_OK((*run)->Flush());
    promised = add + 1;
  }
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  promised = kFinished;
  FT_ASSERT_OK((*store)->Close());
}

void CheckWhatIsLeft(const std::string& path, const Timeline& earlier, std::int64_t promised) {
  EXPECT_THAT(Query(path, "PRAGMA integrity_check"), ElementsAre("ok"));
  const auto first = LoadFrom(path, 1);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(SameTimeline(first->timeline, earlier));
  if (promised < 0) return;
  const auto run = LoadFrom(path, 2);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  std::set<std::int64_t> starts;
  for (const Span& span : run->timeline.spans) {
    ASSERT_TRUE(starts.insert(span.start_ns).second) << "twice";
  }
  for (std::int64_t add = 0; add < std::min<std::int64_t>(promised, kAdds); ++add) {
    for (const Span& span : SpansOfAdd(add)) ASSERT_TRUE(starts.contains(span.start_ns)) << add;
  }
  if (promised == kFinished) {
    EXPECT_EQ(run->info.status, RunStatus::kFinished);
  }
}

TEST(PowerLoss, KeepsEverythingThatAFlushPromised) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(97);
  const Timeline earlier = RandomTimeline(random, 2, 300);
  ASSERT_EQ(StoreTimeline(path, earlier), 1);
  std::atomic<std::int64_t> promised{-1};
  RecordMoments([&promised] { return promised.load(); });
  Record(path, promised);
  const std::vector<DiskMoment> moments = TakeMoments();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GE(moments.size(), 20U);
  int losses = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    for (const Unsynced fate : {Unsynced::kLost, Unsynced::kKept, Unsynced::kGarbage}) {
      // Lost calls are the same with every seed.
      const std::uint64_t seeds = fate == Unsynced::kLost ? 1 : LossesOfAMoment();
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const std::string after = folder.File("after.db");
        LosePower(moments[i], fate, seed, path, after);
        CheckWhatIsLeft(after, earlier, moments[i].promised);
        ++losses;
        if (HasFailure()) {
          FAIL() << "moment " << i << ", fate " << static_cast<int>(fate) << ", seed " << seed
                 << ", promised " << moments[i].promised;
        }
      }
    }
  }
  std::printf("%d losses of power at %zu moments\n", losses, moments.size());
}

// The test's own disk: without the sync of a Flush, a loss of power takes promised spans.
TEST(PowerLoss, TakesWhatWasNotSynced) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("s.db");
  RecordMoments([] { return std::int64_t{0}; });
  {
    auto store = Store::Open(path, {.commit_rows = 100, .vfs = PowerVfs()});
    ASSERT_TRUE(store.has_value()) << store.error().message;
    auto run = (*store)->BeginRun({});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    std::vector<Span> spans = SpansOfAdd(0);
    FT_ASSERT_OK((*run)->Add(spans));
    FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  }
  const std::vector<DiskMoment> moments = TakeMoments();
  std::size_t fewest = SIZE_MAX, most = 0;
  for (const DiskMoment& moment : moments) {
    const std::string after = folder.File("after.db");
    LosePower(moment, Unsynced::kLost, 0, path, after);
    const auto run = LoadFrom(after, 1);
    const std::size_t spans = run.has_value() ? run->timeline.spans.size() : 0;
    fewest = std::min(fewest, spans);
    most = std::max(most, spans);
  }
  EXPECT_EQ(fewest, 0U);
  EXPECT_EQ(most, static_cast<std::size_t>(kSpansOfAnAdd));
}

}  // namespace
}  // namespace foretrain
