// `foretrain export --form html` on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ExportHtml, WritesAPageWithTheComparisonOfATraining) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3 ").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "runs --rename 2 --label '<script>alert(1)</script>'").code,
            0);
  const ProgramEnd end = RunForetrain(folder.path(), "export --form html");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(end.output, "wrote report.html\n");
  const std::string page = folder.Read("report.html");
  EXPECT_THAT(page, HasSubstr("id=\"draw-time\""));
  EXPECT_THAT(page, HasSubstr("id=\"draw-memory\""));
  EXPECT_THAT(page, HasSubstr("id=\"draw-compare\""));
  EXPECT_THAT(page, HasSubstr(">predicted</th>"));
  EXPECT_THAT(page, HasSubstr("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

TEST(ExportHtml, OfAForecastHasNoComparison) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 1 ").code, 0);
  const ProgramEnd end =
      RunForetrain(folder.path(), "export --form html --run 1 --out f.html --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(end.output, "{\"schema\":1,\"out\":\"f.html\",\"runs\":[1]}\n");
  EXPECT_THAT(folder.Read("f.html"), Not(HasSubstr("id=\"draw-compare\"")));
}

TEST(ExportHtml, RefusesStepsThatAreNone) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 2 ").code, 0);
  const ProgramEnd none = RunForetrain(folder.path(), "export --form html --step 77");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("--step: run 2 has no step 77; it has steps "));
  const ProgramEnd other = RunForetrain(folder.path(), "export --step 1");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.errors, HasSubstr("--step 1 needs --form html or chakra"));
}

}  // namespace
}  // namespace foretrain
