// The largest tensors that a run's program holds at a rank's predicted peak. The program is compiled
// again, on a thread of its own. Leaves out what the store knows: bytes by category.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ui/view/desktop_state.h"
#include "ui/view/screen.h"
#include "ui/view_model/latest_worker.h"

namespace foretrain::ui {

class LivePanel {
 public:
  // Asks for the run that is shown where that was not done yet, and takes what was found.
  void Ask(const DesktopState& desktop, Space space);

  // As many as the box is high; nothing before anything was asked for.
  void Draw(const ScreenFrame& frame, const Box& box, int rank) const;

  bool IsBusy() const { return worker_ != nullptr && worker_->IsBusy(); }

 private:
  struct Wanted {
    std::string store;
    RunId run = 0;
    Space space = Space::kDevice;

    bool operator==(const Wanted&) const = default;
  };
  using Worker = LatestWorker<Wanted, LiveRanks>;

  std::optional<Wanted> wanted_;  // that was asked for last
  std::optional<LiveRanks> live_;
  std::string why_not_;
  std::unique_ptr<Worker> worker_;  // null: nothing was asked for
};

}  // namespace foretrain::ui
