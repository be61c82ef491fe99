#include "sim/validate/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kHeader =
    "id,model,layers,hidden,heads,head_dim,ffn_hidden,vocab,seq_len,gpu,n_gpus,intra_bw,dtype,tp,"
    "pp,"
    "vpp,dp,zero_stage,recompute,micro_batch,global_batch,target_time_s,peak_mem_gib,"
    "measured_quantity\n";

Result<std::vector<PublishedRun>> Parse(const std::string& rows) {
  return ParsePublishedRuns(std::string(kHeader) + rows, "runs.csv");
}

std::string ReadTable(std::string_view name) {
  std::ifstream file(TestDataPath("validation/" + std::string(name)));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RunTable, ReadsAnOutOfMemoryRowWithWhatItLeavesOpen) {
  const auto runs = Parse(
      "sweep-a-7,GPT,4,64,,,256,1000,128,A100-80GB-SXM,8,300,fp16,2,2,,2,1,full,,32,,,"
      "oom (reported)\n");
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const PublishedRun& run = runs->front();
  EXPECT_EQ(run.family, "sweep-a");
  EXPECT_TRUE(run.out_of_memory);
  EXPECT_EQ(run.heads, 0);
  EXPECT_EQ(run.micro_batch, 0);
  EXPECT_FALSE(run.vpp.has_value());
  EXPECT_EQ(run.zero_stage, 1);
  EXPECT_EQ(run.step_s, 0);
  EXPECT_DOUBLE_EQ(run.link_bytes_per_s, 300e9);
}

TEST(RunTable, NamesFileLineAndColumnOfABadFigure) {
  const auto runs =
      Parse("a-1,GPT,4,64,4,16,256,1000,128,A100-80GB-SXM,8,300,fp16,2,2,1,2,7,full,1,32,1.5,,s\n");
  ASSERT_FALSE(runs.has_value());
  EXPECT_THAT(runs.error().message,
              AllOf(HasSubstr("runs.csv line 2"), HasSubstr("zero_stage"), HasSubstr("7")));
}

TEST(RunTable, RefusesAnIdTwiceAndAMissingColumn) {
  const std::string row =
      "a-1,GPT,4,64,4,16,256,1000,128,A100-80GB-SXM,8,300,fp16,2,2,1,2,1,full,1,32,1.5,,s\n";
  const auto twice = Parse(row + row);
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, AllOf(HasSubstr("line 3"), HasSubstr("a-1")));
  const auto missing = ParsePublishedRuns("id,layers\na-1,4\n", "runs.csv");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("\"hidden\""));
}

// Counts from tests/data/validation/README.md.
TEST(RunTable, ReadsThePublishedTables) {
  std::map<std::string, int> rows;
  for (const auto& [name, count] : std::map<std::string_view, std::size_t>{
           {"published-runs.csv", 226}, {"published-sweeps.csv", 348}, {"vtrain.csv", 790}}) {
    const auto runs = ParsePublishedRuns(ReadTable(name), name);
    ASSERT_TRUE(runs.has_value()) << runs.error().message;
    EXPECT_EQ(runs->size(), count);
    for (const PublishedRun& run : *runs) ++rows[run.family];
  }
  EXPECT_EQ(rows["korth"], 8);
  EXPECT_EQ(rows["bloom"], 28 + 108);
  EXPECT_EQ(rows["vtrainsingle"], 731);
}

}  // namespace
}  // namespace foretrain
