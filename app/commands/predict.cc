#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/cli/defaults.h"
#include "app/cli/flags/checkpoint_flags.h"
#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/document_tokens.h"
#include "app/cli/flags/run_flags.h"
#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/asked_plan.h"
#include "app/forecast/forecast_watch.h"
#include "app/forecast/forecasting.h"
#include "app/report/checkpoint_report.h"
#include "app/report/explain_report.h"
#include "app/report/plans/device_rates.h"
#include "app/report/report.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/units.h"
#include "sim/config/plan/plan_json.h"
#include "sim/cost/explain_ops.h"
#include "sim/cost/network/plan_place.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/device_use.h"
#include "sim/memory/host_memory.h"
#include "sim/search/advice/advice.h"
#include "sim/search/advice/better_order.h"

namespace foretrain {
namespace {

constexpr int kTimelineWidth = 96;

// Compiles and simulates one plan. Exit code 1 says that it does not fit in memory; the forecast is
// printed all the same, so that scripts and readers see by how much.
class Predict final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    dialect_.Declare(arguments, /*writes=*/true);
    dialect_.DeclareTrainer(arguments,
                            "Forecast with the software of this trainer, as `plan --for` does");
    DeclareGraphs(arguments, cluster_.cuda_graphs);
    goodput_.Declare(arguments);
    document_tokens_.Declare(arguments);
    arguments.Section("Output");
    arguments.Option("--store", store_, "FILE", "Store the forecast as a run in this file");
    arguments.Option(
        "--out", out_, "FILE",
        "Write the plan with all its options, for --plan FILE; with --emit its launch file");
    arguments.Flag("--program", listing_,
                   "Print the program of each rank, instruction by instruction");
    arguments.Flag("--ops", ops_,
                   "With --program: print each op with its queue, tensors and edges");
    arguments.Option("--explain", explain_, "OP",
                     "Show where the time of these ops comes from, e.g. mlp.up or 'mlp.*'");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain predict --model gpt2-124m --pp 2 --global-batch 8 --store foretrain.db\n"
        "  foretrain predict --model llama3-8b --cluster 1x8xh100 --tp 2 --explain mlp.up");
  }

  // Context, plan, forecast. --program and --explain end here, because they need no metrics. The
  // run is stored before anything is printed, so that the number in the output exists.
  Result<Exit> Run() override {
    FT_TRY(CheckOutputFile("--out", out_));
    FT_TRY(dialect_.Read(LaunchFields::kAll, model_, cluster_, plan_));
    FT_ASSIGN(const AskedMachine asked, AskMachine(model_, cluster_, plan_, dialect_));
    ForecastContext context = asked.context;
    const std::optional<Preset>& preset = asked.preset;
    if (cluster_.cuda_graphs && context.cluster.is_cpu) {
      return Fail(ErrorCode::kInvalidArgument, "--cuda-graphs: " + context.cluster.name +
                                                   " has no GPUs; leave it out or name a cluster "
                                                   "that has, e.g. --cluster 1x8xh100");
    }
    FT_ASSIGN(AskedPlan asked_plan, AskPlan(asked, plan_, dialect_));
    defaults_ = asked_plan.defaults;
    Plan plan = asked_plan.plan;
    FT_TRY(document_tokens_.CountIn(plan, context));
    Plan emitted = asked_plan.stated;
    const bool states_order = preset || !plan_.plan_file.empty() || plan_.Given("rank_order");
    if (!states_order && OrdersRanks(context.cluster)) {
      plan = FastestRankOrder(context.model, context.costs, plan).plan;
    }
    emitted.rank_order = plan.rank_order;
    FT_ASSIGN(emitted_, dialect_.Emit(emitted, context.model, model_, context.cluster));
    ForecastOptions options;
    // On CPUs every rank is compiled: cores of one machine are few. On a cluster one rank of each
    // class stands for all alike.
    options.ranks = context.cluster.is_cpu ? RankChoice::kAll : RankChoice::kClasses;
    // A stored forecast keeps all simulated steps. Otherwise the timeline of the last one is
    // enough.
    options.simulate.last_step = store_.empty();
    options.simulate.threads = HardwareThreads();
    Forecast forecast;
    {
      ForecastWatch watch(!json_);
      watch.Watch(options);
      FT_ASSIGN(forecast, MakeForecast(context.model, plan, context.costs, options));
    }
    if (!out_.empty()) {
      PosixFileSystem files;
      const Plan& compiled = forecast.program.plan;
      FT_TRY(WriteFileAtomically(
          files, out_,
          dialect_.emits() ? emitted_.text : ToJson(compiled, WrittenFields::kAll) + "\n"));
    }
    if (listing_) {
      for (int rank = 0; rank < static_cast<int>(forecast.program.ranks.size()); ++rank) {
        std::fputs(Listing(forecast.program, rank, ops_).c_str(), stdout);
      }
      return Exit::kDone;
    }
    if (!explain_.empty()) return Explain(context, forecast);
    FindMemory(context, forecast);
    const Metrics metrics = ForecastMetrics(context, forecast);
    RunId run = 0;
    if (!store_.empty()) {
      FT_ASSIGN(const auto store, Store::Open(store_));
      FT_ASSIGN(run, StoreForecast(*store, context, forecast, metrics));
      FT_TRY(store->Close());
    }
    json_ ? PrintJson(context, forecast, metrics, run) : Print(context, forecast, metrics, run);
    return Fits() ? Exit::kDone : Exit::kNo;
  }

 private:
  Result<Exit> Explain(const ForecastContext& context, const Forecast& forecast) const {
    FT_ASSIGN(const std::vector<ExplainedOp> ops,
              ExplainOps(forecast.program, forecast.costs, context.costs, explain_));
    std::fputs(json_ ? (ExplainJson(ops, context.profile_origin) + "\n").c_str()
                     : ExplainText(ops, context.profile_origin).c_str(),
               stdout);
    return Exit::kDone;
  }

  // Requires --mtbf.
  GoodputForecast GoodputIn(const ForecastContext& context, const Forecast& forecast) const {
    const CheckpointCost cost = CheckpointCostIn(context, forecast.program.plan);
    const Failures failures{goodput_.mtbf_s, goodput_.restart_s};
    GoodputForecast all;
    all.best_every_s = BestSaveInterval(cost, failures);
    all.best = GoodputOf(all.best_every_s, cost, failures);
    const SaveEvery& every = goodput_.every;
    all.every_s = every.steps > 0 ? static_cast<double>(every.steps) * forecast.simulation.step_s
                  : every.ns > 0  ? SecondsFromNs(every.ns)
                                  : all.best_every_s;
    all.goodput = GoodputOf(all.every_s, cost, failures);
    return all;
  }

  // Whether the plan fits the devices and their hosts.
  bool Fits() const { return FitsDevice() && host_.fits(); }
  bool FitsDevice() const { return fullest_bytes_ <= device_bytes_; }

  static std::vector<DegreePlace> Places(const ForecastContext& context, const Forecast& forecast) {
    return PlacesOf(context.cluster, context.costs.fabric(), forecast.program.plan);
  }

  // Changes that make the plan fit the devices. If it fits, another rank order that is faster.
  std::vector<Advice> AdviceFor(const ForecastContext& context, const Forecast& forecast) const {
    const Plan& plan = forecast.program.plan;
    if (FitsDevice()) return FasterOrder(context, forecast);
    return AdviseToFit(context.model, context.costs, SpaceOfPlan(plan), plan.World(), device_bytes_,
                       HostShareOf(context.cluster, context.costs.profile().system),
                       HardwareThreads());
  }

  static std::vector<Advice> FasterOrder(const ForecastContext& context, const Forecast& forecast) {
    const Plan& plan = forecast.program.plan;
    if (context.cluster.is_cpu) return {};
    const RankOrderChoice best = FastestRankOrder(context.model, context.costs, plan);
    if (best.step_s > best.given_step_s * (1 - kBetterOrder)) return {};
    const double step_s = forecast.simulation.step_s * best.step_s / best.given_step_s;
    const std::string order(NameOfRankOrder(best.plan.rank_order));
    return {{"--rank-order " + order, Describe(best.plan), step_s, best.bytes}};
  }

  // Fills in the device memory of each stage's first rank, and the memory of a node's host.
  void FindMemory(const ForecastContext& context, const Forecast& forecast) {
    const Plan& plan = forecast.program.plan;
    const SystemOptions& system = context.costs.profile().system;
    device_bytes_ = context.cluster.device.memory_bytes;
    for (std::size_t i = 0; i < forecast.memory.size(); ++i) {
      const RankProgram& rank = forecast.program.ranks[i];
      const PeakMemory& peak = forecast.memory[i];
      const HostMemory host =
          HostMemoryOf(context.model, forecast.program, rank, context.cluster, system);
      // The host must hold the rank that needs most, on each of its devices.
      if (i == 0 || host.InStep() > host_.rank.InStep()) host_.rank = host;
      // Ranks of a stage hold the same, up to padding.
      if (!rank.Coordinates().FirstOfStage()) continue;
      const DeviceUse memory =
          DeviceUseOf(context.model, forecast.program, rank, peak.total, context.cluster, system);
      fullest_bytes_ = std::max(fullest_bytes_, memory.Total());
      peaks_.push_back({"stage " + std::to_string(rank.pp), peak, OutsideOf(memory, system)});
    }
    host_.ranks = std::min(context.cluster.devices_per_node, plan.World());
    host_.has = context.cluster.host_memory_bytes;
    // On CPUs, devices use the host's memory.
    if (context.cluster.is_cpu)
      host_.has = std::max<std::int64_t>(1, host_.has - host_.ranks * fullest_bytes_);
  }

  // From the answer to its limits: step, interval, memory, timeline. Below follow the reasons why
  // it does not fit and what would.
  void Print(const ForecastContext& context, const Forecast& forecast, const Metrics& metrics,
             RunId run) const {
    const Plan& plan = forecast.program.plan;
    std::fputs(dialect_.AccountText().c_str(), stdout);
    std::printf("%s, %s on %s\nrates: %s\n", context.model.name.c_str(),
                foretrain::Describe(plan).c_str(), context.cluster.name.c_str(),
                context.profile_origin.c_str());
    if (!context.cluster.assumptions.empty()) {
      std::printf("assumed: %s\n", context.cluster.assumptions.c_str());
    }
    if (!defaults_.empty()) std::printf("defaults: %s\n", defaults_.c_str());
    if (const std::string unused = UnusedDevicesText(plan, context.cluster); !unused.empty()) {
      std::printf("%s\n", unused.c_str());
    }
    std::printf("rank order %s, placement: %s\n\n",
                std::string(NameOfRankOrder(plan.rank_order)).c_str(),
                foretrain::Describe(Places(context, forecast)).c_str());
    const DeviceRates rates = DeviceRatesOf(context, plan, metrics.overall->time_s);
    std::fputs(StepText(*metrics.overall, /*spans=*/true, DeviceRatesText(rates)).c_str(), stdout);
    const ForecastInterval interval = forecast.Interval();
    std::fputs(MetricLine("step time, low to high",
                          FormatSeconds(interval.low_s) + " to " + FormatSeconds(interval.high_s))
                   .c_str(),
               stdout);
    std::printf("%s\n",
                ParametersText(CountParameters(context.model, forecast.program.plan)).c_str());
    std::fputs(MemoryText(peaks_).c_str(), stdout);
    std::printf("\n%s\n", HostText(host_).c_str());
    std::fputs(MetricLine("a checkpoint", DescribeCost(CheckpointCostIn(context, plan))).c_str(),
               stdout);
    if (goodput_.mtbf_s > 0) {
      std::fputs(MetricLine("goodput", DescribeGoodput(GoodputIn(context, forecast))).c_str(),
                 stdout);
    }
    const CopiedBytes moved = OffloadStatsOf(forecast.program).moved;
    if (const std::string text = MovedText(moved); !text.empty()) std::printf("%s\n", text.c_str());
    std::printf("  what lies outside the program comes from\n%s\n", OutsideSources(peaks_).c_str());
    std::fputs(
        TimelineText(forecast.simulation.timeline, metrics.overall->step, kTimelineWidth).c_str(),
        stdout);
    if (!host_.fits()) {
      std::printf(
          "\nIt does not fit: %d ranks of a node take %s of its memory, and it has %s. Offload "
          "less, "
          "or to nvme.\n",
          host_.ranks, FormatBytes(host_.node().Peak()).c_str(), FormatBytes(host_.has).c_str());
    }
    if (!FitsDevice()) {
      std::printf("\nIt does not fit: a rank takes %s of a device that has %s.%s\n",
                  FormatBytes(fullest_bytes_).c_str(), FormatBytes(device_bytes_).c_str(),
                  AdviceText(AdviceFor(context, forecast)).c_str());
    } else {
      for (const Advice& advice : AdviceFor(context, forecast)) {
        std::printf("\nFaster placement: %s, step time about %s\n", advice.change.c_str(),
                    FormatSeconds(advice.step_s).c_str());
      }
    }
    if (const std::string part = WhyNotExecuted(context.model); !part.empty()) {
      std::printf("\nForecast only: no kernel computes %s of this model yet.\n", part.c_str());
    }
    dialect_.PrintEmitted(emitted_, !out_.empty());
    if (run != 0) std::printf("\nstored as run %lld\n", static_cast<long long>(run));
  }

  // `advice` is empty if the plan fits.
  void PrintJson(const ForecastContext& context, const Forecast& forecast, const Metrics& metrics,
                 RunId run) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("plan", foretrain::Describe(forecast.program.plan));
    WriteMetrics(json, *metrics.overall, peaks_);
    json.Name("options");
    WriteJson(json, forecast.program.plan, WrittenFields::kAll);
    WriteDeviceRates(json, DeviceRatesOf(context, forecast.program.plan, metrics.overall->time_s));
    json.Field("devices", forecast.program.plan.World());
    json.Field("cluster_devices", context.cluster.Devices());
    WriteParameters(json, CountParameters(context.model, forecast.program.plan));
    WriteHost(json, host_);
    WriteCost(json, "checkpoint", CheckpointCostIn(context, forecast.program.plan));
    if (goodput_.mtbf_s > 0) WriteGoodput(json, GoodputIn(context, forecast));
    WriteMoved(json, OffloadStatsOf(forecast.program).moved);
    const ForecastInterval interval = forecast.Interval();
    json.Field("step_time_low_s", interval.low_s).Field("step_time_high_s", interval.high_s);
    json.Field("relative_error", forecast.relative_error).Field("fits", Fits());
    json.Field("forecast_only", WhyNotExecuted(context.model));
    json.Field("rates", context.profile_origin).Field("assumed", context.cluster.assumptions);
    json.Field("defaults", defaults_);
    json.Field("rank_order", NameOfRankOrder(forecast.program.plan.rank_order));
    json.Name("placement").BeginArray();
    for (const DegreePlace& place : Places(context, forecast)) {
      json.BeginObject().Field("degree", place.degree).Field("ranks", place.ranks);
      json.Field("tier", place.tier).Field("nodes", place.place.nodes);
      json.Field("bytes_per_s", place.bytes_per_s).EndObject();
    }
    json.EndArray().Name("suggestions").BeginArray();
    for (const Advice& advice : AdviceFor(context, forecast)) {
      json.BeginObject().Field("change", advice.change).Field("plan", advice.plan);
      json.Field("step_time_s", advice.step_s);
      json.Field("device_memory_gib", GibFromBytes(advice.bytes)).EndObject();
    }
    json.EndArray().Field("run", run);
    dialect_.WriteAccount(json);
    dialect_.WriteEmitted(json, emitted_);
    std::puts(json.EndObject().Take().c_str());
  }

  ModelFlags model_;
  GoodputFlags goodput_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  DialectFlags::Emitted emitted_;
  std::vector<NamedPeak> peaks_;
  HostView host_;
  std::int64_t fullest_bytes_ = 0, device_bytes_ = 0;
  std::string store_, explain_, out_;
  std::string defaults_;  // the plan's values that nothing gave, for people
  DocumentTokens document_tokens_;
  bool listing_ = false;
  bool ops_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePredict() { return std::make_unique<Predict>(); }

}  // namespace foretrain
