#include "app/emulated_run.h"

#include <utility>

#include "app/stored_runs.h"
#include "sim/compare/emulate.h"

namespace foretrain {

Result<EmulatedRun> StoreEmulated(Store& store, const ForecastContext& context,
                                  const Program& program, RunId measured) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(store.path(), {.most_checked_bytes = 0}));
  FT_ASSIGN(const StoredRun run, reader.LoadRun(measured));
  FT_ASSIGN(const ProgramCosts costs, context.costs.CostsOf(program));
  const int first_step = run.info.last_step.value_or(0) > 0 ? 1 : 0;
  SimulateOptions options;
  options.last_step = true;
  FT_ASSIGN(Emulation emulation, EmulateRanks(program, costs, run.timeline, first_step, options));
  EmulatedRun emulated;
  emulated.step_s = emulation.simulation.step_s;
  emulated.covered = emulation.covered;
  FT_ASSIGN(const auto recorder,
            store.BeginRun(SetupFor(RunKind::kResimulated, context, program,
                                    "emulated on one device: " + Describe(program.plan))));
  Timeline timeline = std::move(emulation.simulation.timeline);
  timeline.op_names = OpNamesOf(program);
  const Metrics metrics =
      ComputeMetrics(timeline, MetricOptionsFor(context, program.plan, /*warmup_steps=*/0));
  FT_TRY(recorder->AddTimeline(std::move(timeline)));
  FT_TRY(recorder->AddMetrics(Flatten(metrics)));
  FT_TRY(recorder->Finish(RunStatus::kFinished));
  emulated.run = recorder->id();
  return emulated;
}

}  // namespace foretrain
