// `validate` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

// Each group is learned from by its first row and scored on the others.
TEST(Validate, LearnsFromTheFirstRowsOfEachGroupAndScoresPairs) {
  const TemporaryFolder folder;
  const std::string table =
      "validate " + TestDataPath("validation/published-runs.csv") + " --families bloom --learn ";
  const ProgramEnd end = RunForetrain(folder.path(), table + "1 --pairs --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto json = ParseJson(end.output, "stdout");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto learned = json->Find("learned")->items();
  ASSERT_EQ(learned.size(), 2U);
  EXPECT_EQ(learned[0].Find("family")->AsString(), "bloom");
  EXPECT_EQ(learned[1].Find("family")->AsString(), "");
  EXPECT_EQ(json->Find("rows")->AsInteger(), learned[0].Find("rows")->AsInteger());
  EXPECT_LT(learned[0].Find("time_median_abs_log")->AsNumber(),
            learned[0].Find("time_median_abs_log_before")->AsNumber());
  EXPECT_GT(json->Find("pairs")->items().size(), 2U);
  EXPECT_THAT(RunForetrain(folder.path(), table + "0").errors,
              HasSubstr("give a number of rows, even, odd or all"));
  EXPECT_THAT(RunForetrain(folder.path(), table + "1 --profile p.json").errors,
              HasSubstr("give --learn all"));
  EXPECT_THAT(RunForetrain(folder.path(), table + "100000").errors, HasSubstr("learn from fewer"));
}

TEST(Validate, NamesTheColumnThatATableLacks) {
  const TemporaryFolder folder;
  folder.Write("runs.csv", "id,layers\na-1,4\n");
  const ProgramEnd end = RunForetrain(folder.path(), "validate runs.csv");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("runs.csv"), HasSubstr("hidden")));
}

// Two rows of H100 and a format without a model.
constexpr std::string_view kProducts =
    "device,format,m,n,k,ms\n"
    "H100-80GB-SXM,bfloat16,4096,4096,4096,0.2\n"
    "H100-80GB-SXM,bfloat16,8192,8192,8192,1.5\n"
    "H100-80GB-SXM,int8,8192,8192,8192,1\n";

TEST(Validate, ForecastsTablesOfKernels) {
  const TemporaryFolder folder;
  folder.Write("gemm.csv", std::string(kProducts));
  const ProgramEnd end =
      RunForetrain(folder.path(), "validate --kernels gemm.csv --out f.csv --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(folder.Read("f.csv"), StartsWith("device,format,m,n,k,ms,forecast_ms\n"));
  EXPECT_THAT(folder.Read("f.csv"), HasSubstr("int8,8192,8192,8192,1,\n"));
  const auto json = ParseJson(end.output, "stdout");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const JsonValue& score = json->Find("scores")->items()[0];
  EXPECT_EQ(score.Find("forecast")->AsInteger(), 2);
  EXPECT_LT(score.Find("median_error")->AsNumber(), 0.3);
  EXPECT_EQ(json->Find("not_forecast")->items().size(), 1U);
}

TEST(Validate, RefusesOptionsThatDoNotGoWithKernels) {
  const TemporaryFolder folder;
  folder.Write("gemm.csv", std::string(kProducts));
  folder.Write("runs.csv", "id\n");
  const auto refusal = [&](const std::string& options) {
    const ProgramEnd end = RunForetrain(folder.path(), "validate --kernels " + options);
    EXPECT_EQ(end.code, 2) << options;
    return end.errors;
  };
  EXPECT_THAT(refusal("gemm.csv runs.csv"), HasSubstr("--kernels takes neither FILE.csv"));
  EXPECT_THAT(refusal("gemm.csv --learn even"), HasSubstr("--learn even: give all"));
  EXPECT_THAT(refusal("gemm.csv --profile p"), HasSubstr("add --learn all"));
  EXPECT_THAT(refusal("gemm.csv,gemm.csv --out f.csv"), HasSubstr("give one"));
  EXPECT_THAT(refusal("none.csv"), HasSubstr("none.csv"));
  EXPECT_THAT(refusal("runs.csv"), HasSubstr("its columns are of no known table of kernels"));
}

TEST(Validate, SaysThatAFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(RunForetrain(folder.path(), "validate").code, 2);
  EXPECT_EQ(RunForetrain(folder.path(), "validate none.csv").code, 2);
}

}  // namespace
}  // namespace foretrain
