// Edits a pipeline schedule by moving its passes, and checks it after each move. Leaves out drawing
// (ui/view/schedules) and files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/config/schedule/check_schedule.h"
#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {

// One pass as it is drawn, in the units of ScheduleReport::times.
struct EditedCell {
  ActionPlace place{};
  double start = 0;
  double end = 0;
  Hue hue{};
  std::string label{};  // "F3"; with several stages a rank "2F3"
  bool faulty = false;  // a finding is about it
  bool dragged = false;
};

class ScheduleEditor {
 public:
  // Starts from the plan's schedule, if that is another one than it started from or led to; edits
  // of the one before are dropped. Errors: those of DraftOf.
  Result<void> Follow(const Plan& plan);
  // Replaces the draft; `Undo` returns to the one before.
  void Open(ScheduleDraft draft);

  const ScheduleDraft& draft() const { return draft_; }
  const ScheduleReport& report() const { return report_; }
  bool IsDragging() const { return drag_.has_value(); }
  bool CanUndo() const { return !undo_.empty(); }
  // Whether the draft is not the schedule of the plan that was followed.
  bool IsEdited() const { return !(draft_.ranks == followed_.ranks); }

  // Cells of one rank, by time. If the schedule works, at the times of its check; else one after
  // the other. A pair is two cells.
  std::vector<EditedCell> CellsOf(int rank) const;
  double Length() const;  // of the longest rank, at least 1

  // A drag of the cell at `at`, which moves the pass, or both of a pair, among those of its rank to
  // where `unit` is. The order follows each move and is checked.
  void Begin(const ActionPlace& at);
  void DragTo(double unit);
  void Drop();
  void Cancel();

  // Moves the pass one place earlier or later.
  void Shift(const ActionPlace& at, int by);
  bool Undo();

  // The plan with this schedule; the plan itself if nothing was edited or the schedule does not
  // work. The next Follow of it changes nothing.
  Plan Applied(const Plan& plan);

  // What is wrong, or how the schedule does: "works: 33 units, bubble 27.3 %, at most 4 live
  // activations on rank 0".
  std::string Describe() const;

 private:
  struct Drag {
    ScheduleDraft before{};
    ScheduleReport report{};  // of `before`
    int rank = 0;
    int first = 0;  // of the dragged pass, or the pair's first
    int count = 1;
    int now = 0;  // where it is now
  };
  struct Source {
    ScheduleKind schedule = ScheduleKind::k1f1b;
    int pp = 0;
    std::int64_t micro_batches = 0;
    int vpp = 1;
    SlotOrder slots{};

    bool operator==(const Source&) const = default;
  };
  static Source SourceOf(const Plan& plan);
  std::vector<EditedCell> CellsOf(const ScheduleDraft& draft, const ScheduleReport& report,
                                  int rank) const;
  void Set(ScheduleDraft draft);

  std::optional<Source> source_;
  ScheduleDraft followed_;
  ScheduleDraft draft_;
  ScheduleReport report_;
  std::optional<Drag> drag_;
  std::vector<ScheduleDraft> undo_;
};

// `actions` with `count` of them from `first` on moved so that they begin at `to` (of the others).
std::vector<ScheduleAction> Moved(std::vector<ScheduleAction> actions, int first, int count,
                                  int to);

}  // namespace foretrain::ui
