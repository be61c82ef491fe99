// The content of the panel under the lanes: details, the table of a range, the list of a search.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "base/units.h"
#include "ui/view/desktop/input.h"
#include "ui/view/dock/dock.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/dock/dock_texts.h"

namespace foretrain::ui {
namespace {

constexpr float kColumn = 300.0F;  // least width of a column of details
constexpr float kName = 118.0F;
constexpr std::size_t kMaxColumns = 4;
constexpr std::size_t kMaxTensors = 16;  // of an instruction's inputs or outputs

std::string_view WithoutSign(const std::string& title) {
  return title.starts_with('>') ? std::string_view(title).substr(1) : std::string_view(title);
}

HoverLine LineOf(const OpTensor& tensor) {
  return {FormatBytes(tensor.bytes), tensor.name + ", " + tensor.other};
}

// Compiling may run out of memory, which libraries tell by throwing.
Result<std::shared_ptr<const ProgramOps>> Compiled(const RunSetting& setting) {
  try {
    return ProgramOps::Make(setting);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kResourceExhausted, error.what());
  }
}

}  // namespace

// One program at a time: another run's is asked for once this one is there.
void Dock::RefreshProgram(const std::shared_ptr<const RunSetting>& setting) {
  const bool ready = compiling_.valid() &&
                     compiling_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (ready) {
    Result<std::shared_ptr<const ProgramOps>> made = compiling_.get();
    no_program_ = made.has_value() ? "" : made.error().message;
    program_ = made.has_value() ? *std::move(made) : nullptr;
    ++program_number_;
  }
  if (compiling_.valid() || setting == nullptr || program_of_ == setting) return;
  program_of_ = setting;
  program_.reset();
  no_program_.clear();
  compiling_ =
      std::async(std::launch::async, [setting = program_of_] { return Compiled(*setting); });
}

// Details look at all spans of a rank, so they are kept until something else is selected.
void Dock::RefreshDetails(const DockContent& content) {
  const CompareModel& model = content.model;
  if (!content.selected.has_value() || content.selected_lane >= model.lanes.size()) {
    details_of_.reset();
    groups_.clear();
    return;
  }
  const SpanRef ref = *content.selected;
  // The ops of a trace that was paired by structure are those of its forecast.
  const bool traced = model.HasBoth() && model.Of(ref.side).run->structure.has_value();
  const auto& setting = model.Of(traced ? Side::kPredicted : ref.side).run->setting;
  RefreshProgram(setting);
  const std::tuple of(content.model_number, ref.side, ref.span, content.selected_lane,
                      program_number_);
  if (details_of_ == of) return;
  details_of_ = of;
  details_ = DetailsOfSpan(model, model.lanes[content.selected_lane].rank, ref);
  groups_ = {{"", details_.lines}};
  const Span& span = model.SpanOf(ref);
  const bool known = program_ != nullptr && program_of_ == setting;
  const auto tensors = known ? program_->Of(span.rank, span.op) : std::nullopt;
  if (!tensors.has_value()) {
    if (!no_program_.empty() && program_of_ == setting)
      groups_.push_back({"inputs and outputs", {{"unknown", no_program_}}});
    return;
  }
  const auto add = [this](std::string title, const std::vector<OpTensor>& list) {
    Group group{std::move(title), {}};
    for (std::size_t i = 0; i < std::min(list.size(), kMaxTensors); ++i) {
      group.lines.push_back(LineOf(list[i]));
    }
    if (list.size() > kMaxTensors) {
      group.lines.push_back({"", fmt::format("and {} more", list.size() - kMaxTensors)});
    }
    if (group.lines.empty()) group.lines.push_back({"none", ""});
    groups_.push_back(std::move(group));
  };
  add("inputs", tensors->inputs);
  add("outputs", tensors->outputs);
  if (!tensors->waits_for.empty()) {
    Group group{"waits for", {}};
    for (const std::string& op : tensors->waits_for) group.lines.push_back({"other queue", op});
    groups_.push_back(std::move(group));
  }
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    for (const HoverLine& line : groups_[i].lines) {
      details_.lines.push_back(
          {groups_[i].title, line.name + (line.value.empty() ? "" : "  ") + line.value});
    }
  }
}

// Lines [first, end) of a group below each other: the name, and the value beside it.
void Dock::DrawLines(const ScreenFrame& frame, const Group& group, std::size_t first,
                     std::size_t end) {
  const Theme& theme = frame.canvas.theme;
  if (first == 0 && !group.title.empty()) SmallText(frame, theme.text, group.title);
  for (std::size_t i = first; i < std::min(end, group.lines.size()); ++i) {
    const HoverLine& line = group.lines[i];
    SmallText(frame, theme.muted, line.name);
    if (line.value.empty()) continue;
    ImGui::SameLine(frame.canvas.Px(kName));
    SmallMono(frame, ToneColour(theme, line.tone), line.value);
  }
}

