// The desktop's window on a display of its own. Slow: a display server starts and GL is drawn by
// the processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/app/small_run.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr const char* kView = "view --view compare --run 2 --against 1 --size 800x500";

class ViewWindow : public testing::TestWithParam<std::pair<const char*, int>> {};

// The program on a display of its own, in which it leaves its exit code and stderr: what xvfb-run
// ends with is its own tidying up.
ProgramEnd RunOnADisplay(const TemporaryFolder& folder, const std::string& settings) {
  folder.Write("view.sh", "env LIBGL_ALWAYS_SOFTWARE=1 " + settings + " '" + StoppableBinary() +
                              "' " + kView + " 2>view.errors\necho $? >view.code\n");
  const ProgramEnd display =
      RunCommand(folder.path(), "exec xvfb-run -a -s '-screen 0 1024x768x24' sh view.sh");
  const std::string code = folder.Read("view.code");
  EXPECT_NE(code, "") << display.errors;
  return {code.empty() ? -1 : std::stoi(code), "", folder.Read("view.errors")};
}

TEST_P(ViewWindow, OpensDrawsAndClosesAtASignal) {
  const auto [how, code] = GetParam();
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "command -v xvfb-run && command -v xauth").code != 0)
    GTEST_SKIP()
        << "xvfb-run or xauth is not installed; tools/test installs xvfb and xauth and runs this";
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 3").code, 0);
  const ProgramEnd end = RunOnADisplay(
      folder, std::string("FORETRAIN_STOP_LOG=frames FORETRAIN_STOP_AT=view.frame#4 ") +
                  "FORETRAIN_STOP_HOW=" + how);
  if (end.code == 2 && end.errors.find("window with OpenGL") != std::string::npos)
    GTEST_SKIP() << "needs an X server with OpenGL, as Xvfb with Mesa has: " << end.errors;
  EXPECT_EQ(end.code, code) << end.errors;
  EXPECT_EQ(end.errors, "");
  const std::string frames = folder.Read("frames");
  // No frame after the one in which the signal came.
  EXPECT_EQ(std::count(frames.begin(), frames.end(), '\n'), 4) << frames;
}

INSTANTIATE_TEST_SUITE_P(Signals, ViewWindow,
                         testing::Values(std::pair{"interrupt", 130}, std::pair{"terminate", 143}),
                         [](const auto& at) { return std::string(at.param.first); });

TEST(View, SaysWhatToDoWithoutADisplay) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3").code, 0);
  const ProgramEnd end = RunCommand(
      folder.path(), std::string("unset DISPLAY WAYLAND_DISPLAY; exec \"$FORETRAIN\" ") + kView);
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, testing::AnyOf(HasSubstr("--screenshot"), HasSubstr("no desktop")));
}

}  // namespace
}  // namespace foretrain
