#include "sim/search/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"
#include "sim/program/groups.h"
#include "sim/search/closed_form.h"

namespace foretrain {
namespace {

struct Candidate {
  Plan plan;
  FullestRank memory;
  StepEstimate estimate;
};

class Searcher {
 public:
  Searcher(const ModelSpec& model, const CostModel& costs, const SearchSpace& space,
           const SearchOptions& options)
      : model_(model),
        costs_(costs),
        space_(space),
        options_(options),
        capacity_(options.memory_bytes > 0 ? options.memory_bytes
                                           : costs.cluster().device.memory_bytes) {}

  Result<SearchResult> Run() {
    FT_TRY(Enumerate());
    if (candidates_.empty()) return Nothing();
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.estimate.step_s < b.estimate.step_s;
                     });
    FT_TRY(SimulateBest());
    MarkFront();
    return std::move(result_);
  }

 private:
  bool Cancelled() const { return options_.cancelled && options_.cancelled(); }
  static Result<void> Aborted() { return Fail(ErrorCode::kAborted, "the search was cancelled"); }

  Result<void> Enumerate() {
    for (const std::int64_t dp : space_.dp) {
      for (const std::int64_t tp : space_.tp) {
        for (const std::int64_t pp : space_.pp) {
          if (dp * tp * pp != options_.ranks) continue;
          any_shape_ = true;
          for (const std::int64_t micro_batch : space_.micro_batch) {
            if (Cancelled()) return Aborted();
            Plan plan;
            plan.dp = static_cast<int>(dp);
            plan.tp = static_cast<int>(tp);
            plan.pp = static_cast<int>(pp);
            plan.micro_batch = micro_batch;
            Choose(plan);
          }
        }
      }
    }
    return {};
  }

  // What is left to choose where it makes a difference: schedules with several stages, ZeRO with
  // several replicas.
  void Choose(Plan plan) {
    plan.sequence = space_.sequence;
    plan.global_batch = space_.global_batch;
    plan.clip_norm = space_.clip_norm;
    plan.bucket_bytes = space_.bucket_bytes;
    for (std::size_t s = 0; s < space_.schedules.size(); ++s) {
      if (plan.pp == 1 && s > 0) break;
      plan.schedule = plan.pp == 1 ? ScheduleKind::k1f1b : space_.schedules[s];
      for (std::size_t z = 0; z < space_.zero.size(); ++z) {
        if (plan.dp == 1 && z > 0) break;
        plan.zero_stage = plan.dp == 1 ? 0 : static_cast<int>(space_.zero[z]);
        for (const RecomputeKind recompute : space_.recomputes) {
          plan.recompute = recompute;
          Consider(plan);
        }
      }
    }
  }

  void Consider(const Plan& plan) {
    if (const auto valid = ValidatePlan(plan, model_); !valid.has_value()) {
      return Reject("breaks a rule of plans", valid.error().message);
    }
    const FullestRank memory = PredictFullestRank(model_, plan);
    if (memory.peak.total > capacity_) {
      if (!smallest_ || memory.peak.total < smallest_->second.peak.total)
        smallest_ = {plan, memory};
      return Reject("needs more memory than a device has", foretrain::Describe(plan) + " needs " +
                                                               FormatBytes(memory.peak.total) +
                                                               " of " + FormatBytes(capacity_));
    }
    const auto seconds = [&](const Op& op) { return SecondsOf(plan, op); };
    candidates_.push_back({plan, memory, EstimateStep(model_, plan, seconds)});
    ++result_.evaluated;
  }

  // With all ranks of the machine at work. Plans of one space share most of their ops.
  double SecondsOf(const Plan& plan, const Op& op) {
    const OpShape& s = op.shape;
    GroupPlace place;
    if (op.group != GroupKind::kNone) {
      place = PlaceOf(costs_.cluster(), GroupMembers(plan, {}, op.group));
    }
    const OpKey key{static_cast<std::int64_t>(op.kind),
                    op.accumulate,
                    op.trans_a,
                    op.trans_b,
                    op.rms,
                    s.rows,
                    s.cols,
                    s.inner,
                    s.batch,
                    s.sequence,
                    s.vocab,
                    s.elements,
                    s.heads,
                    s.kv_heads,
                    s.head_dim,
                    place.members,
                    place.nodes};
    const auto [found, is_new] = seconds_.try_emplace(key, 0.0);
    if (is_new) found->second = costs_.CostOf(op, place).seconds.back();
    return found->second;
  }

  void Reject(const std::string& reason, const std::string& example) {
    ++result_.pruned;
    for (Rejection& rejection : result_.rejected) {
      if (rejection.reason == reason) {
        ++rejection.count;
        return;
      }
    }
    result_.rejected.push_back({reason, 1, example});
  }

  Result<SearchResult> Nothing() const {
    if (!any_shape_) {
      return Fail(ErrorCode::kInvalidArgument, "no dp x tp x pp of the space makes " +
                                                   std::to_string(options_.ranks) +
                                                   " ranks; allow other values or change --ranks");
    }
    if (smallest_) {
      const auto& [plan, memory] = *smallest_;
      return Fail(ErrorCode::kInfeasible,
                  model_.name + " does not fit: the smallest plan, " + foretrain::Describe(plan) +
                      ", needs " + FormatBytes(memory.peak.total) + " on a rank of stage " +
                      std::to_string(memory.pp) + " and a device has " + FormatBytes(capacity_) +
                      ". Use more devices, a shorter --sequence or a smaller --micro-batch");
    }
    return Fail(ErrorCode::kInvalidArgument,
                "no plan of the space is possible: " + result_.rejected.front().example);
  }

  Result<void> SimulateBest() {
    const int most =
        std::min<int>(std::max(1, options_.simulated), static_cast<int>(candidates_.size()));
    for (int i = 0; i < most; ++i) {
      if (Cancelled()) return Aborted();
      const Candidate& candidate = candidates_[static_cast<std::size_t>(i)];
      FT_ASSIGN(const Forecast forecast, MakeForecast(model_, candidate.plan, costs_,
                                                      /*representatives=*/!costs_.cluster().is_cpu,
                                                      /*timeline=*/false));
      const double step = forecast.simulation.step_s;
      result_.plans.push_back({candidate.plan, candidate.memory, candidate.estimate.step_s, step,
                               step * (1 - forecast.relative_error),
                               step * (1 + forecast.relative_error), false, false});
      if (options_.progress) options_.progress(i + 1, most);
    }
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const RankedPlan& a, const RankedPlan& b) { return a.step_s < b.step_s; });
    return {};
  }

  // From fastest to slowest: on the front while each needs less memory than all before.
  void MarkFront() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (RankedPlan& plan : result_.plans) {
      plan.tied = plan.low_s <= result_.plans.front().step_s;
      plan.pareto = plan.memory.peak.total < least;
      least = std::min(least, plan.memory.peak.total);
    }
  }

  const ModelSpec& model_;
  const CostModel& costs_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  using OpKey = std::array<std::int64_t, 17>;  // all that an op's cost depends on

  std::int64_t capacity_;
  std::map<OpKey, double> seconds_;
  bool any_shape_ = false;
  std::vector<Candidate> candidates_;
  std::optional<std::pair<Plan, FullestRank>> smallest_;  // that does not fit
  SearchResult result_;
};

}  // namespace

Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options) {
  FT_TRY(ValidateModel(model));
  return Searcher(model, costs, space, options).Run();
}

}  // namespace foretrain
