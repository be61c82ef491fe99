// The Time screen's table of op groups.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/screens/time_screen.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr int kMaxTableDigits = 5;
constexpr double kMinCoverage = 0.95;  // of a group's time; below it the row is doubtful

// FLOP/s for compute, bytes per second for the rest; empty if the work is unknown.
std::string RateText(const OpGroup& group, std::optional<double> rate) {
  if (!rate.has_value()) return "";
  return FormatSi(*rate, group.IsCompute() ? "FLOP/s" : "B/s");
}

struct ColumnShape {
  GroupColumn column;
  std::string_view title;
  float width;  // about, at scale 1
  int kept;     // priority in a narrow table: the lowest go first
};

// The columns of both runs, or of one, that `width` holds.
std::vector<ColumnShape> ColumnsFor(const SideNames& names, bool both, bool measured, float width) {
  const GroupColumn time = measured ? GroupColumn::kMeasured : GroupColumn::kPredicted;
  std::vector<ColumnShape> columns;
  if (both) {
    columns = {{GroupColumn::kName, "op", 250.0F, 9},
               {GroupColumn::kClass, "class", 110.0F, 1},
               {GroupColumn::kCount, "count", 62.0F, 3},
               {GroupColumn::kPredicted, names[0], 92.0F, 5},
               {GroupColumn::kMeasured, names[1], 92.0F, 6},
               {GroupColumn::kError, "error", 88.0F, 8},
               {GroupColumn::kShare, "of step error", 124.0F, 7},
               {GroupColumn::kCoverage, "paired", 80.0F, 2},
               {GroupColumn::kRate, "reaches", 120.0F, 4}};
  } else {
    columns = {
        {GroupColumn::kName, "op", 250.0F, 9},      {GroupColumn::kClass, "class", 110.0F, 1},
        {GroupColumn::kCount, "count", 62.0F, 3},   {time, "time", 92.0F, 8},
        {GroupColumn::kShare, "of step", 92.0F, 5}, {GroupColumn::kRate, "reaches", 120.0F, 4}};
  }
  const auto sum = [&columns] {
    float all = 0.0F;
    for (const ColumnShape& column : columns) all += column.width;
    return all;
  };
  // Drops the least important column until the rest fits. Two always stay.
  while (columns.size() > 2 && sum() > width) {
    columns.erase(std::min_element(
        columns.begin(), columns.end(),
        [](const ColumnShape& x, const ColumnShape& y) { return x.kept < y.kept; }));
  }
  return columns;
}

}  // namespace

// Columns depend on the width. Only the visible rows are drawn.
void TimeScreen::DrawTable(const ScreenFrame& frame, const Box& box) {
  const bool both = desktop_.session.model().HasBoth();
  const bool measured = desktop_.session.model().Of(Side::kMeasured).IsPresent();
  const std::vector<ColumnShape> columns =
      ColumnsFor(desktop_.session.model().Names(), both, measured,
                 (box.Width() - frame.canvas.Px(40)) / frame.canvas.scale);
  std::vector<std::string> titles;
  std::vector<GroupColumn> shown;
  for (const ColumnShape& column : columns) {
    titles.emplace_back(column.title);
    shown.push_back(column.column);
  }
  // The first order: largest share of the error, or of the step.
  const GroupColumn first = both ? GroupColumn::kShare : columns[columns.size() > 3 ? 3 : 1].column;
  const auto place = std::find(shown.begin(), shown.end(), first);
  const int sorted_by = place == shown.end() ? -1 : static_cast<int>(place - shown.begin());
  BeginPanel(frame, box, "##time.table");
  // A table of another width is another table: it keeps its own order.
  const std::string id = fmt::format("ops {}", columns.size());
  if (BeginTable(frame, id.c_str(), titles, true, sorted_by)) {
    Sort(shown, first);
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(order_.size()));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        DrawRow(frame, order_[static_cast<std::size_t>(i)], shown);
      }
    }
    EndTable();
  }
  EndPanel();
}

