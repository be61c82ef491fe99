#include "sim/search/search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "base/parallel.h"
#include "base/return_memory.h"
#include "base/units.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/host_memory.h"
#include "sim/search/advice/advice.h"
#include "sim/search/advice/dependencies.h"
#include "sim/search/advice/pairs.h"
#include "sim/search/space/enumerate.h"
#include "sim/search/space/layouts.h"
#include "sim/search/space/rank_orders.h"
#include "sim/search/space/tune_gathers.h"

namespace foretrain {
namespace {

constexpr std::size_t kFront = 4;      // plans of the front that are simulated to show their memory
constexpr std::size_t kBalanced = 16;  // fastest plans for which layers are also balanced by time
constexpr std::size_t kOrdered = 16;   // fastest plans that also try the other rank orders
constexpr std::size_t kLayouts = 4;    // further layouts whose fastest plan is simulated
constexpr std::size_t kTuned = 2;      // fastest simulated plans whose gathers are tuned
constexpr double kEnumerating = 0.5;   // share of the progress bar for the enumeration
// Maximum block passes that are simulated in total: a few seconds of work.
constexpr double kMaxPasses = 100'000;
constexpr double kMaxFrontPasses = kMaxPasses / 8;  // of a plan simulated for its memory

double PassesOf(const ModelSpec& model, const Plan& plan) {
  const int passes = plan.SplitsBackward() ? 3 : 2;
  return static_cast<double>(plan.MicroBatches()) * static_cast<double>(model.AllLayers() + 2) *
         passes;
}

class Searcher {
 public:
  Searcher(const ModelSpec& model, const CostModel& costs, const SearchSpace& space,
           const SearchOptions& options)
      : model_(model),
        costs_(costs),
        space_(space),
        options_(options),
        walk_(model, space, options.ranks),
        capacity_(options.memory_bytes > 0 ? options.memory_bytes
                                           : costs.cluster().device.memory_bytes) {}

  // Enumerates in closed form, simulates the best, tunes their gathers, then marks the front and
  // the ties. Simulations happen in rounds, so that a result can end the search early.
  Result<SearchResult> Run() {
    FT_TRY(Enumerate());
    if (found_.fastest.empty()) return Nothing();
    FT_TRY(SimulateBest());
    FT_TRY(TuneBest());
    if (result_.plans.empty() && stuck_.count() > 0) {
      return Fail(ErrorCode::kInfeasible,
                  "none of the fastest plans can run: " + stuck_.list().front().example +
                      "; allow other schedules, or a capacity factor");
    }
    if (result_.plans.empty()) return Nothing();
    const std::vector<Rejection>& stuck = stuck_.list();
    result_.rejected.insert(result_.rejected.end(), stuck.begin(), stuck.end());
    MarkFront();
    MarkPairs(model_, costs_, options_.threads, result_.plans);
    MarkDependencies(result_.plans, capacity_);
    result_.bound_s = found_.bound_s;
    result_.gap = std::max(0.0, 1 - found_.bound_s / result_.plans.front().step_s);
    return std::move(result_);
  }

 private:
  bool Cancelled() const { return options_.cancelled && options_.cancelled(); }
  // The number of rounds is not known beforehand, so each round gets half of the remaining share.
  void Report(std::size_t done, std::size_t of) {
    const double left = 1 - share_;
    const double share = static_cast<double>(done) / static_cast<double>(of);
    if (options_.progress) options_.progress(share_ + left * share / 2, found_.evaluated);
    if (done == of) share_ += left / 2;
  }

  Result<void> Enumerate() {
    EnumerateOptions options;
    options.memory_bytes = capacity_;
    options.host_bytes = HostShareOf(costs_.cluster(), costs_.profile().system);
    options.threads = std::max(1, options_.threads);
    options.may_be_on_front = [this](const Plan& plan) {
      return PassesOf(model_, plan) <= kMaxFrontPasses;
    };
    options.cancelled = options_.cancelled;
    if (options_.progress) {
      options.progress = [this](double share, std::int64_t evaluated) {
        options_.progress(share * kEnumerating, evaluated);
      };
    }
    FT_ASSIGN(found_, EnumeratePlans(model_, costs_, space_, options_.ranks, options));
    ReturnFreeMemory();  // otherwise it stays allocated while programs are compiled
    result_.evaluated = found_.evaluated;
    result_.pruned = found_.rejected.count();
    result_.rejected = found_.rejected.list();
    return {};
  }

