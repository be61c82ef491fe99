#include "ui/view/panels/live_panel.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/panels/memory_plot.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kRow = 24.0F;  // heights
constexpr float kTensor = 38.0F;

// Two lines: name and bytes, then lifetime.
void DrawTensor(const ScreenFrame& frame, const Box& line, const LiveTensors& tensors,
                bool of_snapshot) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  canvas.Fill({line.x0, line.y0, line.x1, line.y0 + 1.0F}, theme.grid);
  const Box upper{line.x0, line.y0 + canvas.Px(3), line.x1, line.y0 + canvas.Px(20)};
  const Box lower{line.x0 + canvas.Px(18), upper.y1, line.x1, line.y1 - canvas.Px(2)};
  const float middle = (upper.y0 + upper.y1) / 2;
  DrawCategorySwatch(
      canvas, tensors.category,
      {line.x0, middle - canvas.Px(5), line.x0 + canvas.Px(10), middle + canvas.Px(5)});
  const std::string bytes = FormatBytes(tensors.bytes);
  const std::string each =
      tensors.count > 1
          ? fmt::format("{} x {}  ", FormatBytes(tensors.bytes / tensors.count), tensors.count)
          : std::string();
  const float right = canvas.WidthOf(canvas.fonts.mono_small, bytes);
  canvas.TextIn(canvas.fonts.mono_small, upper, Align::kRight, theme.text, bytes);
  const Box text_box{upper.x0, upper.y0, upper.x1 - right - canvas.Px(8), upper.y1};
  canvas.TextIn(canvas.fonts.mono_small, text_box, Align::kRight, theme.faint, each);
  const float room = text_box.x1 - lower.x0 - canvas.WidthOf(canvas.fonts.mono_small, each);
  canvas.TextIn(canvas.fonts.small, {lower.x0, upper.y0, text_box.x1, upper.y1}, Align::kLeft,
                theme.text, Shortened(canvas, canvas.fonts.small, tensors.name, room));
  // A snapshot knows no ops.
  const std::string life = of_snapshot ? InWords(Name(tensors.category))
                           : tensors.since.empty()
                               ? "for the whole run"
                               : "since " + tensors.since + " until " + tensors.until;
  canvas.TextIn(canvas.fonts.small, lower, Align::kLeft, theme.muted,
                Shortened(canvas, canvas.fonts.small, life, lower.Width()));
}

// The tooltip repeats the line in full, because names and lifetimes are shortened in it.
void DrawTensorHover(const ScreenFrame& frame, const LiveTensors& tensors, bool of_snapshot) {
  const std::string bytes = FormatBytes(tensors.bytes);
  HoverText hover{tensors.name, InWords(Name(tensors.category)), {}};
  hover.lines.push_back({"bytes", bytes});
  if (tensors.count > 1) {
    hover.lines.push_back({"buffers", fmt::format("{} of {}", tensors.count,
                                                  FormatBytes(tensors.bytes / tensors.count))});
  }
  if (!of_snapshot) {
    hover.lines.push_back({"since", tensors.since.empty() ? "the whole run" : tensors.since});
  }
  if (!tensors.until.empty()) hover.lines.push_back({"until", tensors.until});
  DrawTooltipOnTop(frame, hover);
}

}  // namespace

// The request changes with the store, the run or the space. A new request drops the old answer,
// which would belong to another run.
void LivePanel::Ask(const DesktopState& desktop, Space space) {
  const StoreRequest& shown = desktop.session.shown();
  // Without the function or an open run there is nothing to ask for.
  if (!desktop.services.find_live || shown.path.empty() || shown.run == 0) return;
  const Wanted wanted{shown.path, shown.run, space};
  if (wanted_ != wanted) {
    wanted_ = wanted;
    live_.reset();
    why_not_.clear();
    if (worker_ == nullptr) {
      worker_ = std::make_unique<Worker>(
          [find = desktop.services.find_live](const Wanted& of, const auto&) {
            return find({.path = of.store, .run = of.run}, of.space);
          });
    }
    worker_->Ask(wanted);
  }
  auto done = worker_->Take();
  if (!done.has_value()) return;
  if (done->answer.has_value()) {
    live_ = *std::move(done->answer);
  } else {
    why_not_ = done->answer.error().message;
  }
}

// Shows one of four states: nothing requested, in progress, failed with a reason, or the tensors.
void LivePanel::Draw(const ScreenFrame& frame, const Box& box, int rank) const {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  float y = box.y0;
  if (!wanted_.has_value() || y + canvas.Px(3 * kRow) > box.y1) return;
  // Null until the answer is there, or if the program lacks the rank.
  const LiveAtPeak* const live = live_.has_value() ? live_->Of(rank) : nullptr;
  canvas.TextIn(canvas.fonts.bold, {box.x0, y, box.x1, y + canvas.Px(kRow)}, Align::kLeft,
                theme.text,
                live_.has_value() && live_->of_snapshot ? "largest at the peak, by stack"
                                                        : "largest at the predicted peak");
  canvas.TextIn(canvas.fonts.small, {box.x0, y, box.x1, y + canvas.Px(kRow)}, Align::kRight,
                theme.muted, "each x how many");
  y += canvas.Px(kRow);
  if (live == nullptr) {
    const std::string text = live_.has_value()  ? "The program has no such rank."
                             : why_not_.empty() ? "The program is compiled..."
                                                : "Not known: " + why_not_;
    canvas.TextIn(canvas.fonts.small, {box.x0, y, box.x1, y + canvas.Px(kRow)}, Align::kLeft,
                  theme.muted, Shortened(canvas, canvas.fonts.small, text, box.Width()));
    return;
  }
  // Largest first, as many as fit.
  for (const LiveTensors& tensors : live->tensors) {
    if (y + canvas.Px(kTensor) > box.y1) break;
    const Box line{box.x0, y, box.x1, y + canvas.Px(kTensor)};
    DrawTensor(frame, line, tensors, live_->of_snapshot);
    if (line.Contains(frame.input.x, frame.input.y))
      DrawTensorHover(frame, tensors, live_->of_snapshot);
    y = line.y1;
  }
}

}  // namespace foretrain::ui
