#include "tests/app/desktop/shown_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/paths.h"

namespace foretrain {
namespace {

using nlohmann::json;

constexpr auto kDeadline = std::chrono::seconds(120);
constexpr auto kPause = std::chrono::milliseconds(20);
constexpr int kMaxPauses = 500;  // waits for frames that may not come

// Waits until `is` holds; false after the deadline.
bool WaitFor(const std::function<bool()>& is) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

// "12\n" as "12".
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

bool HasLabel(const json& shown, const std::string& part) {
  if (shown.is_null()) return false;
  return std::any_of(shown["labels"].begin(), shown["labels"].end(), [&part](const json& label) {
    return label.get_ref<const std::string&>().find(part) != std::string::npos;
  });
}

ShownWindow::ShownWindow(const TemporaryFolder& folder, const std::string& arguments)
    : folder_(folder) {
  folder.Write("start.sh",
               "echo \"export DISPLAY='$DISPLAY' XAUTHORITY='$XAUTHORITY'\" >display\n"
               "env LIBGL_ALWAYS_SOFTWARE=1 FORETRAIN_SHOWN=shown.json '" +
                   StoppableBinary() + "' " + arguments +
                   " 2>view.errors &\necho $! >view.pid\nwait $!\n"
                   "echo $? >view.code\n");
  RunCommand(folder.path(),
             "XDG_CONFIG_HOME=\"$PWD/config\" setsid xvfb-run -a -s '-screen 0 1024x768x24' sh "
             "start.sh >display.out 2>&1 &\necho $! >display.pid");
  const bool drawn = WaitFor([this] { return Ended() || !Shown().is_null(); });
  if (!drawn || Ended()) return;  // the test looks at errors()
  const bool found = WaitFor([this] {
    window_ = FirstLine(RunCommand(folder_.path(),
                                   ". ./display; xdotool search --onlyvisible "
                                   "--name '^foretrain$'")
                            .output);
    return Ended() || !window_.empty();
  });
  EXPECT_TRUE(found && !window_.empty()) << "no window of that name; " << errors();
  RunCommand(folder_.path(), ". ./display; xdotool windowfocus " + window_);
}

ShownWindow::~ShownWindow() {
  RunCommand(folder_.path(), "kill -KILL $(cat view.pid); kill -TERM -$(cat display.pid)");
}

bool ShownWindow::Ended() const { return !folder_.Read("view.code").empty(); }

std::string ShownWindow::errors() const { return folder_.Read("view.errors"); }

json ShownWindow::Shown() const {
  json shown = json::parse(folder_.Read("shown.json"), nullptr, /*allow_exceptions=*/false);
  return shown.is_discarded() ? json() : shown;
}

int ShownWindow::FrameNumber() const {
  const json shown = Shown();
  return shown.is_null() ? 0 : shown["frame"].get<int>();
}

bool ShownWindow::Until(const std::string& what, const std::function<bool(const json&)>& is) {
  const bool held = WaitFor([&] {
    const json shown = Shown();
    return Ended() || (!shown.is_null() && is(shown));
  });
  if (held && !Ended()) return true;
  ADD_FAILURE() << "never shown: " << what << "; last frame " << Shown().dump().substr(0, 4000)
                << "; " << errors();
  return false;
}

bool ShownWindow::UntilLabel(const std::string& part) {
  return Until(part, [&part](const json& shown) { return HasLabel(shown, part); });
}

// A window at rest draws two frames for each event and none otherwise. Waits until these are drawn
// or, if it draws continuously, a moment longer for the event to arrive. Moving to the mouse's
// current position is no event; the wait ends then too.
void ShownWindow::Hand(const std::string& command) {
  const int first = FrameNumber();
  RunCommand(folder_.path(), ". ./display; exec xdotool " + command);
  for (int i = 0; i < kMaxPauses && FrameNumber() < first + 2 && !Ended(); ++i) {
    std::this_thread::sleep_for(kPause);
  }
  int last = -1;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(kPause);
    const int now = FrameNumber();
    if (now == last) return;
    last = now;
  }
}

void ShownWindow::MoveTo(int x, int y) {
  Hand("mousemove --window " + window_ + " " + std::to_string(x) + " " + std::to_string(y));
}

void ShownWindow::Press() { Hand("mousedown 1"); }

void ShownWindow::Release() { Hand("mouseup 1"); }

void ShownWindow::Wheel(int notches) {
  Hand("click --repeat " + std::to_string(std::abs(notches)) + (notches > 0 ? " 4" : " 5"));
}

void ShownWindow::Key(const std::string& name) { Hand("key " + name); }

void ShownWindow::TypeText(const std::string& text) { Hand("type -- '" + text + "'"); }

std::array<int, 4> ShownWindow::BoxOf(const std::string& label) {
  const json shown = Shown();
  for (const json& widget : shown["widgets"]) {
    if (widget["label"] != label && widget["label"] != "##" + label) continue;  // unseen labels
    std::array<int, 4> box{};
    for (std::size_t i = 0; i < 4; ++i) box[i] = static_cast<int>(widget["box"][i].get<double>());
    return box;
  }
  ADD_FAILURE() << "no widget \"" << label << "\" in " << shown["widgets"].dump().substr(0, 4000);
  return {};
}

void ShownWindow::ClickOn(const std::string& label) {
  const std::array<int, 4> box = BoxOf(label);
  MoveTo((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  Hand("click 1");
}

int ShownWindow::Interrupt() {
  RunCommand(folder_.path(), "kill -INT $(cat view.pid)");
  return WaitFor([this] { return Ended(); }) ? std::stoi(folder_.Read("view.code")) : -1;
}

}  // namespace foretrain
