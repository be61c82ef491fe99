#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(DamagedStore, NoticesLostBatches) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  std::mt19937_64 random(41);
  StoreTimeline(path, RandomTimeline(random, 2, 50));
  Damage(path, "DELETE FROM batch WHERE batch = 1");
  EXPECT_THAT(LoadFrom(path, 1).error().message, HasSubstr("batch 1 is lost"));
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
