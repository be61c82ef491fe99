#include "sim/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "sim/config/rules/refuse.h"
#include "sim/simulate/engine.h"
#include "sim/simulate/step_graph.h"
#include "sim/simulate/timeline.h"

namespace foretrain {
namespace {

constexpr int kMaxSteps = 64;
constexpr int kMaxBlockedShown = 8;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Checks one table of a replay: one row per rank, whole steps of values, no negative or infinite
// time.
Result<void> CheckReplay(const Program& program, const std::vector<std::vector<double>>& values,
                         std::string_view what) {
  if (values.empty()) return {};
  if (values.size() != program.ranks.size()) {
    return Refuse("replay {}: {} ranks, the program has {}", what, values.size(),
                  program.ranks.size());
  }
  for (std::size_t r = 0; r < values.size(); ++r) {
    const std::size_t ops = At(program.ranks[r].op_count);
    if (!values[r].empty() && (ops == 0 || values[r].size() % ops != 0)) {
      return Refuse("replay {}, rank {}: {} values for a step of {} ops", what,
                    program.ranks[r].rank, values[r].size(), ops);
    }
    const auto bad = std::find_if(values[r].begin(), values[r].end(),
                                  [](double v) { return v < 0.0 || std::isinf(v); });
    if (bad != values[r].end()) {
      return Refuse("replay {}, rank {}: {} s; give a time of 0 or more, or NaN", what,
                    program.ranks[r].rank, *bad);
    }
  }
  return {};
}

// Ranks in a timeline are 16-bit numbers, which limits it to ranks up to 32,767.
Result<void> CheckOptions(const Program& program, const SimulateOptions& options) {
  if (options.min_steps < 1 || options.max_steps < options.min_steps ||
      options.max_steps > kMaxSteps) {
    return Refuse("steps {} to {}: give 1 <= min_steps <= max_steps <= {}", options.min_steps,
                  options.max_steps, kMaxSteps);
  }
  if (options.run_ahead < 1 || options.run_ahead > (1 << 20)) {
    return Refuse("run_ahead {}: give 1 to {}", options.run_ahead, 1 << 20);
  }
  const bool shown = std::all_of(program.ranks.begin(), program.ranks.end(), [](const auto& rank) {
    return rank.rank <= std::numeric_limits<std::int16_t>::max();
  });
  if (options.timeline && !shown) {
    return Refuse("a timeline holds ranks up to {}; simulate without one",
                  std::numeric_limits<std::int16_t>::max());
  }
  if (options.replay == nullptr) return {};
  FT_TRY(CheckReplay(program, options.replay->seconds, "seconds"));
  return CheckReplay(program, options.replay->launch_s, "launch_s");
}

// Names ops by block and instruction for messages.
class OpNames {
 public:
  OpNames(const Program& program, const StepGraph& graph) : program_(program), graph_(graph) {}

  // Index of the rank that has op `op` (a StepGraph number).
  int RankIndex(std::int32_t op) const {
    const auto after = std::upper_bound(graph_.first_op.begin(), graph_.first_op.end(), op);
    return static_cast<int>(after - graph_.first_op.begin()) - 1;
  }

  // Name such as "mlp.up of forward layer 3 mb 2".
  std::string operator()(std::int32_t op) const {
    const int rank = RankIndex(op);
    const RankProgram& in = program_.ranks[At(rank)];
    const OpRef ref = RefOf(in, op - graph_.first_op[At(rank)]);
    const Instruction& instruction = in.step[At(ref.instruction)];
    return fmt::format("{} of {}", program_.blocks[At(instruction.block)].ops[At(ref.op)].name,
                       Describe(PackId(instruction.key)));
  }

