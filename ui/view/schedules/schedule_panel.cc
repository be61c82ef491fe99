#include "ui/view/schedules/schedule_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/io/file_system.h"
#include "sim/config/schedule/schedule_csv.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kPad = 10.0F;
constexpr float kControls = 34.0F;
constexpr float kMessage = 20.0F;
constexpr float kGutter = 56.0F;
constexpr float kMinRow = 16.0F;
constexpr float kMaxRow = 26.0F;
constexpr float kMinEdge = 3.0F;  // narrower cells have no edge

constexpr double kShortestUnits = 4.0;  // that can be shown

}  // namespace

std::optional<Box> SchedulePanel::BoxOf(const ActionPlace& place) const {
  for (const DrawnCell& cell : drawn_) {
    if (cell.place == place) return cell.box;
  }
  return std::nullopt;
}

std::optional<Plan> SchedulePanel::Draw(const ScreenFrame& frame, const Box& box,
                                        const Plan& plan) {
  Canvas& canvas = frame.canvas;
  drawn_.clear();
  if (const auto followed = editor_.Follow(plan); !followed.has_value()) {
    DrawEmpty(canvas, box, followed.error().message);
    return std::nullopt;
  }
  const Box inner{box.x0 + canvas.Px(kPad), box.y0, box.x1 - canvas.Px(kPad), box.y1};
  const float top = DrawControls(frame, inner, plan);
  const bool broken = !editor_.report().Works();
  const Box message{inner.x0, top, inner.x1, top + canvas.Px(kMessage)};
  const std::string text = editor_.Describe() + (note_.empty() ? "" : "   " + note_);
  canvas.TextIn(canvas.fonts.small, message, Align::kLeft,
                broken ? canvas.theme.amber : canvas.theme.muted,
                Shortened(canvas, canvas.fonts.small, text, message.Width()));
  const Box rows{inner.x0, message.y1 + canvas.Px(4), inner.x1, inner.y1 - canvas.Px(6)};
  if (rows.Height() >= canvas.Px(kMinRow)) DrawRows(frame, rows);
  if (editor_.IsDragging()) return std::nullopt;
  Plan edited = editor_.Applied(plan);
  if (edited == plan) return std::nullopt;
  return edited;
}

// The file and its buttons, undo, and back to the schedule of the plan.
float SchedulePanel::DrawControls(const ScreenFrame& frame, const Box& box, const Plan& plan) {
  Canvas& canvas = frame.canvas;
  const Box line{box.x0, box.y0 + canvas.Px(2), box.x1, box.y0 + canvas.Px(kControls)};
  BeginPanel(frame, line, "##schedule.controls");
  TextField(frame, "##schedule.file", &file_, "schedule.csv",
            std::max(0.0F, line.Width() - canvas.Px(300)));
  ImGui::SameLine();
  if (Button(frame, "Open file", !file_.empty())) OpenFile();
  ImGui::SameLine();
  if (Button(frame, "Save CSV", editor_.report().Works())) Save(plan);
  ImGui::SameLine();
  if (Button(frame, "Take back", editor_.CanUndo())) editor_.Undo();
  EndPanel();
  return line.y1;
}

void SchedulePanel::Save(const Plan& plan) {
  if (file_.empty()) {
    file_ = plan.slots.empty() ? std::string("schedule.csv") : plan.slots.file();
  }
  PosixFileSystem files;
  const auto saved = WriteFileAtomically(files, file_, ToCsv(editor_.draft()));
  note_ = saved.has_value() ? "saved " + file_ : "not saved: " + saved.error().message;
}

// A file that cannot be read leaves the schedule as it is. One that does not work is shown with
// what is wrong.
void SchedulePanel::OpenFile() {
  PosixFileSystem files;
  const auto text = ReadFile(files, file_, static_cast<std::int64_t>(kMaxScheduleBytes));
  auto draft = text.has_value() ? ParseSchedule(*text, file_)
                                : Result<ScheduleDraft>(tl::unexpected<Error>(text.error()));
  if (!draft.has_value()) {
    note_ = draft.error().message;
    return;
  }
  note_ = "opened " + file_;
  viewport_ = {0.0, 0.0};
  scroll_ = 0;
  editor_.Open(*std::move(draft));
}

