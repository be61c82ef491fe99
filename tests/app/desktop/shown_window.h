// The desktop's real window on a display of its own, with simulated mouse and keyboard. Its content
// is read from the frames it reports (tests/shown_frame.cc). Every step waits for frames or for
// content, so that a slow machine only takes longer.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {

class ShownWindow {
 public:
  // Opens `foretrain ARGUMENTS` of `folder` on a new display. `folder` must outlive this object.
  ShownWindow(const TemporaryFolder& folder, const std::string& arguments);
  ~ShownWindow();  // ends program and display where they still go on
  ShownWindow(const ShownWindow&) = delete;
  ShownWindow& operator=(const ShownWindow&) = delete;

  // The last frame: {"frame", "view", "labels", "tooltip", "widgets"}; null before the first.
  nlohmann::json Shown() const;

  // Waits for a frame that satisfies `is`. Fails the test with `what` after two minutes or if the
  // program ends.
  bool Until(const std::string& what, const std::function<bool(const nlohmann::json&)>& is);
  bool UntilLabel(const std::string& part);  // of any label

  void MoveTo(int x, int y);
  void Press();
  void Release();
  void Wheel(int notches);            // > 0: away from the hand
  void Key(const std::string& name);  // as xdotool calls it
  void TypeText(const std::string& text);
  // Clicks the widget labelled `label` in the last frame; fails the test if there is none.
  void ClickOn(const std::string& label);
  std::array<int, 4> BoxOf(const std::string& label);

  // Asks the program to stop, as Ctrl-C does, and returns its exit code; -1 if it is still running
  // after two minutes.
  int Interrupt();
  std::string errors() const;  // stderr of the program so far

 private:
  void Hand(const std::string& command);  // an xdotool command; waits for the frames that follow
  int FrameNumber() const;                // number of the last frame; 0 before the first
  bool Ended() const;

  const TemporaryFolder& folder_;
  std::string window_;  // X's number of the window
};

// Whether any label contains `part`.
bool HasLabel(const nlohmann::json& shown, const std::string& part);

}  // namespace foretrain