  Result<SearchResult> Nothing() const {
    if (walk_.parts() == 0) {
      return Fail(ErrorCode::kInfeasible, "no dp x cp x tp x pp of the space makes " +
                                              std::to_string(options_.ranks) +
                                              " ranks; allow other values or change --ranks");
    }
    if (!found_.smallest) {
      // Some reasons have no example.
      const auto told =
          std::find_if(result_.rejected.begin(), result_.rejected.end(),
                       [](const Rejection& rejection) { return !rejection.example.empty(); });
      const std::string why = told == result_.rejected.end() ? "it is empty" : told->example;
      return Fail(ErrorCode::kInfeasible, "no plan of the space is possible: " + why);
    }
    const auto& [plan, estimate] = *found_.smallest;
    std::string text = model_.name + " does not fit: the smallest plan, " +
                       foretrain::Describe(plan) + ", needs " + FormatBytes(estimate.memory_bytes) +
                       " on a rank of stage " + std::to_string(estimate.fullest_pp) +
                       " and a device has " + FormatBytes(costs_.cluster().device.memory_bytes) +
                       (capacity_ < costs_.cluster().device.memory_bytes
                            ? ", of which a plan may use " + FormatBytes(capacity_)
                            : "") +
                       ".";
    if (!options_.advises) return Fail(ErrorCode::kInfeasible, text);
    text += AdviceText(AdviseToFit(model_, costs_, space_, options_.ranks, capacity_,
                                   HostShareOf(costs_.cluster(), costs_.profile().system),
                                   std::max(1, options_.threads)));
    return Fail(ErrorCode::kInfeasible, text);
  }

  // Gives each of the fastest plans its fastest rank order. The enumeration tried only the likely
  // one.
  void OrderRanks(Evaluator& evaluator) {
    if (!space_.orders_ranks) return;
    for (std::size_t i = 0; i < std::min(kOrdered, found_.fastest.size()); ++i) {
      Candidate& best = found_.fastest[i];
      for (const int order : DistinctRankOrders(costs_.cluster(), best.plan, space_.rank_orders)) {
        if (order == best.plan.rank_order) continue;
        Candidate other{best.plan, {}};
        other.plan.rank_order = order;
        other.estimate = evaluator.Evaluate(other.plan);
        found_.bound_s = std::min(found_.bound_s, other.estimate.bound_s);
        const bool fits = other.estimate.memory_bytes <= capacity_;
        if (fits && other.estimate.step_s < best.estimate.step_s) best = std::move(other);
      }
    }
  }
  // The fastest plans of the enumeration and, if faster, their variants with layers balanced by
  // time.
  std::vector<Candidate> Chosen() {
    Evaluator evaluator(model_, costs_, AllPlanFields());
    OrderRanks(evaluator);
    std::vector<Candidate> chosen = found_.fastest;
    for (std::size_t i = 0;
         space_.balances_layers && i < std::min(kBalanced, found_.fastest.size()); ++i) {
      Plan plan = found_.fastest[i].plan;
      if (plan.pp == 1 || !plan.stage_layers.empty()) continue;
      plan.stage_layers = evaluator.BalancedLayers(plan);
      if (plan.stage_layers.empty() || !ValidatePlan(plan, model_)) continue;
      const Evaluation estimate = evaluator.Evaluate(plan);
      if (estimate.memory_bytes > capacity_) continue;
      if (estimate.step_s < found_.fastest[i].estimate.step_s) chosen.push_back({plan, estimate});
    }
    std::stable_sort(chosen.begin(), chosen.end(), [](const Candidate& a, const Candidate& b) {
      return a.estimate.step_s < b.estimate.step_s;
    });
    return chosen;
  }
  // Up to kFront plans spread evenly over the useful part of the front of time and memory.
  std::vector<Candidate> Front() const {
    std::vector<Candidate> front;
    const double slowest_s = kSlowFront * found_.fastest.front().estimate.step_s;
    std::vector<const Candidate*> useful;
    for (const Candidate& candidate : found_.front) {
      if (candidate.estimate.step_s <= slowest_s) useful.push_back(&candidate);
    }
    for (std::size_t i = 1; i <= kFront && useful.size() > 1; ++i) {
      front.push_back(*useful[i * (useful.size() - 1) / kFront]);
    }
    return front;
  }

