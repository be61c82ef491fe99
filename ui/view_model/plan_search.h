// A search for plans that runs beside the desktop: its progress, its end and what it found. Leaves
// out how what it found is shown (plan_list.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/search/search.h"
#include "ui/view_model/latest_worker.h"
#include "ui/view_model/plan_setup.h"

namespace foretrain::ui {

// The memory of one pipeline stage's fullest device.
struct StageMemory {
  int pp = 0;
  PeakMemory tensors;
  DeviceUse device;
};

// One plan that was found, with what a view shows of it.
struct FoundPlan {
  RankedPlan ranked;
  double tokens_per_s = 0;
  double mfu = 0;
  std::vector<StageMemory> stages;  // [pp]
};

// What one search gave.
struct FoundPlans {
  std::shared_ptr<const PlanRequest> request;  // shared with the views that show it
  std::vector<FoundPlan> plans;                // fastest first
  std::vector<Rejection> rejected;             // most first
  std::int64_t evaluated = 0;
  std::int64_t pruned = 0;
  double bound_s = 0;
  double gap = 0;
  double seconds = 0;  // that it took
};

// Searches and adds what a view shows. Errors: those of SearchPlans.
Result<FoundPlans> FindPlans(const PlanRequest& request, const SearchOptions& options,
                             Clock& clock);

class PlanSearch {
 public:
  // `threads`: of a search.
  PlanSearch(int threads, Clock& clock);

  void Start(PlanRequest request);
  void Cancel();
  // Takes what has ended since the last call; true where anything was.
  bool Poll();

  bool IsRunning() const { return worker_.IsBusy(); }
  double share() const { return share_.load(); }  // of the work, 0 to 1
  std::int64_t compared() const { return compared_.load(); }

  // Of the last search that ended: exactly one of the two, or none before the first.
  const std::shared_ptr<const FoundPlans>& found() const { return found_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::atomic<double> share_ = 0;
  std::atomic<std::int64_t> compared_ = 0;
  std::shared_ptr<const FoundPlans> found_;  // shared with views that keep what they show
  std::optional<Error> error_;
  LatestWorker<PlanRequest, FoundPlans> worker_;
};

}  // namespace foretrain::ui
