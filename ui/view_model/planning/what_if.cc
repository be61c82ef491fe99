#include "ui/view_model/planning/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/thread_priority.h"
#include "base/units.h"
#include "sim/cost/metric_options.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/host_memory.h"
#include "sim/search/space/enumerate.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// Whether costs and cached blocks of one scenario are valid for the other.
bool SameMachine(const Scenario& a, const Scenario& b) {
  return a.model == b.model && a.cluster == b.cluster && a.machine.cluster == b.machine.cluster &&
         a.machine.profile == b.machine.profile;
}

Result<void> CheckDevices(const Scenario& scenario) {
  const int ranks = scenario.plan.World(), devices = scenario.cluster.Devices();
  if (ranks <= devices) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("dp x cp x tp x pp is {} ranks and the cluster has {} devices; make one "
                          "of them smaller",
                          ranks, devices));
}

// Collects the displayed numbers. The interval is left out if steps overlap, since no passes were
// simulated then.
StepStats StatsOf(const Scenario& scenario, const CostModel& costs, const PassForecast& forecast) {
  StepStats out;
  const MetricOptions options = MetricOptionsFor(scenario.model, costs, scenario.plan, 0);
  out.step_s = forecast.step_s;
  if (forecast.HasPasses()) {
    out.low_s = forecast.Interval().low_s;
    out.high_s = forecast.Interval().high_s;
  }
  if (forecast.step_s > 0) {
    out.tokens_per_s = options.tokens_per_step / forecast.step_s;
    out.mfu = options.model_flops_per_step / forecast.step_s / options.peak_flop_per_s;
  }
  out.bubble = forecast.bubble;
  out.communication_s = forecast.estimate.parts.communication_s;
  for (const RankEnd& end : forecast.ends) {
    out.sums_s = std::max(out.sums_s, end.sums_s);
    out.update_s = std::max(out.update_s, end.update_s);
  }
  out.device = forecast.device;
  out.fullest_pp = forecast.estimate.fullest_pp;
  out.device_bytes = scenario.cluster.device.memory_bytes;
  out.host_bytes = forecast.estimate.host_bytes;
  return out;
}

// Number of passes that a picture of the step draws.
double PassesOf(const Plan& plan) {
  const double each = plan.SplitsBackward() ? 3 : 2;
  return static_cast<double>(plan.MicroBatches()) * plan.pp * plan.Chunks() * each;
}

// Number of ops of the step's program, estimated from one micro-batch per chunk: the cost of its
// simulation.
double OpsOf(const PassForecast& forecast) {
  double ops = 0;
  for (const ChunkPlay& chunk : forecast.passes.chunks) {
    ops += static_cast<double>(chunk.forward.size() + chunk.backward.size() + chunk.input.size() +
                               chunk.weight.size());
  }
  return ops * static_cast<double>(forecast.plan.MicroBatches());
}

std::string LabelOf(const Scenario& scenario) {
  return scenario.model.name + " " + Describe(scenario.plan);
}

// "+3.1 %" relative to `pinned`; empty if nothing is pinned or the change is below 0.005 %.
std::string ChangeOf(double now, const double* pinned) {
  if (pinned == nullptr || *pinned == 0) return {};
  const double change = now / *pinned - 1;
  return std::abs(change) < 5e-5 ? std::string() : SignedPercent(change);
}
std::string PointsOf(double now, const double* pinned) {
  if (pinned == nullptr || std::abs(now - *pinned) < 5e-5) return {};
  return fmt::format("{:+.1f} pt", 100 * (now - *pinned));
}

}  // namespace

// Costs and blocks are kept while only the plan changes, which is the common case.
Result<void> StepMaker::Prepare(const Scenario& scenario) {
  if (kept_ != nullptr && SameMachine(kept_->scenario, scenario)) return {};
  FT_ASSIGN(CostModel costs, CostsOfTurned(scenario.machine, scenario.cluster));
  kept_ = std::make_unique<Kept>(scenario, std::move(costs));
  return {};
}

