// Draws the table of plans found.
#include <imgui.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ui/view/screens/plan_parts.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

// Columns after the first, which is the rank in the order in which plans were found.
constexpr std::array kColumns = {
    PlanColumn::kPlan, PlanColumn::kStep, PlanColumn::kInterval, PlanColumn::kThroughput,
    PlanColumn::kCost, PlanColumn::kMfu,  PlanColumn::kMemory,   PlanColumn::kHeadroom,
    PlanColumn::kHost, PlanColumn::kBet};

// Whether any plan has text in the column.
bool IsShown(const FoundPlans& found, PlanColumn column, double price) {
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    if (!Cell(found, i, column, price).empty()) return true;
  }
  return false;
}

// A small bar in the headroom cell that shows how full the device is.
void DrawFullness(const ScreenFrame& frame, double headroom) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = frame.canvas.Px(46), height = frame.canvas.Px(6);
  const float y = at.y + (ImGui::GetTextLineHeight() - height) / 2;
  const float full = width * static_cast<float>(std::clamp(1 - headroom, 0.0, 1.0));
  ImDrawList* const list = ImGui::GetWindowDrawList();
  const Theme& theme = frame.canvas.theme;
  list->AddRectFilled({at.x, y}, {at.x + width, y + height}, theme.line, 2.0F);
  list->AddRectFilled({at.x, y}, {at.x + full, y + height},
                      headroom < 0.05 ? theme.amber : theme.muted, 2.0F);
}

// The whole row is one selectable item; hovering and selection are shared with the scatter.
void DrawRow(const ScreenFrame& frame, const FoundPlans& found, std::size_t plan,
             const std::vector<PlanColumn>& columns, PlanView& view) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushID(static_cast<int>(plan));
  const std::string place = std::to_string(plan + 1);
  if (ImGui::Selectable(
          "##row", view.selected == plan,
          ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowItemOverlap)) {
    view.selected = plan;
    view.tab = PlanTab::kSelected;
  }
  if (ImGui::IsItemHovered()) view.hovered = plan;
  Record(frame, "plan " + place);
  // A selection in the scatter scrolls the table once.
  if (view.scroll_to_selected && view.selected == plan) {
    ImGui::SetScrollHereY();
    view.scroll_to_selected = false;
  }
  ImGui::SameLine();
  NumberText(frame, place);
  for (const PlanColumn column : columns) {
    const std::string text = Cell(found, plan, column, view.price);
    // Texts are left, numbers right. Headroom has a bar before its number.
    if (!IsNumber(column)) {
      Cell(frame, text);
    } else if (column == PlanColumn::kHeadroom) {
      ImGui::TableNextColumn();
      const double headroom = HeadroomOf(*found.request, found.plans[plan].ranked.device);
      DrawFullness(frame, headroom);
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + frame.canvas.Px(54));
      ColouredNumber(frame, headroom < 0.05 ? frame.canvas.theme.amber : frame.canvas.theme.text,
                     text);
    } else {
      NumberCell(frame, text);
    }
  }
  ImGui::PopID();
}

// Width of a column from all its cells; the plan's column takes at most 40 % of the panel.
float WidthOf(const ScreenFrame& frame, const FoundPlans& found, PlanColumn column, double price) {
  const Canvas& canvas = frame.canvas;
  constexpr float kMaxPlan = 430.0F;
  ImFont* const font = IsNumber(column) ? canvas.fonts.mono : canvas.fonts.text;
  float width = canvas.WidthOf(canvas.fonts.text, Title(column)) + canvas.Px(18);
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    width = std::max(width, canvas.WidthOf(font, Cell(found, i, column, price)));
  }
  if (column == PlanColumn::kPlan) {
    width = std::min({width, canvas.Px(kMaxPlan), 0.4F * ImGui::GetContentRegionAvail().x});
  }
  return column == PlanColumn::kHeadroom ? width + canvas.Px(54) : width;
}

// The header. Columns are as wide as their content; the plan's column is limited.
bool BeginPlans(const ScreenFrame& frame, const FoundPlans& found,
                const std::vector<PlanColumn>& columns, double price) {
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                                     ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX |
                                     ImGuiTableFlags_Sortable | ImGuiTableFlags_NoSavedSettings |
                                     ImGuiTableFlags_SizingFixedFit;
  if (!ImGui::BeginTable("plans", static_cast<int>(columns.size()) + 1, kFlags)) return false;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("#", ImGuiTableColumnFlags_WidthFixed, frame.canvas.Px(34));
  for (const PlanColumn column : columns) {
    const std::string title(Title(column));
    ImGui::TableSetupColumn(title.c_str(), ImGuiTableColumnFlags_WidthFixed,
                            WidthOf(frame, found, column, price));
  }
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  ImGui::PushStyleColor(ImGuiCol_Text, frame.canvas.theme.muted);
  for (int i = 0; i <= static_cast<int>(columns.size()); ++i) {
    ImGui::TableSetColumnIndex(i);
    const std::string title(i == 0 ? "#" : Title(columns[static_cast<std::size_t>(i) - 1]));
    ImGui::PushID(i);
    ImGui::TableHeader(title.c_str());
    ImGui::PopID();
    Record(frame, title);
    frame.canvas.record.labels.push_back(title);
  }
  ImGui::PopStyleColor();
  return true;
}

// Applies the order that a click on the header selects.
void TakeOrder(const FoundPlans& found, const std::vector<PlanColumn>& columns, PlanView& view) {
  ImGuiTableSortSpecs* const specs = ImGui::TableGetSortSpecs();
  if (specs == nullptr || !specs->SpecsDirty) return;
  specs->SpecsDirty = false;
  if (specs->SpecsCount == 0) return;
  const auto column = static_cast<std::size_t>(specs->Specs[0].ColumnIndex);
  const bool descending = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
  view.order = {column == 0 ? PlanColumn::kStep : columns[column - 1], descending};
  view.rows = Sorted(found, view.order);
}

}  // namespace

// Columns without any text are left out. The order of rows is kept in the view, so it survives new
// frames.
void DrawPlanTable(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                   PlanView& view) {
  BeginPanel(frame, box, "plan.table");
  std::vector<PlanColumn> columns;
  for (const PlanColumn column : kColumns) {
    if (IsShown(found, column, view.price)) columns.push_back(column);
  }
  if (BeginPlans(frame, found, columns, view.price)) {
    TakeOrder(found, columns, view);
    for (const std::size_t plan : view.rows) {
      if (plan < found.plans.size()) DrawRow(frame, found, plan, columns, view);
    }
    ImGui::EndTable();
  }
  EndPanel();
}

}  // namespace foretrain::ui
