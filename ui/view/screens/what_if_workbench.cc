#include "ui/view/screens/what_if_workbench.h"

#include <algorithm>

#include "ui/view/lanes/segments.h"
#include "ui/view/panels/workbench_panels.h"

namespace foretrain::ui {
WhatIfWorkbench::WhatIfWorkbench(Clock& clock)
    : explainer_(clock),
      sweeper_([maker = std::make_shared<StepMaker>(clock)](const auto& of, const auto& outdated) {
        return SweepOf(of.first, of.second, *maker, outdated);
      }) {}

float WhatIfWorkbench::DrawChoice(const ScreenFrame& frame, const Box& box) {
  const std::vector<std::string> names{"timeline", "both", "difference", "sweep", "history"};
  const float x = box.x1 - SegmentsWidth(frame.canvas, names);
  const float y = std::round((box.y0 + box.y1 - SegmentsHeight(frame.canvas)) / 2);
  Segments(frame, {x, y}, names, &panel_);
  return x;
}

void WhatIfWorkbench::AskSweep(const Scenario& now) {
  const auto field = static_cast<SweptField>(swept_);
  const bool same =
      sweep_of_ && IsSameScenario(sweep_of_->first, now) && sweep_of_->second == field;
  if (!same) {
    sweep_of_ = {now, field};
    sweeper_.Ask(*sweep_of_);
  }
  auto done = sweeper_.Take();
  if (done && done->answer) sweep_ = *std::move(done->answer);
}

void WhatIfWorkbench::DrawSweepPanel(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  std::vector<std::string> names;
  for (int i = 0; i < kSweptFieldCount; ++i) names.emplace_back(Name(static_cast<SweptField>(i)));
  Segments(frame, {box.x0 + canvas.Px(14), box.y0 + canvas.Px(6)}, names, &swept_);
  if (!sweep_) return;
  DrawSweep(canvas,
            {box.x0 + canvas.Px(14), box.y0 + canvas.Px(44), box.x1 - canvas.Px(14),
             box.y1 - canvas.Px(8)},
            *sweep_);
}

const Scenario* WhatIfWorkbench::Draw(const ScreenFrame& frame, const Box& box, const Scenario& now,
                                      const Scenario* pinned) {
  switch (panel()) {
    case WhatIfPanel::kTimeline:
    case WhatIfPanel::kBoth:
      break;
    case WhatIfPanel::kDifference:
      if (pinned == nullptr) {
        DrawEmpty(frame.canvas, box,
                  "Pin a plan, then change it: this panel explains the difference.");
        break;
      }
      explainer_.Ask(*pinned, now);
      if (explainer_.difference()) {
        DrawDifference(frame, box, *explainer_.difference());
      } else if (!explainer_.problem().empty()) {
        DrawEmpty(frame.canvas, box, "No difference to explain: " + explainer_.problem());
      }
      break;
    case WhatIfPanel::kSweep:
      AskSweep(now);
      DrawSweepPanel(frame, box);
      break;
    case WhatIfPanel::kHistory:
      if (const auto at = DrawHistory(frame, box, history_)) return history_.GoTo(*at);
      break;
  }
  return nullptr;
}

}  // namespace foretrain::ui
