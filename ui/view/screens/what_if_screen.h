// The what-if view: change options of a plan and rates of a machine, and watch timeline, memory and
// step time update.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "ui/view/lanes/lane_pictures.h"
#include "ui/view/panels/panels.h"
#include "ui/view/playback/play_panel.h"
#include "ui/view/schedules/schedule_panel.h"
#include "ui/view/screens/what_if_parts.h"
#include "ui/view/screens/what_if_workbench.h"

namespace foretrain::ui {

class WhatIfScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit WhatIfScreen(DesktopState& desktop);

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override;
  std::vector<std::string> Chips() const override;
  std::vector<HelpLine> Help() const override;

  const WhatIf& engine() const { return what_if_; }
  const std::optional<Scenario>& scenario() const { return scenario_; }
  const ViewState& state() const { return state_; }
  const Layout& layout() const { return layout_; }
  const WhatIfWorkbench& workbench() const { return workbench_; }
  SchedulePanel& schedule() { return schedule_; }
  // The time for which a frame waits for the answer to its own change, so that it can show it.
  void SetPatience(std::chrono::nanoseconds patience) { patience_ = patience; }
  // Whether the answer to the last request was drawn, at least by passes.
  bool IsAnswered() const {
    return what_if_.asked() > 0 && what_if_.answered() == what_if_.asked();
  }

 private:
  struct PictureKey {
    Viewport viewport{};
    Box window{};
    float scale = 1.0F;
    float scroll = 0.0F;
    std::size_t memory_lane = 0;
    Colour ground{};
    const StepPicture* picture = nullptr;

    bool operator==(const PictureKey&) const = default;
  };

  void FollowPin();
  void FindStart();
  bool StartFromRun();
  void TakeStart();
  void TakeAnswer();
  void Ask();
  void Pin();
  void ShowPicture(std::shared_ptr<const StepPicture> picture);
  double LongestNs() const;
  void DrawTimeline(const ScreenFrame& frame, const Box& box);
  void DrawPinnedTimeline(const ScreenFrame& frame, const Box& box);
  float DrawPanelBelow(const ScreenFrame& frame, const Box& box);
  void GoTo(const Scenario* scenario);
  ControlUse DrawControlsIn(const ScreenFrame& frame, const Box& box);
  MemoryPanel PanelOfLane() const;
  void RefreshPictures(const ScreenFrame& frame);
  void DrawMessage(const ScreenFrame& frame, const Box& box) const;

  DesktopState& desktop_;
  SystemClock clock_;
  std::optional<Scenario> scenario_;  // as the controls stand
  std::optional<Scenario> pinned_;
  std::shared_ptr<const WhatIfStep> pinned_step_;  // shared with the engine
  std::uint64_t pinned_number_ = 0;
  std::chrono::nanoseconds patience_ = std::chrono::milliseconds(8);  // half of a frame at 60 Hz
  std::uint64_t waited_for_ = 0;                                      // number of the request
  bool pin_next_ = true;  // the next answer is the pinned plan's
  std::string list_text_;
  std::string problem_;  // why there is no scenario
  int memory_pp_ = -1;

  std::shared_ptr<const StepPicture> picture_;  // shared with the engine's answers
  bool by_ops_ = false;
  ViewState state_;
  Layout layout_;
  MemoryPanel memory_;
  MemoryPicture memory_picture_;
  LanePictures lanes_;
  Picture lanes_shown_{};
  Picture memory_shown_{};
  std::optional<PictureKey> key_;
  bool moving_ = false;
  PlayPanel play_;
  SchedulePanel schedule_;
  std::uint64_t picture_number_ = 0;  // grows with each picture
  // The pinned plan's timeline.
  std::optional<PictureKey> pinned_key_;
  LanePictures pinned_lanes_;
  Picture pinned_shown_{};

  WhatIfWorkbench workbench_;
  WhatIf what_if_;
  LatestWorker<PlanRequest, Scenario> starter_;
};

}  // namespace foretrain::ui
