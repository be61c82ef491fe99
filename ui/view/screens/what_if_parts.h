// The parts of the what-if view, each drawn into its box.
#pragma once

#include <string>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/desktop/frame.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/planning/what_if.h"

namespace foretrain::ui {

// The uses of the controls in this frame.
struct ControlUse {
  bool changed = false;  // the scenario
  bool pin = false;
  bool reset = false;     // to the pinned plan
  bool from_run = false;  // to the plan of the open run
  bool run = false;
  bool undo = false;
  bool redo = false;
};

// The state of the controls.
struct ControlState {
  const Scenario* pinned = nullptr;  // controls that differ from it are marked; null: none
  bool has_run = false;              // a run is open that the plan can be taken from
  bool can_undo = false;
  bool can_redo = false;
};

// Draws and applies the controls: all options of the plan, and rates of the machine.
//
//   list_text  the text of fields with several values, as typed
ControlUse DrawControls(const ScreenFrame& frame, const Box& box, const ControlState& state,
                        Scenario& scenario, std::string& list_text);

// Step time and other numbers above the timeline, with their changes against the pinned plan.
void DrawStepNumbers(const ScreenFrame& frame, const Box& box,
                     const std::vector<WhatIfNumber>& numbers);

// Draws the ops of wide passes over the lanes of a picture by passes.
void DrawPassOps(const Frame& frame, const PassForecast& forecast);

// Marks the end of the pinned plan's step.
void DrawPinnedEnd(const Frame& frame, double step_s);

}  // namespace foretrain::ui
