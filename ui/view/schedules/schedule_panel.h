// The panel of What-if in which a schedule's passes can be dragged, opened from a file and saved.
#pragma once

#include <optional>
#include <string>

#include "ui/view/screens/screen.h"
#include "ui/view_model/schedules/schedule_editor.h"
#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

class SchedulePanel {
 public:
  // Draws into `box`. Returns a plan with the edited schedule once that works and is not being
  // dragged.
  std::optional<Plan> Draw(const ScreenFrame& frame, const Box& box, const Plan& plan);

  ScheduleEditor& editor() { return editor_; }
  std::string& file() { return file_; }
  // How the last save or load of a file ended: "saved s.csv", or its error.
  const std::string& note() const { return note_; }
  // Where a cell was drawn last; nullopt: it was not visible.
  std::optional<Box> BoxOf(const ActionPlace& place) const;

  static constexpr float kHeight = 260.0F;  // that it needs, in pixels at scale 1

 private:
  float DrawControls(const ScreenFrame& frame, const Box& box, const Plan& plan);
  void DrawRows(const ScreenFrame& frame, const Box& box);
  void DrawRow(Canvas& canvas, const Box& strip, int rank);
  void HandleMouse(const ScreenFrame& frame, const Box& plot);
  void Save(const Plan& plan);
  void OpenFile();

  ScheduleEditor editor_;
  std::string file_;
  std::string note_;
  Viewport viewport_{0.0, 0.0};  // of units; empty: the whole schedule
  int scroll_ = 0;               // first rank
  struct DrawnCell {
    Box box{};
    ActionPlace place{};
  };
  std::vector<DrawnCell> drawn_;
  std::optional<ActionPlace> chosen_;
};

}  // namespace foretrain::ui
