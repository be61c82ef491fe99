// QueryStore: its views, its bounds, what it refuses, and that it changes no byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/metrics/metrics.h"
#include "traces/save_spans.h"
#include "traces/store_query.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A store with two runs of random spans.
struct TwoRuns {
  TwoRuns() {
    std::mt19937_64 random(7);
    for (int run = 0; run < 2; ++run) {
      Timeline timeline = RandomTimeline(random, /*ranks=*/2, /*spans=*/400);
      timeline.spans.push_back(SaveSpan(SaveWriteOp(), 1, 0, 10, 5'000, 100));
      SortTimeline(timeline);
      EXPECT_GT(StoreTimeline(path, timeline, {.label = "run " + std::to_string(run + 1)}), 0);
      timelines.push_back(std::move(timeline));
    }
  }
  TempFolder folder;
  std::string path = folder.File("runs.db");
  std::vector<Timeline> timelines;
};

// The answer of a query that succeeds.
QueryAnswer Answer(const std::string& path, const std::string& sql,
                   const QueryOptions& options = {}) {
  auto answer = QueryStore(path, sql, options);
  EXPECT_TRUE(answer.has_value()) << sql << ": " << answer.error().message;
  return answer.has_value() ? *std::move(answer) : QueryAnswer();
}

// The Error of a query that fails.
Error Refused(const std::string& path, const std::string& sql, const QueryOptions& options = {}) {
  const auto answer = QueryStore(path, sql, options);
  EXPECT_FALSE(answer.has_value()) << sql;
  return answer.has_value() ? Error() : answer.error();
}

std::int64_t IntegerAt(const QueryAnswer& answer, std::size_t row, std::size_t column) {
  const auto* value = std::get_if<std::int64_t>(&answer.rows.at(row).at(column));
  EXPECT_NE(value, nullptr) << row << ", " << column;
  return value == nullptr ? 0 : *value;
}

TEST(StoreQuery, AnswersFromEachViewWithTheColumnsItLists) {
  const TwoRuns store;
  EXPECT_GE(QueryViews().size(), 10U);
  for (const QueryView& view : QueryViews()) {
    const QueryAnswer answer = Answer(store.path, "SELECT * FROM " + std::string(view.name));
    std::vector<std::string> listed;
    for (const QueryColumn& column : view.columns) listed.emplace_back(column.name);
    EXPECT_EQ(answer.columns, listed) << view.name;
  }
  const QueryAnswer runs =
      Answer(store.path, "SELECT label, spans, 2.5, NULL, x'00ff' FROM v_run; -- all of them");
  ASSERT_EQ(runs.rows.size(), 2U);
  EXPECT_THAT(runs.rows[1],
              ElementsAre(QueryValue("run 2"), QueryValue(std::int64_t{801}), QueryValue(2.5),
                          QueryValue(), QueryValue("(blob of 2 bytes)")));
}

// The same intervals as in the metrics: exclusive classes and busy time of every window.
TEST(StoreQuery, TellsExposedTimeAsTheMetricsDo) {
  const TwoRuns store;
  for (std::size_t run = 0; run < 2; ++run) {
    std::map<std::vector<std::int64_t>, std::pair<std::int64_t, std::int64_t>> expected;
    for (const RankStep& step : ComputeMetrics(store.timelines[run]).rank_steps) {
      for (std::size_t c = 0; c < step.busy_ns.size(); ++c) {
        if (step.busy_ns[c] == 0) continue;
        expected[{step.rank, step.step, static_cast<std::int64_t>(c)}] = {step.busy_ns[c],
                                                                          step.exclusive_ns[c]};
      }
    }
    const QueryAnswer answer = Answer(
        store.path, "SELECT rank, step, class, busy_ns, exposed_ns FROM v_exposed WHERE run_id = " +
                        std::to_string(run + 1));
    EXPECT_EQ(answer.rows.size(), expected.size());
    for (std::size_t row = 0; row < answer.rows.size(); ++row) {
      const auto name = std::get<std::string>(answer.rows[row][2]);
      const auto at = expected.find({IntegerAt(answer, row, 0), IntegerAt(answer, row, 1),
                                     static_cast<std::int64_t>(*ParseOpClass(name))});
      ASSERT_NE(at, expected.end()) << name;
      EXPECT_EQ(IntegerAt(answer, row, 3), at->second.first);
      EXPECT_EQ(IntegerAt(answer, row, 4), at->second.second);
    }
  }
}

TEST(StoreQuery, ReadsTheExposedTimeOfTheNamedRankOrJoinedRuns) {
  const TwoRuns store;
  const auto count = [&](const std::string& from) {
    return IntegerAt(Answer(store.path, "SELECT count(*) FROM " + from), 0, 0);
  };
  const std::int64_t all = count("v_exposed");
  EXPECT_GT(all, 0);
  EXPECT_EQ(count("v_exposed WHERE rank = 0") + count("v_exposed WHERE rank = 1"), all);
  EXPECT_EQ(count("v_exposed WHERE run_id = 1 OR run_id = 2"), all);
  EXPECT_EQ(count("v_run JOIN v_exposed USING(run_id)"), all);
  EXPECT_EQ(count("v_exposed WHERE run_id = 3 OR rank = -1 OR rank = 70000"), 0);
}

// One kernel runs for two ops; nothing is known of the other.
TEST(StoreQuery, TellsTheKernelsOfARun) {
  const TempFolder folder;
  const std::string path = folder.File("runs.db");
  const OpId up = PackId({.kind = InstructionKind::kBlock, .block = 1}, 0);
  const OpId down = PackId({.kind = InstructionKind::kBlock, .block = 1}, 1);
  KernelTable kernels;
  kernels.capability = 90;
  kernels.rows = {
      {.name = "void cutlass::Kernel2<cutlass_80_tensorop_gemm>(Params)",
       .launch = {.grid = {64, 1, 1}, .block = {128, 1, 1}, .registers = 32},
       .calls = 4,
       .total_ns = 1000,
       .work = {.flops = 4e9, .bytes = 2e9, .time_ns = 1'000'000'000, .format = "fp16"}},
      {.name = "at::native::vectorized_elementwise_kernel<4>", .calls = 1}};
  kernels.Own(up, 0);
  kernels.Own(down, 0);
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.kind = RunKind::kImported});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  FT_ASSERT_OK((*run)->AddOpNames({{NameKey(up), "mlp.up"}, {NameKey(down), "mlp.down"}}));
  FT_ASSERT_OK((*run)->Attach(kKernelsAttachment, KernelsToJson(kernels)));
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  const QueryAnswer answer = Answer(
      path,
      "SELECT class, op, calls, total_ns, mean_ns, launch, occupancy, flop_per_s, bytes_per_s, "
      "format, full_name FROM v_kernel WHERE run_id = 1 ORDER BY total_ns DESC");
  ASSERT_EQ(answer.rows.size(), 2U);
  // 32 registers leave room for all 64 warps.
  EXPECT_THAT(
      answer.rows[0],
      ElementsAre(QueryValue("gemm"), QueryValue("mlp.up, mlp.down"), QueryValue(std::int64_t{4}),
                  QueryValue(std::int64_t{1000}), QueryValue(250.0),
                  QueryValue(Describe(kernels.rows[0].launch)), QueryValue(1.0), QueryValue(4e9),
                  QueryValue(2e9), QueryValue("fp16"), QueryValue(kernels.rows[0].name)));
  EXPECT_THAT(answer.rows[1],
              ElementsAre(QueryValue("memory_bound"), QueryValue(), QueryValue(std::int64_t{1}),
                          QueryValue(std::int64_t{0}), QueryValue(0.0), QueryValue(), QueryValue(),
                          QueryValue(), QueryValue(), QueryValue(),
                          QueryValue("at::native::vectorized_elementwise_kernel<4>")));
  EXPECT_EQ(Answer(path, "SELECT name FROM v_kernel WHERE name = 'vectorized_elementwise_kernel'")
                .rows.size(),
            1U);
  EXPECT_EQ(Answer(path, "SELECT * FROM v_kernel WHERE run_id = 2").rows.size(), 0U);
}

TEST(StoreQuery, CountsRowsOfViewsTablesAndItsOwnExpressions) {
  const TwoRuns store;
  for (const char* sql :
       {"SELECT count(*) FROM v_run", "SELECT count(*) FROM Run", "SELECT count(*) FROM main.run",
        "WITH mine AS (SELECT * FROM v_run) SELECT count(*) FROM mine",
        "SELECT count(*) FROM (SELECT * FROM V_RUN)"}) {
    EXPECT_EQ(IntegerAt(Answer(store.path, sql), 0, 0), 2) << sql;
  }
}

TEST(StoreQuery, RefusesAllButOneSelect) {
  const TwoRuns store;
  const std::string before = ReadBytes(store.path);
  for (const std::string sql : {"DELETE FROM run",
                                "UPDATE run SET label = 'x'",
                                "INSERT INTO note VALUES(1, 1, 1, 'x', 0)",
                                "DROP TABLE span",
                                "CREATE TABLE t(a)",
                                "CREATE TEMP TABLE t(a)",
                                "BEGIN",
                                "VACUUM",
                                "PRAGMA user_version = 9",
                                "PRAGMA writable_schema = ON",
                                "ATTACH '/tmp/x.db' AS other",
                                "VACUUM INTO '/tmp/x.db'",
                                "SELECT load_extension('x')",
                                "SELECT writefile('/tmp/x', 'y')",
                                "SELECT * FROM pragma_database_list",
                                "SELECT count(*) FROM pragma_database_list",
                                "SELECT count(*) FROM sqlite_schema",
                                "SELECT * FROM sqlite_schema",
                                "SELECT * FROM temp.sqlite_schema",
                                "SELECT sql FROM sqlite_master",
                                "SELECT * FROM writer",
                                "SELECT randomblob(9)",
                                "REINDEX",
                                "SELECT 1; DROP TABLE run",
                                "SELECT 1; SELECT 2",
                                "SELECT 1; nonsense",
                                "",
                                "  ; -- nothing",
                                "SELECT * FROM v_runs",
                                "SELECT nope FROM v_run",
                                "SELEC 1"}) {
    const Error error = Refused(store.path, sql);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << sql << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("runs.db")) << sql;
  }
  EXPECT_THAT(Refused(store.path, "PRAGMA user_version").message, HasSubstr("anything but SELECT"));
  EXPECT_THAT(Refused(store.path, "SELECT load_extension('x')").message,
              HasSubstr("load_extension"));
  EXPECT_THAT(Refused(store.path, "SELECT nope FROM v_run").message,
              AllOf(HasSubstr("nope"), HasSubstr("--views")));
  EXPECT_THAT(Refused(store.path, "SELECT 1; SELECT 2").message, HasSubstr("more than one"));
  EXPECT_TRUE(ReadBytes(store.path) == before);
}

TEST(StoreQuery, LeavesTheFileAsItIs) {
  const TwoRuns store;
  const std::string before = ReadBytes(store.path);
  Answer(store.path,
         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
         "SELECT i, (SELECT count(*) FROM v_span) FROM n ORDER BY 1");
  Answer(store.path, "SELECT *, row_number() OVER (PARTITION BY rank ORDER BY start_ns) FROM v_op");
  Answer(store.path, "SELECT * FROM v_exposed ORDER BY exposed_ns DESC");
  EXPECT_TRUE(ReadBytes(store.path) == before);
}

TEST(StoreQuery, EndsAtItsLimits) {
  const TwoRuns store;
  const QueryAnswer few = Answer(store.path, "SELECT 'abcdefgh', '\u00e9\u00e9\u00e9' FROM v_span",
                                 {.max_rows = 3, .max_text_bytes = 5});
  EXPECT_EQ(few.rows.size(), 3U);
  EXPECT_TRUE(few.more);
  // Three letters of two bytes: the cut falls between letters.
  EXPECT_THAT(few.rows[0], ElementsAre(QueryValue("abcde..."), QueryValue("\u00e9\u00e9...")));
  EXPECT_FALSE(Answer(store.path, "SELECT 1 FROM v_run", {.max_rows = 2}).more);
  const std::string endless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
  EXPECT_EQ(Refused(store.path, endless, {.max_seconds = 0.05}).code, ErrorCode::kTimeout);
  EXPECT_EQ(Refused(store.path, endless, {.cancelled = [] { return true; }}).code,
            ErrorCode::kAborted);
  const Error cancelled =
      Refused(store.path, "SELECT * FROM v_exposed", {.cancelled = [] { return true; }});
  EXPECT_EQ(cancelled.code, ErrorCode::kAborted) << cancelled.message;
  EXPECT_EQ(Refused(store.path, "SELECT hex(printf('%9000000d', 1))").code,
            ErrorCode::kInvalidArgument);
}

// A file may bring objects under the names of our views, or a view of its own.
TEST(StoreQuery, UsesNoViewAndNoTableThatAFileBringsAlong) {
  const TwoRuns store;
  Damage(
      store.path,
      "DROP VIEW v_run; CREATE VIEW v_run AS SELECT 'theirs' AS label; "
      "CREATE TABLE v_exposed(run_id INT, class TEXT); INSERT INTO v_exposed VALUES(1, 'theirs');"
      "CREATE TABLE extra(a TEXT); CREATE VIEW v_extra AS SELECT 1 AS a");
  EXPECT_EQ(Answer(store.path, "SELECT label FROM v_run").rows.at(0).at(0), QueryValue("run 1"));
  EXPECT_EQ(
      IntegerAt(Answer(store.path, "SELECT count(*) FROM v_exposed WHERE class = 'theirs'"), 0, 0),
      0);
  for (const char* sql :
       {"SELECT * FROM main.v_run", "SELECT * FROM main.v_exposed", "SELECT * FROM extra",
        "SELECT * FROM v_extra", "SELECT count(*) FROM extra", "SELECT count(*) FROM main.extra"}) {
    EXPECT_EQ(Refused(store.path, sql).code, ErrorCode::kInvalidArgument) << sql;
  }
}

TEST(StoreQuery, SaysWhichRunIsDamagedWhereItReadsTheSpans) {
  const TwoRuns store;
  Damage(store.path, "UPDATE span SET duration_ns = duration_ns + 1 WHERE track_id = 1");
  const Error error = Refused(store.path, "SELECT * FROM v_exposed");
  EXPECT_EQ(error.code, ErrorCode::kCorruptInput);
  EXPECT_THAT(error.message, HasSubstr("run 1"));
  EXPECT_GT(Answer(store.path, "SELECT * FROM v_exposed WHERE run_id = 2").rows.size(), 0U);
}

TEST(StoreQuery, RefusesFilesThatAreNoStores) {
  const TempFolder folder;
  EXPECT_EQ(Refused(folder.File("missing.db"), "SELECT 1").code, ErrorCode::kInvalidArgument);
  const std::string text = folder.File("text.db");
  WriteBytes(text, "no database at all");
  EXPECT_EQ(Refused(text, "SELECT 1").code, ErrorCode::kCorruptInput);
}

}  // namespace
}  // namespace foretrain
