#include "ui/view_model/schedules/schedule_editor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain::ui {
namespace {

constexpr std::size_t kMaxUndo = 100;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

double LengthOf(Pass pass) { return pass == Pass::kBackward ? 2 : 1; }

Hue HueOfPass(Pass pass) {
  if (pass == Pass::kForward) return Hue::kForward;
  return pass == Pass::kBackwardWeight ? Hue::kUpdate : Hue::kBackward;
}

std::string LabelOf(const ScheduleAction& action, bool with_stage) {
  const std::string name = NameOf(action);
  return with_stage ? name : name.substr(name.find_first_not_of("0123456789"));
}

}  // namespace

std::vector<ScheduleAction> Moved(std::vector<ScheduleAction> actions, int first, int count,
                                  int to) {
  const auto begin = actions.begin() + first, end = begin + count;
  if (to < first) {
    std::rotate(actions.begin() + to, begin, end);
  } else {
    std::rotate(begin, end, begin + (to - first) + count);
  }
  return actions;
}

ScheduleEditor::Source ScheduleEditor::SourceOf(const Plan& plan) {
  return {plan.schedule, plan.pp, plan.MicroBatches(), plan.vpp, plan.slots};
}

Result<void> ScheduleEditor::Follow(const Plan& plan) {
  if (source_ == SourceOf(plan)) return {};
  FT_ASSIGN(ScheduleDraft draft, DraftOf(plan));
  source_ = SourceOf(plan);
  followed_ = draft;
  undo_.clear();
  drag_.reset();
  Set(std::move(draft));
  return {};
}

void ScheduleEditor::Open(ScheduleDraft draft) {
  if (undo_.size() == kMaxUndo) undo_.erase(undo_.begin());
  undo_.push_back(draft_);
  drag_.reset();
  Set(std::move(draft));
}

void ScheduleEditor::Set(ScheduleDraft draft) {
  draft_ = std::move(draft);
  // Cells of a file mean nothing once passes have moved.
  for (auto& rank : draft_.ranks) {
    for (ScheduleAction& action : rank) action.cell = 0;
  }
  report_ = CheckSchedule(draft_);
}

std::vector<EditedCell> ScheduleEditor::CellsOf(const ScheduleDraft& draft,
                                                const ScheduleReport& report, int rank) const {
  std::vector<EditedCell> cells;
  const auto& actions = draft.ranks[At(rank)];
  double at = 0;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    EditedCell& cell = cells.emplace_back();
    cell.place = {rank, i};
    const ScheduleAction& action = actions[At(i)];
    if (report.Works()) {
      cell.start = report.times[At(rank)][At(i)].start;
      cell.end = report.times[At(rank)][At(i)].end;
    } else {
      cell.start = at;
      cell.end = at + LengthOf(action.pass);
    }
    at = cell.end;
    cell.hue = HueOfPass(action.pass);
    cell.label = LabelOf(action, report.chunks > 1);
  }
  return cells;
}

std::vector<EditedCell> ScheduleEditor::CellsOf(int rank) const {
  std::vector<EditedCell> cells = CellsOf(draft_, report_, rank);
  for (const ScheduleFinding& finding : report_.findings) {
    for (const ActionPlace& place : finding.places) {
      if (place.rank == rank) cells[At(place.action)].faulty = true;
    }
  }
  if (drag_.has_value() && drag_->rank == rank) {
    for (int i = 0; i < drag_->count; ++i) cells[At(drag_->now + i)].dragged = true;
  }
  return cells;
}

double ScheduleEditor::Length() const {
  double length = 1;
  for (int rank = 0; rank < static_cast<int>(draft_.ranks.size()); ++rank) {
    double at = 0;
    for (const ScheduleAction& action : draft_.ranks[At(rank)]) at += LengthOf(action.pass);
    length = std::max(length, at);
  }
  return std::max(length, report_.makespan);
}

