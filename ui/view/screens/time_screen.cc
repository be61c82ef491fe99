// The Time screen, from its columns to the panel of the selected span. All parts read one layout.
#include "ui/view/screens/time_screen.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/panels/time_panels.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 16.0F;
constexpr float kHeading = 30.0F;
constexpr float kDetails = 380.0F;  // width
constexpr float kMinTable = 120.0F;
constexpr double kMinCoverage = 0.95;  // of a group's time; below it the row is doubtful

// FLOP/s for compute, bytes per second for the rest; empty if the work is unknown.
std::string RateText(const OpGroup& group, std::optional<double> rate) {
  if (!rate.has_value()) return "";
  return FormatSi(*rate, group.IsCompute() ? "FLOP/s" : "B/s");
}

// On a thread of its own: what it calls may throw.
Result<Explanation> Explain(const ExplainRuns& explain, const StoreRequest& runs,
                            std::int32_t step) {
  try {
    return explain(runs, step);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kIo, error.what());
  }
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

// Recomputes groups, parts and waits if the model changed. Choice and histogram belong to the old
// groups, so they are dropped.
void TimeScreen::Refresh() {
  if (model_number_ == desktop_.session.model_number()) return;
  const SidePair& runs = desktop_.session.model().recorded;
  model_number_ = desktop_.session.model_number();
  const bool warped = desktop_.session.model().warped != nullptr;
  pairs_ = runs.HasBoth() && !warped ? desktop_.session.model().pairs : PairsOf(runs);
  groups_ = GroupOps(runs, pairs_, explanation_ ? explanation_->flops : std::map<OpId, double>{});
  parts_ = PartsOf(runs, RanksOf(runs));
  bubble_rows_ = BubbleRows(desktop_.session.model().bubble_causes);
  exposed_rows_ = ExposedRows(runs);
  order_.clear();
  chosen_.reset();
  histogram_of_.reset();
}

// Asks once for each model. One request at a time: a second one starts only after the first has
// ended.
void TimeScreen::AskForExplanation() {
  const CompareModel& model = desktop_.session.model();
  if (!desktop_.services.explain || explaining_.valid()) return;
  if (asked_ && asked_for_ == desktop_.session.model_number()) return;
  if (!model.Of(model.Shown()).IsPresent()) return;
  asked_ = true;
  asked_for_ = desktop_.session.model_number();
  const std::int32_t step = model.Of(model.Shown()).step;
  StoreRequest runs = desktop_.session.shown();
  explaining_ =
      std::async(std::launch::async, [explain = desktop_.services.explain, runs = std::move(runs),
                                      step] { return Explain(explain, runs, step); });
}

// Takes an explanation that has arrived. Groups are built again with its FLOPs, and the choice
// stays, because the groups are the same.
void TimeScreen::TakeExplanation() {
  const bool there = explaining_.valid() &&
                     explaining_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (!there) return;
  Result<Explanation> made = explaining_.get();
  // One of an earlier model says nothing of this one; it is asked for again.
  if (asked_for_ != desktop_.session.model_number()) return;
  explanation_.reset();
  explained_why_not_.clear();
  if (!made.has_value()) {
    explained_why_not_ = made.error().message;
    return;
  }
  if (!made->attribution.has_value() && !made->notes.empty())
    explained_why_not_ = made->notes.front();
  explanation_ = *std::move(made);
  // Refresh drops the choice, although the groups stay the same.
  const std::optional<std::uint32_t> chosen = chosen_;
  model_number_.reset();
  Refresh();
  chosen_ = chosen;
}

