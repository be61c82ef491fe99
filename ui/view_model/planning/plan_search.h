// Runs a search for plans on a thread: its progress, its end and its result. plan_list.h prepares
// the result for display.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "sim/search/search.h"
#include "ui/view_model/planning/plan_setup.h"
#include "ui/view_model/runs/latest_worker.h"

namespace foretrain::ui {

// The memory of one pipeline stage's fullest device.
struct StageMemory {
  int pp = 0;
  PeakMemory tensors;
  DeviceUse device;
};

// One plan found, with everything a view shows of it.
struct FoundPlan {
  RankedPlan ranked;
  double tokens_per_s = 0;
  double mfu = 0;
  std::vector<StageMemory> stages;  // by pipeline rank
};

// The result of one search.
struct FoundPlans {
  std::shared_ptr<const PlanRequest> request;  // shared with the views that show it
  std::vector<FoundPlan> plans;                // fastest first
  std::vector<Rejection> rejected;             // largest count first
  std::int64_t evaluated = 0;
  std::int64_t pruned = 0;
  double bound_s = 0;
  double gap = 0;
  double seconds = 0;  // duration of the search
};

// Searches, and adds everything a view shows. Errors: those of SearchPlans.
Result<FoundPlans> FindPlans(const PlanRequest& request, const SearchOptions& options,
                             Clock& clock);

class PlanSearch {
 public:
  // `threads`: number of threads of a search.
  PlanSearch(int threads, Clock& clock);

  void Start(PlanRequest request);
  void Cancel();
  // Takes the result of a search that ended since the last call; returns whether there was one.
  bool Poll();

  bool IsRunning() const { return worker_.IsBusy(); }
  double share() const { return share_.load(); }  // share of the work done, 0 to 1
  std::int64_t compared() const { return compared_.load(); }

  // Result of the last search that ended: exactly one of the two is set; neither before the first.
  const std::shared_ptr<const FoundPlans>& found() const { return found_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::atomic<double> share_ = 0;
  std::atomic<std::int64_t> compared_ = 0;
  std::shared_ptr<const FoundPlans> found_;  // shared with views that keep showing it
  std::optional<Error> error_;
  LatestWorker<PlanRequest, FoundPlans> worker_;
};

}  // namespace foretrain::ui
