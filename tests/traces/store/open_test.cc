#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/base/child.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Timeline SomeTimeline() {
  std::mt19937_64 random(31);
  return RandomTimeline(random, 2, 100);
}

// Errors of reading and of recording for the same path.
struct Refusals {
  Error reading;
  Error recording;
};

Refusals RefusalsOf(const std::string& path) {
  const auto reader = StoreReader::Open(path);
  const auto store = Store::Open(path);
  EXPECT_FALSE(reader.has_value()) << path;
  EXPECT_FALSE(store.has_value()) << path;
  return {reader.has_value() ? Error{} : reader.error(),
          store.has_value() ? Error{} : store.error()};
}

void ExpectRefusal(const std::string& path, ErrorCode code, const std::string& why) {
  const Refusals refusals = RefusalsOf(path);
  for (const Error& error : {refusals.reading, refusals.recording}) {
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_THAT(error.message, AllOf(HasSubstr(path), HasSubstr(why)));
    EXPECT_THAT(error.message, testing::Not(HasSubstr("\n")));
  }
}

TEST(OpenStore, RefusesWhatIsNoStoreInOneSentence) {
  const TempFolder folder;
  WriteBytes(folder.File("text"), "hello, this is no database at all\n");
  WriteBytes(folder.File("short"), "x");
  WriteBytes(folder.File("magic"), std::string("SQLite format 3\0 and then garbage", 33));
  ASSERT_EQ(mkfifo(folder.File("fifo").c_str(), 0600), 0);
  std::filesystem::create_directories(folder.File("folder"));
  ExpectRefusal(folder.File("text"), ErrorCode::kCorruptInput, "not an SQLite database");
  ExpectRefusal(folder.File("short"), ErrorCode::kCorruptInput, "not an SQLite database");
  RefusalsOf(folder.File("magic"));
  ExpectRefusal(folder.File("fifo"), ErrorCode::kInvalidArgument, "not a regular file");
  ExpectRefusal("/dev/zero", ErrorCode::kInvalidArgument, "not a regular file");
  ExpectRefusal(folder.File("folder"), ErrorCode::kInvalidArgument, "a folder");
}

TEST(OpenStore, ReadsNoMissingOrEmptyFileButRecordsIntoOne) {
  const TempFolder folder;
  WriteBytes(folder.File("empty"), "");
  const auto empty = StoreReader::Open(folder.File("empty"));
  EXPECT_THAT(empty.error().message, HasSubstr("the file is empty"));
  const auto missing = StoreReader::Open(folder.File("missing"));
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr("no such file"));
  EXPECT_EQ(StoreTimeline(folder.File("empty"), SomeTimeline()), 1);
  EXPECT_EQ(StoreTimeline(folder.File("missing"), SomeTimeline()), 1);
  const auto nowhere = Store::Open(folder.File("no folder/s.db"));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no folder/s.db"));
}

TEST(OpenStore, RefusesDatabasesOfOtherPrograms) {
  const TempFolder folder;
  Damage(folder.File("other"), "CREATE TABLE run(x); INSERT INTO run VALUES(1)");
  ExpectRefusal(folder.File("other"), ErrorCode::kInvalidArgument, "of another program");
  EXPECT_THAT(Query(folder.File("other"), "SELECT count(*) FROM sqlite_schema"), ElementsAre("1"));
  // An empty database, as a process leaves it that dies while creating a store.
  Damage(folder.File("begun"), "PRAGMA journal_mode = WAL");
  EXPECT_THAT(StoreReader::Open(folder.File("begun")).error().message,
              HasSubstr("no run was stored"));
  EXPECT_EQ(StoreTimeline(folder.File("begun"), SomeTimeline()), 1);
}

TEST(OpenStore, RefusesANewerSchemaWithBothNumbers) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, SomeTimeline());
  Damage(path, "PRAGMA user_version = 7");
  ExpectRefusal(path, ErrorCode::kUnsupported, "schema 7");
  ExpectRefusal(path, ErrorCode::kUnsupported, "up to 2");
  ExpectRefusal(path, ErrorCode::kUnsupported, "use a newer foretrain");
  Damage(path, "PRAGMA user_version = 3");  // the next one
  ExpectRefusal(path, ErrorCode::kUnsupported, "schema 3");
  Damage(path, "PRAGMA user_version = 0");
  ExpectRefusal(path, ErrorCode::kCorruptInput, "no schema 0");
}

// Makes a store as schema 1 had it: the same tables without their sums.
void MakeSchema1(const std::string& path) {
  Damage(path,
         "ALTER TABLE step DROP COLUMN crc; ALTER TABLE op_name DROP COLUMN crc;"
         "ALTER TABLE counter DROP COLUMN crc; ALTER TABLE metric DROP COLUMN crc;"
         "ALTER TABLE clock DROP COLUMN crc; ALTER TABLE note DROP COLUMN crc;"
         "ALTER TABLE attachment DROP COLUMN crc; PRAGMA user_version = 1");
}

