// The panel that opens stores and chooses runs: a path, recent stores, the runs of the open one,
// and commands that make a first store. Shown if a view needs runs and there are none.
#pragma once

#include <string>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"

namespace foretrain::ui {

class StoreScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit StoreScreen(DesktopState& desktop) : desktop_(desktop) {}

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override { return !desktop_.stores.opening.empty(); }
  std::vector<HelpLine> Help() const override;

 private:
  void DrawPath(const ScreenFrame& frame);
  void DrawRecent(const ScreenFrame& frame);
  void DrawRuns(const ScreenFrame& frame, float height);
  void DrawShare(const ScreenFrame& frame);
  void DrawRun(const ScreenFrame& frame, const RunInfo& run);
  void Open(const std::string& path, RunId run = 0, RunId against = 0);

  DesktopState& desktop_;
  std::string path_;
  std::string link_;    // file of a link to the view
  std::string shared_;  // what became of it
};

}  // namespace foretrain::ui
