// Draws the memory of each stage of a plan as bars, against the device's capacity.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "ui/view/screens/plan_parts.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// One bar per stage, stacked by category, with a line at the device's capacity.
class StageBars {
 public:
  StageBars(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
            const FoundPlan& plan)
      : frame_(frame), canvas_(frame.canvas), box_(box), stages_(plan.stages) {
    has_ = static_cast<double>(found.request->cluster.device.memory_bytes);
    top_ = has_;
    for (const StageMemory& stage : stages_) {
      top_ = std::max(top_, static_cast<double>(stage.device.Total()));
    }
    top_ *= 1.08;
    plot_ = {box.x0 + canvas_.Px(56), box.y0 + canvas_.Px(20), box.x1, box.y1 - canvas_.Px(56)};
  }

  // Bars get narrower with the number of stages, and if they are very narrow only every eighth is
  // labelled.
  void Draw() {
    if (stages_.empty() || plot_.Height() < canvas_.Px(30)) return;
    canvas_.TextIn(canvas_.fonts.small, {box_.x0, box_.y0, box_.x1, box_.y0 + canvas_.Px(16)},
                   Align::kLeft, canvas_.theme.muted,
                   fmt::format("memory by stage, of {}", FormatBytes(Bytes(has_))));
    DrawScale();
    const auto count = static_cast<float>(stages_.size());
    // Few stages get bars of normal width, not of the whole panel.
    const float step = std::min(canvas_.Px(64), plot_.Width() / count);
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const float x0 = plot_.x0 + step * static_cast<float>(i);
      const float gap = std::min(canvas_.Px(6), std::floor(0.2F * step));
      DrawBar(stages_[i], {x0, plot_.y0, std::max(x0 + 1.0F, x0 + step - gap), plot_.y1});
      if (step >= canvas_.Px(14) || i % 8 == 0) {
        canvas_.TextIn(canvas_.fonts.mono_small,
                       {x0 - canvas_.Px(10), plot_.y1 + canvas_.Px(1),
                        x0 + step - gap + canvas_.Px(10), plot_.y1 + canvas_.Px(16)},
                       Align::kCentre, canvas_.theme.faint, std::to_string(stages_[i].pp));
      }
    }
    const float y = Y(has_);
    canvas_.DashedLine({plot_.x0, y}, {plot_.x1, y}, canvas_.theme.amber, canvas_.Px(4));
    DrawNames();
    if (hovered_ != nullptr) DrawHover(*hovered_);
  }

 private:
  static std::int64_t Bytes(double bytes) { return static_cast<std::int64_t>(bytes); }
  float Y(double bytes) const {
    return std::round(plot_.y1 - static_cast<float>(bytes / top_) * plot_.Height());
  }

  // Labels at round numbers of GiB.
  void DrawScale() {
    const int max = std::max(1, static_cast<int>(plot_.Height() / canvas_.Px(26)));
    const double gib = static_cast<double>(kGiB);
    const double step = NiceStep(top_ / gib / max) * gib;
    for (double at = 0; at < top_; at += step) {
      const float y = Y(at);
      canvas_.Fill({plot_.x0, y, plot_.x1, y + 1.0F}, canvas_.theme.grid);
      canvas_.TextIn(canvas_.fonts.mono_small,
                     {box_.x0, y - canvas_.Px(8), plot_.x0 - canvas_.Px(6), y + canvas_.Px(8)},
                     Align::kRight, canvas_.theme.faint, fmt::format("{:.4g} GiB", at / gib));
    }
  }

  // Categories are stacked from the bottom, memory outside the program is on top.
  void DrawBar(const StageMemory& stage, const Box& bar) {
    std::int64_t sum = 0;
    float bottom = plot_.y1;
    for (std::size_t c = 0; c < kCategoryCount; ++c) {
      sum += stage.tensors.bytes[c];
      const float top = Y(static_cast<double>(sum));
      if (top < bottom) canvas_.Fill({bar.x0, top, bar.x1, bottom}, canvas_.theme.categories[c]);
      bottom = std::min(bottom, top);
    }
    // Memory outside the program is grey.
    const float top = Y(static_cast<double>(stage.device.Total()));
    if (top < bottom) canvas_.Fill({bar.x0, top, bar.x1, bottom}, canvas_.theme.faint);
    const InputFrame& input = frame_.input;
    if (Box{bar.x0, plot_.y0, bar.x1, plot_.y1}.Contains(input.x, input.y)) hovered_ = &stage;
  }

  // Names of the categories that any stage has, and of memory outside the program.
  void DrawNames() {
    float x = box_.x0;
    float y = box_.y1 - canvas_.Px(36);
    const auto name = [&](Colour colour, std::string_view text) {
      const float needed = canvas_.WidthOf(canvas_.fonts.small, text) + canvas_.Px(28);
      if (x + needed > box_.x1 + canvas_.Px(14)) {
        x = box_.x0;
        y += canvas_.Px(17);
      }
      canvas_.Fill({x, y + canvas_.Px(3), x + canvas_.Px(9), y + canvas_.Px(12)}, colour,
                   canvas_.Px(2));
      canvas_.Text(canvas_.fonts.small, {x + canvas_.Px(14), y}, canvas_.theme.muted, text);
      x += needed;
    };
    for (std::size_t c = 0; c < kCategoryCount; ++c) {
      const bool any = std::any_of(stages_.begin(), stages_.end(), [c](const StageMemory& stage) {
        return stage.tensors.bytes[c] > 0;
      });
      if (any) name(canvas_.theme.categories[c], InWords(Name(static_cast<Category>(c))));
    }
    name(canvas_.theme.faint, "outside");
  }

  // Lists the stage's total, headroom, each category, and memory outside the program.
  void DrawHover(const StageMemory& stage) {
    std::vector<std::pair<std::string, std::string>> lines;
    // Below 0 if the stage does not fit.
    const double left = 1 - static_cast<double>(stage.device.Total()) / has_;
    lines.emplace_back(fmt::format("stage {}", stage.pp), FormatBytes(stage.device.Total()));
    lines.emplace_back("headroom", FormatPercent(left));
    for (std::size_t c = 0; c < kCategoryCount; ++c) {
      if (stage.tensors.bytes[c] == 0) continue;
      lines.emplace_back(InWords(Name(static_cast<Category>(c))),
                         FormatBytes(stage.tensors.bytes[c]));
    }
    lines.emplace_back("outside the program", FormatBytes(stage.device.outside.Total()));
    const float height = canvas_.Px(12.0F + 17.0F * static_cast<float>(lines.size()));
    const float x0 = std::min(frame_.input.x + canvas_.Px(14), box_.x1 - canvas_.Px(230));
    const float y0 = std::max(box_.y0 - canvas_.Px(60), std::min(frame_.input.y, box_.y1 - height));
    const Box card{x0, y0, x0 + canvas_.Px(230), y0 + height};
    canvas_.Card(card);
    float y = card.y0 + canvas_.Px(6);
    for (const auto& [label, value] : lines) {
      const Box line{card.x0 + canvas_.Px(10), y, card.x1 - canvas_.Px(10), y + canvas_.Px(16)};
      canvas_.TextIn(canvas_.fonts.small, line, Align::kLeft, canvas_.theme.muted, label);
      canvas_.TextIn(canvas_.fonts.mono_small, line, Align::kRight, canvas_.theme.text, value);
      canvas_.record.tooltip.push_back(label + " " + value);
      y += canvas_.Px(17);
    }
  }

  const ScreenFrame& frame_;
  Canvas& canvas_;
  Box box_, plot_;
  const std::vector<StageMemory>& stages_;
  double has_ = 0, top_ = 1;
  const StageMemory* hovered_ = nullptr;
};

}  // namespace

void DrawStageMemory(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                     const FoundPlan& plan) {
  StageBars(frame, box, found, plan).Draw();
}

}  // namespace foretrain::ui