TEST(OpenStore, ReadsAnOlderSchemaAsItIsAndMigratesItWhenItRecords) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = SomeTimeline();
  StoreTimeline(path, timeline, {.label = "old"});
  MakeSchema1(path);
  const std::string before = ReadBytes(path);
  const auto old = LoadFrom(path, 1);
  ASSERT_TRUE(old.has_value()) << old.error().message;
  ExpectSameTimeline(old->timeline, timeline);
  EXPECT_EQ(ReadBytes(path), before);
  FT_ASSERT_OK(RenameRun(path, 1, "renamed in schema 1"));

  EXPECT_EQ(StoreTimeline(path, timeline), 2);
  EXPECT_THAT(Query(path, "PRAGMA user_version"), ElementsAre("2"));
  for (const RunId run : {1, 2}) {
    const auto loaded = LoadFrom(path, run);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    ExpectSameTimeline(loaded->timeline, timeline);
  }
  // Only rows written since then have sums.
  EXPECT_THAT(Query(path, "SELECT DISTINCT crc IS NULL FROM step WHERE run_id = 1"),
              ElementsAre("1"));
  EXPECT_THAT(Query(path, "SELECT DISTINCT crc IS NULL FROM step WHERE run_id = 2"),
              ElementsAre("0"));
  EXPECT_EQ(StoreReader::Open(path)->FindRun(1)->label, "renamed in schema 1");
}

// An older program that records would fail at its next row if the tables changed.
TEST(OpenStore, MigratesNothingWhileAnotherProcessRecords) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, SomeTimeline());
  MakeSchema1(path);
  Damage(path,
         "INSERT INTO writer VALUES(1, 4711, 1, 'boot', 'pid:[1]', 'elsewhere', 0, "
         "CAST(strftime('%s', 'now') AS INT) * 1000000000)");
  ASSERT_FALSE(Store::Open(path).has_value());
  EXPECT_THAT(Query(path, "PRAGMA user_version"), ElementsAre("1"));
}

TEST(OpenStore, RefusesTablesThatAreNotItsOwn) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  for (const std::string sql :
       {"DROP TABLE span; CREATE VIEW span AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x "
        "FROM n) SELECT x FROM n",
        "ALTER TABLE span ADD COLUMN extra GENERATED ALWAYS AS (hex(zeroblob(500000000)))",
        "DROP TABLE batch", "ALTER TABLE run RENAME TO ran"}) {
    std::filesystem::remove(path);
    StoreTimeline(path, SomeTimeline());
    Damage(path, "PRAGMA legacy_alter_table = ON; " + sql);
    ExpectRefusal(path, ErrorCode::kCorruptInput, "is not that of a foretrain store");
  }
}

TEST(OpenStore, RunsNoTriggersAndToleratesStrangers) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, SomeTimeline());
  Damage(path,
         "CREATE TRIGGER evil AFTER INSERT ON run BEGIN DELETE FROM run; END;"
         "CREATE TABLE mine(x); CREATE INDEX mine_span ON span(op);");
  EXPECT_EQ(StoreTimeline(path, SomeTimeline()), 2);
  EXPECT_EQ(StoreReader::Open(path)->ListRuns()->size(), 2U);
}

TEST(OpenStore, NamesTheProcessThatRecords) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  Child child([&path](const Child::Report& report) -> std::string {
    auto store = Store::Open(path);
    auto run = (*store)->BeginRun({.label = "held"});
    const std::vector<StepWindow> steps = {{0, 10, 41, 0}};
    if (!(*run)->AddSteps(steps).has_value() || !(*run)->Flush().has_value()) return "no flush";
    report(1);
    pause();
    return "woke";
  });
  ASSERT_TRUE(child.NextReport().has_value());
  const std::string before = ReadBytes(path) + ReadBytes(path + "-wal");
  const auto second = Store::Open(path);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(second.error().message,
              AllOf(HasSubstr("process " + std::to_string(child.pid())), HasSubstr("--store")));
  EXPECT_EQ(ReadBytes(path) + ReadBytes(path + "-wal"), before);

  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  EXPECT_EQ(reader->FindRun(1)->status, RunStatus::kRunning);
  EXPECT_THAT(DeleteRun(path, 1).error().message, HasSubstr("being recorded"));
  FT_ASSERT_OK(RenameRun(path, 1, "renamed while it runs"));

  child.Kill();
  child.Wait();
  const auto run = reader->FindRun(1);
  EXPECT_EQ(run->status, RunStatus::kInterrupted);
  EXPECT_EQ(run->label, "renamed while it runs");
  EXPECT_EQ(run->last_step, 41);
  EXPECT_THAT(run->message, HasSubstr("ended without finishing"));
  // The next recorder stores that status.
  EXPECT_EQ(StoreTimeline(path, SomeTimeline()), 2);
  EXPECT_THAT(Query(path, "SELECT status FROM v_run"), ElementsAre("interrupted", "finished"));
}

