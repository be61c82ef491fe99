// Shows the selected plan, why others were dropped, and pinned plans side by side.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/screens/plan_parts.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kTabs = 40.0F;
constexpr float kHead = 92.0F;
constexpr float kParts = 66.0F;

constexpr std::array kPartHues = {Hue::kForward, Hue::kCollective, Hue::kHost, Hue::kPointToPoint,
                                  Hue::kUpdate};

// Without a background unless it is chosen. Recorded, so that tests find it by its label.
bool TabButton(const ScreenFrame& frame, const std::string& label, bool chosen) {
  const Theme& theme = frame.canvas.theme;
  ImGui::PushStyleColor(ImGuiCol_Button, chosen ? theme.line : 0);
  ImGui::PushStyleColor(ImGuiCol_Text, chosen ? theme.text : theme.muted);
  const bool used = ImGui::Button(label.c_str());
  ImGui::PopStyleColor(2);
  const std::string name = label.substr(0, label.find("##"));
  Record(frame, name);
  frame.canvas.record.labels.push_back(name);
  return used;
}

// Each tab is a flat button; the chosen one is filled.
void DrawTabs(const ScreenFrame& frame, const Box& box, PlanView& view) {
  BeginPanel(frame, box, "plan.tabs");
  const std::string kept = fmt::format("pinned ({})##kept", view.kept.size());
  for (const auto& [tab, label] : {std::pair{PlanTab::kSelected, std::string("selected plan")},
                                   std::pair{PlanTab::kRejected, std::string("why not others")},
                                   std::pair{PlanTab::kKept, kept}}) {
    if (tab != PlanTab::kSelected) ImGui::SameLine();
    if (TabButton(frame, label, view.tab == tab)) view.tab = tab;
  }
  EndPanel();
}

// The pin carries everything that another view needs, so it stays valid after the next search.
PinnedPlan PinOf(const PlanRequest& request, const Plan& plan) {
  return {request.model.name + " " + Describe(plan), request.model, request.cluster, plan,
          request.machine};
}

// Pins the plan for the other view and switches to it.
void HandOver(const FoundPlans& found, std::size_t plan, const char* view, DesktopState& desktop) {
  desktop.selection.Pin(PinOf(*found.request, found.plans[plan].ranked.plan));
  desktop.navigation.GoTo(view);
}

// Stacked bar of the parts of a step, with their names below.
void DrawParts(const ScreenFrame& frame, const Box& box, const FoundPlan& plan) {
  Canvas& canvas = frame.canvas;
  const auto parts = PartsOfStep(plan.ranked.estimate.parts);
  double sum = 0;
  for (const auto& part : parts) sum += std::max(0.0, part.second);
  if (sum <= 0) return;
  canvas.TextIn(canvas.fonts.small, {box.x0, box.y0, box.x1, box.y0 + canvas.Px(16)}, Align::kLeft,
                canvas.theme.muted, "where the step goes");
  const Box bar{box.x0, box.y0 + canvas.Px(18), box.x1, box.y0 + canvas.Px(34)};
  float x = bar.x0, text_x = box.x0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float width = bar.Width() * static_cast<float>(parts[i].second / sum);
    const Colour colour = canvas.theme.Of(kPartHues[i]);
    if (width > 0.5F) canvas.Fill({x, bar.y0, x + std::max(1.0F, width - 1.0F), bar.y1}, colour);
    x += width;
    const std::string share = fmt::format("{:.0f} %", 100 * parts[i].second / sum);
    const float needed = canvas.WidthOf(canvas.fonts.small, parts[i].first) +
                         canvas.WidthOf(canvas.fonts.mono_small, share) + canvas.Px(34);
    // A part whose name does not fit keeps its colour in the bar.
    if (text_x + needed > box.x1 + canvas.Px(14)) continue;
    const float y = bar.y1 + canvas.Px(5);
    canvas.Fill({text_x, y + canvas.Px(3), text_x + canvas.Px(9), y + canvas.Px(12)}, colour,
                canvas.Px(2));
    text_x += canvas.Px(14);
    text_x += canvas.Text(canvas.fonts.small, {text_x, y}, canvas.theme.muted, parts[i].first);
    text_x += canvas.Px(5);
    text_x +=
        canvas.Text(canvas.fonts.mono_small, {text_x, y + canvas.Px(1)}, canvas.theme.text, share) +
        canvas.Px(14);
  }
}