void SchedulePanel::DrawRows(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const auto ranks = static_cast<int>(editor_.draft().ranks.size());
  const float row = std::clamp(std::floor(box.Height() / static_cast<float>(ranks)),
                               canvas.Px(kMinRow), canvas.Px(kMaxRow));
  const int fit = std::max(1, static_cast<int>(box.Height() / row));
  const Box plot{box.x0 + canvas.Px(kGutter), box.y0, box.x1, box.y1};
  const double length = editor_.Length();
  if (viewport_.LengthNs() <= 0 || viewport_.end_ns > 1.02 * length) viewport_ = {0.0, length};
  if (frame.input.wheel != 0.0F && plot.Contains(frame.input.x, frame.input.y)) {
    if (frame.input.control) {
      scroll_ -= static_cast<int>(std::round(frame.input.wheel));
    } else {
      const double at = viewport_.ToTime(frame.input.x - plot.x0, plot.Width());
      const double to = std::clamp(viewport_.LengthNs() * std::pow(1.25, -frame.input.wheel),
                                   std::min(kShortestUnits, length), length);
      const double share = (at - viewport_.start_ns) / viewport_.LengthNs();
      const double start = std::clamp(at - share * to, 0.0, length - to);
      viewport_ = {start, start + to};
    }
  }
  scroll_ = std::clamp(scroll_, 0, std::max(0, ranks - fit));
  for (int i = 0; i < fit && scroll_ + i < ranks; ++i) {
    const int rank = scroll_ + i;
    const Box strip{plot.x0, box.y0 + static_cast<float>(i) * row + 1.0F, plot.x1,
                    box.y0 + static_cast<float>(i + 1) * row - 1.0F};
    canvas.TextIn(canvas.fonts.small, {box.x0, strip.y0, plot.x0, strip.y1}, Align::kLeft,
                  canvas.theme.muted, fmt::format("rank {}", rank));
    canvas.Fill(strip, canvas.theme.lane);
    canvas.PushClip(strip);
    DrawRow(canvas, strip, rank);
    canvas.PopClip();
  }
  HandleMouse(frame, plot);
}

void SchedulePanel::DrawRow(Canvas& canvas, const Box& strip, int rank) {
  const Theme& theme = canvas.theme;
  for (const EditedCell& cell : editor_.CellsOf(rank)) {
    Box box{strip.x0 + static_cast<float>(viewport_.ToX(cell.start, strip.Width())), strip.y0,
            strip.x0 + static_cast<float>(viewport_.ToX(cell.end, strip.Width())), strip.y1};
    if (box.x1 <= strip.x0 || box.x0 >= strip.x1) continue;
    box.x0 = std::round(box.x0);
    box.x1 = std::max(box.x0 + 1.0F, std::round(box.x1));
    drawn_.push_back({box, cell.place});
    canvas.Fill(box, theme.Tinted(cell.hue));
    if (box.Width() >= canvas.Px(kMinEdge)) canvas.Outline(box, theme.ground);
    const bool chosen = chosen_ == cell.place;
    if (cell.faulty || cell.dragged || chosen) {
      canvas.Outline(box, cell.faulty ? theme.amber : theme.text, canvas.Px(2));
    }
    const bool whole = box.x0 >= strip.x0 && box.x1 <= strip.x1;
    if (whole && canvas.WidthOf(canvas.fonts.small, cell.label) + canvas.Px(4) <= box.Width()) {
      canvas.TextIn(canvas.fonts.small, box, Align::kCentre, theme.text, cell.label);
    }
  }
}

// A press takes the cell under the mouse, the release leaves it where it came to; Escape puts it
// back. Comma and full stop move the chosen one by a place.
void SchedulePanel::HandleMouse(const ScreenFrame& frame, const Box& plot) {
  const InputFrame& input = frame.input;
  if (input.pressed && plot.Contains(input.x, input.y)) {
    chosen_.reset();
    for (const DrawnCell& cell : drawn_) {
      if (!cell.box.Contains(input.x, input.y)) continue;
      chosen_ = cell.place;
      editor_.Begin(cell.place);
      break;
    }
  }
  if (editor_.IsDragging()) {
    if (input.escape) {
      editor_.Cancel();
    } else if (input.down && (input.dx != 0.0F || input.dy != 0.0F)) {
      editor_.DragTo(viewport_.ToTime(input.x - plot.x0, plot.Width()));
      chosen_.reset();
    } else if (!input.down) {
      editor_.Drop();
    }
    return;
  }
  for (const char32_t typed : input.typed) {
    if (!chosen_.has_value() || (typed != U',' && typed != U'.')) continue;
    const int by = typed == U',' ? -1 : 1;
    editor_.Shift(*chosen_, by);
    const auto size =
        static_cast<int>(editor_.draft().ranks[static_cast<std::size_t>(chosen_->rank)].size());
    chosen_->action = std::clamp(chosen_->action + by, 0, size - 1);
  }
}

}  // namespace foretrain::ui
