// Forecasts a plan and a machine whose options the user changes, anew after each change.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ui/view_model/planning/hardware.h"
#include "ui/view_model/planning/plan_setup.h"
#include "ui/view_model/runs/latest_worker.h"
#include "ui/view_model/timeline/step_picture.h"

namespace foretrain::ui {

// Everything that a forecast depends on.
struct Scenario {
  ModelSpec model;
  MachineRates machine;  // as it was chosen
  ClusterSpec cluster;   // with the user's changes
  Plan plan;
};

struct StepStats {
  double step_s = 0;
  double low_s = 0;  // 90 % interval; 0 if unknown
  double high_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  double bubble = 0;           // PipelineBubble::bubble
  double communication_s = 0;  // exposed: of tensor, context and expert parallelism, and gathers
  double sums_s = 0;           // gradient reduction after the last backward
  double update_s = 0;
  DeviceUse device;  // memory of the fullest rank
  int fullest_pp = 0;
  std::int64_t device_bytes = 0;  // capacity of a device
  std::int64_t host_bytes = 0;    // a rank's offloaded state

  bool Fits() const { return device.Needed() <= device_bytes; }
};

struct WhatIfRequest {
  Scenario scenario;
  int memory_pp = -1;  // stage whose memory is drawn; -1: the fullest
};

struct WhatIfStep {
  WhatIfRequest request;
  StepStats stats;
  int memory_pp = 0;
  std::shared_ptr<const PassForecast> passes;  // shared by answers and the screen
  std::shared_ptr<const StepPicture> picture;  // shared likewise; null if `note` says why
  std::string note;                            // reason why nothing is drawn; empty otherwise
  double seconds = 0;                          // from request to answer
};

// The same step op by op, from its compiled program.
struct SimulatedStep {
  WhatIfRequest request;
  double step_s = 0;
  std::shared_ptr<const StepPicture> picture;  // shared as above
};

// Limits: plans with more passes are not drawn, and plans with more ops are not simulated op by op
// during interaction.
inline constexpr double kMaxPassesDrawn = 4e6;
inline constexpr double kMaxOpsSimulated = 6e5;

// Answers one request at a time, by passes. Caches costs and blocks of the last model and machine.
class StepMaker {
 public:
  // `clock` measures WhatIfStep::seconds; it must outlive this object.
  explicit StepMaker(Clock& clock) : clock_(clock) {}
  StepMaker(const StepMaker&) = delete;
  StepMaker& operator=(const StepMaker&) = delete;

  // Errors: those of ValidatePlan; kInvalidArgument if the cluster is refused, has fewer devices
  // than the plan has ranks, or the step has too many passes to draw.
  Result<WhatIfStep> Make(const WhatIfRequest& request);

 private:
  Result<void> Prepare(const Scenario& scenario);

  Clock& clock_;
  // Cache for the last scenario. The forecaster borrows the other two.
  struct Kept {
    Scenario scenario;
    CostModel costs;
    PassForecaster forecaster;
    Kept(const Scenario& of, CostModel with)
        : scenario(of), costs(std::move(with)), forecaster(scenario.model, costs) {}
  };
  std::unique_ptr<Kept> kept_;
};

// Compiles and simulates. Errors: those of CostsOfTurned and MakeForecastUntil.
Result<SimulatedStep> SimulateStep(const WhatIfRequest& request,
                                   const std::function<bool()>& cancelled = {});

// The view's part: sends requests to threads and holds the answers on display.
class WhatIf {
 public:
  explicit WhatIf(Clock& clock);

  void Ask(const WhatIfRequest& request);
  // Waits at most `max` for the answer by passes to the latest request.
  void Await(std::chrono::nanoseconds max) const { passes_.Await(max); }
  // Takes answers; returns whether there is something new to show. The simulation of an answer
  // starts at the next call, so that the frame that shows the answer has the processor for itself.
  bool Poll();
  bool IsBusy() const { return simulate_next_ || passes_.IsBusy() || ops_.IsBusy(); }

  // The last step that could be computed, or null. `problem` says why the latest request failed;
  // empty if it did not.
  const std::shared_ptr<const WhatIfStep>& shown() const { return shown_; }
  const std::string& problem() const { return problem_; }
  // Simulation of the step on display; null until it is done.
  const std::shared_ptr<const SimulatedStep>& simulated() const { return simulated_; }
  std::uint64_t asked() const { return asked_; }
  std::uint64_t answered() const { return answered_; }

 private:
  bool TakePasses();
  bool TakeOps();

  std::uint64_t asked_ = 0, answered_ = 0;
  bool simulate_next_ = false;       // start the simulation of the shown step at the next Poll
  std::uint64_t simulated_for_ = 0;  // request that ops_ works on
  std::shared_ptr<const WhatIfStep> shown_;  // shared with the screen and the pinned step
  std::shared_ptr<const SimulatedStep> simulated_;
  std::string problem_;
  LatestWorker<WhatIfRequest, WhatIfStep> passes_;
  LatestWorker<std::pair<std::uint64_t, WhatIfRequest>, std::pair<std::uint64_t, SimulatedStep>>
      ops_;
};

// A displayed number, with its change relative to the pinned plan.
struct WhatIfNumber {
  std::string name;
  std::string value;
  std::string detail;     // "1.20 s to 1.40 s"; may be empty
  std::string change;     // "+3.1 %"; empty if nothing is pinned or it is unchanged
  bool doubtful = false;  // the plan does not fit
};
std::vector<WhatIfNumber> NumbersOfStep(const StepStats& stats, const StepStats* pinned);

// A plan to start with if none is pinned: the fastest plan by closed form of a coarse part of the
// request's space, or the smallest if none fits. Errors: kInfeasible, no plan has that many ranks;
// kAborted.
Result<Scenario> StartingScenario(const PlanRequest& request, int threads,
                                  const std::function<bool()>& cancelled);

}  // namespace foretrain::ui