// The panel is cut into a heading with buttons, the parts of the step, and the memory by stage.
void DrawSelected(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                  DesktopState& desktop, PlanView& view) {
  if (!view.selected || *view.selected >= found.plans.size()) return;
  const std::size_t number = *view.selected;
  const FoundPlan& plan = found.plans[number];
  Box head = box, parts = box, stages = box;
  head.y1 = box.y0 + frame.canvas.Px(kHead);
  BeginPanel(frame, head, "plan.selected");
  Title(frame, Describe(plan.ranked.plan));
  const std::string depends_most_on =
      plan.ranked.depends_most_on.empty() ? "" : ", depends most on " + plan.ranked.depends_most_on;
  MutedLabel(frame, FormatSeconds(plan.ranked.step_s) + " a step" + depends_most_on);
  if (Button(frame, IsKept(found, number, view) ? "Unpin" : "Pin")) {
    KeepOrDrop(found, number, view);
  }
  Tooltip(frame, "Keep it to compare it with others");
  ImGui::SameLine();
  if (Button(frame, "What if")) HandOver(found, number, "what-if", desktop);
  Tooltip(frame, "Change its options and the machine's rates");
  ImGui::SameLine();
  if (Button(frame, "Run")) HandOver(found, number, "run", desktop);
  Tooltip(frame, "Train it on this machine");
  EndPanel();
  const float pad = frame.canvas.Px(12);
  parts = {box.x0 + pad, head.y1 + pad / 2, box.x1 - pad, head.y1 + frame.canvas.Px(kParts)};
  stages = {parts.x0, parts.y1 + pad / 2, parts.x1, box.y1 - pad / 2};
  DrawParts(frame, parts, plan);
  DrawStageMemory(frame, stages, found, plan);
}

// The reasons are sorted by count, so bars are relative to the first.
void DrawRejected(const ScreenFrame& frame, const Box& box, const FoundPlans& found) {
  BeginPanel(frame, box, "plan.rejected");
  MutedLabel(frame,
             fmt::format("{} of {} plans were dropped, because a plan ...", CountText(found.pruned),
                         CountText(found.pruned + found.evaluated)));
  ImGui::Dummy({0.0F, frame.canvas.Px(4)});
  const double max = found.rejected.empty() ? 1 : static_cast<double>(found.rejected.front().count);
  for (const Rejection& rejection : found.rejected) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x - frame.canvas.Px(90);
    const auto share = static_cast<float>(static_cast<double>(rejection.count) / max);
    ImGui::GetWindowDrawList()->AddRectFilled(
        {at.x + frame.canvas.Px(84), at.y},
        {at.x + frame.canvas.Px(84) + std::max(2.0F, share * width),
         at.y + ImGui::GetTextLineHeight()},
        frame.canvas.theme.line, 2.0F);
    NumberText(frame, fmt::format("{:>9}", CountText(rejection.count)));
    ImGui::SameLine(frame.canvas.Px(104));
    Label(frame, rejection.reason);
    if (!rejection.example.empty()) {
      ImGui::Indent(frame.canvas.Px(84));
      Paragraph(frame, "e.g. " + rejection.example);
      ImGui::Unindent(frame.canvas.Px(84));
    }
  }
  EndPanel();
}

// One row for each line: name, first plan, second plan, change.
void DrawLines(const ScreenFrame& frame, const std::vector<ComparedLine>& lines) {
  for (const ComparedLine& line : lines) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    MutedLabel(frame, line.name);
    ImGui::TableNextColumn();
    NumberText(frame, line.first);
    ImGui::TableNextColumn();
    NumberText(frame, line.second);
    ImGui::TableNextColumn();
    NumberText(frame, line.change);
  }
}

// The effect of each change on step time and memory, from the first plan to the second.
void DrawEffects(const ScreenFrame& frame, const ExplainedDifference& explained) {
  Title(frame, "What makes the second differ");
  Paragraph(frame, "changes one after another, by passes; each effect depends on those above");
  const float rows = static_cast<float>(explained.effects.size() + 1) * frame.canvas.Px(26);
  const float height = std::min(rows, std::floor(0.4F * ImGui::GetContentRegionAvail().y));
  const float room = 0.45F * ImGui::GetWindowWidth();
  if (!BeginTable(frame, "effects", {"change", "step", "memory"}, false, -1,
                  std::max(frame.canvas.Px(60), height))) {
    return;
  }
  for (const ChangeEffect& effect : explained.effects) {
    ImGui::TableNextRow();
    const std::string text = Shortened(frame.canvas, frame.canvas.fonts.text, effect.text, room);
    Cell(frame, text);
    if (text != effect.text) Tooltip(frame, effect.text);
    NumberCell(frame, SignedTime(effect.step_s * kNsPerSecond),
               ToneColour(frame.canvas.theme, ToneOf(effect.step_s)));
    const std::string bytes = FormatBytes(std::abs(effect.memory_bytes));
    NumberCell(frame,
               effect.memory_bytes == 0 ? "0" : (effect.memory_bytes > 0 ? "+" : "-") + bytes,
               effect.fits ? frame.canvas.theme.muted : frame.canvas.theme.amber);
  }
  EndTable();
}

