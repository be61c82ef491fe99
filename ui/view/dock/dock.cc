#include "ui/view/dock/dock.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/view/desktop/input.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/dock/dock_texts.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kBar = 28.0F;
constexpr float kEdge = 5.0F;  // where the mouse takes the upper edge
constexpr float kMinHeight = 96.0F;
constexpr float kMaxShare = 0.6F;  // of the screen
constexpr float kPad = 10.0F;
constexpr int kKeyC = 67;

constexpr std::array<const char*, kDockTabCount> kTabs{"Selection", "Range", "Search", "Play"};

float HeightOfButton(const Canvas& canvas) { return canvas.Px(20); }

// A button of the bar, drawn from its right or left edge at `x`. Returns whether it was pressed.
bool BarButton(const ScreenFrame& frame, const Box& box, std::string_view name, bool on,
               bool enabled = true) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const bool over = box.Contains(frame.input.x, frame.input.y);
  const float share = on ? 0.22F : over && enabled ? 0.14F : 0.07F;
  canvas.Fill(box, Mixed(theme.panel, theme.text, share), canvas.Px(4));
  const Colour colour = !enabled ? theme.faint : on || over ? theme.text : theme.muted;
  canvas.TextIn(canvas.fonts.small, box, Align::kCentre, colour, name);
  canvas.record.texts.back().disabled = !enabled;
  canvas.record.widgets.push_back({std::string(name), box});
  return over && enabled && frame.input.pressed;
}

float WidthOfButton(const Canvas& canvas, std::string_view name) {
  return canvas.WidthOf(canvas.fonts.small, name) + canvas.Px(16);
}

}  // namespace

// The content keeps a third of a low screen for the lanes.
Box Dock::PlaceIn(const Box& screen, float scale) const {
  const float bar = std::round(kBar * scale);
  float height = bar;
  if (state().open) {
    const float max = std::floor(kMaxShare * screen.Height());
    height = std::round(std::max(state().height, kMinHeight) * scale);
    height = std::max(std::min(height, max), std::min(bar, screen.Height()));
  }
  return {screen.x0, std::max(screen.y0, screen.y1 - height), screen.x1, screen.y1};
}

InputFrame Dock::Handle(const InputFrame& input, const Box& screen, float scale) {
  InputFrame left = input;
  const auto is_key = [](char32_t typed) { return typed == U'i' || typed == U'I'; };
  if (std::erase_if(left.typed, is_key) % 2 == 1) {
    state().open ? state().Hide() : state().Open(state().tab);
  }
  const Box box = PlaceIn(screen, scale);
  const bool at_edge = state().open && input.x >= box.x0 && input.x < box.x1 &&
                       std::abs(input.y - box.y0) <= kEdge * scale;
  if (input.pressed && at_edge) resizing_ = true;
  if (resizing_) {
    state().height = std::clamp((box.y1 - input.y) / scale, kMinHeight,
                                std::max(kMinHeight, kMaxShare * screen.Height() / scale));
    if (!input.down) resizing_ = false;
  }
  // A drag that began above goes on and ends over the panel.
  const bool dragged = (input.down && !input.pressed) || input.released;
  const bool over = at_edge || box.Contains(input.x, input.y);
  return resizing_ || (over && !dragged) ? WithoutMouse(left) : left;
}

DockTab Dock::Tab(const DockContent& content) const {
  const bool none = state().tab == DockTab::kPlay && content.play == nullptr;
  return none ? DockTab::kSelection : state().tab;
}

Side Dock::SideOf(const CompareModel& model) const {
  const Side side = state().side.value_or(model.Shown());
  return model.Of(side).IsPresent() ? side : model.Shown();
}

