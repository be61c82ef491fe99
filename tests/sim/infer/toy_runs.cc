#include "tests/sim/infer/toy_runs.h"

#include "sim/program/ir/program.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/infer/kineto_ranks.h"
#include "tests/sim/simulate/play.h"
#include "tests/traces/import/trace_text.h"

namespace foretrain {

InferredPlan InferredFrom(const ModelSpec& model, const Plan& plan) {
  const auto program = Compile(model, plan);
  if (!program.has_value()) {
    ADD_FAILURE() << program.error().message;
    return {};
  }
  const Simulation simulation = Play(*program, GpuCluster(1, plan.World()), {});
  const TraceRun run = ReadGood(KinetoRanks(*program, simulation.timeline, simulation.steps - 1));
  return InferPlan(run.timeline, run.communication);
}

// Where pipelines are folded, a plan has no chunks of its own.
std::vector<std::pair<std::string, std::string>> TruthOf(const Plan& plan) {
  return {{"dp", std::to_string(plan.dp)},
          {"tp", std::to_string(plan.tp)},
          {"pp", std::to_string(plan.pp)},
          {"cp", std::to_string(plan.cp)},
          {"ep", std::to_string(plan.ep)},
          {"zero_stage", std::to_string(plan.zero_stage)},
          {"schedule", std::string(Name(plan.schedule))},
          {"vpp", std::to_string(plan.vpp)},
          {"micro_batches", std::to_string(plan.MicroBatches())},
          {"recompute", std::string(Name(plan.recompute))}};
}

std::vector<std::string> WrongFields(const InferredPlan& inferred, const Plan& plan) {
  std::vector<std::string> wrong;
  for (const auto& [name, value] : TruthOf(plan)) {
    const std::string_view told = inferred.Value(name);
    if (!told.empty() && told != value) {
      wrong.push_back(name + ": " + std::string(told) + ", not " + value);
    }
  }
  return wrong;
}

}  // namespace foretrain
