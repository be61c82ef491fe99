#include <cmath>
#include <cstdio>

#include "app/cli/flags/dialect_flags.h"
#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/forecast/asked_plan.h"
#include "app/forecast/forecast_watch.h"
#include "app/report/checkpoint_report.h"
#include "app/report/report.h"
#include "app/runs/compared_runs.h"
#include "app/runs/imported_traces.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "sim/forecast/forecast.h"

namespace foretrain {
namespace {

// Joins a measured run and its forecast op by op. With --fail-above it is a check for scripts: the
// comparison is printed in any case, and the exit code alone tells whether the step time is within
// the limit.
class Compare final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to compare; 0: the newest measured one");
    arguments.Option("--against", against_, "N", "Run to compare it with; 0: its forecast");
    arguments.Option("--fail-above", fail_above_, "SHARE",
                     "Exit with code 1 if the step time error is larger than this, e.g. 3%");
    arguments.Option("--trace", trace_, "FILE,...",
                     "Traces to import into the store and to compare, one a rank, or their folder");
    dialect_.Declare(arguments, /*writes=*/false);
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    DeclareJson(arguments);
    arguments.Footer(
        "With --from, the forecast is that of the launch file on --cluster, and options of model "
        "and plan override the file:\n"
        "  foretrain compare --trace traces/ --from megatron:run.sh --cluster 16x8xh100\n"
        "Logs of other trainers: `foretrain check --from megatron:run.sh --log train.log`.");
  }

  // The limit is parsed before the store is opened, so that a typing error fails at once.
  Result<Exit> Run() override {
    double limit = 0;
    if (!fail_above_.empty()) {
      // "3%" and "0.03" are the same limit. A bare number above 1 is refused, because it is more
      // often a forgotten "%" than a limit.
      const bool percent = fail_above_.back() == '%';
      FT_ASSIGN(limit,
                ParseNumber("--fail-above",
                            percent ? fail_above_.substr(0, fail_above_.size() - 1) : fail_above_,
                            0, percent ? 1e6 : 1e4));
      if (percent) limit /= 100;
      if (!percent && limit > 1) {
        return Fail(ErrorCode::kInvalidArgument, "--fail-above: \"" + fail_above_ +
                                                     "\" is no share; write " + fail_above_ +
                                                     "% or a number up to 1");
      }
    }
    if (!trace_.empty()) {
      const StopSignals signals;
      const Result<void> imported = ImportTrace();
      if (!imported.has_value() && StopSignal() != 0) return ExitOfSignal(StopSignal());
      if (!imported.has_value()) return Fail(imported.error().code, imported.error().message);
    }
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const ComparedRuns runs, Runs(reader));
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("run", runs.measured.info.id);
      json.Field("against", runs.predicted.info.id);
      WriteComparison(json, runs.view, runs.Names());
      dialect_.WriteAccount(json);
      if (const auto measured = CostOf(runs.measured.info)) {
        const auto predicted = CostOf(runs.predicted.info);
        WriteCost(json, "measured_checkpoint", *measured);
        if (predicted) WriteCost(json, "predicted_checkpoint", *predicted);
      }
      std::puts(json.EndObject().Take().c_str());
    } else {
      std::fputs(dialect_.AccountText().c_str(), stdout);
      std::fputs(ComparisonText(runs.view).c_str(), stdout);
      std::fputs(ComparisonDetails(runs.view, runs.Names()).c_str(), stdout);
      PrintCheckpoints(runs);
    }
    return fail_above_.empty() || std::abs(runs.StepError()) <= limit ? Exit::kDone : Exit::kNo;
  }

 private:
  // Imports --trace as the run to compare.
  Result<void> ImportTrace() {
    if (run_ != 0) {
      return Fail(ErrorCode::kInvalidArgument, "--run " + std::to_string(run_) +
                                                   " with --trace: the run is that of the trace; "
                                                   "give one of the two");
    }
    FT_ASSIGN(const std::vector<std::string> traces, TracesIn(trace_));
    FT_ASSIGN(const std::vector<ImportedRun> runs,
              ImportTraces(traces, store_, {}, /*quiet=*/json_));
    run_ = runs.front().id;
    if (!json_) {
      std::printf("imported as run %lld in %s\n", static_cast<long long>(run_), store_.c_str());
    }
    return {};
  }

  // The forecast of --from, else the stored one. Options that only a launch file needs are refused
  // without it, because they would change nothing.
  Result<ComparedRuns> Runs(const StoreReader& reader) {
    if (!dialect_.reads()) {
      if (model_.Given() || cluster_.cluster != ClusterFlags().cluster ||
          !plan_.GivenFields().empty() || !plan_.preset.empty() || !plan_.plan_file.empty()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "compare: options of model, machine and plan need --from; a stored run has "
                    "its own");
      }
      return CompareRuns(reader, run_, against_);
    }
    if (against_ != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--against " + std::to_string(against_) +
                      " with --from: the forecast is that of the launch file; give one of the two");
    }
    FT_TRY(dialect_.Read(LaunchFields::kAll, model_, cluster_, plan_));
    FT_ASSIGN(const AskedMachine asked, AskMachine(model_, cluster_, plan_, dialect_));
    FT_ASSIGN(const AskedPlan plan, AskPlan(asked, plan_, dialect_));
    const ForecastContext& context = asked.context;
    ForecastOptions options;
    options.ranks = context.cluster.is_cpu ? RankChoice::kAll : RankChoice::kClasses;
    options.simulate.threads = HardwareThreads();
    Forecast forecast;
    {
      ForecastWatch watch(!json_);
      watch.Watch(options);
      FT_ASSIGN(forecast, MakeForecast(context.model, plan.plan, context.costs, options));
    }
    return CompareWithForecast(reader, run_, context, forecast);
  }

  // The cost of a checkpoint, if the run saved any.
  static void PrintCheckpoints(const ComparedRuns& runs) {
    const auto predicted = CostOf(runs.predicted.info), measured = CostOf(runs.measured.info);
    if (!measured) return;
    if (predicted) std::printf("\npredicted checkpoint: %s\n", DescribeCost(*predicted).c_str());
    std::printf("measured checkpoint:  %s\n", DescribeCost(*measured).c_str());
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  std::string store_ = kDefaultStore;
  std::string trace_;
  std::string fail_above_;
  std::int64_t run_ = 0;
  std::int64_t against_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeCompare() { return std::make_unique<Compare>(); }

}  // namespace foretrain
