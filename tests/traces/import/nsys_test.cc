// Exports of Nsight Systems, with tables as in the tool's documentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/traces/import/trace_text.h"
#include "tests/traces/temp_folder.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

void MakeDatabase(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_free(error);
  sqlite3_close(database);
}

// Hardware 0, machine 1, process, thread.
std::string Global(std::int64_t process, std::int64_t thread) {
  return std::to_string((std::int64_t{1} << 48) + (process << 24) + thread);
}

const std::string kTables =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, \"end\" INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, demangledName INT, shortName INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, \"end\" INT, eventClass INT, globalTid "
    "INT,"
    " correlationId INT, nameId INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT, \"end\" INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, bytes INT, copyKind INT);"
    "CREATE TABLE NVTX_EVENTS(start INT, \"end\" INT, eventType INT, text TEXT, globalTid INT,"
    " textId INT);"
    "CREATE TABLE TARGET_INFO_GPU(id INT, name TEXT, totalMemory INT);"
    "INSERT INTO StringIds VALUES(1,'sm90_xmma_gemm_bf16'),(2,'cudaLaunchKernel_v7000'),"
    "(3,'iteration 7'),(4,'ncclDevKernel_ReduceScatter_Sum');"
    "INSERT INTO TARGET_INFO_GPU VALUES(0,'NVIDIA H100',85017493504);";

std::string OneRank(std::int64_t process, int device) {
  const std::string pid = Global(process, 0), tid = Global(process, 5);
  const std::string on = "," + std::to_string(device) + ",7,";
  return "INSERT INTO NVTX_EVENTS VALUES(1000,9000,59,NULL," + tid + ",3)," +
         "(9000,12000,59,'iteration 8'," + tid + ",NULL),(5000,NULL,34,'mark'," + tid + ",NULL);" +
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(1500,1600,0," + tid + ",11,2);" +
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(2000,4000" + on + "11," + pid +
         ",1,1),(4000,5000" + on + "12," + pid + ",4,4),(7000,6000" + on + "13," + pid + ",1,1);" +
         "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(9500,9600" + on + "14," + pid + ",4096,2);";
}

Result<std::vector<TraceRun>> ReadFile(const std::string& path) {
  PosixFileSystem files;
  return ReadTraces(files, std::span(&path, 1));
}

TEST(Nsys, ReadsKernelsCopiesCallsAndRanges) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("report.sqlite");
  MakeDatabase(path, kTables + OneRank(100, 0));
  const auto runs = ReadFile(path);
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const TraceRun& run = runs->front();
  const auto products = SpansNamed(run, "sm90_xmma_gemm_bf16");
  ASSERT_EQ(products.size(), 1U);
  EXPECT_EQ(products[0].start_ns, 1'000);  // since the first range
  EXPECT_EQ(products[0].op_class, OpClass::kGemm);
  EXPECT_EQ(products[0].step, 7);
  const auto reduces = SpansNamed(run, "ncclDevKernel_ReduceScatter_Sum");
  ASSERT_EQ(reduces.size(), 1U);
  EXPECT_EQ(reduces[0].queue, Queue::kReduce);
  const auto copies = SpansNamed(run, "Memcpy DtoH");
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].queue, Queue::kD2h);
  EXPECT_EQ(copies[0].bytes, 4096);
  EXPECT_EQ(copies[0].step, 8);
  ASSERT_EQ(run.timeline.steps.size(), 2U);
  EXPECT_EQ(run.timeline.steps[0].end_ns, 8'000);
  EXPECT_EQ(run.totals.invalid, 1);  // ends before it starts
  EXPECT_THAT(run.details_json, HasSubstr("NVIDIA H100"));
}

TEST(Nsys, KeepsHowKernelsWereLaunched) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("report.sqlite");
  std::string columns =
      "ALTER TABLE TARGET_INFO_GPU ADD COLUMN computeMajor INT DEFAULT 9;"
      "ALTER TABLE TARGET_INFO_GPU ADD COLUMN computeMinor INT DEFAULT 0;";
  int value = 0;
  for (const char* name : {"gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
                           "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"}) {
    columns += std::string("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN ") + name +
               " INT DEFAULT " + std::to_string(++value) + ";";
  }
  MakeDatabase(path, kTables + OneRank(100, 0) + columns);
  const auto runs = ReadFile(path);
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const KernelTable& kernels = runs->front().kernels;
  EXPECT_EQ(kernels.capability, 90);
  ASSERT_EQ(kernels.rows.size(), 2U);
  EXPECT_EQ(kernels.rows[0],
            (KernelRow{"sm90_xmma_gemm_bf16", {{1, 2, 3}, {4, 5, 6}, 7, 8, 9}, 1, 2'000}));
}

TEST(Nsys, MakesEachProcessOfADeviceARank) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("report.sqlite");
  MakeDatabase(path, kTables + OneRank(200, 1) + OneRank(100, 0) +
                         "INSERT INTO NVTX_EVENTS VALUES(0,1,59,'launcher'," + Global(50, 1) +
                         ",NULL);");
  const auto runs = ReadFile(path);
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_EQ(runs->front().timeline.world, 2);
  EXPECT_THAT(runs->front().notes, Contains(HasSubstr("rank 0 report.sqlite, process 100")));
}

TEST(Nsys, ReadsTablesWithoutColumnsOfOtherVersions) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("report.sqlite");
  MakeDatabase(path,
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, \"end\" INT);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(5,9),(NULL,3),('text',12);");
  const auto runs = ReadFile(path);
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_EQ(SpansNamed(runs->front(), "kernel without a name").size(), 2U);
  EXPECT_EQ(runs->front().totals.invalid, 1);
}

