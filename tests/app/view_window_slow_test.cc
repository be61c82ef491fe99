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

class ViewWindowSignals : public testing::TestWithParam<std::pair<const char*, int>> {};

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

TEST_P(ViewWindowSignals, OpensDrawsAndClosesAtASignal) {
  const auto [how, code] = GetParam();
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "command -v xvfb-run && command -v xauth").code != 0)
    GTEST_SKIP()
        << "xvfb-run or xauth is not installed; tools/test installs xvfb and xauth and runs this";
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 3").code, 0);
  const ProgramEnd end = RunOnADisplay(
      folder, std::string("FORETRAIN_STOP_LOG=frames FORETRAIN_STOP_AT=view.frame#2 ") +
                  "FORETRAIN_STOP_HOW=" + how);
  if (end.code == 2 && end.errors.find("window with OpenGL") != std::string::npos)
    GTEST_SKIP() << "needs an X server with OpenGL, as Xvfb with Mesa has: " << end.errors;
  EXPECT_EQ(end.code, code) << end.errors;
  EXPECT_EQ(end.errors, "");
  const std::string frames = folder.Read("frames");
  // A window at rest draws two frames, and none after the one in which the signal came.
  EXPECT_EQ(std::count(frames.begin(), frames.end(), '\n'), 2) << frames;
}

INSTANTIATE_TEST_SUITE_P(Signals, ViewWindowSignals,
                         testing::Values(std::pair{"interrupt", 130}, std::pair{"terminate", 143}),
                         [](const auto& at) { return std::string(at.param.first); });

// Moves and types as a hand does, with rests that a slow frame fits into, and asks the program to
// stop in the end. What it did is read from what the desktop keeps.
constexpr const char* kHand = R"(
rest() { sleep 0.7; }
env LIBGL_ALWAYS_SOFTWARE=1 "$FORETRAIN" view --size 1000x700 --scale 1 2>view.errors &
program=$!
window=
for i in $(seq 60); do
  window=$(xdotool search --onlyvisible --name '^foretrain$' 2>/dev/null | head -n 1)
  [ -n "$window" ] && break
  sleep 0.5
done
[ -n "$window" ] || { kill "$program"; wait "$program"; echo "$?" >view.code; exit; }
rest; xdotool windowfocus "$window"; rest
xdotool mousemove 600 330; rest
for i in 1 2 3; do xdotool click 4; rest; done
xdotool click 1; rest
for key in m c bracketright slash; do xdotool key "$key"; rest; done
xdotool type --delay 120 mlp; rest
xdotool key Escape; rest
xdotool key Escape; rest
xdotool key t; rest
xdotool key o; rest
xdotool mousemove 300 183; rest; xdotool click 1; rest
xdotool type --delay 120 other.db; rest
xdotool key Return; rest; rest; rest
for key in 7 6 5 4 2 1 3; do xdotool key "$key"; rest; done
kill -INT "$program"; wait "$program"; echo "$?" >view.code
)";

TEST(ViewWindow, TakesMouseAndKeys) {
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "command -v xvfb-run && command -v xauth && command -v xdotool")
          .code != 0) {
    GTEST_SKIP() << "xvfb-run, xauth or xdotool is not installed; apt-get install xvfb xauth "
                    "xdotool, then run this again";
  }
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3").code, 0);
  ASSERT_EQ(RunCommand(folder.path(), "cp foretrain.db other.db").code, 0);
  folder.Write("hand.sh", kHand);
  RunCommand(folder.path(),
             "export XDG_CONFIG_HOME=\"$PWD/config\"; "
             "exec xvfb-run -a -s '-screen 0 1024x768x24' sh hand.sh");
  const std::string errors = folder.Read("view.errors");
  if (errors.find("window with OpenGL") != std::string::npos)
    GTEST_SKIP() << "needs an X server with OpenGL, as Xvfb with Mesa has: " << errors;
  EXPECT_EQ(errors, "");
  EXPECT_EQ(folder.Read("view.code"), "130\n");
  const std::string kept = folder.Read("config/foretrain/desktop.json");
  EXPECT_THAT(kept, HasSubstr("\"theme\": \"light\""));
  EXPECT_THAT(kept, HasSubstr("/other.db\""));
  EXPECT_THAT(kept, HasSubstr("\"view\": \"compare\""));
}

// Leaves the window alone for ten seconds, then records a run into the store it shows for as long,
// and counts frames (lines of "frames") and clock ticks of CPU time around both.
constexpr const char* kOnlooker = R"(
env LIBGL_ALWAYS_SOFTWARE=1 FORETRAIN_STOP_LOG=frames "$BINARY" view --view "$VIEW" \
  --size 1600x900 --scale 1 2>view.errors &
program=$!
for i in $(seq 60); do [ -s frames ] && break; sleep 0.5; done
[ -s frames ] || { kill "$program"; wait "$program"; echo "$?" >view.code; exit; }
count() { grep -c view.frame frames; }
ticks() { awk '{ print $14 + $15 }' "/proc/$program/stat"; }
sleep 4
count >idle.before; ticks >ticks.before; sleep 10; count >idle.after; ticks >ticks.after
"$FORETRAIN" $TRAIN --steps 100000000 >/dev/null 2>&1 &
training=$!
sleep 2; count >run.before; ticks >run.ticks.before; sleep 10; count >run.after; ticks >run.ticks.after
kill -INT "$training"; wait "$training"
kill -INT "$program"; wait "$program"; echo "$?" >view.code
)";

class ViewWindowAtRest : public testing::TestWithParam<const char*> {};

TEST_P(ViewWindowAtRest, DrawsNothingWhileNothingChanges) {
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "command -v xvfb-run && command -v xauth").code != 0)
    GTEST_SKIP() << "xvfb-run or xauth is not installed; apt-get install xvfb xauth";
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 3").code, 0);
  folder.Write("onlooker.sh", kOnlooker);
  RunCommand(folder.path(), "export XDG_CONFIG_HOME=\"$PWD/config\" BINARY='" + StoppableBinary() +
                                "' VIEW=" + GetParam() + " TRAIN='" + train +
                                "'; exec xvfb-run -a -s '-screen 0 1700x1000x24' sh onlooker.sh");
  const std::string errors = folder.Read("view.errors");
  if (errors.find("window with OpenGL") != std::string::npos)
    GTEST_SKIP() << "needs an X server with OpenGL, as Xvfb with Mesa has: " << errors;
  ASSERT_EQ(folder.Read("view.code"), "130\n") << errors;
  const auto number = [&folder](const char* file) { return std::stol(folder.Read(file)); };
  std::printf("%s: %ld frames and %ld ticks of CPU in 10 s at rest, %ld and %ld while a run is recorded\n",
              GetParam(), number("idle.after") - number("idle.before"),
              number("ticks.after") - number("ticks.before"),
              number("run.after") - number("run.before"),
              number("run.ticks.after") - number("run.ticks.before"));
  EXPECT_EQ(number("idle.after"), number("idle.before"));
  // Newer runs come about once a second, and two frames follow; Time moves while it explains them.
  if (std::string(GetParam()) != "time") {
    EXPECT_LE(number("run.after") - number("run.before"), 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Views, ViewWindowAtRest,
                         testing::Values("compare", "time", "memory", "ranks", "plan", "what-if",
                                         "run"),
                         [](const auto& at) {
                           std::string name(at.param);
                           std::erase(name, '-');
                           return name;
                         });

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
