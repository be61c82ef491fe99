// `validate` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Validate, WritesARowARunAndScoresByFamily) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), "validate " + TestDataPath("validation/published-runs.csv") +
                                      " --families korth,sc21t1 --out p.csv --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(
      folder.Read("p.csv"),
      AllOf(
          StartsWith("id,predicted_time_s,predicted_memory_gib,fits,refused_reason,low_s,high_s\n"),
          HasSubstr("\nkorth-008,")));
  const auto json = ParseJson(end.output, "stdout");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  EXPECT_EQ(json->Find("rows")->AsInteger(), 18);
  EXPECT_EQ(json->Find("refused")->AsInteger(), 0);
  const JsonValue* korth = json->Find("families")->Find("korth");
  ASSERT_NE(korth, nullptr);
  EXPECT_GT(korth->Find("time_mape")->AsNumber(), 0);
  EXPECT_TRUE(korth->Find("memory_mape")->is_null());
}

TEST(Validate, NamesTheColumnThatATableLacks) {
  const TemporaryFolder folder;
  folder.Write("runs.csv", "id,layers\na-1,4\n");
  const ProgramEnd end = RunForetrain(folder.path(), "validate runs.csv");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("runs.csv"), HasSubstr("hidden")));
}

TEST(Validate, SaysThatAFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(RunForetrain(folder.path(), "validate").code, 2);
  EXPECT_EQ(RunForetrain(folder.path(), "validate none.csv").code, 2);
}

}  // namespace
}  // namespace foretrain
