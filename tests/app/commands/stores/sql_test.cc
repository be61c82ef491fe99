// `foretrain sql`, the queries of its page and the forms of its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/app/commands/small_run.h"
#include "tests/paths.h"
#include "traces/store_query.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string Page() {
  PosixFileSystem files;
  auto text = ReadFile(files, SourcePath("docs/sql.md"), kMiB);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

// The blocks of SQL on the page.
std::vector<std::string> QueriesOf(const std::string& page) {
  const std::string begin = "```sql\n";
  std::vector<std::string> queries;
  for (std::size_t at = 0; (at = page.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    queries.push_back(page.substr(at, page.find("```", at) - at));
  }
  return queries;
}

// A store with the forecast of a small pipeline as run 1.
class SqlCommand : public testing::Test {
 protected:
  void SetUp() override {
    const ProgramEnd end = RunForetrain(
        folder_.path(),
        "predict --model gpt-10m --layers 4 --sequence 64 --cluster 1x4xa100-80gb-sxm --dp 2 "
        "--pp 2 --zero 1 --micro-batch 1 --global-batch 8 --store s.db");
    ASSERT_EQ(end.code, 0) << end.errors;
  }
  ProgramEnd Sql(const std::string& options, const std::string& query) const {
    folder_.Write("query.sql", query);
    return RunCommand(folder_.path(),
                      "\"$FORETRAIN\" sql s.db " + options + " \"$(cat query.sql)\"");
  }

  const TemporaryFolder folder_;
};

TEST_F(SqlCommand, AnswersTheQueriesOfItsPage) {
  const std::vector<std::string> queries = QueriesOf(Page());
  EXPECT_EQ(queries.size(), 6U);
  for (const std::string& query : queries) {
    const ProgramEnd end = Sql("--json", query);
    ASSERT_EQ(end.code, 0) << query << end.errors;
    const nlohmann::json answer = nlohmann::json::parse(end.output);
    EXPECT_GT(answer.at("rows").size(), 0U) << query;
    EXPECT_EQ(answer.at("rows")[0].size(), answer.at("columns").size()) << query;
  }
}

TEST_F(SqlCommand, PrintsATableThatKeepsToTheWidthCsvAndJson) {
  const std::string before = folder_.Read("s.db");
  const ProgramEnd table = Sql("", "SELECT run_id, kind, model, plan FROM v_run");
  ASSERT_EQ(table.code, 0) << table.errors;
  std::istringstream lines(table.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_THAT(table.output, AllOf(HasSubstr("run_id"), HasSubstr("predicted"), HasSubstr("...")));
  // Too many columns for one line: one line a value.
  EXPECT_THAT(Sql("", "SELECT * FROM v_run").output, StartsWith("row 1\n"));
  EXPECT_EQ(Sql("--csv", "SELECT 'a,b' AS \">x\", 0.1 AS y, NULL AS z").output,
            ">x,y,z\n\"a,b\",0.1,\n");
  EXPECT_EQ(
      Sql("--json", "SELECT 1 AS a, 2.5 AS a, 'x', NULL").output,
      "{\"schema\":1,\"columns\":[\"a\",\"a\",\"'x'\",\"NULL\"],\"rows\":[[1,2.5,\"x\",null]],"
      "\"more\":false}\n");
  EXPECT_THAT(Sql("--limit 2", "SELECT rank FROM v_span").output,
              HasSubstr("only the first 2 rows"));
  // No byte of a text reaches the terminal as a command.
  EXPECT_THAT(Sql("", "SELECT char(27) || '[31m' AS t").output, HasSubstr("\\x1b[31m"));
  EXPECT_TRUE(folder_.Read("s.db") == before);
}

TEST_F(SqlCommand, EndsWithTheCodeOfItsError) {
  EXPECT_EQ(Sql("", "DELETE FROM run").code, 2);
  EXPECT_EQ(Sql("--limit 0", "SELECT 1").code, 2);
  const ProgramEnd late = Sql("--timeout 0.05",
                              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                              "SELECT count(*) FROM n");
  EXPECT_EQ(late.code, 3);
  EXPECT_THAT(late.errors, HasSubstr("--timeout"));
  EXPECT_EQ(RunForetrain(folder_.path(), "sql s.db").code, 2);
  EXPECT_EQ(RunForetrain(folder_.path(), "sql missing.db --views").code, 2);
}

TEST_F(SqlCommand, ListsItsViewsAsThePageDoes) {
  const std::string page = Page();
  const std::string list = RunForetrain(folder_.path(), "sql s.db --views").output;
  for (const QueryView& view : QueryViews()) {
    const std::string name(view.name);
    EXPECT_THAT(list, HasSubstr("\n" + name + " "));
    std::string table = "`" + name + "`: one row per " + std::string(view.row) +
                        ".\n\n| column | meaning |\n| --- | --- |\n";
    for (const QueryColumn& column : view.columns) {
      table += "| `" + std::string(column.name) + "` | " + std::string(column.meaning) + " |\n";
    }
    EXPECT_THAT(page, HasSubstr(table));
  }
}

}  // namespace
}  // namespace foretrain
