// A recorder that 32 threads give spans to, one at a time. FORETRAIN_OPERATIONS sets their number;
// tools/nightly stores a million under ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/number_of_cases.h"
#include "tests/traces/stores.h"

namespace foretrain {
namespace {

TEST(ManyThreads, StoreEachSpanOnceInTheOrderOfItsThread) {
  constexpr int kThreads = 32;
  const std::int64_t each = std::max<std::int64_t>(1, Operations() / kThreads);
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto store = Store::Open(path, {.commit_rows = 500, .commit_interval_ns = 1'000'000});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.world = kThreads});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<Span> spans;
      for (std::int64_t i = 0; i < each; ++i) {
        spans.push_back({.start_ns = 10 * i,
                         .end_ns = 10 * i + 1 + thread,
                         .ready_ns = 10 * i,
                         .step = static_cast<std::int32_t>(i / 1000),
                         .rank = static_cast<std::int16_t>(thread)});
        ASSERT_TRUE((*run)->Add(spans).has_value());
        ASSERT_TRUE(spans.empty());
        if (i % 5000 != 4999) continue;
        ASSERT_TRUE((*run)->Flush().has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  FT_ASSERT_OK((*store)->Close());
  const auto loaded = LoadFrom(path, 1);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  std::array<std::int64_t, kThreads> next{};
  std::int64_t wrong = 0;
  for (const Span& span : loaded->timeline.spans) {
    const std::int64_t i = next[static_cast<std::size_t>(span.rank)]++;
    wrong += span.start_ns != 10 * i || span.end_ns != 10 * i + 1 + span.rank;
  }
  EXPECT_EQ(wrong, 0);
  for (const std::int64_t stored : next) EXPECT_EQ(stored, each);
}

}  // namespace
}  // namespace foretrain