// The answer in milliseconds: closed form and passes only. Limits come before any cost is computed,
// so a nonsensical plan fails at once.
Result<WhatIfStep> StepMaker::Make(const WhatIfRequest& request) {
  const std::int64_t start_ns = clock_.MonotonicNs();
  const Scenario& scenario = request.scenario;
  FT_TRY(ValidatePlan(scenario.plan, scenario.model));
  FT_TRY(CheckDevices(scenario));
  if (PassesOf(scenario.plan) > kMaxPassesDrawn) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a step of {} passes is too long to draw; take fewer micro-batches",
                            FormatSi(PassesOf(scenario.plan), "")));
  }
  FT_TRY(Prepare(scenario));
  FT_ASSIGN(PassForecast forecast, kept_->forecaster.Forecast(scenario.plan));
  WhatIfStep out;
  out.request = request;
  out.stats = StatsOf(scenario, kept_->costs, forecast);
  // The requested stage may not exist in the changed plan; then the fullest is drawn.
  const bool known = request.memory_pp >= 0 && request.memory_pp < scenario.plan.pp;
  out.memory_pp = known ? request.memory_pp : forecast.estimate.fullest_pp;
  if (forecast.HasPasses()) {
    out.picture = PictureOf(scenario.model, forecast, out.memory_pp,
                            scenario.cluster.device.memory_bytes, LabelOf(scenario));
  } else {
    out.note = "Steps of this schedule overlap: its timeline comes from its program.";
  }
  out.passes = std::make_shared<const PassForecast>(std::move(forecast));
  out.seconds = SecondsFromNs(clock_.MonotonicNs() - start_ns);
  return out;
}

// Simulates enough steps to reach the steady state and draws the last one.
Result<SimulatedStep> SimulateStep(const WhatIfRequest& request,
                                   const std::function<bool()>& cancelled) {
  const Scenario& scenario = request.scenario;
  FT_ASSIGN(const CostModel costs, CostsOfTurned(scenario.machine, scenario.cluster));
  const RankChoice ranks = scenario.cluster.is_cpu ? RankChoice::kAll : RankChoice::kFirst;
  FT_ASSIGN(
      Forecast forecast,
      MakeForecast(scenario.model, scenario.plan, costs,
                   {.ranks = ranks, .simulate = {.last_step = true, .cancelled = cancelled}}));
  SimulatedStep out;
  out.request = request;
  out.step_s = forecast.simulation.step_s;
  out.picture = PictureOf(scenario.model, std::move(forecast), scenario.cluster.device.memory_bytes,
                          LabelOf(scenario));
  return out;
}

// Two workers: a fast one for passes, and one at low priority for the simulation, which can be
// interrupted.
WhatIf::WhatIf(Clock& clock)
    : passes_([maker = std::make_shared<StepMaker>(clock)](
                  const WhatIfRequest& request, const auto&) { return maker->Make(request); }),
      ops_([](const auto& numbered,
              const auto& outdated) -> Result<std::pair<std::uint64_t, SimulatedStep>> {
        GiveWay();  // to the next request, which the user waits for, and to drawing
        FT_ASSIGN(SimulatedStep step, SimulateStep(numbered.second, outdated));
        return std::pair{numbered.first, std::move(step)};
      }) {}

// A new request makes the running simulation useless, so it is cancelled.
void WhatIf::Ask(const WhatIfRequest& request) {
  ops_.Cancel();
  simulate_next_ = false;
  asked_ = passes_.Ask(request);
}

// Takes the answer by passes and schedules the simulation, unless a newer request waits or the step
// has too many ops.
bool WhatIf::TakePasses() {
  auto done = passes_.Take();
  if (!done) return false;
  answered_ = done->number;
  problem_.clear();
  if (!done->answer) {
    problem_ = done->answer.error().message;
    return true;
  }
  shown_ = std::make_shared<const WhatIfStep>(*std::move(done->answer));
  simulated_.reset();
  const bool small = shown_->picture == nullptr || OpsOf(*shown_->passes) <= kMaxOpsSimulated;
  simulate_next_ = answered_ == asked_ && small;
  return true;
}

// Only the simulation of the shown step counts. Errors are reported only if that simulation was
// asked for, since a cancelled one fails too.
bool WhatIf::TakeOps() {
  auto done = ops_.Take();
  if (!done) return false;
  if (done->answer && done->answer->first == answered_) {
    simulated_ = std::make_shared<const SimulatedStep>(std::move(done->answer->second));
    return true;
  }
  if (done->answer || simulated_for_ != answered_) return false;
  problem_ = done->answer.error().message;
  return true;
}

