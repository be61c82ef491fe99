#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DamagedStore, NamesRunAndBatchForEveryChangedField) {
  const TempFolder folder;
  std::mt19937_64 random(37);
  const Timeline timeline = RandomTimeline(random, 1, 50);
  const std::string good = folder.File("good.db");
  StoreTimeline(good, timeline, {.label = "hurt"});
  StoreTimeline(good, timeline, {.label = "whole"});
  const std::string path = folder.File("s.db");
  // Changes the lowest bit of each field of one span or sample of run 1.
  for (const std::string change :
       {"UPDATE span SET duration_ns = duration_ns + 1", "UPDATE span SET start_ns = start_ns + 1",
        "UPDATE span SET op = op + 1", "UPDATE span SET step = step + 1",
        "UPDATE span SET bytes = bytes + 1", "UPDATE span SET wait_ns = wait_ns + 1",
        "UPDATE span SET class = (class + 1) % 10", "DELETE FROM span",
        "UPDATE span SET batch = 1000", "UPDATE span SET duration_ns = -5",
        "UPDATE span SET class = 200", "UPDATE span SET step = 1 << 40",
        "UPDATE span SET duration_ns = 'text'",
        "UPDATE span SET track_id = (SELECT max(track_id) FROM track)",
        "UPDATE memory SET bytes = bytes + 1", "UPDATE memory SET category = 77",
        "UPDATE memory SET space = (space + 1) % 4", "DELETE FROM memory"}) {
    WriteBytes(path, ReadBytes(good));
    const bool span = change.find(" span") != std::string::npos;
    Damage(path,
           change + (span ? " WHERE track_id = 1 AND start_ns = (SELECT min(start_ns) FROM "
                            "span WHERE track_id = 1)"
                          : " WHERE run_id = 1 AND time_ns = (SELECT min(time_ns) FROM memory)"));
    const auto hurt = LoadFrom(path, 1);
    ASSERT_FALSE(hurt.has_value()) << change;
    EXPECT_EQ(hurt.error().code, ErrorCode::kCorruptInput);
    EXPECT_THAT(hurt.error().message,
                AllOf(HasSubstr(path), HasSubstr("run 1 (hurt)"), HasSubstr("batch ")))
        << change;
    if (change.find("track_id = (") != std::string::npos) continue;
    const auto whole = LoadFrom(path, 2);
    ASSERT_TRUE(whole.has_value()) << whole.error().message;
    ExpectSameTimeline(whole->timeline, timeline);
  }
}

// Stores one row of each table that belongs to no batch.
void StoreSmallRows(const std::string& path, const std::string& label) {
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.label = label});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const std::vector<StepWindow> steps = {{10, 20, 3, 0}};
  const std::vector<Counter> counters = {{"loss", -1, 3, 0, 2.5}, {"loss", -1, 4, 0, std::nan("")}};
  const std::vector<MetricValue> metrics = {{.name = "step_time_s", .value = 0.125},
                                            {.name = "zero", .value = -0.0},
                                            {.rank = 1, .name = "peak_device_bytes", .value = 64}};
  FT_ASSERT_OK((*run)->AddSteps(steps));
  FT_ASSERT_OK((*run)->AddCounters(counters));
  FT_ASSERT_OK((*run)->AddMetrics(metrics));
  FT_ASSERT_OK((*run)->AddOpNames({{7, "mlp.up"}}));
  FT_ASSERT_OK((*run)->AddClock({0, 100, 200, 5}));
  FT_ASSERT_OK((*run)->AddNote("a note"));
  FT_ASSERT_OK((*run)->Attach("text", "bytes"));
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
}

TEST(DamagedStore, NamesRunAndRowForEveryChangedValueOutsideBatches) {
  const TempFolder folder;
  const std::string good = folder.File("good.db"), path = folder.File("s.db");
  StoreSmallRows(good, "hurt");
  StoreSmallRows(good, "whole");
  const auto read = [&path](RunId id) -> std::string {
    const auto run = LoadFrom(path, id);
    if (!run.has_value()) return run.error().message;
    const auto text = StoreReader::Open(path)->Attachment(id, "text");
    return text.has_value() ? "" : text.error().message;
  };
  for (const auto& [change, row] : std::vector<std::pair<std::string, std::string>>{
           {"metric SET value = 0.126 WHERE value = 0.125 AND", "metric step_time_s"},
           {"metric SET value = NULL WHERE value = 0.125 AND", "metric step_time_s"},
           {"metric SET rank = 3 WHERE rank = 1 AND", "metric peak_device_bytes of rank 3"},
           {"metric SET step = 9 WHERE rank = 1 AND", "metric peak_device_bytes of rank 1, step 9"},
           {"metric SET crc = crc + 1 WHERE rank = 1 AND", "metric peak_device_bytes"},
           {"metric SET series_id = (SELECT series_id FROM series WHERE name = 'loss') WHERE "
            "value = 0.125 AND",
            "metric loss"},
           {"counter SET value = 2.25 WHERE step = 3 AND", "series loss at step 3"},
           {"counter SET value = 0 WHERE step = 4 AND", "series loss at step 4"},
           {"counter SET time_ns = 1 WHERE step = 3 AND", "series loss at step 3"},
           {"step SET end_ns = 21 WHERE", "the window of step 3 of rank 0"},
           {"op_name SET name = 'mlp.uq' WHERE", "the name of op 7"},
           {"clock SET device_ns = 201 WHERE", "a clock reading of rank 0"},
           {"note SET text = 'a mote' WHERE", "a note"},
           {"attachment SET body = x'00' WHERE name = 'text' AND", "attachment text"},
           {"attachment SET body = x'00' WHERE name = 'row_counts' AND",
            "attachment row_counts"}}) {
    WriteBytes(path, ReadBytes(good));
    EXPECT_EQ(read(1), "");
    Damage(path, "UPDATE " + change + " run_id = 1");
    EXPECT_THAT(read(1), AllOf(HasSubstr("run 1"), HasSubstr(row), HasSubstr("checksum")))
        << change;
    EXPECT_EQ(read(2), "") << change;
  }
}

