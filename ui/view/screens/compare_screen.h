// The compare view as a whole: its state and the pictures kept between frames. Leaves out where it
// is shown (ui/view/desktop/desktop.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/dock/dock.h"
#include "ui/view/lanes/lane_controls.h"
#include "ui/view/lanes/lane_pictures.h"
#include "ui/view/panels/panels.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {

class CompareScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit CompareScreen(DesktopState& desktop);

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override { return moving_ || state_.play.playing || dock_.IsMoving(); }
  std::vector<std::string> Chips() const override;
  std::vector<HelpLine> Help() const override;

  const CompareModel& model() const { return desktop_.session.model(); }
  const Layout& layout() const { return layout_; }
  ViewState& state() { return state_; }

 private:
  // The settings that the pictures were made for.
  struct PictureKey {
    Viewport viewport{};
    Box window{};
    std::uint64_t list = 0;  // CompareScreen::list_number_
    float scale = 1.0F;
    float scroll = 0.0F;
    std::size_t memory_lane = 0;
    bool counters = true;
    Colour ground{};
    std::uint64_t model = 0;
    std::optional<OpFilter> filter{};

    bool operator==(const PictureKey& other) const = default;
  };

  void FollowModel();
  void FindAgain();
  void GoToPlace();
  void RefreshPictures(const ScreenFrame& frame);
  void RefreshPath();
  void RefreshList();
  void SuggestTab(const ViewState& before);
  void DrawDock(const ScreenFrame& screen, const Box& box);
  void Take(const DockActions& actions);
  const OpFilter* Filter() const;  // null: none is set

  DesktopState& desktop_;
  // The numbers and options of the model that state_ belongs to.
  std::uint64_t generation_;
  std::uint64_t runs_number_;
  std::uint64_t model_number_;
  CompareOptions options_;
  ViewState state_;
  std::optional<Span> selected_;  // the selected span, to find it again after a reload
  Layout layout_;
  // Lanes that are shown, and the model and order that they were arranged for.
  std::shared_ptr<const LaneList> list_;  // shared with the layout
  std::optional<std::pair<std::uint64_t, LaneOrder>> list_of_;
  std::uint64_t list_number_ = 0;  // grows with each list
  RankField rank_field_;
  std::optional<std::tuple<std::uint64_t, Box, Colour>> overview_of_;
  Picture overview_shown_{};
  MemoryPanel memory_;
  std::optional<std::pair<std::uint64_t, std::size_t>> memory_of_;  // model number and lane
  MemoryPicture memory_picture_;
  LanePictures lanes_;
  DriftPicture drift_;
  Picture lanes_shown_{};
  Picture drift_shown_{};
  Picture memory_shown_{};
  std::optional<PictureKey> key_;
  CriticalPath path_;
  std::optional<std::pair<std::uint64_t, Side>> path_of_;  // model number and side
  bool moving_ = false;
  Dock dock_;
};

}  // namespace foretrain::ui