// As many columns as the width holds. Details take one or two of them, tensors the rest.
void Dock::DrawSelection(const ScreenFrame& frame, const Box& box, const DockContent& content) {
  Canvas& canvas = frame.canvas;
  if (!content.selected.has_value() || groups_.empty()) {
    return DrawEmpty(canvas, box, "Click a span in Compare to see everything known about it.");
  }
  BeginPanel(frame, box, "##dock.selection");
  Title(frame, details_.title);
  ImGui::SameLine();
  MutedLabel(frame, details_.subtitle);
  if (compiling_.valid()) {
    ImGui::SameLine();
    MutedLabel(frame, "   compiling the program for inputs and outputs...");
  }
  const auto fit = static_cast<std::size_t>(std::max(1.0F, box.Width() / canvas.Px(kColumn)));
  const std::size_t count = std::min(kMaxColumns, fit);
  const std::size_t others = groups_.size() - 1;
  const std::size_t for_others = others == 0 || count == 1 ? 0 : count >= 4 ? 2 : 1;
  const std::size_t for_details = std::min<std::size_t>(count - for_others, 3);
  const std::size_t columns = for_details + std::min(for_others, others);
  if (ImGui::BeginTable("##details", static_cast<int>(columns),
                        ImGuiTableFlags_SizingStretchSame | ImGuiTableFlags_NoSavedSettings)) {
    ImGui::TableNextRow();
    const Group& own = groups_.front();
    const std::size_t each = (own.lines.size() + for_details - 1) / for_details;
    for (std::size_t c = 0; c < for_details; ++c) {
      ImGui::TableNextColumn();
      DrawLines(frame, own, c * each, (c + 1) * each);
    }
    for (std::size_t g = 1; g < groups_.size(); ++g) {
      // The last column takes all groups that have none of their own.
      if (g <= columns - for_details) ImGui::TableNextColumn();
      DrawLines(frame, groups_[g], 0, groups_[g].lines.size());
    }
    ImGui::EndTable();
  }
  EndPanel();
}

// Summing takes O(spans), so it waits for the end of a drag.
void Dock::RefreshRange(const DockContent& content) {
  const CompareModel& model = content.model;
  const Side side = SideOf(model);
  const Measure measure = content.measure.value_or(Measure{});
  const RangeKey key(content.model_number, side, state().by, state().rank.value_or(-1),
                     content.measure.has_value() ? measure.from_ns : -1.0,
                     content.measure.has_value() ? measure.to_ns : -1.0);
  if (range_of_ == key || (content.dragging && range_of_.has_value())) return;
  range_of_ = key;
  sums_.reset();
  no_range_.clear();
  gaps_.clear();
  Result<SummedRange> range = RangeOf(model, side, content.measure);
  if (!range.has_value()) {
    no_range_ = range.error().message;
    return;
  }
  range->rank = state().rank;
  sums_ = SumRange(model.TimelineOf(side), state().by, *range);
  texts_ = TextsOf(*sums_);
  gaps_ = DescribeGaps(model.Of(side), *range);
}

void Dock::DrawRange(const ScreenFrame& frame, const Box& box, const DockContent& content) {
  Canvas& canvas = frame.canvas;
  const Box choices{box.x0 + canvas.Px(10), box.y0, box.x1 - canvas.Px(10),
                    std::min(box.y1, box.y0 + canvas.Px(26))};
  DrawRangeChoices(frame, choices, content);
  const Box rest{box.x0, choices.y1, box.x1, box.y1};
  if (rest.Height() < canvas.Px(24)) return;
  if (!sums_.has_value()) return DrawEmpty(canvas, rest, no_range_);
  if (sums_->rows.empty()) return DrawEmpty(canvas, rest, "No spans were recorded in this range.");
  DrawRangeTable(frame, rest);
}

// By what, whose, and which range that is. The sentence gives way first in a narrow window.
void Dock::DrawRangeChoices(const ScreenFrame& frame, const Box& box, const DockContent& content) {
  Canvas& canvas = frame.canvas;
  const CompareModel& model = content.model;
  const float y = std::round((box.y0 + box.y1 - SegmentsHeight(canvas)) / 2);
  int by = static_cast<int>(state().by);
  float x = Segments(frame, {box.x0, y}, {"by op", "by class", "by rank"}, &by) + canvas.Px(12);
  state().by = static_cast<SumBy>(by);
  const Side side = SideOf(model);
  if (model.HasBoth()) {
    int chosen = static_cast<int>(Index(side));
    const int before = chosen;
    const SideNames names = model.Names();
    x = Segments(frame, {x, y}, {std::string(names[0]), std::string(names[1])}, &chosen) +
        canvas.Px(12);
    if (chosen != before) {
      state().side = kSides[static_cast<std::size_t>(chosen)];
      state().rank.reset();
    }
  }
  if (state().rank.has_value()) {
    int all = -1;
    x = Segments(frame, {x, y}, {"all ranks"}, &all) + canvas.Px(12);
    if (all == 0) state().rank.reset();
  }
  if (!sums_.has_value()) return;
  const SideModel& of = model.Of(side);
  std::string text = Describe(*sums_, of.step, of.step_start_ns);
  if (!content.measure.has_value()) text += "; shift + drag in Compare measures a part";
  if (!gaps_.empty()) text = gaps_ + " " + text;
  canvas.TextIn(canvas.fonts.small, {x, box.y0, box.x1, box.y1}, Align::kLeft,
                gaps_.empty() ? canvas.theme.muted : canvas.theme.amber,
                Shortened(canvas, canvas.fonts.small, text, box.x1 - x));
}