// Parts above, ops below. The parts give way first in a low window; details go in a narrow one.
void TimeScreen::Draw(const ScreenFrame& frame) {
  Refresh();
  AskForExplanation();
  TakeExplanation();
  Canvas& canvas = frame.canvas;
  const float margin = canvas.Px(kMargin);
  const Box box{frame.box.x0 + margin, frame.box.y0 + canvas.Px(12), frame.box.x1 - margin,
                frame.box.y1 - canvas.Px(8)};
  if (!parts_[0].has_value() && !parts_[1].has_value()) {
    DrawEmpty(canvas, box,
              "There is no step whose time could be told: no run, or one without spans.");
    return;
  }
  // Height that the parts would like: two headings, the stacks and one row for each kind of part.
  const float wanted = 2 * canvas.Px(kHeading) + StacksHeight(canvas, parts_) +
                       RowsHeight(canvas, static_cast<std::size_t>(kTimePartCount) - 2);
  const float upper = std::min({wanted, 0.58F * box.Height(), box.Height() - canvas.Px(kMinTable)});
  const Box lower{box.x0, box.y0 + std::max(0.0F, upper) + canvas.Px(10), box.x1, box.y1};
  canvas.PushClip({box.x0, box.y0, box.x1, lower.y0 - canvas.Px(6)});
  DrawParts(frame, {box.x0, box.y0, box.x1, lower.y0 - canvas.Px(8)});
  canvas.PopClip();
  canvas.Fill({frame.box.x0, lower.y0 - canvas.Px(5), frame.box.x1, lower.y0 - canvas.Px(4)},
              canvas.theme.line);
  const bool wide = lower.Width() > canvas.Px(760);
  const float details = wide ? std::min(canvas.Px(kDetails), 0.34F * lower.Width()) : 0.0F;
  DrawTable(frame, {lower.x0, lower.y0, lower.x1 - details, lower.y1});
  if (wide) DrawDetails(frame, {lower.x1 - details + margin, lower.y0, lower.x1, lower.y1});
}

// The stacks of both runs, then the way from one to the other. "time spent" compares measured
// parts, "cause" replays the program with measured work. A cause needs the explanation.
void TimeScreen::DrawParts(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const bool both = parts_[0].has_value() && parts_[1].has_value();
  const SideNames names = desktop_.session.model().Names();
  const StepParts& shown = parts_[1].has_value() ? *parts_[1] : *parts_[0];
  Heading(canvas, {box.x0, box.y0 + canvas.Px(2)}, "where the time goes",
          fmt::format("a step, mean over {} rank{}", shown.ranks, shown.ranks == 1 ? "" : "s"));
  const Box stacks{box.x0, box.y0 + canvas.Px(kHeading), box.x1, box.y1};
  std::optional<HoverText> hover = DrawStacks(frame, stacks, parts_, names);
  const float y = stacks.y0 + StacksHeight(canvas, parts_) + canvas.Px(10);
  const Box rows{box.x0, y + canvas.Px(kHeading), box.x1, box.y1};
  std::string remark =
      both ? "what the measured step spends more or less on" : "in one rank's step";
  const bool causes = both && basis_ == 1;
  const bool has_causes = explanation_.has_value() && explanation_->attribution.has_value();
  if (causes) {
    remark = has_causes ? (explanation_->attribution->Trusted()
                               ? "the forecast replayed with measured work, class by class"
                               : "replayed; over 3 % stays unexplained: not to be trusted")
                        : "";
  }
  const float end =
      Heading(canvas, {box.x0, y + canvas.Px(2)},
              both ? fmt::format("from {} to {}", names[0], names[1]) : "parts", remark);
  const std::vector<std::string> bases{"time spent", "cause"};
  const float width = SegmentsWidth(canvas, bases);
  if (both && desktop_.services.explain && end + width + canvas.Px(20) < box.x1) {
    Segments(frame, {box.x1 - width, y - canvas.Px(2)}, bases, &basis_);
  }
  // The rows show one of three: why there are no causes, a waterfall of both runs, or the parts of
  // one run.
  std::optional<HoverText> over;
  if (causes && !has_causes) {
    DrawEmpty(canvas, rows,
              explaining_.valid() ? "The program is compiled and replayed..."
                                  : "No causes: " + explained_why_not_);
  } else if (both) {
    over = DrawWaterfall(
        frame, rows,
        causes ? WaterfallOf(*explanation_->attribution) : WaterfallOf(*parts_[0], *parts_[1]),
        names);
  } else {
    over = DrawBreakdown(frame, rows, shown);
  }
  if (over.has_value()) hover = over;
  const bool inside = box.Contains(frame.input.x, frame.input.y);
  if (hover.has_value() && inside) DrawTooltipOnTop(frame, *hover);
}

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
  if (ImGui::Selectable(title.c_str(), chosen_ == at, ImGuiSelectableFlags_SpanAllColumns)) {
    chosen_ = at;
    desktop_.selection.FilterOps(
        OpFilter{title, group.op_class, group.pass, group.named ? group.name : std::string()});
  }
  Record(frame, title);
  frame.canvas.record.labels.push_back(title);
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
    return group.ops[Index(of)] > 0 ? FormatSeconds(groups_.Seconds(group, of)) : std::string();
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