// As the table's header says, which Dear ImGui keeps.
void TimeScreen::Sort(const std::vector<GroupColumn>& shown, GroupColumn first) {
  ImGuiTableSortSpecs* const specs = ImGui::TableGetSortSpecs();
  const bool has = specs != nullptr && specs->SpecsCount > 0;
  if (!(has && specs->SpecsDirty) && order_.size() == groups_.groups.size()) return;
  GroupColumn column = first;
  bool falling = true;
  if (has) {
    const int index =
        std::clamp<int>(specs->Specs[0].ColumnIndex, 0, static_cast<int>(shown.size()) - 1);
    column = shown[static_cast<std::size_t>(index)];
    falling = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
    specs->SpecsDirty = false;
  }
  // With one run the share follows from the time, so it sorts by time.
  const bool of_one = !desktop_.session.model().HasBoth() && column == GroupColumn::kShare;
  if (of_one) {
    column = desktop_.session.model().Shown() == Side::kMeasured ? GroupColumn::kMeasured
                                                                 : GroupColumn::kPredicted;
  }
  order_ = OrderOf(groups_, column, falling);
}

// A click chooses the group and filters the timeline of every view by it.
void TimeScreen::DrawRow(const ScreenFrame& frame, std::uint32_t at,
                         const std::vector<GroupColumn>& shown) {
  const OpGroup& group = groups_.groups[at];
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushID(static_cast<int>(at));
  const std::string title = TitleOf(group);
  if (SelectableRow(frame, title, chosen_ == at)) {
    chosen_ = at;
    desktop_.selection.FilterOps(
        OpFilter{title, group.op_class, group.pass, group.named ? group.name : std::string()});
  }
  ImGui::PopID();
  for (std::size_t i = 1; i < shown.size(); ++i) DrawCell(frame, group, shown[i]);
}

// A cell without a value is empty. A low coverage is amber: the row's error then covers only a part
// of its ops.
void TimeScreen::DrawCell(const ScreenFrame& frame, const OpGroup& group, GroupColumn column) {
  const Theme& theme = frame.canvas.theme;
  const bool both = desktop_.session.model().HasBoth();
  const Side side = desktop_.session.model().Shown();
  const auto time = [&](Side of) {
    if (group.ops[Index(of)] == 0) return std::string();
    const std::vector<std::string> texts =
        SecondsApart(std::array<double, 2>{groups_.Seconds(group, Side::kPredicted),
                                           groups_.Seconds(group, Side::kMeasured)},
                     kMaxTableDigits);
    return texts[Index(of)];
  };
  switch (column) {
    case GroupColumn::kName:
      return;
    case GroupColumn::kClass:
      return Cell(frame, InWords(Name(group.op_class)));
    case GroupColumn::kCount:
      return NumberCell(frame, fmt::format("{}", std::max(group.ops[0], group.ops[1])));
    case GroupColumn::kPredicted:
      return NumberCell(frame, time(Side::kPredicted), both ? theme.muted : theme.text);
    case GroupColumn::kMeasured:
      return NumberCell(frame, time(Side::kMeasured));
    case GroupColumn::kError: {
      const double error_ns = static_cast<double>(group.ErrorNs()) /
                              static_cast<double>(std::max<std::int64_t>(1, groups_.ranks));
      return NumberCell(frame, SignedTime(error_ns), ToneColour(theme, ToneOf(error_ns)));
    }
    case GroupColumn::kShare: {
      const double step_s = SecondsFromNs(groups_.step_ns[Index(side)]);
      const std::optional<double> share =
          both ? groups_.ShareOfError(group)
               : (step_s > 0.0 ? std::optional(groups_.Seconds(group, side) / step_s)
                               : std::nullopt);
      return NumberCell(frame, share.has_value() ? FormatPercent(*share) : "");
    }
    case GroupColumn::kCoverage: {
      const double coverage = group.Coverage();
      return NumberCell(frame, FormatPercent(coverage),
                        coverage < kMinCoverage ? theme.amber : theme.muted);
    }
    case GroupColumn::kRate:
      return NumberCell(frame, RateText(group, group.Rate(side)));
  }
}

}  // namespace foretrain::ui
