// What-if: a plan on a machine whose options and figures are turned, forecast again at each turn.
// Leaves out widgets and drawing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ui/view_model/hardware.h"
#include "ui/view_model/latest_worker.h"
#include "ui/view_model/step_picture.h"

namespace foretrain::ui {

// All that a forecast depends on.
struct Scenario {
  ModelSpec model;
  MachineRates machine;  // as it was chosen
  ClusterSpec cluster;   // with what was turned
  Plan plan;
};

struct StepFigures {
  double step_s = 0;
  double low_s = 0;  // 90 % interval; 0: unknown
  double high_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  double bubble = 0;           // PipelineBubble::bubble
  double communication_s = 0;  // of tensor, context and expert parallelism, and gathers, not hidden
  double sums_s = 0;           // gradients behind the last backward
  double update_s = 0;
  DeviceUse device;  // of the fullest rank
  int fullest_pp = 0;
  std::int64_t device_bytes = 0;  // that a device has
  std::int64_t host_bytes = 0;    // of a rank's state, off the device

  bool Fits() const { return device.Needed() <= device_bytes; }
};

struct WhatIfRequest {
  Scenario scenario;
  int memory_pp = -1;  // whose memory is drawn; -1: the fullest
};

struct WhatIfStep {
  WhatIfRequest request;
  StepFigures figures;
  int memory_pp = 0;
  std::shared_ptr<const PassForecast> passes;  // shared by answers and the screen
  std::shared_ptr<const StepPicture> picture;  // likewise; null: see `note`
  std::string note;                            // why nothing is drawn
  double seconds = 0;                          // from request to answer, on the thread
};

// The same step op by op: its program compiled and simulated.
struct SimulatedStep {
  WhatIfRequest request;
  double step_s = 0;
  std::shared_ptr<const StepPicture> picture;  // shared as above
};

// Plans with more passes than this are not drawn; those with more ops are not simulated op by op
// while one turns.
inline constexpr double kMostPassesDrawn = 4e6;
inline constexpr double kMostOpsSimulated = 6e5;

// One scenario at a time, by passes. Keeps costs and blocks of the last model and machine.
class StepMaker {
 public:
  // `clock`: for WhatIfStep::seconds; outlives this.
  explicit StepMaker(Clock& clock) : clock_(clock) {}
  StepMaker(const StepMaker&) = delete;
  StepMaker& operator=(const StepMaker&) = delete;

  // Errors: those of ValidatePlan: the rule's sentence; a cluster that is refused; fewer devices
  // than the plan has ranks.
  Result<WhatIfStep> Make(const WhatIfRequest& request);

 private:
  Result<void> Prepare(const Scenario& scenario);

  Clock& clock_;
  // Of the scenario before: the forecaster borrows the other two.
  struct Kept {
    Scenario scenario;
    CostModel costs;
    PassForecaster forecaster;
    Kept(const Scenario& of, CostModel with)
        : scenario(of), costs(std::move(with)), forecaster(scenario.model, costs) {}
  };
  std::unique_ptr<Kept> kept_;
};

// Compiles and simulates. Errors: as above; those of MakeForecastUntil.
Result<SimulatedStep> SimulateStep(const WhatIfRequest& request,
                                   const std::function<bool()>& cancelled = {});

// The view's side: asks threads, and keeps what is shown.
class WhatIf {
 public:
  explicit WhatIf(Clock& clock);

  void Ask(const WhatIfRequest& request);
  // Waits for the answer by passes to what was asked for last, at most `most`.
  void Await(std::chrono::nanoseconds most) const { passes_.Await(most); }
  // Takes answers; true where something new is to be shown. The simulation op by op of an answer
  // begins at the next call, so that the frame that shows the answer has the processor for itself.
  bool Poll();
  bool IsBusy() const { return simulate_next_ || passes_.IsBusy() || ops_.IsBusy(); }

  // The last step that could be made, or null; `problem`: why the last request could not, else
  // empty.
  const std::shared_ptr<const WhatIfStep>& shown() const { return shown_; }
  const std::string& problem() const { return problem_; }
  // Of the step that is shown, or null while it is not there.
  const std::shared_ptr<const SimulatedStep>& simulated() const { return simulated_; }
  std::uint64_t asked() const { return asked_; }
  std::uint64_t answered() const { return answered_; }

 private:
  bool TakePasses();
  bool TakeOps();

  std::uint64_t asked_ = 0, answered_ = 0;
  bool simulate_next_ = false;               // what is shown
  std::uint64_t simulated_for_ = 0;          // request that ops_ works on
  std::shared_ptr<const WhatIfStep> shown_;  // shared with the screen and the pin
  std::shared_ptr<const SimulatedStep> simulated_;
  std::string problem_;
  LatestWorker<WhatIfRequest, WhatIfStep> passes_;
  LatestWorker<std::pair<std::uint64_t, WhatIfRequest>, std::pair<std::uint64_t, SimulatedStep>>
      ops_;
};

// A figure as it stands over the picture, with its change against the pinned plan.
struct WhatIfNumber {
  std::string name;
  std::string value;
  std::string detail;     // "1.20 s to 1.40 s"; may be empty
  std::string change;     // "+3.1 %"; empty: nothing is pinned, or the same
  bool doubtful = false;  // it does not fit
};
std::vector<WhatIfNumber> NumbersOfStep(const StepFigures& figures, const StepFigures* pinned);

}  // namespace foretrain::ui
