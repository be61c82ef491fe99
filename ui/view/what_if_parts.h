// The parts of the what-if view, each drawn into its box.
#pragma once

#include <string>
#include <vector>

#include "ui/view/desktop_state.h"
#include "ui/view/frame.h"
#include "ui/view/screen.h"
#include "ui/view_model/what_if.h"

namespace foretrain::ui {

// What the controls were used for in this frame.
struct ControlUse {
  bool changed = false;  // the scenario
  bool pin = false;
  bool reset = false;  // to the pinned plan
  bool run = false;
};

// Sliders, lists and switches of all options of the plan and figures of the machine, which they
// change. `pinned`: what they began with; what differs is marked. `list_text`: of fields of several
// values, as typed.
ControlUse DrawControls(const ScreenFrame& frame, const Box& box, const Scenario* pinned,
                        Scenario& scenario, std::string& list_text);

// The numbers over the timeline, with their changes.
void DrawStepNumbers(const ScreenFrame& frame, const Box& box,
                     const std::vector<WhatIfNumber>& numbers);

// Ops of the passes that are wide enough, over the lanes' spans of a picture by passes.
void DrawPassOps(const Frame& frame, const PassForecast& forecast);

// Where the step of the pinned plan ends.
void DrawPinnedEnd(const Frame& frame, double step_s);

}  // namespace foretrain::ui
