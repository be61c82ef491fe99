// The desktop: left rail of views, the numbers that matter, one screen, the status line. Leaves out
// where it is shown (ui/render) and how runs are read.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/desktop/window_content.h"
#include "ui/view/screens/compare_screen.h"
#include "ui/view/screens/store_screen.h"
#include "ui/view/screens/view_table.h"

namespace foretrain::ui {

class Desktop final : public WindowContent {
 public:
  // `input` is null if there are no runs.
  explicit Desktop(std::unique_ptr<const CompareInput> input, const CompareOptions& options = {});

  // Shows the view `name` of the table. Errors: kInvalidArgument, as FindView.
  Result<void> Show(std::string_view name);

  const FrameRecord& Draw(const ViewSize& size, const Fonts& fonts, const InputFrame& input,
                          ImageSink& images) override;
  bool IsMoving() const override;
  // Whether it must be drawn about once a second: a run goes on, or a text field has the keyboard,
  // whose cursor blinks.
  bool IsWatching() const;
  Colour ground() const override;

  DesktopState& state() { return state_; }
  const DesktopState& state() const { return state_; }
  std::string_view view() const { return ViewTable()[chosen_].name; }
  // The screen that is shown: of the chosen view, or the panel of stores.
  Screen& screen();
  // The compare view; makes it if it was not shown yet.
  CompareScreen& compare();
  // Whether the panel of stores covers the view: it was asked for, or the view has no runs to show.
  bool ShowsStores() const;

 private:
  // Boxes of the parts.
  struct Parts {
    Box window{};
    Box rail{};
    Box bar{};
    Box strip{};
    Box notices{};
    Box screen{};
    Box status{};
    Box store{};  // its name in the status line, a button
    Box help{};   // in the bar, a button
  };

  Parts PartsOf(const ViewSize& size, std::size_t notices) const;
  std::vector<std::string> NoticesOf(const Fonts& fonts, const ViewSize& size) const;
  // Handles the shell's own keys and clicks. Returns the input that is left for the screen.
  InputFrame Handle(const InputFrame& input, const Parts& parts, const std::vector<Box>& items);
  void OnKeys(InputFrame& input);
  void Choose(std::size_t view);
  std::vector<Box> ItemsOf(const Box& rail, float scale) const;
  void DrawShell(Canvas& canvas, const Parts& parts, const std::vector<Box>& items,
                 const std::vector<std::string>& notices, const InputFrame& input);
  std::vector<HelpLine> HelpOf();

  DesktopState state_;
  StoreScreen stores_;
  std::vector<std::unique_ptr<Screen>> screens_;  // by place in the table; null until first shown
  std::size_t chosen_ = 0;
  bool help_ = false;
  bool screen_has_mouse_ = false;  // a button went down in it and is still held
  bool moving_ = false;
  FrameRecord record_;
};

}  // namespace foretrain::ui
