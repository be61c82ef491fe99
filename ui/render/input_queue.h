// Mouse and keyboard events that wait for a frame. Dear ImGui 1.86 reads only the state at each
// frame, so a press and release between two frames would be lost.
#pragma once

#include <deque>
#include <vector>

namespace foretrain::ui {

struct InputEvent {
  enum class Kind { kMove, kLeave, kButton, kWheel, kKey, kCharacter };
  Kind kind = Kind::kMove;
  double x = 0.0, y = 0.0;  // position in the window, or wheel notches
  int code = 0;             // GLFW's button or key, or a Unicode character
  int scancode = 0;         // of a key
  bool is_down = false;     // a button or key was pressed, not released
};

class InputQueue {
 public:
  void Push(const InputEvent& event) { events_.push_back(event); }
  bool IsEmpty() const { return events_.empty(); }

  // Removes the events of the next frame. They contain at most one press or release, as the last
  // event apart from characters, and no movement after a turn of the wheel.
  std::vector<InputEvent> TakeFrame();

 private:
  std::deque<InputEvent> events_;
};

}  // namespace foretrain::ui
