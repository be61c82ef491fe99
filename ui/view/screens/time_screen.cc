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
#include "ui/view_model/panels/step_sums.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 16.0F;
constexpr float kHeading = 30.0F;
constexpr float kDetails = 380.0F;  // width
constexpr float kMinTable = 120.0F;

// On a thread of its own: what it calls may throw.
Result<Explanation> Explain(const ExplainRuns& explain, const StoreRequest& runs,
                            std::int32_t step) {
  try {
    return explain(runs, step);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kIo, error.what());
  }
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
  summed_ = DescribeSummed(runs);
  class_rows_ = summed_.empty() ? std::vector<WaitRow>() : ClassRows(runs);
  work_rows_ = summed_.empty() ? std::vector<WaitRow>() : WorkRows(runs);
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

void TimeScreen::Draw(const ScreenFrame& frame) {
  Refresh();
  AskForExplanation();
  TakeExplanation();
  const float scale = frame.canvas.scale;
  const InputFrame input = dock_.Handle(frame.input, frame.box, scale);
  if (std::find(input.typed.begin(), input.typed.end(), U'/') != input.typed.end()) {
    desktop_.dock.Open(DockTab::kSearch);
    searching_ = true;
  }
  const Box dock = dock_.PlaceIn(frame.box, scale);
  const Box above{frame.box.x0, frame.box.y0, frame.box.x1, dock.y0};
  DrawContent({above, frame.canvas, input, frame.images});
  DrawDock(frame, dock);
}

// Compare's selection counts as long as it belongs to the model that is shown. A find is shown
// there.
void TimeScreen::DrawDock(const ScreenFrame& frame, const Box& box) {
  DockState& dock = desktop_.dock;
  const std::uint64_t number = desktop_.session.model_number();
  const CompareModel& model = desktop_.session.model();
  if (const std::pair of(number, dock.search); dock.open && found_of_ != of) {
    found_ = FindSpans(model, dock.search);
    found_of_ = of;
  }
  const bool known = dock.model_number == number;
  const DockActions actions = dock_.Draw(frame, box,
                                         {.model = model,
                                          .model_number = number,
                                          .selected = known ? dock.selected : std::nullopt,
                                          .selected_lane = dock.selected_lane,
                                          .measure = known ? dock.measure : std::nullopt,
                                          .found = found_,
                                          .searching = searching_});
  if (actions.search_started) searching_ = true;
  if (actions.search_ended) searching_ = false;
  std::optional<std::size_t> go = actions.go_to;
  if (actions.search_next && !found_.empty()) go = 0;
  if (!go.has_value()) return;
  searching_ = false;
  dock.go_to = found_[*go];
  ShowInCompare();
}

// Parts above, ops below. The parts give way first in a low window; details go in a narrow one.
void TimeScreen::DrawContent(const ScreenFrame& frame) {
  Canvas& canvas = frame.canvas;
  const float margin = canvas.Px(kMargin);
  const Box box{frame.box.x0 + margin, frame.box.y0 + canvas.Px(12), frame.box.x1 - margin,
                frame.box.y1 - canvas.Px(8)};
  if (!parts_[0].has_value() && !parts_[1].has_value()) {
    if (DrawSummed(frame, box)) return;
    DrawEmpty(canvas, box,
              "There is no step whose time could be told: no run, or one without spans.");
    return;
  }
  // Height that the parts would like: two headings, the stacks and one row for each kind of part.
  const float wanted = 2 * canvas.Px(kHeading) + StacksHeight(canvas, parts_) +
                       RowsHeight(canvas, static_cast<std::size_t>(kTimePartCount) - 2);
  float upper = std::min({wanted, 0.58F * box.Height(), box.Height() - canvas.Px(kMinTable)});
  // Without room for a waterfall the table takes its place.
  const float stacks = canvas.Px(kHeading) + StacksHeight(canvas, parts_) + canvas.Px(8);
  if (upper < stacks + canvas.Px(kHeading + 10.0F) + RowsHeight(canvas, 3)) upper = stacks;
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

// Two tables side by side below the sentences. False if no step is told so.
bool TimeScreen::DrawSummed(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  if (summed_.empty()) return false;
  const float height = canvas.Px(36.0F + 40.0F * static_cast<float>(summed_.size()));
  BeginPanel(frame, {box.x0 - canvas.Px(12), box.y0, box.x1, box.y0 + height}, "##time.summed");
  for (const std::string& sentence : summed_) Paragraph(frame, sentence);
  EndPanel();
  const SideNames names = desktop_.session.model().Names();
  const float middle = std::round((box.x0 + box.x1) / 2);
  float left = box.y0 + height, right = left;
  auto over = DrawWaits(frame, {box.x0, left, middle - canvas.Px(20), box.y1}, "by class",
                        "exclusive, from the metrics stored with the run; mean over ranks",
                        class_rows_, names, left);
  const auto work = DrawWaits(
      frame, {middle + canvas.Px(20), right, box.x1, box.y1}, "busy time by work",
      "from sums of spans; what overlaps counts twice; mean over ranks", work_rows_, names, right);
  if (work.has_value()) over = work;
  if (over.has_value()) DrawTooltipOnTop(frame, *over);
  return true;
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
  // Less than both ends and a bar between them tell nothing.
  if (rows.Height() < RowsHeight(canvas, 3)) {
    if (hover.has_value() && box.Contains(frame.input.x, frame.input.y)) {
      DrawTooltipOnTop(frame, *hover);
    }
    return;
  }
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
          {"time spent, cause", "what the difference is spent on, or whose work makes it"},
          {"/", "search spans by name; a click on one shows it in Compare"},
          {"I", "panel of selection, range and search: shown, hidden; drag its upper edge"},
          {"ctrl + C", "copy what the panel shows"}};
}

}  // namespace foretrain::ui
