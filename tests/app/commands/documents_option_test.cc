// `foretrain train --documents` and `--document-end` on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(DocumentsOption, NeedsATokenThatEndsADocument) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 1 ";
  const std::pair<const char*, const char*> wrong[] = {
      {"--documents", "text.txt has no index of them; give --document-end ID"},
      {"--document-end 32", "--document-end 32: attention does not end at documents"},
      {"--documents --document-end 256", "--document-end 256: the vocabulary has the tokens 0 to"},
      {"--documents --document-end -1", "--document-end"}};
  for (const auto& [options, message] : wrong) {
    const ProgramEnd end = RunForetrain(folder.path(), train + options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(message));
  }
}

// Attention over 64 documents of 128 tokens visits 1/64 of the pairs of one of 8,192.
TEST(DocumentsOption, MakesAForecastFasterByTheirLength) {
  const TemporaryFolder folder;
  const std::string predict = "predict --json --model llama3-8b --cluster 1x8xh100 --tp 8 ";
  const auto step_s = [&](const std::string& options) {
    const ProgramEnd end = RunForetrain(folder.path(), predict + options);
    const auto json = nlohmann::json::parse(end.output, nullptr, false);
    EXPECT_TRUE(json.is_object()) << end.errors;
    return json.is_object() ? json.at("step_time_s").get<double>() : 0;
  };
  const double one_s = step_s("--documents");
  EXPECT_LT(step_s("--documents --document-tokens 128"), 0.99 * one_s);
  EXPECT_DOUBLE_EQ(step_s("--documents --document-tokens 8192"), one_s);
  const ProgramEnd end = RunForetrain(folder.path(), predict + "--document-tokens 128");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("--document-tokens 128: attention does not end at documents"));
}

// A search counts as a forecast does, and its command carries the option on.
TEST(DocumentsOption, MakesAPlanFasterByTheirLength) {
  const TemporaryFolder folder;
  const std::string search =
      "plan --json --model llama3-8b --cluster 1x8xh100 --tp 8 --pp 1 --top 1 ";
  const auto best = [&](const std::string& options) {
    const ProgramEnd end = RunForetrain(folder.path(), search + options);
    EXPECT_EQ(end.code, 0) << end.errors;
    return nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
  };
  const nlohmann::json one = best("--documents"), many = best("--documents --document-tokens 128");
  const auto step_s = [](const nlohmann::json& json) {
    return json.at("plans").at(0).at("step_time_s").get<double>();
  };
  EXPECT_LT(step_s(many), 0.99 * step_s(one));
  EXPECT_THAT(many.at("command").get<std::string>(), HasSubstr(" --document-tokens 128"));
  EXPECT_THAT(one.at("command").get<std::string>(), Not(HasSubstr("--document-tokens")));
  const ProgramEnd end = RunForetrain(folder.path(), search + "--document-tokens 128");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("--document-tokens 128: attention does not end at documents"));
}

// A training counts the documents of its data.
TEST(DocumentsOption, ArePartOfTheForecastOfATraining) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(
      folder.path(), SmallTraining(folder) + "--json --steps 1 --documents --document-end 32");
  ASSERT_EQ(end.code, 0) << end.errors;
  const std::string_view lines = Trim(end.output);
  const auto summary = nlohmann::json::parse(lines.substr(lines.rfind('\n') + 1));
  EXPECT_GT(summary.at("document_tokens"), 1);   // spaces end documents
  EXPECT_LT(summary.at("document_tokens"), 16);  // and stand more often than samples begin
}

// A resumed run takes the options of the run that saved it, and refuses other documents.
TEST(DocumentsOption, StaysOfARunThatGoesOn) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --documents --document-end 32 ";
  const auto losses = [&](const std::string& command) {
    const ProgramEnd end = RunForetrain(folder.path(), command);
    EXPECT_EQ(end.code, 0) << end.errors;
    return LossesOf(end.output);
  };
  const std::vector<double> whole = losses(train + "--steps 4");
  ASSERT_EQ(whole.size(), 4U);
  EXPECT_NE(losses(SmallTraining(folder) + "--json --steps 1")[0], whole[0]);
  losses(train + "--steps 2 --save saved");
  EXPECT_EQ(losses("train --json --resume saved --steps 4"),
            (std::vector<double>{whole[2], whole[3]}));
  const ProgramEnd other =
      RunForetrain(folder.path(), "train --json --resume saved --steps 8 --document-end 101");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.errors, HasSubstr("was trained on other data or in another order"));
}

}  // namespace
}  // namespace foretrain
