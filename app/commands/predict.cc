#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/commands/commands.h"
#include "app/forecasting.h"
#include "app/report.h"
#include "app/stored_runs.h"
#include "base/json.h"
#include "base/units.h"
#include "sim/cost/plan_place.h"
#include "sim/memory/device_overhead.h"
#include "sim/memory/reserved_peak.h"
#include "sim/search/forecast_interval.h"

namespace foretrain {
namespace {

constexpr int kTimelineWidth = 96;

class Predict final : public Command {
 public:
  std::string_view Name() const override { return "predict"; }
  std::string_view Summary() const override { return "Forecast one plan: time, memory, timeline"; }

  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    arguments.Section("Output");
    arguments.Option("--store", store_, "FILE", "Keep the forecast as a run in this store");
    arguments.Flag("--program", listing_,
                   "Print the program of each rank, instruction by instruction");
    arguments.Flag("--ops", ops_,
                   "With --program: print each op with its queue, tensors and edges");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain predict --model gpt2-124m --pp 2 --global-batch 8 --store foretrain.db");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(preset_, plan_.ResolvePreset());
    FT_ASSIGN(const ForecastContext context, MakeContext(model_, cluster_, preset_));
    FT_ASSIGN(const Plan plan, PlanOf(plan_, context.model, context.cluster.Devices()));
    SimulateOptions options;
    options.last_step = store_.empty();
    FT_ASSIGN(const Forecast forecast,
              MakeForecast(context.model, plan, context.costs,
                           context.cluster.is_cpu ? RankChoice::kAll : RankChoice::kClasses,
                           options));
    if (listing_) {
      for (int rank = 0; rank < static_cast<int>(forecast.program.ranks.size()); ++rank) {
        std::fputs(Listing(forecast.program, rank, ops_).c_str(), stdout);
      }
      return Exit::kDone;
    }
    const Metrics metrics = ForecastMetrics(context, forecast);
    RunId run = 0;
    if (!store_.empty()) {
      FT_ASSIGN(const auto store, Store::Open(store_));
      FT_ASSIGN(run, StoreForecast(*store, context, forecast, metrics));
      FT_TRY(store->Close());
    }
    json_ ? PrintJson(context, forecast, metrics, run) : Print(context, forecast, metrics, run);
    return Fits(context, forecast) ? Exit::kDone : Exit::kNo;
  }

 private:
  static bool FitsDevice(const ForecastContext& context, const Forecast& forecast) {
    return std::all_of(forecast.memory.begin(), forecast.memory.end(), [&](const auto& peak) {
      return peak.total <= context.cluster.device.memory_bytes;
    });
  }

  // What the ranks of a node keep in its memory, all as much as the fullest. On a CPU devices lie
  // in it too and are counted as such.
  static std::int64_t HostBytes(const ForecastContext& context, const Forecast& forecast) {
    const auto& peaks = OffloadFiguresOf(forecast.program).peak_bytes;
    const int ranks = std::min(context.cluster.devices_per_node, forecast.program.plan.World());
    return ranks * (peaks[static_cast<std::size_t>(Space::kHost)] +
                    peaks[static_cast<std::size_t>(Space::kPinned)]);
  }

  static bool FitsHost(const ForecastContext& context, const Forecast& forecast) {
    const std::int64_t has = context.cluster.host_memory_bytes;
    return context.cluster.is_cpu || has == 0 || HostBytes(context, forecast) <= has;
  }

  static bool Fits(const ForecastContext& context, const Forecast& forecast) {
    return FitsDevice(context, forecast) && FitsHost(context, forecast);
  }

  static std::vector<DegreePlace> Places(const ForecastContext& context, const Forecast& forecast) {
    return PlacesOf(context.cluster, context.costs.fabric(), forecast.program.plan);
  }