// Ops are taken before passes, because a new answer by passes makes them obsolete.
bool WhatIf::Poll() {
  const bool ops = TakeOps();
  if (TakePasses()) return true;
  if (std::exchange(simulate_next_, false)) {
    simulated_for_ = answered_;
    ops_.Ask({answered_, shown_->request});
  }
  return ops;
}

// Times and bytes change in percent, fractions in percentage points.
std::vector<WhatIfNumber> NumbersOfStep(const StepStats& f, const StepStats* pinned) {
  std::vector<WhatIfNumber> out;
  const auto of = [&](double StepStats::*member) {
    return pinned == nullptr ? nullptr : &(pinned->*member);
  };
  const std::string interval =
      f.low_s > 0 ? FormatSeconds(f.low_s) + " to " + FormatSeconds(f.high_s) : std::string();
  out.push_back(
      {"step time", FormatSeconds(f.step_s), interval, ChangeOf(f.step_s, of(&StepStats::step_s))});
  out.push_back({"tokens/s", FormatSi(f.tokens_per_s, ""), "",
                 ChangeOf(f.tokens_per_s, of(&StepStats::tokens_per_s))});
  const auto total = static_cast<double>(f.device.Total());
  const double pinned_total = pinned == nullptr ? 0 : static_cast<double>(pinned->device.Total());
  out.push_back({"peak memory", FormatBytes(f.device.Total()),
                 fmt::format("stage {} of {}", f.fullest_pp, FormatBytes(f.device_bytes)),
                 ChangeOf(total, pinned == nullptr ? nullptr : &pinned_total), !f.Fits()});
  const double room = f.device_bytes > 0 ? 1 - total / static_cast<double>(f.device_bytes) : 0;
  const double pinned_room = pinned == nullptr || pinned->device_bytes <= 0
                                 ? 0
                                 : 1 - pinned_total / static_cast<double>(pinned->device_bytes);
  out.push_back({"headroom", FormatPercent(room), f.Fits() ? "" : "does not fit",
                 PointsOf(room, pinned == nullptr ? nullptr : &pinned_room), !f.Fits()});
  out.push_back({"MFU", FormatPercent(f.mfu), "", PointsOf(f.mfu, of(&StepStats::mfu))});
  out.push_back(
      {"bubble", FormatPercent(f.bubble), "", PointsOf(f.bubble, of(&StepStats::bubble))});
  const auto part = [&](const char* name, double StepStats::*member) {
    out.push_back({name, FormatSeconds(f.*member),
                   f.step_s > 0 ? FormatPercent(f.*member / f.step_s) : std::string(),
                   ChangeOf(f.*member, of(member))});
  };
  part("exposed comm", &StepStats::communication_s);
  part("gradient sums", &StepStats::sums_s);
  part("update", &StepStats::update_s);
  return out;
}

// A coarse space is enough for a start and takes a fraction of a search. Nothing is simulated.
Result<Scenario> StartingScenario(const PlanRequest& request, int threads,
                                  const std::function<bool()>& cancelled) {
  EnumerateOptions options;
  options.memory_bytes = request.cluster.device.memory_bytes;
  options.host_bytes = HostShareOf(request.cluster, request.costs.profile().system);
  options.kept = 1;
  options.front = false;
  options.threads = threads;
  options.cancelled = cancelled;
  FT_ASSIGN(const Enumeration found,
            EnumeratePlans(request.model, request.costs, CoarseSpace(request.space),
                           request.cluster.Devices(), options));
  Scenario out{request.model, request.machine, request.cluster, {}};
  if (!found.fastest.empty()) {
    out.plan = found.fastest.front().plan;
  } else if (found.smallest) {
    out.plan = found.smallest->plan;
  } else {
    return Fail(ErrorCode::kInfeasible, "no plan of this model makes " +
                                            std::to_string(request.cluster.Devices()) +
                                            " ranks; choose another cluster or batch in Plan");
  }
  return out;
}

}  // namespace foretrain::ui
