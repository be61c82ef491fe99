#include "app/runs/stored_runs.h"

#include <algorithm>

#include "app/report/checkpoint_report.h"
#include "base/json/json.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "sim/cost/profile/profile_json.h"
#include "traces/metrics/data_wait.h"
#include "traces/save_spans.h"

namespace foretrain {
namespace {

// The newest run of a kind, if any. A trace counts as a measurement.
const RunInfo* Newest(const std::vector<RunInfo>& runs, RunKind kind) {
  const RunInfo* newest = nullptr;
  for (const RunInfo& run : runs) {
    const bool imported = run.kind == RunKind::kImported && kind == RunKind::kMeasured;
    if (run.kind == kind || imported) newest = &run;
  }
  return newest;
}

}  // namespace

// Everything a later reader needs to compile the same program again: model, hardware and plan as
// JSON, and the program's hash to check the result.
RunSetup SetupFor(RunKind kind, const ForecastContext& context, const Program& program,
                  std::string label) {
  RunSetup setup;
  setup.kind = kind;
  setup.label = std::move(label);
  setup.world = program.plan.World();
  setup.specs.model_json = ToJson(program.model);
  setup.specs.hardware_json = ToJson(context.cluster);
  setup.specs.plan_json = ToJson(program.plan);
  setup.specs.program_hash = program.hash;
  JsonWriter blocks;
  blocks.BeginArray();
  for (const Block& block : program.blocks) {
    blocks.BeginObject().Field("name", block.name).Name("ops").BeginArray();
    for (const Op& op : block.ops) {
      blocks.BeginObject().Field("name", op.name).Field("kind", Name(op.kind));
      blocks.Field("queue", Name(op.queue)).Field("class", Name(op.op_class)).EndObject();
    }
    blocks.EndArray().EndObject();
  }
  setup.specs.program = blocks.EndArray().Take();
  return setup;
}

// Names of all ops, one for each name key. Micro-batches after the second repeat its names, so they
// are skipped.
std::map<OpId, std::string> OpNamesOf(const Program& program) {
  std::map<OpId, std::string> names{{SaveCopyOp(), std::string(kSaveCopyName)},
                                    {SaveWriteOp(), std::string(kSaveWriteName)}};
  for (const RankProgram& rank : program.ranks) {
    for (const Instruction& instruction : rank.step) {
      if (instruction.key.micro_batch > 1) continue;  // later ones repeat the second
      const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        names[NameKey(PackId(instruction.key, static_cast<int>(i)))] = block.ops[i].name;
      }
      if (instruction.key.kind == InstructionKind::kLoadBatch) {
        names[NameKey(PackId(instruction.key, kDataWaitOp))] = kDataWaitName;
      }
    }
  }
  return names;
}

// Stores one forecast as a run. The device profile goes with it, so that the forecast can be
// repeated after a new calibration.
Result<RunId> StoreForecast(Store& store, const ForecastContext& context, const Forecast& forecast,
                            const Metrics& metrics) {
  FT_ASSIGN(const auto recorder,
            store.BeginRun(SetupFor(RunKind::kPredicted, context, forecast.program,
                                    Describe(forecast.program.plan))));
  Timeline timeline = forecast.simulation.timeline;
  timeline.op_names = OpNamesOf(forecast.program);
  FT_TRY(recorder->AddTimeline(std::move(timeline)));
  FT_TRY(recorder->AddMetrics(Flatten(metrics)));
  FT_TRY(recorder->AddMetrics(MetricsOf(CheckpointCostIn(context, forecast.program.plan))));
  FT_TRY(recorder->Attach("device_profile", ProfileToJson(context.costs.profile())));
  FT_TRY(recorder->Finish(RunStatus::kFinished));
  return recorder->id();
}

// Defaults: the newest measured run, else the newest forecast. A measured run comes with the
// forecast that was stored for it, unless `against` names another run.
Result<RunChoice> ChoosePair(const StoreReader& reader, RunId run, RunId against) {
  FT_ASSIGN(const std::vector<RunInfo> runs, reader.ListRuns());
  RunChoice choice;
  if (run == 0) {
    const RunInfo* newest = Newest(runs, RunKind::kMeasured);
    if (newest == nullptr) newest = Newest(runs, RunKind::kPredicted);
    if (newest == nullptr) {
      return Fail(
          ErrorCode::kInvalidArgument,
          reader.path() + ": no run in it yet; `foretrain train` or `foretrain predict` adds one");
    }
    run = newest->id;
  }
  FT_ASSIGN(RunInfo main, reader.FindRun(run));
  // A forecast alone has no counterpart.
  if (main.kind == RunKind::kPredicted && against == 0) {
    choice.predicted = std::move(main);
    return choice;
  }
  const RunId forecast = against != 0 ? against : main.forecast.value_or(0);
  if (forecast != 0) {
    FT_ASSIGN(choice.predicted, reader.FindRun(forecast));
  }
  choice.measured = std::move(main);
  return choice;
}

// Reads both runs whole. Long runs are read in parts elsewhere (app/desktop/desktop_stores.cc).
Result<RunPair> LoadPair(const StoreReader& reader, RunId run, RunId against) {
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, run, against));
  RunPair pair;
  if (choice.predicted.has_value()) {
    FT_ASSIGN(pair.predicted, reader.LoadRun(choice.predicted->id));
  }
  if (choice.measured.has_value()) {
    FT_ASSIGN(pair.measured, reader.LoadRun(choice.measured->id));
  }
  return pair;
}

// Reads the run's inputs back and checks each as if it came from a user: a store is a file that
// others can write.
Result<StoredContext> ContextOf(const StoreReader& reader, const StoredRun& run) {
  const std::string where = reader.path() + ": run " + std::to_string(run.info.id);
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const ModelSpec model, ModelFromJson(run.specs.model_json, where + " model"));
  FT_ASSIGN(const ClusterSpec cluster,
            ClusterFromJson(run.specs.hardware_json, where + " hardware", catalogue));
  FT_ASSIGN(const Plan plan, PlanFromJson(run.specs.plan_json, where + " plan"));
  FT_ASSIGN(const std::string text, reader.Attachment(run.info.id, "device_profile"));
  FT_ASSIGN(const DeviceProfile profile, ProfileFromJson(text, where + " device profile"));
  FT_ASSIGN(CostModel costs, CostModel::Make(cluster, profile));
  StoredContext out{{model, cluster, std::move(costs), "stored with the run"}, plan, 0};
  for (const Counter& counter : run.counters) {
    if (counter.name == "machine_drift") out.machine_drift = counter.value;
  }
  return out;
}

}  // namespace foretrain