 private:
  const Program& program_;
  const StepGraph& graph_;
};

// Lists at most kMaxBlockedShown queues and hosts, each with what it waits for.
std::string DescribeDeadlock(const Program& program, const StepGraph& graph, const Engine& engine) {
  const OpNames name(program, graph);
  std::string lines;
  int shown = 0;
  const std::int32_t slots = graph.ranks() * kQueueCount;
  for (std::int32_t slot = 0; slot < slots && shown < kMaxBlockedShown; ++slot) {
    const Engine::Blocked blocked = engine.BlockedAt(slot);
    // An op that was not issued waits for whatever the host waits for.
    if (blocked.wait == Engine::Wait::kNothing || blocked.wait == Engine::Wait::kIssue) continue;
    ++shown;
    lines += fmt::format("; rank {}, step {}: {} waits for {}",
                         program.ranks[At(slot / kQueueCount)].rank, blocked.step, name(blocked.op),
                         blocked.wait == Engine::Wait::kPeers ? "its peers" : name(blocked.input));
  }
  for (int rank = 0; rank < graph.ranks() && shown < kMaxBlockedShown; ++rank) {
    const std::int32_t op = engine.HostWaitsFor(rank);
    if (op < 0) continue;
    ++shown;
    lines += fmt::format("; rank {}: the host, full of unfinished ops, waits for {}",
                         program.ranks[At(rank)].rank, name(op));
  }
  return "the program deadlocks" + lines;
}

// Mean of the last half of the periods. Their number is even where there are enough, so that
// alternating steps enter equally.
double MeanPeriod(const Engine& engine) {
  const int last = engine.steps() - 1;
  if (last == 0) return engine.StepEnd(0);
  const int periods = last == 1 ? 1 : std::max(2, last / 2 / 2 * 2);
  return (engine.StepEnd(last) - engine.StepEnd(last - periods)) / periods;
}

// Totals of the last step. Its start on a rank is the end of that rank's step before, so ranks may
// have different windows.
std::vector<RankSummary> LastStep(const Program& program, const StepGraph& graph,
                                  const Engine& engine) {
  std::vector<RankSummary> ranks;
  const int last = engine.steps() - 1;
  for (int r = 0; r < graph.ranks(); ++r) {
    const Engine::RankTotals& totals = engine.Totals(r, last);
    RankSummary step;
    step.rank = program.ranks[At(r)].rank;
    step.start_s = last == 0 ? 0.0 : engine.Totals(r, last - 1).end_s;
    step.end_s = totals.end_s;
    step.busy_s = totals.busy_s;
    step.compute_s = totals.compute_s;
    step.host_s = totals.launch_s + totals.busy_s[static_cast<std::size_t>(OpClass::kHost)];
    step.idle_s = step.end_s - step.start_s - step.compute_s;
    ranks.push_back(step);
  }
  return ranks;
}

auto WasCancelled() { return Fail(ErrorCode::kAborted, "the simulation was cancelled"); }

}  // namespace

Result<Simulation> Simulate(const Program& program, const ProgramCosts& costs,
                            const SimulateOptions& options) {
  if (options.cancelled && options.cancelled()) return WasCancelled();
  FT_ASSIGN(const StepGraph graph, BuildStepGraph(program, costs));
  return Simulate(program, graph, costs, options);
}

Result<Simulation> Simulate(const Program& program, const StepGraph& graph,
                            const ProgramCosts& costs, const SimulateOptions& options) {
  FT_TRY(CheckOptions(program, options));
  Simulation simulation;
  if (graph.ops() == 0) {
    simulation.stable = true;
    return simulation;
  }
  Engine engine(graph, costs, options);
  if (engine.Run(options.cancelled)) return WasCancelled();
  if (engine.deadlocked()) {
    return Fail(ErrorCode::kInfeasible, DescribeDeadlock(program, graph, engine));
  }
  simulation.steps = engine.steps();
  simulation.stable = engine.stable();
  simulation.first_step_s = engine.StepEnd(0);
  const int last = engine.steps() - 1;
  simulation.step_s =
      engine.stable()
          ? (engine.StepEnd(last) - engine.StepEnd(last - engine.cycle())) / engine.cycle()
          : MeanPeriod(engine);
  simulation.ranks = LastStep(program, graph, engine);
  if (options.timeline) {
    simulation.timeline =
        MakeTimeline(program, graph, engine, options.last_step ? last : 0, options.threads);
  }
  return simulation;
}

}  // namespace foretrain
