// The panel under the lanes: details of the selected span, the measured range summed as a table,
// and the spans that a search found. Each can be copied. Leaves out what is selected, which the
// screens decide.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/playback/play_panel.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/dock/op_tensors.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {

// Contents of the panel in this frame.
struct DockContent {
  const CompareModel& model;
  std::uint64_t model_number = 0;
  std::optional<SpanRef> selected{};
  std::size_t selected_lane = 0;
  std::optional<Measure> measure{};
  bool dragging = false;  // the range still changes; the table before it stays
  const std::vector<SpanRef>& found;
  std::size_t found_at = 0;
  bool searching = false;       // the search field has the keyboard, or shall get it
  Playback* play = nullptr;     // null: the screen has none, and so no tab
  std::size_t memory_lane = 0;  // whose queues are shown while playing
};

// The user's actions in the panel in this frame.
struct DockActions {
  bool search_started = false;
  bool search_changed = false;  // DockState::search is another text
  bool search_next = false;
  bool search_ended = false;
  std::optional<std::size_t> go_to{};  // index into DockContent::found
};

class Dock {
 public:
  // `desktop` must outlive this.
  explicit Dock(DesktopState& desktop) : desktop_(desktop) {}

  // The box at the bottom of `screen` that it takes: a bar and, if it is open, the content.
  Box PlaceIn(const Box& screen, float scale) const;

  // Handles its key and the drag of its upper edge. Returns the input that is left for the rest of
  // the screen.
  InputFrame Handle(const InputFrame& input, const Box& screen, float scale);

  DockActions Draw(const ScreenFrame& frame, const Box& box, const DockContent& content);

  bool IsMoving() const { return resizing_ || compiling_.valid(); }
  static std::vector<HelpLine> Help();

 private:
  // A heading and lines under it.
  struct Group {
    std::string title{};
    std::vector<HoverLine> lines{};
  };

  DockState& state() const { return desktop_.dock; }
  // The tab that is shown: a screen without playback shows the selection instead.
  DockTab Tab(const DockContent& content) const;
  Side SideOf(const CompareModel& model) const;
  void DrawBar(const ScreenFrame& frame, const Box& bar, const DockContent& content,
               DockActions& actions);
  void DrawCopyButtons(const ScreenFrame& frame, const Box& bar, float left,
                       const DockContent& content);
  void Copy(std::string text, std::string_view what);
  std::string TextOf(const DockContent& content, bool csv);
  Result<std::string> Command(const DockContent& content) const;

  void RefreshDetails(const DockContent& content);
  void RefreshProgram(const std::shared_ptr<const RunSetting>& setting);
  void DrawSelection(const ScreenFrame& frame, const Box& box, const DockContent& content);
  void DrawLines(const ScreenFrame& frame, const Group& group, std::size_t first, std::size_t end);
  void RefreshRange(const DockContent& content);
  void DrawRange(const ScreenFrame& frame, const Box& box, const DockContent& content);
  void DrawRangeChoices(const ScreenFrame& frame, const Box& box, const DockContent& content);
  void DrawRangeTable(const ScreenFrame& frame, const Box& box);
  void DrawSearch(const ScreenFrame& frame, const Box& box, const DockContent& content,
                  DockActions& actions);
  void DrawFound(const ScreenFrame& frame, const DockContent& content, DockActions& actions);

  DesktopState& desktop_;
  bool resizing_ = false;
  std::string copied_;  // what was copied last

  // The selected span's details. `details_of_` also counts what is known of the program.
  std::optional<std::tuple<std::uint64_t, Side, std::uint32_t, std::size_t, int>> details_of_;
  HoverText details_;
  std::vector<Group> groups_;

  std::shared_ptr<const RunSetting> program_of_;  // setting of the program; null: none was asked
  std::shared_ptr<const ProgramOps> program_;     // null until it is compiled
  std::string no_program_;                        // why there is none
  int program_number_ = 0;                        // grows with each answer

  using RangeKey = std::tuple<std::uint64_t, Side, SumBy, int, double, double>;
  std::optional<RangeKey> range_of_;
  std::optional<RangeSums> sums_;
  RangeTexts texts_;
  std::string no_range_;  // why there is none
  std::string gaps_;

  PlayPanel play_;

  bool search_was_open_ = false;
  int search_frames_ = 0;  // since it was opened

  std::future<Result<std::shared_ptr<const ProgramOps>>> compiling_;  // last: ends first
};

}  // namespace foretrain::ui
