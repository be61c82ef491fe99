// `analyze --by`: a part of a step as one table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Run 2, of two ranks and three steps, and its forecast, run 1.
class AnalyzeRange : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(RunForetrain(folder_->path(), SmallTraining(*folder_) + "--steps 3").code, 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static ProgramEnd Run(const std::string& options) {
    return RunForetrain(folder_->path(), "analyze " + options);
  }
  static nlohmann::json JsonOf(const std::string& options) {
    const ProgramEnd end = Run(options + " --json");
    EXPECT_EQ(end.code, 0) << end.errors;
    return LastLine(end.output);
  }
  static void ExpectRefused(const std::string& options, const std::string& says) {
    const ProgramEnd end = Run(options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(says)) << options;
  }

  static TemporaryFolder* folder_;
};
TemporaryFolder* AnalyzeRange::folder_ = nullptr;

TEST_F(AnalyzeRange, SumsTheSameSpansByOpClassAndRank) {
  const auto by_op = JsonOf("--by op --step 1");
  const auto by_class = JsonOf("--by class --step 1");
  const auto by_rank = JsonOf("--by rank --step 1");
  EXPECT_GT(by_op.at("sum").at("spans"), 0);
  for (const auto& other : {by_class, by_rank}) {
    EXPECT_EQ(other.at("sum").at("spans"), by_op.at("sum").at("spans"));
    EXPECT_EQ(other.at("sum").at("busy_s"), by_op.at("sum").at("busy_s"));
  }
  ASSERT_EQ(by_rank.at("rows").size(), 2U);
  // Classes and idle time fill the step on each rank.
  const double step_s = by_rank.at("window").at("end_s");
  for (const auto& row : by_rank.at("rows")) {
    double sum_s = 0;
    for (const char* key :
         {"compute_s", "exposed_communication_s", "exposed_copy_s", "host_s", "idle_s"}) {
      sum_s += row.at(key).get<double>();
    }
    EXPECT_NEAR(sum_s, step_s, 1e-8);
  }
}

TEST_F(AnalyzeRange, CutsToAWindowAndARank) {
  const auto whole = JsonOf("--by class --step 1");
  const auto rank = JsonOf("--by class --step 1 --rank 1");
  EXPECT_EQ(rank.at("ranks"), 1);
  EXPECT_LT(rank.at("sum").at("spans"), whole.at("sum").at("spans"));
  const auto part = JsonOf("--by class --step 1 --window 10us..20us");
  EXPECT_DOUBLE_EQ(part.at("window").at("begin_s"), 10e-6);
  EXPECT_DOUBLE_EQ(part.at("window").at("end_s"), 20e-6);
  EXPECT_LE(part.at("sum").at("busy_s").get<double>(), whole.at("sum").at("busy_s"));
}

TEST_F(AnalyzeRange, PrintsATableAndSaysWhereNothingRan) {
  const ProgramEnd table = Run("--by op");
  EXPECT_EQ(table.code, 0) << table.errors;
  EXPECT_THAT(table.output, AllOf(HasSubstr("run 2, 0 s to "), HasSubstr(", 2 ranks, by op"),
                                  HasSubstr("of the range"), HasSubstr("sum")));
  const ProgramEnd empty = Run("--by op --window 1h..2h");
  EXPECT_EQ(empty.code, 0) << empty.errors;
  EXPECT_THAT(empty.output, HasSubstr("no spans were recorded there"));
  EXPECT_THAT(Run("--run 1 --by class").output, HasSubstr("run 1, "));
}

TEST_F(AnalyzeRange, NamesWhatIsNoPartOfARun) {
  ExpectRefused("--by layer", "--by: \"layer\" is none of op, class, rank");
  ExpectRefused("--window 1ms..2ms", "--window needs --by");
  ExpectRefused("--rank 0", "--rank needs --by");
  ExpectRefused("--by op --rank 9", "has no rank 9");
  ExpectRefused("--by op --rank 99999999999", "--rank: 99999999999");
  ExpectRefused("--by op --step 9", "has no window of step 9; it has those of steps 0 to 2");
  ExpectRefused("--by op --step 99999999999", "--step: 99999999999");
  ExpectRefused("--by op --window 2ms..1ms", "ends before it begins");
  ExpectRefused("--by op --window 5", "BEGIN..END");
  ExpectRefused("--by op --window 0..1e300s", "--window");
}

}  // namespace
}  // namespace foretrain