TEST(DamagedStore, NoticesLostRowsOutsideBatches) {
  const TempFolder folder;
  const std::string good = folder.File("good.db"), path = folder.File("s.db");
  StoreSmallRows(good, "hurt");
  StoreSmallRows(good, "whole");
  for (const char* table : {"step", "op_name", "counter", "metric", "clock", "note"}) {
    WriteBytes(path, ReadBytes(good));
    Damage(path, std::string("DELETE FROM ") + table + " WHERE run_id = 1");
    const auto hurt = LoadFrom(path, 1);
    ASSERT_FALSE(hurt.has_value()) << table;
    EXPECT_THAT(hurt.error().message, AllOf(HasSubstr("run 1 (hurt)"), HasSubstr("are lost")));
    EXPECT_TRUE(LoadFrom(path, 2).has_value()) << table;
  }
}

// A list leaves a damaged metric out and says so, and shows all other runs.
TEST(DamagedStore, IsListedWithoutItsDamagedMetric) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreSmallRows(path, "hurt");
  StoreSmallRows(path, "whole");
  Damage(path, "UPDATE metric SET value = 8 WHERE run_id = 1 AND value = 0.125");
  const auto runs = StoreReader::Open(path)->ListRuns();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_FALSE((*runs)[0].Metric("step_time_s").has_value());
  EXPECT_THAT((*runs)[0].message, HasSubstr("metric step_time_s was damaged"));
  EXPECT_EQ((*runs)[1].Metric("step_time_s"), 0.125);
  EXPECT_EQ((*runs)[1].message, "");
}

TEST(DamagedStore, NoticesLostBatches) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(41);
  StoreTimeline(path, RandomTimeline(random, 2, 50));
  Damage(path, "DELETE FROM batch WHERE batch = 1");
  EXPECT_THAT(LoadFrom(path, 1).error().message, HasSubstr("batch 1 is lost"));
}

// A window is read with the whole batches that it touches, which hold about a thousand rows each.
TEST(DamagedStore, ShowsTimeWindowsFarFromTheDamage) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  Timeline timeline;
  timeline.world = 1;
  for (int i = 0; i < 10'000; ++i) {
    timeline.spans.push_back({.start_ns = i * 10, .end_ns = i * 10 + 5, .ready_ns = i * 10});
  }
  StoreTimeline(path, timeline);
  EXPECT_GE(std::stoi(Query(path, "SELECT count(*) FROM batch").at(0)), 10);
  Damage(path, "UPDATE span SET bytes = 1 WHERE start_ns = 99990");
  const auto far = LoadFrom(path, 1, {.window_ns = std::pair(0, 1'000)});
  ASSERT_TRUE(far.has_value()) << far.error().message;
  EXPECT_EQ(far->timeline.spans.size(), 100U);
  const auto near = LoadFrom(path, 1, {.window_ns = std::pair(99'000, 100'000)});
  ASSERT_FALSE(near.has_value());
  EXPECT_THAT(near.error().message, HasSubstr("batch 10 of rank 0"));
}

TEST(DamagedStore, RefusesRunRowsThatCannotBe) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(43);
  StoreTimeline(path, RandomTimeline(random, 1, 10));
  for (const std::string change : {"kind = 9", "status = -1", "world = 0", "world = 1 << 40"}) {
    const std::string before = ReadBytes(path);
    Damage(path, "UPDATE run SET " + change);
    EXPECT_EQ(StoreReader::Open(path)->ListRuns().error().code, ErrorCode::kCorruptInput) << change;
    WriteBytes(path, before);
  }
}

// Bits flipped anywhere in the file give an Error, or exactly the stored spans and samples.
TEST(DamagedStore, NeverShowsOtherSpansThanWereStored) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(47);
  const Timeline timeline = RandomTimeline(random, 2, 1'200);
  StoreTimeline(path, timeline);
  const std::string good = ReadBytes(path);
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string bytes = good;
    const std::size_t at = random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    WriteBytes(path, bytes);
    // Without the check of the whole file, the checksums alone must notice.
    const auto reader = StoreReader::Open(path, {.max_checked_bytes = 0});
    const auto run = reader.has_value() ? reader->LoadRun(1)
                                        : Result<StoredRun>(tl::unexpected<Error>(reader.error()));
    if (!run.has_value()) {
      ++refused;
      EXPECT_THAT(run.error().message, HasSubstr(path));
      continue;
    }
    Timeline loaded = run->timeline;
    loaded.world = timeline.world;
    loaded.steps = timeline.steps;
    loaded.op_names = timeline.op_names;
    ASSERT_TRUE(SameTimeline(loaded, timeline)) << "bit flipped at byte " << at;
  }
  EXPECT_GT(refused, 30);  // most of the file is rows
}

TEST(DamagedStore, SurvivesCutFiles) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(53);
  StoreTimeline(path, RandomTimeline(random, 2, 400));
  const std::string good = ReadBytes(path);
  for (std::size_t size = 0; size < good.size(); size += 4'096) {
    WriteBytes(path, good.substr(0, size));
    EXPECT_FALSE(LoadFrom(path, 1).has_value()) << size;
  }
}

}  // namespace
}  // namespace foretrain