  // Simulates on all threads. Keeps plans in the order of `candidates`, except those that turn out
  // not to fit or whose ranks deadlock, then sorts by time.
  Result<void> SimulateAll(const std::vector<Candidate>& candidates) {
    std::vector<Result<RankedPlan>> ranked(candidates.size(),
                                           Fail(ErrorCode::kAborted, "the search was cancelled"));
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stop{false};
    const auto work = [&] {
      for (std::size_t i = next++; i < candidates.size() && !stop; i = next++) {
        try {
          ranked[i] = Rank(candidates[i]);
        } catch (const std::exception& error) {
          ranked[i] = Fail(ErrorCode::kResourceExhausted, error.what());
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int i = 1; i < options_.threads && TryThread(threads, work); ++i) {
      }
      // The calling thread simulates too, and polls for cancellation and reports progress in
      // between.
      for (std::size_t i = next++; i < candidates.size(); i = next++) {
        if (Cancelled()) {
          stop = true;
          break;
        }
        ranked[i] = Rank(candidates[i]);
        Report(i + 1, candidates.size());
      }
    }
    for (Result<RankedPlan>& plan : ranked) {
      if (!plan && plan.error().code == ErrorCode::kInfeasible) {
        // A deadlock is an error of the compiler and not of the search: the plan is left out and
        // counted.
        stuck_.Add(kDeadlocks, 1, plan.error().message);
        continue;
      }
      if (!plan) return tl::unexpected<Error>(std::move(plan).error());
      if (plan->device.Needed() <= capacity_) result_.plans.push_back(*std::move(plan));
    }
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const RankedPlan& a, const RankedPlan& b) { return a.step_s < b.step_s; });
    return {};
  }

  // Simulates rounds of the next best plans until the closed form says that none of the rest comes
  // near the best. The first round adds plans of the front.
  Result<void> SimulateBest() {
    const std::vector<Candidate> chosen = Chosen();
    const auto round = static_cast<std::size_t>(std::max(1, options_.simulated));
    double passes = 0;
    for (std::size_t done = 0; done < chosen.size() && done < kMaxSimulated;) {
      std::vector<Candidate> some;
      while (some.size() < round && done < chosen.size()) {
        const Candidate& candidate = chosen[done];
        const bool near =
            result_.plans.empty() ||
            candidate.estimate.step_s <= result_.plans.front().step_s * (1 + kSimulatedMargin);
        // Whatever the limit on passes, each round simulates at least one plan until one fits.
        const bool first = done == 0 || (result_.plans.empty() && some.empty());
        // After the first round only plans near the best one are worth a simulation.
        if (done >= round && !near) break;
        if (!first && passes > kMaxPasses) break;
        passes += PassesOf(model_, candidate.plan);
        some.push_back(candidate);
        ++done;
      }
      if (some.empty()) break;
      if (done <= round && passes <= kMaxPasses) {
        std::vector<Candidate> others = Front();
        for (Candidate& candidate : OtherLayouts(chosen, kLayouts))
          others.push_back(std::move(candidate));
        for (Candidate& candidate : others) {
          const auto same = [&](const Candidate& other) { return other.plan == candidate.plan; };
          if (std::none_of(some.begin(), some.end(), same)) some.push_back(std::move(candidate));
        }
      }
      FT_TRY(SimulateAll(some));
    }
    RemoveRepeated();
    return {};
  }

  // Plans of the front and of later rounds may repeat plans simulated before; the first occurrence
  // stays.
  void RemoveRepeated() {
    std::vector<RankedPlan> kept;
    for (RankedPlan& plan : result_.plans) {
      const auto same = [&](const RankedPlan& other) { return other.plan == plan.plan; };
      if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(plan));
    }
    result_.plans = std::move(kept);
  }