TEST(Nsys, RefusesOtherDatabasesBySayingWhatTheyAre) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string other = folder.File("other.sqlite");
  MakeDatabase(other, "CREATE TABLE a(b);");
  EXPECT_THAT(ReadFile(other).error().message, HasSubstr("no export of Nsight Systems"));
  PosixFileSystem files;
  EXPECT_FALSE(LooksLikeTrace(files, other).value());
  const std::string store = folder.File("store.db");
  ASSERT_TRUE(Store::Open(store).has_value());
  EXPECT_THAT(ReadFile(store).error().message, HasSubstr("a store of foretrain; open it"));
  EXPECT_FALSE(LooksLikeTrace(files, store).value());
  const std::string damaged = folder.File("damaged.sqlite");
  MakeDatabase(damaged, kTables);
  std::filesystem::resize_file(damaged, 6000);
  const auto runs = ReadFile(damaged);
  ASSERT_FALSE(runs.has_value());
  EXPECT_THAT(runs.error().message, HasSubstr("damaged.sqlite"));
}

// Each is refused with the file's name, or read without what the trap holds, within two seconds.
TEST(Nsys, SpringsNoTrapOfAHostileDatabase) {
  const std::string kernel = "CUPTI_ACTIVITY_KIND_KERNEL";
  const std::vector<std::pair<const char*, std::string>> traps = {
      {"a view without end",
       "CREATE VIEW " + kernel +
           " AS WITH RECURSIVE r(start, \"end\") AS (SELECT 1, 2 UNION ALL SELECT start + 1, "
           "\"end\" + 1 FROM r) SELECT * FROM r;"},
      {"a generated column of 200 megabytes", "CREATE TABLE " + kernel +
                                                  "(start INT, \"end\" INT, shortName TEXT AS "
                                                  "(hex(zeroblob(100000000))));INSERT INTO " +
                                                  kernel + "(start, \"end\") VALUES(1, 2);"},
      {"a virtual table",
       "CREATE VIRTUAL TABLE " + kernel + " USING fts4(start, \"end\", shortName);"},
      {"many tables",
       [] {
         std::string sql = "BEGIN;";
         for (int i = 0; i < 10'000; ++i) sql += "CREATE TABLE t" + std::to_string(i) + "(a);";
         return sql + "COMMIT;";
       }()},
      {"the largest row number",
       "CREATE TABLE " + kernel + "(start INT, \"end\" INT);INSERT INTO " + kernel +
           "(rowid, start, \"end\") VALUES(9223372036854775807, 1, 2),(-9223372036854775808, "
           "9223372036854775807, -9223372036854775808),(3, 5, 9223372036854775807);"},
      {"the largest size",
       "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT, \"end\" INT, bytes INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(1, 2, 9223372036854775807);"},
      {"small pages", "PRAGMA page_size = 512;CREATE TABLE a(b);"},
      {"a long schema", "CREATE TABLE " + kernel + "(start INT, \"end\" INT DEFAULT('" +
                            std::string(900'000, 'x') + "'));"},
      {"a trigger", "CREATE TABLE " + kernel +
                        "(start INT, \"end\" INT);CREATE TRIGGER t AFTER "
                        "INSERT ON " +
                        kernel + " BEGIN SELECT load_extension('x'); END;"},
  };
  for (const auto& [name, sql] : traps) {
    SCOPED_TRACE(name);
    const TempFolder folder(/*in_memory=*/true);
    const std::string path = folder.File("trap.sqlite");
    MakeDatabase(path, sql);
    const auto begin = std::chrono::steady_clock::now();
    const auto runs = ReadFile(path);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    if (!runs.has_value()) {
      EXPECT_THAT(runs.error().message, HasSubstr("trap.sqlite"));
      continue;
    }
    EXPECT_STRNE(name, "a view without end");
    EXPECT_STRNE(name, "a virtual table");
    // At most one event, from 1 to 2 ns. Kernels that cannot be are counted.
    for (const TraceRun& run : *runs) {
      for (const Span& span : run.timeline.spans) {
        EXPECT_EQ(span.end_ns - span.start_ns, 1);
        EXPECT_EQ(span.bytes, 0);
      }
      EXPECT_EQ(run.totals.invalid, name == std::string_view("the largest row number") ? 2 : 0);
    }
  }
}

TEST(ImportedRun, IsStoredWithItsMetricsAndNotes) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("store.db");
  {
    const auto store = Store::Open(path);
    ASSERT_TRUE(store.has_value());
    TraceRun run = ReadGood({KinetoTrace(Complete("kernel", "relu", "d1", 0, 5))});
    run.label = "a trace";
    const auto stored = StoreTrace(**store, std::move(run));
    ASSERT_TRUE(stored.has_value()) << stored.error().message;
    EXPECT_EQ(stored->spans, 1);
  }
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value());
  const auto run = reader->LoadRun(1);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->info.kind, RunKind::kImported);
  EXPECT_EQ(run->info.label, "a trace");
  EXPECT_EQ(run->info.status, RunStatus::kFinished);
  EXPECT_EQ(run->timeline.spans.size(), 1U);
  EXPECT_THAT(run->details_json, HasSubstr("NVIDIA H100"));
  EXPECT_FALSE(run->info.metrics.empty());
}

}  // namespace
}  // namespace foretrain
