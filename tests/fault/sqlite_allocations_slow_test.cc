// Each allocation of SQLite fails in turn while a store is read and recorded, once and for good:
// the call returns an Error or works, rows that were taken are written once there is memory, and
// runs from before stay. Slow: every allocation is a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/traces/temp_folder.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

sqlite3_mem_methods inner;            // SQLite's own
std::atomic<std::int64_t> left = -1;  // allocations until one fails; negative: none does
std::atomic<bool> lasts = false;      // once one has failed, all do
std::atomic<bool> failed = false;

bool IsToFail() {
  std::int64_t now = left;
  while (now >= 0) {
    const std::int64_t next = now > 0 ? now - 1 : lasts ? 0 : -1;
    if (!left.compare_exchange_weak(now, next)) continue;
    failed = failed || now == 0;
    return now == 0;
  }
  return false;
}

void* FailingMalloc(int bytes) { return IsToFail() ? nullptr : inner.xMalloc(bytes); }
void* FailingRealloc(void* memory, int bytes) {
  return IsToFail() ? nullptr : inner.xRealloc(memory, bytes);
}

// SQLite takes its allocator before its first use alone, so before any test.
const bool is_set = [] {
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &inner) != SQLITE_OK) return false;
  sqlite3_mem_methods methods = inner;
  methods.xMalloc = &FailingMalloc;
  methods.xRealloc = &FailingRealloc;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK;
}();

void FailAt(std::int64_t at, bool all_after) {
  failed = false;
  lasts = all_after;
  left = at;
}
// Ends that. True if an allocation has failed.
bool EndFailures() {
  left = -1;
  return failed;
}

std::vector<Span> SomeSpans(std::int16_t rank) {
  std::vector<Span> spans;
  for (int i = 0; i < 100; ++i) {
    spans.push_back({.start_ns = 10 * i, .end_ns = 10 * i + 5, .rank = rank});
  }
  return spans;
}

Result<void> RecordInto(const std::string& path) {
  FT_ASSIGN(auto store, Store::Open(path));
  FT_ASSIGN(auto run, store->BeginRun({.label = "short of memory"}));
  std::vector<Span> spans = SomeSpans(0);
  FT_TRY(run->Add(spans));
  FT_TRY(run->Flush());
  FT_TRY(run->Finish(RunStatus::kFinished));
  return store->Close();
}

// Records a run: "" or an Error.
std::string Record(const std::string& path) {
  const auto recorded = RecordInto(path);
  return recorded.has_value() ? "" : recorded.error().message;
}

// Label and number of spans of run 1 as a reader sees them; `nullopt` after an Error, whose message
// is not empty.
std::optional<std::string> Read(const std::string& path) {
  const auto reader = StoreReader::Open(path);
  if (!reader.has_value()) {
    EXPECT_FALSE(reader.error().message.empty());
    return std::nullopt;
  }
  const auto run = reader->LoadRun(1);
  if (!run.has_value()) {
    EXPECT_FALSE(run.error().message.empty());
    return std::nullopt;
  }
  return run->info.label + " " + std::to_string(run->timeline.spans.size());
}

// Every allocation up to the 400th fails, and later ones in growing steps.
std::int64_t Next(std::int64_t at) { return at + (at < 400 ? 1 : at / 40); }

class SqliteAllocations : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ASSERT_TRUE(is_set) << "SQLite was used before"; }
  bool AllAfter() const { return GetParam(); }
  std::string Path(const std::string& name) const { return folder_.File(name); }
  static void Tell(std::int64_t points) {
    std::printf("%lld points\n", static_cast<long long>(points));
    EXPECT_GT(points, 20);
  }

 private:
  const TempFolder folder_{/*in_memory=*/true};
};

TEST_P(SqliteAllocations, OfReadingAreErrors) {
  const std::string path = Path("s.db");
  ASSERT_EQ(Record(path), "");
  const auto expected = Read(path);
  ASSERT_EQ(expected, "short of memory 100");
  std::int64_t points = 0;
  for (std::int64_t at = 0;; at = Next(at), ++points) {
    FailAt(at, AllAfter());
    const auto result = Read(path);
    if (!EndFailures()) break;
    // A failure may be survived, but changes no result.
    if (result.has_value()) {
      ASSERT_EQ(result, expected) << "allocation " << at;
    }
    ASSERT_EQ(Read(path), expected) << "after allocation " << at;
  }
  Tell(points);
}

// Each failure is in a copy of the store. Without memory even for its end, a recorder stays the
// store's recorder until its process ends.
TEST_P(SqliteAllocations, OfRecordingLeaveTheRunsBefore) {
  const std::string whole = Path("s.db");
  ASSERT_EQ(Record(whole), "");
  std::int64_t points = 0;
  for (std::int64_t at = 0;; at = Next(at), ++points) {
    const std::string path = Path(std::to_string(at));
    std::filesystem::copy_file(whole, path);
    FailAt(at, AllAfter());
    Record(path);
    if (!EndFailures()) break;
    ASSERT_EQ(Read(path), "short of memory 100") << "allocation " << at;
    ASSERT_THAT(Record(path), AnyOf("", HasSubstr("is recording into it"))) << "allocation " << at;
    std::filesystem::remove(path);
  }
  Tell(points);
}

// Rows that were taken while there was no memory are written once there is.
TEST_P(SqliteAllocations, OfWritingLoseNoRow) {
  std::int64_t points = 0;
  for (std::int64_t at = 0;; at = Next(at), ++points) {
    const std::string path = Path(std::to_string(at));
    auto store = Store::Open(path);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    auto run = (*store)->BeginRun({.label = "short of memory", .world = 2});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    std::vector<Span> spans = SomeSpans(0), more = SomeSpans(1);
    FailAt(at, AllAfter());
    static_cast<void>((*run)->Add(spans).has_value());
    static_cast<void>((*run)->AddNote("a note").has_value());
    static_cast<void>((*run)->Flush().has_value());
    static_cast<void>((*run)->Add(more).has_value());
    static_cast<void>((*run)->Flush().has_value());
    const bool was_failed = EndFailures();
    const auto finished = (*run)->Finish(RunStatus::kFinished);
    ASSERT_TRUE(finished.has_value()) << finished.error().message;
    ASSERT_TRUE((*store)->Close().has_value());
    const auto stored = StoreReader::Open(path)->LoadRun(1);
    ASSERT_TRUE(stored.has_value()) << stored.error().message;
    EXPECT_EQ(stored->timeline.spans.size(), 200U) << "allocation " << at;
    EXPECT_EQ(stored->notes.size(), 1U) << "allocation " << at;
    EXPECT_EQ(stored->info.totals, RecordingTotals{}) << "allocation " << at;
    if (!was_failed) break;
  }
  Tell(points);
}

INSTANTIATE_TEST_SUITE_P(Each, SqliteAllocations, testing::Bool(), [](const auto& at) {
  return std::string(at.param ? "AndAllAfter" : "Once");
});

}  // namespace
}  // namespace foretrain