  RankChoice Ranks() const {
    return costs_.cluster().is_cpu ? RankChoice::kAll : RankChoice::kFirst;
  }
  ForecastOptions Outline() const {
    return {.ranks = Ranks(), .simulate = {.timeline = false}, .outline = true};
  }
  Result<Forecast> Simulated(const Plan& plan) const {
    return MakeForecast(model_, plan, costs_, Outline());
  }
  // Forecast::fits is false if a rank needs more than a device has, with the gaps of its arena;
  // `device` is then its need. If another allocator is replayed, its memory is known only at the
  // end, and no rank is refused early.
  Result<Forecast> SimulatedIfItFits(const Plan& plan, DeviceUse& device) const {
    const SystemOptions& system = costs_.profile().system;
    ForecastOptions options = Outline();
    options.fits = [&](const RankProgram& rank, const PeakMemory& peak) {
      if (IsReplayed(system)) return true;
      const DeviceUse use = DeviceUseOf(model_, plan, rank.Coordinates(), peak.total,
                                        rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)],
                                        costs_.cluster(), system);
      if (use.Needed() > capacity_) device = use;
      return use.Needed() <= capacity_;
    };
    return MakeForecast(model_, plan, costs_, options);
  }

  // Plans that do not fit are not simulated. The enumeration's closed form of memory is close; here
  // the exact peak counts.
  Result<RankedPlan> Rank(const Candidate& candidate) const {
    const SystemOptions& system = costs_.profile().system;
    RankedPlan out;
    out.plan = candidate.plan;
    out.estimate = candidate.estimate;
    out.memory = PredictFullestRank(model_, candidate.plan);
    out.device.tensors = out.memory.peak.total;
    out.device.outside = DeviceOverheadOf(costs_.cluster(), candidate.plan, system);
    // Tensors alone exceed the device: no need to compile.
    if (out.device.Needed() > capacity_) return out;
    FT_ASSIGN(const Forecast forecast, SimulatedIfItFits(candidate.plan, out.device));
    if (!forecast.fits) return out;
    const double step = forecast.simulation.step_s;
    const FullestDevice fullest =
        FullestDeviceOf(model_, forecast.program, forecast.memory, costs_.cluster(), system);
    const RankProgram& rank = forecast.program.ranks[fullest.index];
    out.memory = {rank.pp, forecast.memory[fullest.index]};
    out.device = fullest.memory;
    out.host_bytes = candidate.estimate.host_bytes;
    out.step_s = step;
    const ForecastInterval interval = forecast.Interval();
    out.low_s = interval.low_s;
    out.high_s = interval.high_s;
    out.relative_error = forecast.relative_error;
    return out;
  }

  // Tunes the gathers of the fastest plans as a compiler would, and simulates the tuned plans with
  // the others.
  Result<void> TuneBest() {
    std::vector<Candidate> tuned;
    for (std::size_t i = 0; space_.tunes_gathers && i < std::min(kTuned, result_.plans.size());
         ++i) {
      const RankedPlan& plan = result_.plans[i];
      if (!MayTuneGathers(plan.plan) || PassesOf(model_, plan.plan) > kMaxPasses / 20) continue;
      const std::int64_t room = capacity_ - plan.device.outside.Total();
      Plan better =
          TuneGathers(model_, plan.plan, room, [&](const Plan& other) -> std::optional<double> {
            const auto forecast = Simulated(other);
            if (!forecast || Cancelled()) return std::nullopt;
            return forecast->simulation.step_s;
          });
      if (Cancelled()) return Fail(ErrorCode::kAborted, "the search was cancelled");
      if (better == plan.plan) continue;
      Evaluator evaluator(model_, costs_, AllPlanFields());
      tuned.push_back({better, evaluator.Evaluate(better)});
    }
    return SimulateAll(tuned);
  }

  // Walks from fastest to slowest: a plan is on the front if it needs less memory than all before
  // it.
  void MarkFront() {
    std::int64_t min = std::numeric_limits<std::int64_t>::max();
    for (RankedPlan& plan : result_.plans) {
      plan.pareto = plan.device.Needed() < min;
      min = std::min(min, plan.device.Needed());
    }
  }

  const ModelSpec& model_;
  const CostModel& costs_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  SpaceWalk walk_;
  std::int64_t capacity_;
  Enumeration found_;
  Rejections stuck_;             // plans that deadlock in simulation
  double share_ = kEnumerating;  // share of the work that is done
  SearchResult result_;
};

}  // namespace

Result<SearchResult> SearchPlans(const ModelSpec& model, const CostModel& costs,
                                 const SearchSpace& space, const SearchOptions& options) {
  FT_TRY(ValidateModel(model));
  return Searcher(model, costs, space, options).Run();
}

}  // namespace foretrain
