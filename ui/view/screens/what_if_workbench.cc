#include "ui/view/screens/what_if_workbench.h"

#include <algorithm>
#include <cmath>

#include "ui/view/lanes/segments.h"
#include "ui/view/panels/workbench_panels.h"

namespace foretrain::ui {
namespace {

const std::vector<std::string>& PanelNames() {
  static const std::vector<std::string> names{"timeline",   "both",  "play",   "passes",
                                              "difference", "sweep", "history"};
  return names;
}

}  // namespace

WhatIfWorkbench::WhatIfWorkbench(Clock& clock)
    : explainer_(clock),
      sweeper_([maker = std::make_shared<StepMaker>(clock)](const auto& of, const auto& outdated) {
        return SweepOf(of.first, of.second, *maker, outdated);
      }) {}

float WhatIfWorkbench::WidthOfChoice(const Canvas& canvas) {
  return SegmentsWidth(canvas, PanelNames());
}

void WhatIfWorkbench::DrawChoice(const ScreenFrame& frame, const Box& box) {
  const std::vector<std::string>& names = PanelNames();
  const float width = WidthOfChoice(frame.canvas), height = SegmentsHeight(frame.canvas);
  if (width <= box.Width()) {
    Segments(frame, {box.x1 - width, std::round((box.y0 + box.y1 - height) / 2)}, names, &panel_);
    return;
  }
  const auto half = static_cast<std::ptrdiff_t>((names.size() + 1) / 2);
  const float line = std::round(box.Height() / 2);
  for (const bool second : {false, true}) {
    const std::vector<std::string> part(second ? names.begin() + half : names.begin(),
                                        second ? names.end() : names.begin() + half);
    const int first = second ? static_cast<int>(half) : 0;
    int chosen = panel_ - first;
    const int before = chosen;
    const float y = box.y0 + (second ? line : 0.0F) + std::round((line - height) / 2);
    Segments(frame, {box.x0, y}, part, &chosen);
    if (chosen != before) panel_ = first + chosen;
  }
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
    case WhatIfPanel::kPlay:
    case WhatIfPanel::kSchedule:
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
