// `foretrain train --documents` and `--document-end` on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(DocumentsOption, NeedsATokenThatEndsADocument) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 1 ";
  const std::pair<const char*, const char*> wrong[] = {
      {"--documents",
       "--documents: the token that ends a document is not known; give --document-end ID"},
      {"--document-end 32", "--document-end 32: attention does not end at documents"},
      {"--documents --document-end 256", "--document-end 256: the vocabulary has the tokens 0 to"},
      {"--documents --document-end -1", "--document-end"}};
  for (const auto& [options, message] : wrong) {
    const ProgramEnd end = RunForetrain(folder.path(), train + options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(message));
  }
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
