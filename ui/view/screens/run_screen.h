// The run view: starts a training on this machine and shows its progress and end. Leaves out the
// process itself (ui/training_process.h) and the meaning of its output
// (ui/view_model/runs/run_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ui/training_process.h"
#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/runs/latest_worker.h"
#include "ui/view_model/runs/run_model.h"

namespace foretrain::ui {

class RunScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit RunScreen(DesktopState& desktop);

  void Draw(const ScreenFrame& frame) override;
  bool IsWatching() const override {
    return process_ != nullptr || (run_.followed != 0 && run_.IsGoing());
  }
  std::vector<HelpLine> Help() const override;

  const RunModel& run() const { return run_; }
  RunForm& form() { return form_; }
  // Reads the process's new output. Draw calls it too.
  void Poll();

 private:
  void FollowPinned();
  void DrawForm(const ScreenFrame& frame, const Box& box);
  void DrawButtons(const ScreenFrame& frame);
  void StartRun();
  void StopRun();
  void Compare();
  float DrawState(const ScreenFrame& frame, const Box& box);
  // A value over the steps or readings so far, with its forecast if there is one.
  struct Curve {
    std::string title{};
    std::vector<double> values{};
    std::size_t expected = 0;  // values of the whole run, so that the curve does not shrink
    std::function<std::string(double)> format{};
    std::optional<double> forecast{};
    std::optional<double> compared{};  // with the forecast; default: the last value
  };
  void DrawCurves(Canvas& canvas, const Box& box);
  void DrawCurve(Canvas& canvas, const Box& box, const Curve& curve);
  void SaveSchedule();
  void Follow(RunId run);
  void TakeFollowed(double elapsed_s);
  void DrawOutput(const ScreenFrame& frame, const Box& box);

  DesktopState& desktop_;
  RunForm form_;
  RunModel run_;
  std::string started_store_;  // of the run that was started last
  std::uint64_t pinned_number_ = 0;
  SlotOrder slots_;  // of the pinned plan
  bool ends_with_desktop_ = false;
  int device_ = 0;
  std::unique_ptr<TrainingProcess> process_;
  // Reads a run that another process records; null before the first.
  using Follower = LatestWorker<std::pair<std::string, RunId>, RunProgress>;
  std::unique_ptr<Follower> follower_;
  double followed_s_ = 0;  // since it was read last
};

}  // namespace foretrain::ui
