// Lists the largest tensors that a run's program holds at a rank's predicted peak. The program is
// compiled again, on a separate thread. Bytes by category come from the store.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/runs/latest_worker.h"

namespace foretrain::ui {

class LivePanel {
 public:
  // Requests the data of the shown run unless that was done, and takes the answer if there is one.
  void Ask(const DesktopState& desktop, Space space);

  // Draws as many tensors as the box has room for; nothing before the first request.
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

  std::optional<Wanted> wanted_;  // the latest request
  std::optional<LiveRanks> live_;
  std::string why_not_;
  std::unique_ptr<Worker> worker_;  // null before the first request
};

}  // namespace foretrain::ui
