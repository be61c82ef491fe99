// The plan view: choose a model and a cluster, search in the background, and compare the plans that
// were found.
#pragma once

#include "base/clock.h"
#include "ui/view/screens/plan_parts.h"
#include "ui/view_model/planning/difference_explainer.h"

namespace foretrain::ui {

class PlanScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit PlanScreen(DesktopState& desktop);

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override {
    return search_.IsRunning() || refreshed_ || explainer_.IsBusy();
  }
  std::vector<std::string> Chips() const override;
  std::vector<HelpLine> Help() const override;

  PlanView& view() { return view_; }
  PlanSearch& search() { return search_; }

 private:
  void Start();
  void ShowSetup(PlanSetup setup);
  void TakeRun();
  void Refresh();
  void DrawFound(const ScreenFrame& frame, const Box& box);
  void OnKeys(const InputFrame& input);
  void Explain();

  DesktopState& desktop_;
  SystemClock clock_;
  Result<Catalogue> catalogue_;
  PlanView view_;
  DifferenceExplainer explainer_;
  bool refreshed_ = false;        // the frame after an answer differs from that before
  std::uint64_t generation_ = 0;  // of the runs in view_.scatter
  PlanSearch search_;
};

}  // namespace foretrain::ui