DockActions Dock::Draw(const ScreenFrame& frame, const Box& box, const DockContent& content) {
  DockActions actions;
  Canvas& canvas = frame.canvas;
  const Box bar{box.x0, box.y0, box.x1, std::min(box.y1, box.y0 + canvas.Px(kBar))};
  canvas.Fill(box, canvas.theme.panel);
  canvas.Fill({box.x0, box.y0, box.x1, box.y0 + 1.0F}, canvas.theme.line);
  if (state().open && Tab(content) == DockTab::kRange) RefreshRange(content);
  if (state().open && Tab(content) == DockTab::kSelection) RefreshDetails(content);
  DrawBar(frame, bar, content, actions);
  const bool shows_search = state().open && state().tab == DockTab::kSearch;
  if (!shows_search) {
    if (content.searching && !actions.search_started) actions.search_ended = true;
    search_was_open_ = false;
    search_frames_ = 0;
  }
  const Box body{box.x0, bar.y1, box.x1, box.y1};
  if (!state().open || body.Height() < canvas.Px(24)) return actions;
  canvas.PushClip(body);
  switch (Tab(content)) {
    case DockTab::kPlay:
      play_.Draw(frame, body, content.model, content.model_number, content.memory_lane,
                 *content.play);
      break;
    case DockTab::kSelection:
      DrawSelection(frame, body, content);
      break;
    case DockTab::kRange:
      DrawRange(frame, body, content);
      break;
    case DockTab::kSearch:
      DrawSearch(frame, body, content, actions);
      break;
  }
  canvas.PopClip();
  return actions;
}

// Tabs on the left, buttons on the right. A tab opens the panel.
void Dock::DrawBar(const ScreenFrame& frame, const Box& bar, const DockContent& content,
                   DockActions& actions) {
  Canvas& canvas = frame.canvas;
  const float height = HeightOfButton(canvas);
  const float y = std::round((bar.y0 + bar.y1 - height) / 2);
  float x = bar.x0 + canvas.Px(kPad);
  for (int i = 0; i < kDockTabCount; ++i) {
    const char* const name = kTabs[static_cast<std::size_t>(i)];
    const Box box{x, y, x + WidthOfButton(canvas, name), y + height};
    const auto tab = static_cast<DockTab>(i);
    if (tab == DockTab::kPlay && content.play == nullptr) continue;
    if (BarButton(frame, box, name, state().open && Tab(content) == tab)) {
      state().Open(tab);
      copied_.clear();
      actions.search_started = tab == DockTab::kSearch;
    }
    x = box.x1 + canvas.Px(4);
  }
  const char* const toggle = state().open ? "hide (I)" : "show (I)";
  const float right = bar.x1 - canvas.Px(kPad);
  const Box hide{right - WidthOfButton(canvas, toggle), y, right, y + height};
  if (BarButton(frame, hide, toggle, false)) {
    state().open ? state().Hide() : state().Open(state().tab);
  }
  if (state().open) DrawCopyButtons(frame, {x, y, hide.x0 - canvas.Px(12), y + height}, x, content);
}

// From the right: the command, CSV, text, and left of them what was copied last, if there is room.
void Dock::DrawCopyButtons(const ScreenFrame& frame, const Box& bar, float left,
                           const DockContent& content) {
  Canvas& canvas = frame.canvas;
  float x1 = bar.x1;
  const auto place = [&](std::string_view name) {
    const Box box{x1 - WidthOfButton(canvas, name), bar.y0, x1, bar.y1};
    x1 = box.x0 - canvas.Px(4);
    return box;
  };
  const Result<std::string> command = Command(content);
  const Box at = place("Copy command");
  if (BarButton(frame, at, "Copy command", false, command.has_value())) Copy(*command, "command");
  if (at.Contains(frame.input.x, frame.input.y)) {
    DrawTooltipOnTop(frame,
                     {"Copy command",
                      command.has_value() ? "prints this table in a terminal" : "",
                      {{"command", command.has_value() ? Shortened(canvas, canvas.fonts.mono_small,
                                                                   *command, canvas.Px(560))
                                                       : command.error().message}}});
  }
  if (BarButton(frame, place("CSV"), "CSV", false)) Copy(TextOf(content, /*csv=*/true), "CSV");
  const ImGuiIO& io = ImGui::GetIO();
  const bool by_key = frame.input.control && !io.WantTextInput && ImGui::IsKeyPressed(kKeyC, false);
  if (BarButton(frame, place("Copy"), "Copy", false) || by_key) {
    Copy(TextOf(content, /*csv=*/false), "text");
  }
  const float width = canvas.WidthOf(canvas.fonts.small, copied_);
  if (copied_.empty() || x1 - width - canvas.Px(8) < left) return;
  canvas.TextIn(canvas.fonts.small, {left, bar.y0, x1 - canvas.Px(4), bar.y1}, Align::kRight,
                canvas.theme.muted, copied_);
}