void ScheduleEditor::Begin(const ActionPlace& at) {
  const auto& actions = draft_.ranks[At(at.rank)];
  Drag drag{draft_, report_, at.rank, at.action, 1, at.action};
  if (at.action > 0 && actions[At(at.action - 1)].paired) --drag.first;
  if (actions[At(drag.first)].paired) drag.count = 2;
  drag.now = drag.first;
  drag_ = std::move(drag);
}

// The place among the others is told by their middles as they lay before the drag, so that the
// picture under the mouse stays while the pass moves through it.
void ScheduleEditor::DragTo(double unit) {
  if (!drag_.has_value()) return;
  const std::vector<EditedCell> cells = CellsOf(drag_->before, drag_->report, drag_->rank);
  int to = 0;
  for (const EditedCell& cell : cells) {
    const int i = cell.place.action;
    if (i >= drag_->first && i < drag_->first + drag_->count) continue;
    if ((cell.start + cell.end) / 2 < unit) ++to;
  }
  // Never between the two of a pair.
  const auto others = Moved(drag_->before.ranks[At(drag_->rank)], drag_->first, drag_->count, to);
  if (to > 0 && others[At(to - 1)].paired) ++to;
  if (to == drag_->now) return;
  ScheduleDraft moved = drag_->before;
  auto& rank = moved.ranks[At(drag_->rank)];
  rank = Moved(std::move(rank), drag_->first, drag_->count, to);
  drag_->now = to;
  Set(std::move(moved));
}

void ScheduleEditor::Drop() {
  if (!drag_.has_value()) return;
  if (drag_->now != drag_->first) {
    if (undo_.size() == kMaxUndo) undo_.erase(undo_.begin());
    undo_.push_back(std::move(drag_->before));
  }
  drag_.reset();
}

void ScheduleEditor::Cancel() {
  if (!drag_.has_value()) return;
  ScheduleDraft before = std::move(drag_->before);
  drag_.reset();
  Set(std::move(before));
}

void ScheduleEditor::Shift(const ActionPlace& at, int by) {
  Begin(at);
  const auto size = static_cast<int>(draft_.ranks[At(at.rank)].size());
  int to = std::clamp(drag_->first + by, 0, size - drag_->count);
  const auto others = Moved(draft_.ranks[At(at.rank)], drag_->first, drag_->count, to);
  if (to > 0 && others[At(to - 1)].paired) to += by > 0 ? 1 : -1;
  to = std::clamp(to, 0, size - drag_->count);
  if (to != drag_->first) {
    ScheduleDraft moved = draft_;
    auto& rank = moved.ranks[At(at.rank)];
    rank = Moved(std::move(rank), drag_->first, drag_->count, to);
    drag_->now = to;
    Set(std::move(moved));
  }
  Drop();
}

bool ScheduleEditor::Undo() {
  if (undo_.empty()) return false;
  ScheduleDraft before = std::move(undo_.back());
  undo_.pop_back();
  drag_.reset();
  Set(std::move(before));
  return true;
}

Plan ScheduleEditor::Applied(const Plan& plan) {
  if (!IsEdited() || !report_.Works()) return plan;
  auto slots = SlotOrder::Make(draft_, "");
  if (!slots.has_value()) return plan;
  Plan out = plan;
  out.schedule = ScheduleKind::kCustom;
  out.vpp = 1;
  out.slots = *std::move(slots);
  followed_ = draft_;
  source_ = SourceOf(out);
  return out;
}

std::string ScheduleEditor::Describe() const {
  if (!report_.Works()) {
    const ScheduleFinding& first = report_.findings.front();
    const std::size_t more = report_.finding_count - 1;
    return fmt::format("{}: {}{}", Name(first.fault), first.text,
                       more == 0 ? "" : fmt::format("; {} more", more));
  }
  const auto fullest = std::max_element(report_.peak_live.begin(), report_.peak_live.end());
  return fmt::format("works: {:g} units, bubble {}, at most {} live activations on rank {}",
                     report_.makespan, FormatPercent(report_.bubble), *fullest,
                     fullest - report_.peak_live.begin());
}

}  // namespace foretrain::ui