// Two pinned plans are compared: results first, then the options that differ. Removing a plan ends
// the panel early, because the list has changed.
void DrawKept(const ScreenFrame& frame, const Box& box, PlanView& view) {
  BeginPanel(frame, box, "plan.kept");
  if (view.kept.empty()) {
    Paragraph(frame,
              "Nothing is pinned. Select a plan and press Pin, or P: pinned plans stay "
              "while other models and clusters are searched, and two can be compared.");
    EndPanel();
    return;
  }
  std::vector<std::string> titles;
  for (const KeptPlan& kept : view.kept) titles.push_back(kept.Title());
  // The chosen pair may refer to plans that are gone.
  const int max = static_cast<int>(view.kept.size()) - 1;
  view.first = std::clamp(view.first, 0, max);
  view.second = std::clamp(view.second, 0, max);
  Combo(frame, "first", &view.first, titles);
  Combo(frame, "second", &view.second, titles);
  if (Button(frame, "Unpin second")) {
    view.kept.erase(view.kept.begin() + view.second);
    EndPanel();
    return;
  }
  if (view.first == view.second) {
    Paragraph(frame, "Pin another plan to compare the two.");
    EndPanel();
    return;
  }
  const PlanComparison comparison =
      ComparePlans(view.kept[static_cast<std::size_t>(view.first)],
                   view.kept[static_cast<std::size_t>(view.second)], view.price);
  if (view.difference != nullptr) DrawEffects(frame, *view.difference);
  if (BeginTable(frame, "compared", {"", "first", "second", "change"})) {
    DrawLines(frame, comparison.metrics);
    DrawLines(frame, comparison.fields);
    EndTable();
  }
  EndPanel();
}

}  // namespace

// Plans are compared by request and options, since a new search numbers them anew.
bool IsKept(const FoundPlans& found, std::size_t plan, const PlanView& view) {
  return std::any_of(view.kept.begin(), view.kept.end(), [&](const KeptPlan& kept) {
    return kept.request == found.request && kept.plan.ranked.plan == found.plans[plan].ranked.plan;
  });
}

// A full list of pinned plans drops the oldest. The newest becomes the second of the compared pair.
void KeepOrDrop(const FoundPlans& found, std::size_t plan, PlanView& view) {
  if (IsKept(found, plan, view)) {
    std::erase_if(view.kept, [&](const KeptPlan& kept) {
      return kept.request == found.request &&
             kept.plan.ranked.plan == found.plans[plan].ranked.plan;
    });
    return;
  }
  if (view.kept.size() >= kMaxKept) view.kept.erase(view.kept.begin());
  view.kept.push_back({found.request, found.plans[plan]});
  if (view.kept.size() >= 2) {
    view.second = static_cast<int>(view.kept.size()) - 1;
    if (view.first == view.second) view.first = view.second - 1;
  }
}

// Tabs above, the chosen tab below.
void DrawPlanDetails(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                     DesktopState& desktop, PlanView& view) {
  Box tabs = box, body = box;
  tabs.x0 = body.x0 = box.x0 + 1.0F;
  tabs.y1 = body.y0 = box.y0 + frame.canvas.Px(kTabs);
  DrawTabs(frame, tabs, view);
  switch (view.tab) {
    case PlanTab::kSelected:
      return DrawSelected(frame, body, found, desktop, view);
    case PlanTab::kRejected:
      return DrawRejected(frame, body, found);
    case PlanTab::kKept:
      return DrawKept(frame, body, view);
  }
}

// The message of a failed search lists suggestions line by line, each as "options: plan". A line
// whose options the controls can follow gets a button.
void DrawNothingFound(const ScreenFrame& frame, const Box& box, const Error& error,
                      PlanView& view) {
  const float pad = frame.canvas.Px(24);
  BeginPanel(frame, {box.x0 + pad, box.y0 + pad, box.x1 - pad, box.y1 - pad}, "plan.nothing");
  Title(frame, error.code == ErrorCode::kInfeasible ? "No plan fits" : "The search ended");
  const std::string& text = error.message;
  // The message's first part is shown as text, its suggestions as a list.
  const std::size_t end = text.find(" What would fit:");
  Paragraph(frame, text.substr(0, end));
  std::size_t at = end == std::string::npos ? text.size() : text.find('\n', end);
  if (at < text.size()) {
    ImGui::Dummy({0.0F, frame.canvas.Px(8)});
    Title(frame, "The smallest changes that would do");
  }
  int number = 0;
  while (at < text.size()) {
    const std::size_t next = text.find('\n', at + 1);
    std::string line = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    line.erase(0, line.find_first_not_of(' '));
    const std::size_t colon = line.find(": ");
    ImGui::PushID(number++);
    PlanSetup followed = view.setup;
    const bool can = Follow(line.substr(0, colon), followed);
    if (Button(frame, "Try", can)) {
      view.setup = followed;
      if (view.setup.sequence > 0) view.sequence_text = std::to_string(view.setup.sequence);
      view.wants_search = true;
    }
    ImGui::SameLine();
    Paragraph(frame, line);
    ImGui::PopID();
    at = next == std::string::npos ? text.size() : next;
  }
  EndPanel();
}

}  // namespace foretrain::ui