void Dock::Copy(std::string text, std::string_view what) {
  ImGui::SetClipboardText(text.c_str());
  const auto lines = std::count(text.begin(), text.end(), '\n') + (text.ends_with('\n') ? 0 : 1);
  copied_ = text.empty() ? "nothing to copy"
            : lines == 1 ? fmt::format("copied the {}", what)
                         : fmt::format("copied {} lines of {}", lines, what);
}

std::string Dock::TextOf(const DockContent& content, bool csv) {
  const auto print = [csv](const Table& table) { return csv ? table.Csv() : table.Text(0, 0); };
  switch (Tab(content)) {
    case DockTab::kPlay:
      return play_.TextOf(content.model, content.model_number, content.memory_lane, *content.play,
                          csv);
    case DockTab::kSelection:
      return content.selected.has_value() ? print(TableOf(details_)) : std::string();
    case DockTab::kRange:
      return sums_.has_value() ? print(foretrain::TableOf(*sums_)) : std::string();
    case DockTab::kSearch:
      break;
  }
  return content.found.empty() ? std::string() : print(TableOf(content.model, content.found));
}

// The command sums what the panel shows: the range, or the part of the step in which the selected
// span runs. Spans of a warped forecast lie where no stored run has them.
Result<std::string> Dock::Command(const DockContent& content) const {
  const CompareModel& model = content.model;
  const auto none = [](const char* why) { return Fail(ErrorCode::kUnsupported, why); };
  Side side = SideOf(model);
  std::optional<SummedRange> range;
  SumBy by = state().by;
  if (Tab(content) == DockTab::kPlay) return none("no command prints a moment; Copy and CSV do");
  if (Tab(content) == DockTab::kSelection) {
    if (!content.selected.has_value()) return none("no span is selected");
    const Span& span = model.SpanOf(*content.selected);
    side = content.selected->side;
    if (span.step != model.Of(side).step || span.start_ns < model.Of(side).step_start_ns) {
      return none("the span lies outside the step that is shown");
    }
    range = SummedRange{span.start_ns, std::max(span.end_ns, span.start_ns + 1), span.rank};
    by = SumBy::kOp;
  } else if (Tab(content) == DockTab::kRange) {
    if (sums_.has_value()) range = sums_->range;
  } else {
    return none("no command lists what a search finds; Copy and CSV do");
  }
  if (!range.has_value()) return none("there is nothing to sum");
  if (model.warped != nullptr && side == Side::kPredicted) {
    return none("the forecast is warped: align it another way first (Z)");
  }
  if (by == SumBy::kOp && model.Of(side).run->structure.has_value()) {
    return none("ops are the forecast's here, and the command knows the trace's kernels alone");
  }
  const auto run = RunIdOf(model, side, desktop_.session.shown(), desktop_.session.runs());
  if (!run.has_value()) return none("the run is in no store");
  return CommandOf(desktop_.session.shown().path, *run, model.Of(side), by, *range);
}

std::vector<HelpLine> Dock::Help() {
  return {{"I", "panel of selection, range and search: shown, hidden; drag its upper edge"},
          {"ctrl + C", "copy what the panel shows"}};
}

}  // namespace foretrain::ui
