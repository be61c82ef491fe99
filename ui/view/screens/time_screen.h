// Where the time goes: the parts of a step, a waterfall from forecast to measurement, and the ops
// that take the time. Leaves out how these are computed (ui/view_model/panels/time_parts.h,
// op_groups.h).
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/dock/dock.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/panels/op_groups.h"
#include "ui/view_model/panels/time_parts.h"
#include "ui/view_model/panels/wait_rows.h"

namespace foretrain::ui {

class TimeScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit TimeScreen(DesktopState& desktop) : desktop_(desktop), dock_(desktop) {}

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override { return explaining_.valid() || dock_.IsMoving(); }
  std::vector<std::string> Chips() const override;
  std::vector<HelpLine> Help() const override;

  const OpGroups& groups() const { return groups_; }

 private:
  // Computes the rows again if the model is another.
  void Refresh();
  void AskForExplanation();
  void TakeExplanation();
  void DrawContent(const ScreenFrame& frame);
  // The panel that Compare has too: its selection and range, and a search whose finds it shows.
  void DrawDock(const ScreenFrame& frame, const Box& box);
  // A step that is not read: its classes and work from stored metrics and sums.
  bool DrawSummed(const ScreenFrame& frame, const Box& box);
  void DrawParts(const ScreenFrame& frame, const Box& box);
  void DrawTable(const ScreenFrame& frame, const Box& box);
  void Sort(const std::vector<GroupColumn>& shown, GroupColumn first);
  void DrawRow(const ScreenFrame& frame, std::uint32_t group,
               const std::vector<GroupColumn>& shown);
  void DrawCell(const ScreenFrame& frame, const OpGroup& group, GroupColumn column);
  void DrawDetails(const ScreenFrame& frame, const Box& box);
  void DrawStill(const ScreenFrame& frame, const Box& box);
  void DrawTimes(const ScreenFrame& frame, const Box& box);
  void ShowInCompare();

  DesktopState& desktop_;
  std::optional<std::uint64_t> model_number_;
  std::vector<PairedOp> pairs_;
  OpGroups groups_;
  std::array<std::optional<StepParts>, 2> parts_;
  std::vector<WaitRow> bubble_rows_;
  std::vector<WaitRow> exposed_rows_;
  std::vector<std::string> summed_;  // of DescribeSummed
  std::vector<WaitRow> class_rows_;  // of a step that is not read
  std::vector<WaitRow> work_rows_;
  std::vector<std::uint32_t> order_;
  std::optional<std::uint32_t> chosen_;
  Histogram histogram_;
  std::optional<std::pair<std::uint32_t, int>> histogram_of_;  // group and bins
  int basis_ = 0;                                              // 0: by time spent, 1: by cause
  std::optional<Explanation> explanation_;
  std::string explained_why_not_;
  bool asked_ = false;
  Dock dock_;
  std::vector<SpanRef> found_;
  std::pair<std::uint64_t, std::string> found_of_;  // model number and text
  bool searching_ = false;
  std::uint64_t asked_for_ = 0;                  // model number
  std::future<Result<Explanation>> explaining_;  // last: it ends before what it uses
};

}  // namespace foretrain::ui
