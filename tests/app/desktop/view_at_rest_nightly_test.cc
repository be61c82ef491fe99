// A desktop window that nobody touches draws nothing. Slow: each view is watched for half a minute
// on a display of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/app/commands/small_run.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Leaves the window alone for ten seconds, then records a run into the store that it shows for as
// long. Counts frames (lines of "frames") and clock ticks of CPU time around both.
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
  std::printf(
      "%s: %ld frames and %ld ticks of CPU in 10 s at rest, %ld and %ld while a run is recorded\n",
      GetParam(), number("idle.after") - number("idle.before"),
      number("ticks.after") - number("ticks.before"), number("run.after") - number("run.before"),
      number("run.ticks.after") - number("run.ticks.before"));
  EXPECT_EQ(number("idle.after"), number("idle.before"));
  // New runs come about once a second and cause two frames each; the time view keeps moving while
  // it explains them.
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

}  // namespace
}  // namespace foretrain