// Without a choice the waits take this place.
void TimeScreen::DrawDetails(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  if (!chosen_.has_value() || *chosen_ >= groups_.groups.size()) return DrawStill(frame, box);
  const OpGroup& group = groups_.groups[*chosen_];
  Heading(canvas, {box.x0, box.y0 + canvas.Px(8)},
          Shortened(canvas, canvas.fonts.bold, TitleOf(group), box.Width()));
  canvas.Text(canvas.fonts.small, {box.x0, box.y0 + canvas.Px(28)}, canvas.theme.muted,
              "times of single ops, of all ranks");
  const float buttons = canvas.Px(44);
  DrawTimes(frame, {box.x0, box.y0 + canvas.Px(50), box.x1, box.y1 - buttons});
  BeginPanel(frame, {box.x0 - canvas.Px(12), box.y1 - buttons, box.x1, box.y1}, "##time.buttons");
  if (Button(frame, "Show in Compare")) ShowInCompare();
  ImGui::SameLine();
  if (Button(frame, "Clear filter", desktop_.selection.op_filter().has_value())) {
    desktop_.selection.FilterOps(std::nullopt);
    chosen_.reset();
  }
  EndPanel();
}

// The tables of waits, shown while no op is chosen.
void TimeScreen::DrawStill(const ScreenFrame& frame, const Box& box) {
  float y = box.y0 + frame.canvas.Px(6);
  const SideNames names = desktop_.session.model().Names();
  auto over = DrawWaits(frame, box, "bubble by cause",
                        "of the pipeline in this step, mean over stages", bubble_rows_, names, y);
  if (!bubble_rows_.empty()) y += frame.canvas.Px(14);
  const auto exposed =
      DrawWaits(frame, box, "exposed comm", "not overlapped with compute; mean over ranks",
                exposed_rows_, names, y);
  if (exposed.has_value()) over = exposed;
  if (over.has_value()) DrawTooltipOnTop(frame, *over);
  const std::string text =
      groups_.groups.empty() ? "No ops were recorded." : "Choose an op to see its times.";
  const Box rest{box.x0, y, box.x1, box.y1 - frame.canvas.Px(8)};
  if (rest.Height() > frame.canvas.Px(24)) DrawEmpty(frame.canvas, rest, text);
}

// The histogram is kept until another group or width is chosen. O(pairs).
void TimeScreen::DrawTimes(const ScreenFrame& frame, const Box& box) {
  const int bins = HistogramBins(frame.canvas, box);
  if (histogram_of_ != std::pair(*chosen_, bins)) {
    histogram_ = HistogramOf(groups_, pairs_, *chosen_, bins);
    histogram_of_ = std::pair(*chosen_, bins);
  }
  DrawHistogram(frame.canvas, box, histogram_, desktop_.session.model().Names());
}

void TimeScreen::ShowInCompare() { desktop_.navigation.GoTo("compare"); }

std::vector<std::string> TimeScreen::Chips() const {
  std::vector<std::string> chips;
  const SideModel& side = desktop_.session.model().Of(desktop_.session.model().Shown());
  if (side.IsPresent() && side.step >= 0) chips.push_back(fmt::format("step {}", side.step));
  if (desktop_.selection.op_filter().has_value())
    chips.push_back("filter: " + desktop_.selection.op_filter()->name);
  return chips;
}

std::vector<HelpLine> TimeScreen::Help() const {
  return {{"click a row", "see the op's times and filter the timeline by it"},
          {"click a header", "sort by it, again for the other way round"},
          {"time spent, cause", "what the difference is spent on, or whose work makes it"}};
}

}  // namespace foretrain::ui
