#include "ui/view_model/planning/difference_explainer.h"

#include <memory>

namespace foretrain::ui {

bool IsSameScenario(const Scenario& a, const Scenario& b) {
  return a.plan == b.plan && a.cluster == b.cluster && a.model == b.model &&
         a.machine.cluster == b.machine.cluster && a.machine.profile == b.machine.profile;
}

DifferenceExplainer::DifferenceExplainer(Clock& clock)
    : worker_([maker = std::make_shared<StepMaker>(clock)](const auto& of, const auto& outdated) {
        return ExplainDifference(of.first, of.second, *maker, outdated);
      }) {}

void DifferenceExplainer::Ask(const Scenario& before, const Scenario& after) {
  if (!of_ || !IsSameScenario(of_->first, before) || !IsSameScenario(of_->second, after)) {
    of_ = {before, after};
    worker_.Ask(*of_);
  }
  auto done = worker_.Take();
  if (!done) return;
  problem_.clear();
  difference_.reset();
  if (done->answer) {
    difference_ = *std::move(done->answer);
  } else {
    problem_ = done->answer.error().message;
  }
}

}  // namespace foretrain::ui
