// The desktop's real window on a display of its own, moved and typed into as a hand does. What it
// shows is read from the frames it tells of (tests/shown_frame.cc), and every step waits for frames
// or for what is to be seen, so that a slow machine only takes longer.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {

class ShownWindow {
 public:
  // Opens `foretrain ARGUMENTS` of `folder` on a new display. `folder` outlives this.
  ShownWindow(const TemporaryFolder& folder, const std::string& arguments);
  ~ShownWindow();  // ends program and display where they still go on
  ShownWindow(const ShownWindow&) = delete;
  ShownWindow& operator=(const ShownWindow&) = delete;

  // The last frame: {"frame", "view", "labels", "tooltip", "widgets"}; null before the first.
  nlohmann::json Shown() const;

  // Waits until a frame is as `is` says; fails the test with `what` after two minutes or where the
  // program ended.
  bool Until(const std::string& what, const std::function<bool(const nlohmann::json&)>& is);
  bool UntilLabel(const std::string& part);  // of any label

  void MoveTo(int x, int y);
  void Press();
  void Release();
  void Wheel(int notches);  // > 0: away from the hand
  void Key(const std::string& name);  // as xdotool calls it
  void TypeText(const std::string& text);
  // The widget called `label` in the last frame; fails the test where there is none.
  void ClickOn(const std::string& label);
  std::array<int, 4> BoxOf(const std::string& label);

  // Asks the program to stop, as Ctrl-C does; its exit code, -1 where it goes on for two minutes.
  int Interrupt();
  std::string errors() const;  // of the program, all that it said

 private:
  void Hand(const std::string& command);  // xdotool's; waits for the frames that follow
  int FrameNumber() const;  // of the last frame; 0 before the first
  bool Ended() const;

  const TemporaryFolder& folder_;
  std::string window_;  // X's number of it
};

// Whether any label contains `part`.
bool HasLabel(const nlohmann::json& shown, const std::string& part);

}  // namespace foretrain
