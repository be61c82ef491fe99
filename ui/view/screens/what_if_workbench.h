// The lower part of the what-if view: which of its panels is shown, the history of the plan, what
// makes it differ from the pinned one, and how it does as it grows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/planning/difference_explainer.h"
#include "ui/view_model/planning/plan_sweep.h"
#include "ui/view_model/runs/latest_worker.h"

namespace foretrain::ui {

enum class WhatIfPanel : std::uint8_t {
  kTimeline,
  kBoth,        // the pinned plan's timeline above
  kPlay,        // the step is stepped through
  kSchedule,    // the schedule is edited
  kDifference,  // what each change does
  kSweep,
  kHistory,
};

class WhatIfWorkbench {
 public:
  explicit WhatIfWorkbench(Clock& clock);

  WhatIfPanel panel() const { return static_cast<WhatIfPanel>(panel_); }
  bool ShowsTimeline() const { return panel() <= WhatIfPanel::kSchedule; }
  bool IsBusy() const { return explainer_.IsBusy() || sweeper_.IsBusy(); }
  ScenarioHistory& history() { return history_; }
  const std::optional<ExplainedDifference>& difference() const { return explainer_.difference(); }
  const std::optional<PlanSweep>& sweep() const { return sweep_; }

  void Show(WhatIfPanel panel) { panel_ = static_cast<int>(panel); }

  // The choice of panels: in one line, which ends at the right edge of `box`, or in two if that is
  // too narrow. `WidthOfChoice` is that of one line.
  void DrawChoice(const ScreenFrame& frame, const Box& box);
  static float WidthOfChoice(const Canvas& canvas);

  // The panel in place of the timeline. Returns the scenario that was chosen in the history.
  const Scenario* Draw(const ScreenFrame& frame, const Box& box, const Scenario& now,
                       const Scenario* pinned);

 private:
  void AskSweep(const Scenario& now);
  void DrawSweepPanel(const ScreenFrame& frame, const Box& box);

  int panel_ = 0;
  int swept_ = 0;
  ScenarioHistory history_;
  DifferenceExplainer explainer_;
  std::optional<std::pair<Scenario, SweptField>> sweep_of_;  // as asked last
  std::optional<PlanSweep> sweep_;
  LatestWorker<std::pair<Scenario, SweptField>, PlanSweep> sweeper_;
};

}  // namespace foretrain::ui
