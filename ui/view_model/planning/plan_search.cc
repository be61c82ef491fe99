#include "ui/view_model/planning/plan_search.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "sim/cost/metric_options.h"

namespace foretrain::ui {
namespace {

// Maximum number of stages whose memory is computed.
constexpr int kMaxStages = 256;

// The first rank of each stage stands for the stage. Memory comes from the closed form, without
// compiling.
std::vector<StageMemory> StagesOf(const PlanRequest& request, const Plan& plan) {
  std::vector<StageMemory> stages;
  const SystemOptions& system = request.costs.profile().system;
  for (int pp = 0; pp < std::min(plan.pp, kMaxStages); ++pp) {
    const RankCoordinates at{.pp = pp};
    StageMemory stage{pp, PlannedPeak(request.model, plan, at), {}};
    stage.device = DeviceUseOf(request.model, plan, at, stage.tensors.total, stage.tensors.total,
                               request.cluster, system);
    stages.push_back(stage);
  }
  return stages;
}

// Throughput and MFU follow from the simulated step time.
FoundPlan Found(const PlanRequest& request, RankedPlan ranked) {
  FoundPlan out;
  const MetricOptions options = MetricOptionsFor(request.model, request.costs, ranked.plan, 0);
  out.tokens_per_s = options.tokens_per_step / ranked.step_s;
  out.mfu = options.model_flops_per_step / ranked.step_s / options.peak_flop_per_s;
  out.stages = StagesOf(request, ranked.plan);
  out.ranked = std::move(ranked);
  return out;
}

}  // namespace

// Runs on the search's thread. The request is copied into the result, because the view may change
// its own meanwhile.
Result<FoundPlans> FindPlans(const PlanRequest& request, const SearchOptions& options,
                             Clock& clock) {
  const std::int64_t start_ns = clock.MonotonicNs();
  FT_ASSIGN(SearchResult result, SearchPlans(request.model, request.costs, request.space, options));
  FoundPlans out;
  out.request = std::make_shared<const PlanRequest>(request);
  for (RankedPlan& plan : result.plans) out.plans.push_back(Found(request, std::move(plan)));
  out.rejected = std::move(result.rejected);
  std::stable_sort(out.rejected.begin(), out.rejected.end(),
                   [](const Rejection& a, const Rejection& b) { return a.count > b.count; });
  out.evaluated = result.evaluated;
  out.pruned = result.pruned;
  out.bound_s = result.bound_s;
  out.gap = result.gap;
  out.seconds = SecondsFromNs(clock.MonotonicNs() - start_ns);
  return out;
}

// Progress is written by the search's thread and read by the view, hence the atomics.
PlanSearch::PlanSearch(int threads, Clock& clock)
    : worker_([this, threads, &clock](const PlanRequest& request, const auto& outdated) {
        SearchOptions options;
        options.ranks = request.cluster.Devices();
        options.simulated = request.setup.simulated;
        options.threads = threads;
        options.cancelled = outdated;
        options.progress = [this](double share, std::int64_t compared) {
          share_ = share;
          compared_ = compared;
        };
        return FindPlans(request, options, clock);
      }) {}

void PlanSearch::Start(PlanRequest request) {
  share_ = 0;
  compared_ = 0;
  worker_.Ask(std::move(request));
}

void PlanSearch::Cancel() { worker_.Cancel(); }

// A cancelled search changes nothing: the previous result stays visible.
bool PlanSearch::Poll() {
  auto done = worker_.Take();
  if (!done) return false;
  if (!done->answer && done->answer.error().code == ErrorCode::kAborted) return false;
  error_.reset();
  if (done->answer) {
    found_ = std::make_shared<const FoundPlans>(*std::move(done->answer));
  } else {
    error_ = done->answer.error();
    found_.reset();
  }
  return true;
}

}  // namespace foretrain::ui
