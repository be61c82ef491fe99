// Explains the difference of two scenarios on a thread, for a view that asks in every frame.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "ui/view_model/planning/scenario_changes.h"
#include "ui/view_model/runs/latest_worker.h"

namespace foretrain::ui {

class DifferenceExplainer {
 public:
  // `clock` must outlive this object.
  explicit DifferenceExplainer(Clock& clock);

  // Asks for the difference if it is not the one that was asked for last, and takes an answer.
  void Ask(const Scenario& before, const Scenario& after);

  bool IsBusy() const { return worker_.IsBusy(); }
  // The last answer; the one before stays until then. If there is none, `problem` may say why.
  const std::optional<ExplainedDifference>& difference() const { return difference_; }
  const std::string& problem() const { return problem_; }

 private:
  std::optional<std::pair<Scenario, Scenario>> of_;  // as asked last
  std::optional<ExplainedDifference> difference_;
  std::string problem_;
  LatestWorker<std::pair<Scenario, Scenario>, ExplainedDifference> worker_;
};

// Whether forecasts of both are the same.
bool IsSameScenario(const Scenario& a, const Scenario& b);

}  // namespace foretrain::ui