TEST(OpenStore, RefusesASecondRecorderInTheSameProcess) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto first = Store::Open(path);
  ASSERT_TRUE(first.has_value());
  const auto second = Store::Open(path);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(getpid())));
  FT_ASSERT_OK((*first)->Close());
  EXPECT_TRUE(Store::Open(path).has_value());
}

// A process on another machine is judged by its heartbeat.
TEST(OpenStore, RespectsARecorderOnAnotherMachineWhileItBeats) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, SomeTimeline());
  Damage(path,
         "INSERT INTO writer VALUES(1, 4711, 1, 'boot', 'pid:[1]', 'elsewhere', 0, "
         "CAST(strftime('%s', 'now') AS INT) * 1000000000); UPDATE run SET status = 0");
  const auto refused = Store::Open(path);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("process 4711 on elsewhere"));
  EXPECT_EQ(StoreReader::Open(path)->FindRun(1)->status, RunStatus::kRunning);
  Damage(path, "UPDATE writer SET heartbeat_unix_ns = heartbeat_unix_ns - 60000000000");
  EXPECT_EQ(StoreReader::Open(path)->FindRun(1)->status, RunStatus::kInterrupted);
  EXPECT_TRUE(Store::Open(path).has_value());
}

TEST(OpenStore, ReadsFromReadOnlyMedia) {
  const TempFolder folder;
  const std::string result = InChild([&folder]() -> std::string {
    if (!MountMemory(folder.File(""), 8 << 20)) return "not permitted";
    const std::string path = folder.File("s.db");
    const Timeline timeline = SomeTimeline();
    StoreTimeline(path, timeline);
    if (!RemountReadOnly(folder.File(""))) return "not permitted";
    const auto run = LoadFrom(path, 1);
    if (!run.has_value()) return run.error().message;
    const auto recording = Store::Open(path);
    if (recording.has_value()) return "records on read-only media";
    return SameTimeline(run->timeline, timeline) ? "ok" : "another timeline";
  });
  if (result == "not permitted") GTEST_SKIP() << "mounting a file system is not permitted here";
  EXPECT_EQ(result, "ok");
}

TEST(ChangeRuns, RenamesPinsAndDeletes) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = SomeTimeline();
  RunSetup setup{.label = "a", .specs = {.plan_json = "{\"dp\":1}", .program_hash = 5}};
  StoreTimeline(path, timeline, setup);
  setup.specs = {.plan_json = "{\"dp\":2}", .program_hash = 6};
  setup.forecast = 1;
  StoreTimeline(path, timeline, setup);
  FT_ASSERT_OK(RenameRun(path, 1, "'quoted' %s"));
  FT_ASSERT_OK(SetPinned(path, 1, true));
  auto info = StoreReader::Open(path)->FindRun(1);
  EXPECT_EQ(info->label, "'quoted' %s");
  EXPECT_TRUE(info->pinned);
  EXPECT_THAT(DeleteRun(path, 1).error().message, HasSubstr("pinned"));
  FT_ASSERT_OK(SetPinned(path, 1, false));
  FT_ASSERT_OK(DeleteRun(path, 1));
  const auto run = LoadFrom(path, 2);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ExpectSameTimeline(run->timeline, timeline);
  EXPECT_EQ(run->info.forecast, std::nullopt);
  EXPECT_EQ(LoadFrom(path, 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(Query(path, "SELECT json FROM plan"), ElementsAre("{\"dp\":2}"));
  EXPECT_THAT(Query(path, "SELECT count(*) FROM program"), ElementsAre("1"));
  EXPECT_THAT(Query(path, "SELECT count(DISTINCT run_id) FROM track"), ElementsAre("1"));
  for (const Result<void>& result :
       {RenameRun(path, 9, "x"), SetPinned(path, 9, true), DeleteRun(path, 9),
        DeleteRun(folder.File("missing"), 1), RenameRun(path, 2, std::string(5'000, 'x'))}) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  }
  // Run numbers are not reused.
  FT_ASSERT_OK(DeleteRun(path, 2));
  EXPECT_EQ(StoreTimeline(path, timeline), 3);
}

TEST(ChangeRuns, ShowInTheDataVersion) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, SomeTimeline());
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value());
  const std::int64_t before = *reader->DataVersion();
  EXPECT_EQ(*reader->DataVersion(), before);
  FT_ASSERT_OK(RenameRun(path, 1, "x"));
  EXPECT_NE(*reader->DataVersion(), before);
}

}  // namespace
}  // namespace foretrain
