#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/bench/forecast_bench.h"
#include "app/bench/search_bench.h"
#include "app/bench/simulate_bench.h"
#include "app/bench/training_bench.h"
#include "app/cli/device_choice.h"
#include "app/cli/output_file.h"
#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/forecast/calibration.h"
#include "app/forecast/forecasting.h"
#include "app/report/report.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Four benchmarks under one name: a table of trainings against forecasts (the default), forecasts
// of fixed plans, search and simulator. Results go to stdout, progress to stderr.
class Bench final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    device_.Declare(arguments);
    arguments.Option("--only", only_, "NAME,...", "Only these rows of the table");
    arguments.Flag("--list", list_, "List the rows of the table");
    arguments.Option("--store", store_, "FILE", "Store that records the table's runs");
    arguments.Option("--spans", max_spans_, "N",
                     "Record the ops of a row's run if there are at most N");
    arguments.Flag("--search", search_, "Time the evaluation of plans in closed form");
    arguments.Flag("--simulate", simulate_,
                   "Time one forecast: compilation, costs, simulation, metrics");
    arguments.Flag("--passes", passes_,
                   "With --simulate: simulate whole passes, without compiling a program");
    arguments.Flag("--one-step", one_step_,
                   "With --simulate: only the events of one step of a compiled program");
    arguments.Option("--layers", model_.layers, "N", "With --model: number of layers");
    arguments.Option("--model", model_.model, "NAME", "With --search or --simulate: the model");
    arguments.Option("--cluster", cluster_.cluster, "SPEC",
                     "With --search or --simulate: the cluster. For the table: the GPU that its "
                     "forecasts assume");
    arguments.Flag("--forecast", forecast_, "Forecast each plan, train it twice and compare");
    arguments.Option("--plans", plans_, "NAME,...", "Only these plans");
    arguments.Option("--steps", steps_, "N",
                     "Steps of each run that count; 0: 10 for the table, 20 with --forecast");
    arguments.Option("--device-profile", profile_, "FILE",
                     "Device profile to forecast with; default: measure the machine first");
    arguments.Option("--seconds", seconds_, "S",
                     "Approximate duration of the machine's measurement");
    arguments.Option("--record", record_, "FILE", "Write the results as a Markdown table");
    arguments.Flag("--classes", classes_,
                   "With --forecast: also print predicted and measured time by class of ops");
    DeclareJson(arguments);
    plan_.Declare(arguments);  // of --simulate
    arguments.Footer(
        "  foretrain bench --device cuda --only gpt2-124m-b64-bf16\n"
        "  foretrain bench --forecast --record forecast.md\n"
        "Exit codes of the table: 0 every row ran, 1 a row failed or does not fit; the table shows "
        "why.");
  }

  // The files are checked first. Search and simulator need no training, so they come before its
  // options are checked.
  Result<Exit> Run() override {
    FT_TRY(CheckOutputFile("--record", record_));
    if (!simulate_ && !plan_.GivenFields().empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: only --simulate takes a plan; the rows of the table have their "
                              "own; leave it out",
                              FirstOption(*plan_.GivenFields().front())));
    }
    if (search_) return BenchSearch();
    if (simulate_) return BenchSimulate();
    if (steps_ < 0 || steps_ > 100'000) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--steps: {} is not in 0 to 100000", steps_));
    }
    if (!forecast_) return RunTable();
    if (steps_ == 0) steps_ = 20;
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    ModelFlags flags;
    flags.model = kBenchModel;
    FT_ASSIGN(const ModelSpec model, flags.Resolve(catalogue));
    FT_ASSIGN(const std::vector<BenchPlan> plans, ChosenPlans());
    // The profile comes first: all forecasts of the table use the same rates.
    FT_ASSIGN(const DeviceProfile profile, Profile(model, plans));
    std::vector<BenchResult> results;
    for (const BenchPlan& plan : plans) {
      std::fprintf(stderr, "%s (%s), twice %lld steps\n", plan.name.c_str(),
                   foretrain::Describe(plan.plan).c_str(), static_cast<long long>(steps_));
      FT_ASSIGN(BenchResult result,
                RunBenchPlan(model, plan, profile, {static_cast<int>(steps_), nullptr}));
      results.push_back(std::move(result));
    }
    if (!record_.empty()) {
      PosixFileSystem files;
      FT_TRY(WriteFileAtomically(files, record_,
                                 BenchMarkdown(results, profile, static_cast<int>(steps_))));
    }
    json_ ? PrintJson(results, profile) : Print(results);
    return Exit::kDone;
  }

 private:
  // Runs the chosen rows one after another. A failed row does not end the table: its reason is
  // printed and the exit code is 1. Ctrl-C ends the table after the current row, and the rows
  // before it are kept.
  Result<Exit> RunTable() const {
    FT_ASSIGN(const std::vector<TableRow> rows, ChooseRows(TableRows(device_.IsCuda()), only_));
    if (list_) return ListTable(rows, json_);
    TableOptions options;
    FT_ASSIGN(const DeviceChoice choice, device_.Choose());
    options.device = choice.api;
    options.device_number = choice.Number();
    options.cuda = device_.IsCuda();
    options.cluster = cluster_.cluster == "local" ? "" : cluster_.cluster;
    options.device_profile = profile_;
    options.steps = steps_ > 0 ? steps_ : 10;
    options.max_spans = max_spans_;
    FT_ASSIGN(const auto store, Store::Open(store_));
    std::vector<TableResult> results;
    for (const TableRow& row : rows) {
      std::fprintf(stderr, "%s\n", row.name.c_str());
      results.push_back(RunRow(*store, row, options));
      if (StopSignal() != 0) break;
    }
    FT_TRY(store->Close());
    const std::string device = device_.IsCuda() ? "cuda" : "cpu";
    std::fputs((json_ ? TableJson(results, device) + "\n" : TableText(results)).c_str(), stdout);
    const bool all = std::all_of(results.begin(), results.end(),
                                 [](const TableResult& r) { return r.measured.has_value(); });
    return all ? Exit::kDone : Exit::kNo;
  }

  // Measures the closed form alone, twice: the first evaluation of a plan fills the caches, later
  // ones use them.
  Result<Exit> BenchSearch() const {
    constexpr std::int64_t kPlans = 4096;
    constexpr double kSeconds = 2;
    FT_ASSIGN(const ForecastContext context, MakeContext(model_, cluster_));
    // Zero plans means that the model fits no split of this cluster.
    const EvaluationRate rate = MeasureEvaluations(context, kPlans, kSeconds);
    if (rate.plans == 0) {
      return Fail(ErrorCode::kInvalidArgument, "bench --search: no plan of " + context.model.name +
                                                   " is possible on " + context.cluster.name);
    }
    PrintValues(context, nullptr,
                {{.name = "plans", .count = rate.plans},
                 {.name = "first evaluation", .seconds = rate.first_s},
                 {.name = "evaluation", .seconds = rate.seconds}});
    return Exit::kDone;
  }

  // Times each phase of one forecast, then the whole forecast as `predict` makes it. The whole is
  // the best of several runs.
  Result<Exit> BenchSimulate() const {
    constexpr int kRuns = 3;
    FT_ASSIGN(const ForecastContext context, MakeContext(model_, cluster_));
    FT_ASSIGN(const Plan plan, PlanOf(plan_, context.model, context.cluster.Devices()));
    if (passes_) return BenchPasses(context, plan);
    if (one_step_) return BenchStep(context, plan);
    FT_ASSIGN(const SimulateTimes times, MeasureSimulation(context, plan, kRuns));
    PrintValues(context, &plan,
                {{.name = "rank classes", .count = times.ranks},
                 {.name = "ops", .count = times.ops},
                 {.name = "steps", .count = times.steps},
                 {.name = "compile", .seconds = times.compile_s},
                 {.name = "costs", .seconds = times.costs_s},
                 {.name = "simulate", .seconds = times.simulate_s},
                 {.name = "metrics", .seconds = times.metrics_s},
                 {.name = "whole", .seconds = times.whole_s},
                 {.name = "cpu", .seconds = times.cpu_s}});
    return Exit::kDone;
  }

  // Times the event loop alone: what a faster engine can gain.
  Result<Exit> BenchStep(const ForecastContext& context, const Plan& plan) const {
    FT_ASSIGN(const StepTimes times, MeasureStep(context, plan, /*runs=*/5));
    PrintValues(context, &plan,
                {{.name = "ranks", .count = times.ranks},
                 {.name = "instructions", .count = times.instructions},
                 {.name = "ops", .count = times.ops},
                 {.name = "step time", .seconds = times.step_s},
                 {.name = "compile", .seconds = times.compile_s},
                 {.name = "graph", .seconds = times.graph_s},
                 {.name = "events", .seconds = times.events_s},
                 {.name = "cpu", .seconds = times.cpu_s}});
    return Exit::kDone;
  }

  // Times the simulation by passes, the one that What-if waits for.
  Result<Exit> BenchPasses(const ForecastContext& context, const Plan& plan) const {
    FT_ASSIGN(const PassTimes times, MeasurePasses(context, plan, /*runs=*/5));
    PrintValues(context, &plan,
                {{.name = "slots", .count = times.slots},
                 {.name = "pipeline", .seconds = times.end_s},
                 {.name = "whole", .seconds = times.whole_s},
                 {.name = "cpu", .seconds = times.cpu_s}});
    return Exit::kDone;
  }

  // A count, or a time. Its key in JSON is the name in snake_case, with `_s` for a time.
  struct Value {
    std::string name;
    std::int64_t count = 0;
    std::optional<double> seconds{};
  };

  // One value a line, or one object. `plan`: null if there is none.
  void PrintValues(const ForecastContext& context, const Plan* plan,
                   const std::vector<Value>& values) const {
    const std::string described = plan != nullptr ? foretrain::Describe(*plan) : "";
    JsonWriter json;
    json.BeginObject().Field("schema", 1);
    if (plan != nullptr) json.Field("plan", described);
    std::string text = context.model.name + (plan != nullptr ? ", " : "") + described + " on " +
                       context.cluster.name + "\n";
    for (const Value& value : values) {
      std::string key = value.name + (value.seconds ? "_s" : "");
      std::replace(key.begin(), key.end(), ' ', '_');
      value.seconds ? json.Field(key, *value.seconds) : json.Field(key, value.count);
      text += MetricLine(value.name,
                         value.seconds ? FormatSeconds(*value.seconds) : FormatCount(value.count));
    }
    std::fputs(json_ ? (json.EndObject().Take() + "\n").c_str() : text.c_str(), stdout);
  }

  // In the order of the option. An unknown name lists all plans.
  Result<std::vector<BenchPlan>> ChosenPlans() const {
    std::vector<BenchPlan> plans = BenchPlans();
    if (plans_.empty()) return plans;
    std::vector<BenchPlan> chosen;
    for (const std::string_view name : Split(plans_, ',')) {
      const auto found = std::find_if(plans.begin(), plans.end(),
                                      [&](const BenchPlan& plan) { return plan.name == name; });
      if (found == plans.end()) {
        std::string names;
        for (const BenchPlan& plan : plans) names += (names.empty() ? "" : ", ") + plan.name;
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("--plans: no plan \"{}\"; there are {}", name, names));
      }
      chosen.push_back(*found);
    }
    return chosen;
  }

  // The named profile, or one measured now for exactly the ops of `plans`. Measuring right before
  // the runs keeps the machine's drift out of the error.
  Result<DeviceProfile> Profile(const ModelSpec& model, const std::vector<BenchPlan>& plans) const {
    if (!profile_.empty()) {
      ClusterFlags flags;
      flags.device_profile = profile_;
      std::string origin;
      return LoadProfile(flags, {}, origin);
    }
    CalibrationRequest request;
    request.options.seconds = seconds_;
    request.options.grid = false;
    for (const BenchPlan& plan : plans) {
      request.options.targets.push_back({model, plan.plan});
      request.ranks = std::max(request.ranks, plan.plan.World());
    }
    return CalibrateThisMachine(request);
  }

  // Error compares forecast and measurement as they are. "Without drift" divides the measurement by
  // the machine's slowdown since the profile was measured.
  void Print(const std::vector<BenchResult>& results) const {
    Table table({"plan", ">predicted", ">measured", ">spread", ">step time error", ">machine drift",
                 ">without drift"});
    for (const BenchResult& r : results) {
      table.AddRow({r.plan.name, FormatSeconds(r.predicted_s), FormatSeconds(r.Measured()),
                    fmt::format("{:.1f} %", 100 * r.Spread()),
                    fmt::format("{:+.1f} %", 100 * r.Error()), fmt::format("{:.3f}", r.Drift()),
                    fmt::format("{:+.1f} %", 100 * r.CorrectedError())});
    }
    std::fputs(table.Text().c_str(), stdout);
    if (classes_) PrintClasses(results);
    std::printf("\nmedian step time error %.1f %%, without drift %.1f %%\n",
                100 * MedianError(results, false), 100 * MedianError(results, true));
  }

  // Shows in which classes of ops an error arises. Errors of two classes may cancel in the step
  // time.
  static void PrintClasses(const std::vector<BenchResult>& results) {
    Table table({"plan", "class", ">predicted", ">measured", ">predicted / measured"});
    for (const BenchResult& r : results) {
      for (const ClassError& c : r.classes) {
        table.AddRow({r.plan.name, std::string(foretrain::Name(c.op_class)),
                      FormatSeconds(c.predicted_s), FormatSeconds(c.measured_s),
                      fmt::format("{:.3f}", c.predicted_s / c.measured_s)});
      }
    }
    std::printf("\n%s", table.Text().c_str());
  }

  // The same numbers as the table, and both runs one by one.
  static void PrintJson(const std::vector<BenchResult>& results, const DeviceProfile& profile) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("profile_date", profile.date);
    json.Name("plans").BeginArray();
    for (const BenchResult& r : results) {
      json.BeginObject().Field("name", r.plan.name);
      json.Field("plan", foretrain::Describe(r.plan.plan));
      json.Field("predicted_step_time_s", r.predicted_s);
      json.Field("measured_step_time_s", r.Measured());
      json.Name("measured_step_times_s")
          .BeginArray()
          .Number(r.measured_s[0])
          .Number(r.measured_s[1])
          .EndArray();
      json.Field("spread", r.Spread()).Field("step_time_error", r.Error());
      json.Field("machine_drift", r.Drift());
      json.Name("machine_drifts").BeginArray();
      for (const double drift : r.drift) json.Number(drift);
      json.EndArray().Field("step_time_error_without_drift", r.CorrectedError()).EndObject();
    }
    json.EndArray().Field("median_step_time_error", MedianError(results, false));
    json.Field("median_step_time_error_without_drift", MedianError(results, true));
    std::puts(json.EndObject().Take().c_str());
  }

  bool forecast_ = false;
  bool search_ = false;
  bool simulate_ = false;
  bool passes_ = false;
  bool one_step_ = false;
  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  bool classes_ = false;
  std::string plans_, profile_, record_;
  DeviceFlag device_;
  std::string only_;
  bool list_ = false;
  std::string store_ = kDefaultStore;
  std::int64_t max_spans_ = 200'000;
  std::int64_t steps_ = 0;
  double seconds_ = 30;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<Bench>(); }

}  // namespace foretrain