// The sum comes first, so that it can be seen without scrolling. A click on a rank shows its ops.
void Dock::DrawRangeTable(const ScreenFrame& frame, const Box& box) {
  std::vector<std::string> titles;
  for (const std::string& title : texts_.titles) titles.emplace_back(WithoutSign(title));
  BeginPanel(frame, box, "##dock.range");
  const std::string id = fmt::format("range {}", Name(sums_->by));
  if (BeginTable(frame, id.c_str(), titles)) {
    const float room = box.Width() - frame.canvas.Px(96.0F * static_cast<float>(titles.size()));
    const auto row = [&](std::size_t at) {
      const std::vector<std::string>& cells = texts_.rows[at];
      ImGui::TableNextRow();
      const bool is_rank = sums_->by == SumBy::kRank && at + 1 < texts_.rows.size();
      if (is_rank) {
        ImGui::TableNextColumn();
        const std::string name = "rank " + cells[0];
        if (LinkButton(frame, name.c_str())) {
          state().rank = sums_->rows[at].rank;
          state().by = SumBy::kOp;
        }
      } else {
        Cell(frame, Shortened(frame.canvas, frame.canvas.fonts.text, cells[0],
                              std::max(frame.canvas.Px(140), room)));
      }
      for (std::size_t i = 1; i < cells.size(); ++i) {
        texts_.titles[i].starts_with('>') ? NumberCell(frame, cells[i]) : Cell(frame, cells[i]);
      }
    };
    row(texts_.rows.size() - 1);
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(texts_.rows.size()) - 1);
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        row(static_cast<std::size_t>(i));
      }
    }
    EndTable();
  }
  EndPanel();
}

// The field, the number of finds and the list of them. The search ends when the field loses the
// keyboard; the list stays.
void Dock::DrawSearch(const ScreenFrame& frame, const Box& box, const DockContent& content,
                      DockActions& actions) {
  BeginPanel(frame, box, "##dock.search");
  if (content.searching && !search_was_open_) ImGui::SetKeyboardFocusHere();
  const float field = std::min(frame.canvas.Px(420), box.Width() - frame.canvas.Px(150));
  actions.search_changed =
      TextField(frame, "##search", &state().search, "name, layer or class: mlp 12",
                std::max(0.0F, box.Width() - field));
  const bool active = ImGui::IsItemActive();
  const bool activated = ImGui::IsItemActivated();
  if (content.searching) {
    // A field has the keyboard only from its second frame on.
    const bool keep = active || !search_was_open_ || search_frames_ < 2;
    search_frames_ = search_was_open_ ? search_frames_ + 1 : 0;
    search_was_open_ = true;
    if (!actions.search_changed && ImGui::IsKeyPressed(kKeyEnter, false)) {
      actions.search_next = true;
      ImGui::SetKeyboardFocusHere(-1);
    } else if (!actions.search_changed && (!keep || ImGui::IsKeyPressed(kKeyEscape, false))) {
      actions.search_ended = true;
      search_was_open_ = false;
      search_frames_ = 0;
    }
  } else if (activated) {
    actions.search_started = true;
  }
  ImGui::SameLine();
  const std::size_t count = content.found.size();
  NumberText(frame, state().search.empty() ? ""
                    : count == 0           ? "none"
                                           : fmt::format("{} of {}{}", content.found_at + 1, count,
                                               count == kMaxFound ? "+" : ""));
  if (count > 0) DrawFound(frame, content, actions);
  EndPanel();
}

void Dock::DrawFound(const ScreenFrame& frame, const DockContent& content, DockActions& actions) {
  std::vector<std::string> titles;
  const std::vector<std::string> signs = TitlesOfFound();
  for (const std::string& title : signs) titles.emplace_back(WithoutSign(title));
  if (!BeginTable(frame, "found", titles)) return;
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(content.found.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::vector<std::string> cells = CellsOf(content.model, content.found[at]);
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::PushID(i);
      const bool chosen = content.selected == content.found[at];
      const std::string name =
          Shortened(frame.canvas, frame.canvas.fonts.text, cells[0], frame.canvas.Px(360));
      if (SelectableRow(frame, name, chosen, fmt::format("found {}", i))) actions.go_to = at;
      ImGui::PopID();
      for (std::size_t c = 1; c < cells.size(); ++c) {
        signs[c].starts_with('>') ? NumberCell(frame, cells[c]) : Cell(frame, cells[c]);
      }
    }
  }
  EndTable();
}

}  // namespace foretrain::ui