  // What the allocator holds beside what is in use: gaps between buffers of the arena or, of a
  // preset with a caching allocator, its segments.
  std::int64_t HeldUnused(const RankProgram& rank, const Plan& plan, const ForecastContext& context,
                          std::int64_t used) const {
    if (preset_ && preset_->system.caching_allocator) {
      const std::int64_t reserved =
          PredictReserved(context.model, plan, rank.Coordinates(), preset_->system, 0).reserved;
      return std::max<std::int64_t>(0, reserved - used);
    }
    return rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)] - used;
  }

  std::vector<NamedPeak> Peaks(const ForecastContext& context, const Forecast& forecast) const {
    const Plan& plan = forecast.program.plan;
    const DeviceOverhead outside = DeviceOverheadOf(
        context.cluster, plan, preset_ ? preset_->system.own_communicators : 0, /*profiled=*/false);
    std::vector<NamedPeak> peaks;
    for (std::size_t i = 0; i < forecast.memory.size(); ++i) {
      const RankProgram& rank = forecast.program.ranks[i];
      if (!rank.Coordinates().FirstOfStage()) continue;
      const PeakMemory& peak = forecast.memory[i];
      peaks.push_back({"stage " + std::to_string(rank.pp),
                       peak,
                       {{"held by the allocator", HeldUnused(rank, plan, context, peak.total)},
                        {"device context", outside.context},
                        {"communicators", outside.communicators},
                        {"library workspaces", outside.workspaces}}});
    }
    return peaks;
  }

  void Print(const ForecastContext& context, const Forecast& forecast, const Metrics& metrics,
             RunId run) const {
    const Plan& plan = forecast.program.plan;
    std::printf("%s, %s on %s\nrates: %s\n", context.model.name.c_str(),
                foretrain::Describe(plan).c_str(), context.cluster.name.c_str(),
                context.profile_origin.c_str());
    if (!context.cluster.assumptions.empty()) {
      std::printf("assumed: %s\n", context.cluster.assumptions.c_str());
    }
    std::printf("placement %s: %s\n\n", std::string(NameOfRankOrder(plan.rank_order)).c_str(),
                foretrain::Describe(Places(context, forecast)).c_str());
    std::fputs(StepText(*metrics.overall).c_str(), stdout);
    const ForecastInterval interval = ForecastIntervalOf(forecast.simulation.step_s, forecast.relative_error);
    std::fputs(ParametersText(CountParameters(context.model, forecast.program.plan)).c_str(),
               stdout);
    std::printf("%s\n",
                FigureLine("90 % interval", FormatSeconds(interval.low_s) + " to " +
                                                            FormatSeconds(interval.high_s))
                    .c_str());
    std::fputs(MemoryText(Peaks(context, forecast)).c_str(), stdout);
    std::fputs(OffloadText(OffloadFiguresOf(forecast.program)).c_str(), stdout);
    std::puts("");
    std::fputs(
        TimelineText(forecast.simulation.timeline, metrics.overall->step, kTimelineWidth).c_str(),
        stdout);
    if (!FitsHost(context, forecast)) {
      std::printf(
          "\nIt does not fit: the ranks of a node keep %s in its memory, which has %s. Offload "
          "less, "
          "or to nvme.\n",
          FormatBytes(HostBytes(context, forecast)).c_str(),
          FormatBytes(context.cluster.host_memory_bytes).c_str());
    }
    if (!FitsDevice(context, forecast)) {
      std::printf(
          "\nIt does not fit: a device has %s. Try a smaller --micro-batch, --zero 1 or "
          "--recompute full.\n",
          FormatBytes(context.cluster.device.memory_bytes).c_str());
    }
    if (const std::string part = WhyNotExecuted(context.model); !part.empty()) {
      std::printf("\nA forecast alone: no kernel computes %s of this model yet.\n", part.c_str());
    }
    if (run != 0) std::printf("\nstored as run %lld\n", static_cast<long long>(run));
  }

  void PrintJson(const ForecastContext& context, const Forecast& forecast, const Metrics& metrics,
                 RunId run) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("plan", foretrain::Describe(forecast.program.plan));
    WriteFigures(json, *metrics.overall, Peaks(context, forecast));
    WriteParameters(json, CountParameters(context.model, forecast.program.plan));
    WriteOffload(json, OffloadFiguresOf(forecast.program));
    const ForecastInterval interval = ForecastIntervalOf(forecast.simulation.step_s, forecast.relative_error);
    json.Field("low", interval.low_s).Field("high", interval.high_s);
    json.Field("relative_error", forecast.relative_error).Field("fits", Fits(context, forecast));
    json.Field("forecast_alone", WhyNotExecuted(context.model));
    json.Field("rates", context.profile_origin).Field("assumed", context.cluster.assumptions);
    json.Field("rank_order", NameOfRankOrder(forecast.program.plan.rank_order));
    json.Name("placement").BeginArray();
    for (const DegreePlace& place : Places(context, forecast)) {
      json.BeginObject().Field("degree", place.degree).Field("ranks", place.ranks);
      json.Field("tier", place.tier).Field("nodes", place.place.nodes);
      json.Field("bytes_per_s", place.bytes_per_s).EndObject();
    }
    json.EndArray().Field("run", run);
    std::puts(json.EndObject().Take().c_str());
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  std::optional<Preset> preset_;
  std::string store_;
  bool listing_ = false;
  bool ops_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePredict() { return std::make_unique<Predict>(); }

}  // namespace foretrain
