// `view --link` and `view FILE.ftlink`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(ViewLinkOption, OpensTheSameViewAgain) {
  const TemporaryFolder folder;
  const ProgramEnd ran = RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3");
  ASSERT_EQ(ran.code, 0) << ran.errors;
  const ProgramEnd wrote = RunForetrain(
      folder.path(), "view --view compare --step 1 --window 0us..100us --light --link l.ftlink");
  if (wrote.code == 2 && wrote.errors.find("no desktop") != std::string::npos) {
    GTEST_SKIP() << "runs in builds with the desktop: " << wrote.errors;
  }
  ASSERT_EQ(wrote.code, 0) << wrote.errors;
  const std::string link = folder.Read("l.ftlink");
  EXPECT_THAT(link, HasSubstr("\"store\": \"foretrain.db\""));
  EXPECT_THAT(link, HasSubstr("\"step\": 1"));
  EXPECT_THAT(link, HasSubstr("\"window_end_s\": 1e-04"));
  EXPECT_THAT(link, HasSubstr("\"light\": true"));
  const ProgramEnd drawn =
      RunForetrain(folder.path(), "view l.ftlink --screenshot a.png --size 800x500");
  if (drawn.code == 2 && drawn.errors.find("without a display") != std::string::npos) {
    GTEST_SKIP() << "runs where libegl-mesa0 is installed: " << drawn.errors;
  }
  ASSERT_EQ(drawn.code, 0) << drawn.errors;
  const ProgramEnd again = RunForetrain(
      folder.path(),
      "view --view compare --step 1 --window 0us..100us --light --screenshot b.png --size 800x500");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(folder.Read("a.png"), folder.Read("b.png"));
  // The store is found from another folder too.
  const ProgramEnd elsewhere = RunCommand(
      folder.path(), "mkdir other && cd other && $FORETRAIN view ../l.ftlink --screenshot c.png");
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.errors;
}

TEST(ViewLinkOption, RefusesWhatIsNoLink) {
  const TemporaryFolder folder;
  folder.Write("l.ftlink", "{\"foretrain_link\": 2}");
  const ProgramEnd later = RunForetrain(folder.path(), "view l.ftlink --screenshot a.png");
  EXPECT_EQ(later.code, 2);
  EXPECT_THAT(later.errors, HasSubstr("foretrain_link"));
  const ProgramEnd ending = RunForetrain(folder.path(), "view --view plan --link l.json");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.errors, HasSubstr("must end in .ftlink"));
}

}  // namespace
}  // namespace foretrain
