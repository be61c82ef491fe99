// The desktop's window on a display of its own. Slow: it starts a display server, and the CPU
// renders OpenGL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/commands/small_run.h"
#include "tests/app/desktop/shown_window.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kView = "view --view compare --run 2 --against 1 --size 800x500";

class ViewWindowSignals : public testing::TestWithParam<std::pair<const char*, int>> {};

// Runs the program on a display of its own. It stores its own exit code and stderr, because the
// exit code of xvfb-run is that of its clean-up.
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

// The label that starts with `start` in a frame; empty if there is none.
std::string LabelOf(const nlohmann::json& shown, const std::string& start) {
  for (const nlohmann::json& label : shown["labels"]) {
    if (label.get<std::string>().rfind(start, 0) == 0) return label;
  }
  return {};
}

// Whether a frame marks the end of the measured step, as "measured 3.62 ms"; "measured peak" is the
// memory's.
bool MarksTheMeasuredEnd(const nlohmann::json& shown) {
  const std::string start = "measured ";
  return std::any_of(shown["labels"].begin(), shown["labels"].end(), [&](const auto& label) {
    const std::string text = label;
    return text.rfind(start, 0) == 0 && std::isdigit(text[start.size()]) != 0;
  });
}

// Whether the tooltip of a frame is that of a span.
bool TellsASpan(const nlohmann::json& shown) {
  return std::any_of(
      shown["tooltip"].begin(), shown["tooltip"].end(),
      [](const nlohmann::json& line) { return line.get<std::string>().rfind("place", 0) == 0; });
}

// Moves over the lanes until the mouse is over a span. On a loaded machine a part of the step may
// hold few of them: then more of it is shown.
bool FindSpan(ShownWindow& window) {
  for (int wider = 0; wider < 4; ++wider) {
    for (int y = 200; y < 500; y += 17) {
      for (int x = 300; x < 900; x += 67) {
        window.MoveTo(x, y);
        if (TellsASpan(window.Shown())) return true;
      }
    }
    window.Wheel(-2);
  }
  return false;
}

void ZoomsAndReadsASpan(ShownWindow& window) {
  ASSERT_TRUE(window.UntilLabel("rank 1"));
  ASSERT_TRUE(window.Until("the end of the step", MarksTheMeasuredEnd));
  window.MoveTo(300, 250);
  window.Wheel(4);
  ASSERT_TRUE(window.Until("no end of the step after zooming in",
                           [](const auto& shown) { return !MarksTheMeasuredEnd(shown); }));
  window.Wheel(5);  // until single spans are wide enough
  ASSERT_TRUE(FindSpan(window));
  window.Press();
  window.Release();
  ASSERT_TRUE(window.UntilLabel("op id"));
  ASSERT_TRUE(window.UntilLabel("into the step"));
  window.Key("Escape");
  ASSERT_TRUE(window.Until("no details after Esc",
                           [](const nlohmann::json& shown) { return !HasLabel(shown, "op id"); }));
  window.Key("f");
  ASSERT_TRUE(window.Until("the end of the step again", MarksTheMeasuredEnd));
}

void OpensAnotherStore(ShownWindow& window) {
  window.Key("t");  // switches to the light theme
  window.Key("o");
  ASSERT_TRUE(window.UntilLabel("Open a store"));
  window.ClickOn("store path");
  window.TypeText("other.db");
  window.Key("Return");
  ASSERT_TRUE(window.UntilLabel("other.db"));
  ASSERT_TRUE(window.Until("Compare", [](const nlohmann::json& shown) {
    return shown["view"] == "compare" && HasLabel(shown, "rank 1");
  }));
}

void TurnsASlider(ShownWindow& window) {
  window.Key("2");
  const std::string title = "timeline simulated";
  ASSERT_TRUE(window.Until(
      "a timeline", [&](const nlohmann::json& shown) { return !LabelOf(shown, title).empty(); }));
  const std::string before = LabelOf(window.Shown(), title);
  const std::array<int, 4> slider = window.BoxOf("global batch");
  const int y = (slider[1] + slider[3]) / 2;
  window.MoveTo((slider[0] + slider[2]) / 2, y);
  window.Press();
  window.MoveTo(slider[2] - 4, y);
  window.Release();
  ASSERT_TRUE(window.Until("another plan's timeline", [&](const nlohmann::json& shown) {
    const std::string now = LabelOf(shown, title);
    return !now.empty() && now != before;
  }));
}

void StartsAndStopsARun(ShownWindow& window) {
  window.Key("7");
  ASSERT_TRUE(window.UntilLabel("not started"));
  window.ClickOn("data");
  window.TypeText("text.txt");
  window.ClickOn("steps");
  window.TypeText("0000");  // appended to the text in the field
  window.ClickOn("options");
  window.TypeText(
      "--layers 1 --hidden 64 --heads 4 --sequence 16 --global-batch 4 --ranks 2 --dp 2");
  ASSERT_TRUE(window.UntilLabel("--dp 2 --json"));
  window.ClickOn("Start");
  ASSERT_TRUE(window.UntilLabel("training"));
  ASSERT_TRUE(window.Until("a step", [](const nlohmann::json& shown) {
    const std::string step = LabelOf(shown, "step ");
    return step.find(" of ") != std::string::npos && step.rfind("step 0 ", 0) != 0;
  }));
  window.ClickOn("Stop");
  ASSERT_TRUE(window.UntilLabel("stopped"));
}

TEST(ViewWindow, OpensAStoreReadsASpanTurnsASliderAndTrains) {
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "command -v xvfb-run && command -v xauth && command -v xdotool")
          .code != 0) {
    GTEST_SKIP() << "xvfb-run, xauth or xdotool is not installed; apt-get install xvfb xauth "
                    "xdotool, then run this again";
  }
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3").code, 0);
  ASSERT_EQ(RunCommand(folder.path(), "cp foretrain.db other.db").code, 0);
  ShownWindow window(folder, "view --view compare --size 1000x700 --scale 1");
  if (window.errors().find("window with OpenGL") != std::string::npos)
    GTEST_SKIP() << "needs an X server with OpenGL, as Xvfb with Mesa has: " << window.errors();
  for (const auto& part :
       {ZoomsAndReadsASpan, OpensAnotherStore, TurnsASlider, StartsAndStopsARun}) {
    part(window);
    if (HasFatalFailure()) return;
  }
  window.Key("ctrl+3");  // the keyboard may be in a field
  ASSERT_TRUE(window.Until("Compare",
                           [](const nlohmann::json& shown) { return shown["view"] == "compare"; }));
  window.Key("ctrl+s");
  ASSERT_TRUE(window.UntilLabel("Saved the picture foretrain-compare.png"));
  window.Key("ctrl+shift+s");
  ASSERT_TRUE(window.UntilLabel("Saved the picture foretrain-compare.svg"));
  EXPECT_EQ(folder.Read("foretrain-compare.png").substr(1, 3), "PNG");
  EXPECT_THAT(folder.Read("foretrain-compare.svg"), HasSubstr("width=\"1000\""));
  EXPECT_THAT(folder.Read("foretrain-compare.svg"), Not(HasSubstr("Saved the picture")));
  EXPECT_EQ(window.Interrupt(), 130);
  EXPECT_EQ(window.errors(), "");
  const std::string kept = folder.Read("config/foretrain/desktop.json");
  EXPECT_THAT(kept, HasSubstr("\"theme\": \"light\""));
  EXPECT_THAT(kept, HasSubstr("/other.db\""));
  EXPECT_THAT(kept, HasSubstr("\"view\": \"compare\""));
}

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
