#include "sim/search/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "sim/cost/plan_place.h"
#include "sim/program/groups.h"
#include "sim/search/balance.h"
#include "sim/search/closed_form.h"
#include "sim/search/tune_gathers.h"
#include "sim/spec/plan_json.h"

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
    FT_TRY(Enumerate(space_.base, 0));
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

  // All combinations of the choices from number `choice` on.
  Result<void> Enumerate(Plan plan, std::size_t choice) {
    if (Cancelled()) return Aborted();
    if (choice == space_.choices.size()) {
      if (plan.World() != options_.ranks) return {};
      any_shape_ = true;
      if (space_.complete) space_.complete(plan);
      Simplify(plan);
      if (!seen_.insert(ToJson(plan)).second) return {};
      Consider(plan);
      ConsiderBalanced(plan);
      return {};
    }
    const auto& [field, values] = space_.choices[choice];
    for (const std::int64_t value : values) {
      field->set(plan, value);
      if (plan.World() > options_.ranks) continue;
      FT_TRY(Enumerate(plan, choice + 1));
    }
    return {};
  }

  // What makes no difference takes its default: schedules with one stage, chunks of schedules that
  // have none, ZeRO with nothing to shard.
  static void Simplify(Plan& plan) {
    if (plan.pp == 1) plan.schedule = ScheduleKind::k1f1b;
    if (plan.schedule != ScheduleKind::kInterleaved) plan.vpp = 1;
    if (plan.cp == 1) plan.cp_kind = ContextParallelKind::kRing;
    if (plan.Shards() == 1) plan.zero_stage = 0;
  }

  // The same with layers dealt by time, where that differs from an even deal.
  void ConsiderBalanced(Plan plan) {
    if (plan.pp == 1 || !plan.stage_layers.empty() || !ValidatePlan(plan, model_)) return;
    plan.stage_layers =
        BalancedLayers(model_, plan, [&](const Op& op) { return SecondsOf(plan, op); });
    if (!plan.stage_layers.empty()) Consider(plan);
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
    GroupPlace place;
    if (op.group != GroupKind::kNone) {
      place = PlaceOfGroup(costs_.cluster(), plan, {}, op.group, GroupMembers(plan, {}, op.group));
    }
    const OpKey key{op.kind,    op.queue,   op.from, op.to,     op.state,   op.accumulate, op.trans_a,
                    op.trans_b, op.rms,     op.format, op.formats, op.shape,  place};
    const auto [found, is_new] = seconds_.try_emplace(key, 0.0);
    if (is_new) {
      found->second = costs_.CostOf(op, place).seconds.back();
      if (IsCompute(op.op_class)) found->second *= costs_.Straggling(options_.ranks);
    }
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
      return Fail(ErrorCode::kInvalidArgument, "no dp x cp x tp x pp of the space makes " +
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
      FT_TRY(SimulateOne(candidates_[static_cast<std::size_t>(i)]));
      if (options_.progress) options_.progress(i + 1, most);
    }
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const RankedPlan& a, const RankedPlan& b) { return a.step_s < b.step_s; });
    return {};
  }

  Result<Forecast> ForecastOf(const Plan& plan) const {
    return MakeForecast(model_, plan, costs_,
                        costs_.cluster().is_cpu ? RankChoice::kAll : RankChoice::kFirst,
                        /*timeline=*/false);
  }

  // The plan and, where its gathers can be hidden better, that one too.
  Result<void> SimulateOne(const Candidate& candidate) {
    FT_TRY(Rank(candidate));
    if (!MayTuneGathers(candidate.plan)) return {};
    const Plan tuned = TuneGathers(model_, candidate.plan, capacity_,
                                   [&](const Plan& plan) -> std::optional<double> {
                                     const auto forecast = ForecastOf(plan);
                                     if (!forecast || Cancelled()) return std::nullopt;
                                     return forecast->simulation.step_s;
                                   });
    if (Cancelled()) return Aborted();
    if (tuned == candidate.plan) return {};
    const auto seconds = [&](const Op& op) { return SecondsOf(tuned, op); };
    return Rank({tuned, PredictFullestRank(model_, tuned), EstimateStep(model_, tuned, seconds)});
  }

  Result<void> Rank(const Candidate& candidate) {
    FT_ASSIGN(const Forecast forecast, ForecastOf(candidate.plan));
    const double step = forecast.simulation.step_s;
    result_.plans.push_back({candidate.plan, candidate.memory, candidate.estimate.step_s, step,
                             step * (1 - forecast.relative_error),
                             step * (1 + forecast.relative_error), false, false});
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
  // All that an op's cost depends on.
  using OpKey = std::tuple<OpKind, Queue, Space, Space, bool, bool, bool, bool, bool, NumberFormat,
                           OperandFormats, OpShape, GroupPlace>;

  std::int64_t capacity_;
  std::map<OpKey, double> seconds_;
  bool any_shape_ = false;
  std::set<std::string> seen_;  // plans in JSON
  std::vector<Candidate> candidates_;
  std::optional<std::pair<Plan, FullestRank>> smallest_;  // that does not fit
  SearchResult result_;
};

}  // namespace

void SearchSpace::Choose(std::string_view field, std::vector<std::int64_t> values) {
  const PlanField* chosen = &PlanFieldOf(field);
  for (SearchChoice& choice : choices) {
    if (choice.field == chosen) {
      choice.values = std::move(values);
      return;
    }
  }
  choices.push_back({chosen, std::move(values)});
}

Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options) {
  FT_TRY(ValidateModel(model));
  return Searcher(model, costs, space, options).Run();
}

}  // namespace foretrain
