// Differences of two scenarios: what they are called, what each does to step time and memory, and
// the history of the user's changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/view_model/planning/what_if.h"

namespace foretrain::ui {

// One difference. Degrees of parallelism and the number of nodes change together, because a plan
// must use the same devices before and after.
struct ScenarioChange {
  std::string text{};                      // "tp 2 to 4, dp 4 to 2"
  std::function<void(Scenario&)> apply{};  // makes the change
};

// The changes that lead from `before` to `after`, in the order of the controls. O(fields).
std::vector<ScenarioChange> ChangesOf(const Scenario& before, const Scenario& after);

// "tp 2 to 4, dp 4 to 2; micro batch 1 to 2"; "nothing" if they are equal.
std::string DescribeChanges(const Scenario& before, const Scenario& after);

// The effect of one change, with all changes before it made.
struct ChangeEffect {
  std::string text{};
  double step_s = 0;              // change of the step time
  std::int64_t memory_bytes = 0;  // change of the fullest device's memory
  bool fits = true;               // whether the plan fits after it
};

struct ExplainedDifference {
  StepStats before{};
  StepStats after{};
  std::vector<ChangeEffect> effects{};  // they sum to the difference
};

// Forecasts the changes from `before` to `after` one after another. A change that is not legal by
// itself is made together with the next. The effect of a change depends on those before it.
//
// Errors: those of StepMaker::Make for either scenario; kAborted if `cancelled` says so.
Result<ExplainedDifference> ExplainDifference(const Scenario& before, const Scenario& after,
                                              StepMaker& maker,
                                              const std::function<bool()>& cancelled);

// The scenarios that the user made, oldest first, and which of them is shown.
class ScenarioHistory {
 public:
  struct Entry {
    Scenario scenario{};
    std::string text{};  // what changed
  };

  // Adds a scenario behind the one that is shown and forgets what was undone. If it changes the
  // same as the entry before did, as while a slider is dragged, it replaces that entry.
  void Add(const Scenario& scenario);
  // The scenario to show; null if there is none.
  const Scenario* Undo();
  const Scenario* Redo();
  const Scenario* GoTo(std::size_t at);

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t at() const { return at_; }
  bool CanUndo() const { return at_ > 0; }
  bool CanRedo() const { return at_ + 1 < entries_.size(); }

 private:
  static constexpr std::size_t kMax = 200;

  std::vector<Entry> entries_;
  std::size_t at_ = 0;
  std::string last_;  // names of what the shown entry changed
};

}  // namespace foretrain::ui
