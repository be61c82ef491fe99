#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "app/attention_flag.h"
#include "app/capture_flags.h"
#include "app/commands/commands.h"
#include "app/device_choice.h"
#include "app/graphs_flag.h"
#include "app/local_gpu.h"
#include "app/report.h"
#include "app/stop_signal.h"
#include "app/training.h"
#include "base/json.h"
#include "base/units.h"
#include "runtime/executor/placement.h"
#include "sim/program/rank_order.h"

namespace foretrain {
namespace {

class TrainCommand final : public Command {
 public:
  std::string_view Name() const override { return "train"; }
  std::string_view Summary() const override { return "Run a plan on real data and record it"; }

  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    arguments.Section("Training");
    arguments.Option("--data", options_.data, "FILE",
                     "A text (one token a byte) or a shard of 16-bit tokens");
    arguments.Option("--init", options_.init, "FILE", "Start from these safetensors weights");
    arguments.Option("--steps", options_.steps, "N", "Steps to run");
    arguments.Option("--lr", options_.learning_rate.peak, "RATE", "Peak learning rate of AdamW");
    arguments.Option("--warmup", options_.learning_rate.warmup, "N",
                     "Steps over which the rate rises");
    arguments.Flag("--cosine", options_.learning_rate.cosine,
                   "Let the rate fall to a tenth over the steps");
    arguments.Option("--seed", seed_, "N", "Seed of the weights");
    arguments.Option("--timeout", timeout_, "TIME",
                     "How long a rank waits for its peers before the run fails");
    arguments.Option("--budget", budget_, "SIZE", "Memory of each rank; a plan over it is refused");
    device_.Declare(arguments);
    arguments.Option("--sm-share", sm_share_, "N",
                     "Multiprocessors of the device that each rank has for itself");
    graphs_.Declare(arguments);
    attention_.Declare(arguments);
    arguments.Flag("--virtual-time", options_.virtual_time,
                   "Ranks compute one at a time; adds the step of a device each, emulated: "
                   "measured compute, modelled network");
    arguments.Flag("--pin", options_.pin,
                   "Keep each rank on cores of its own, neighbours by --rank-order side by side");
    arguments.Option("--nvme", options_.nvme_folder, "DIR",
                     "Folder on the disk of what is offloaded to nvme");
    arguments.Option("--cap-copy", cap_copy_, "RATE",
                     "Copies between host and device take at least this long, e.g. 2GB/s");
    arguments.Option("--cap-nvme", cap_nvme_, "RATE", "The same for reads and writes of the disk");
    arguments.Section("Output");
    arguments.Option("--store", store_, "FILE", "Store that the run is recorded in");
    capture_.Declare(arguments);
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain train --data book.txt --dp 2 --steps 50\n"
        "  mpirun -n 2 foretrain train --data book.txt --dp 2   a process a rank; so does "
        "torchrun\n"
        "Ctrl-C ends the run at a step boundary and keeps what there is; a second one ends it at "
        "once.\n"
        "Exit codes: 0 done, 1 does not fit, 2 bad input, 3 a rank or the store failed, 130 and "
        "143 "
        "stopped\nby Ctrl-C or SIGTERM. `foretrain runs` shows how a run ended.");
  }

  Result<Exit> Run() override {
    if (options_.data.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "--data: give a text or a token shard to train on");
    }
    if (options_.steps < 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--steps: " + std::to_string(options_.steps) + " is below 1");
    }
    FT_TRY(CheckNumbers());
    FT_TRY(ChooseGraphs());
    FT_ASSIGN(const DeviceChoice device, device_.Choose());
    options_.device = device.api;
    FT_ASSIGN(options_.capture, capture_.Level());
    if (options_.virtual_time && options_.capture == CaptureLevel::kOff) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--virtual-time: it emulates from what is recorded; leave --capture off out");
    }
    FT_ASSIGN(const LaunchedRank launched, ReadLaunchedRank(&Variable));
    if (launched.world > 1 && cluster_.ranks == 0) cluster_.ranks = launched.world;
    FT_ASSIGN(const ForecastContext context,
              device_.IsCuda() ? MakeGpuContext(model_, cluster_) : MakeContext(model_, cluster_));
    if (!context.cluster.is_cpu && !device_.IsCuda()) {
      return Fail(ErrorCode::kUnsupported,
                  "--cluster: training runs on this machine; use --cluster local --ranks N");
    }
    FT_ASSIGN(const Plan plan, PlanOf(plan_, context.model, context.cluster.Devices()));
    FT_ASSIGN(options_.window, capture_.Window(options_.steps, plan.World()));
    if (sm_share_ < 0 || sm_share_ > 10000) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--sm-share: " + std::to_string(sm_share_) + " is outside 0 to 10000");
    }
    options_.sm_share = static_cast<int>(sm_share_);
    if (!budget_.empty()) {
      FT_ASSIGN(options_.budget_bytes, ParseBytes("--budget", budget_));
    }
    if (!cap_copy_.empty()) {
      FT_ASSIGN(options_.cap_copy_bytes_per_s, ParseBytesPerSecond("--cap-copy", cap_copy_));
    }
    if (!cap_nvme_.empty()) {
      FT_ASSIGN(options_.cap_nvme_bytes_per_s, ParseBytesPerSecond("--cap-nvme", cap_nvme_));
    }
    FT_ASSIGN(const double timeout_s, ParseSeconds("--timeout", timeout_));
    if (timeout_s < 1e-3 || timeout_s > 1e6) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--timeout: \"" + timeout_ + "\" is outside 1 ms to 1000000 s");
    }
    options_.timeout_ns = NsFromSeconds(timeout_s);
    options_.seed = static_cast<std::uint64_t>(seed_);
    options_.json_lines = json_;
    options_.learning_rate.steps = options_.steps;
    const bool share = options_.sm_share > 0 || options_.virtual_time;
    if (launched.world > 1) {
      FT_ASSIGN(options_.ranks,
                PlaceLaunchedRank(plan, device, share, launched, options_.timeout_ns));
    } else {
      FT_ASSIGN(options_.ranks, PlaceRanks(plan, device, share));
    }
    auto end = options_.ranks.IsMember() ? RunMember(context, plan) : RunHere(context, plan);
    if (options_.ranks.processes != nullptr && !end.has_value()) {
      options_.ranks.processes->TellFailure(end.error());
    }
    return end;
  }

 private:
  static const char* Variable(const char* name) { return std::getenv(name); }

  // A process whose run rank 0's records and shows.
  Result<Exit> RunMember(const ForecastContext& context, const Plan& plan) {
    FT_TRY(TrainAsMember(context, plan, options_));
    return StopSignal() != 0 ? ExitOfSignal(StopSignal()) : Exit::kDone;
  }

  Result<Exit> RunHere(const ForecastContext& context, const Plan& plan) {
    if (!json_) {
      std::printf("%s, %s on %s\nrates: %s\n", context.model.name.c_str(),
                  foretrain::Describe(plan).c_str(), context.cluster.name.c_str(),
                  context.profile_origin.c_str());
      PrintPlacement(plan);
    }
    FT_ASSIGN(const auto store, Store::Open(store_));
    FT_ASSIGN(const TrainingResult result, RunTraining(*store, context, plan, options_));
    FT_TRY(store->Close());
    const ParameterCounts counts = CountParameters(context.model, plan);
    json_ ? PrintJson(plan, result, counts) : Print(result, counts);
    if (!result.summary.stopped) return Exit::kDone;
    std::fprintf(stderr, "foretrain: stopped; %lld of %lld steps are stored as run %lld in %s\n",
                 static_cast<long long>(result.summary.steps),
                 static_cast<long long>(options_.steps), static_cast<long long>(result.run),
                 store_.c_str());
    return ExitOfSignal(StopSignal());
  }

  // Which ranks stand together, by the number of the slot that each has.
  void PrintPlacement(const Plan& plan) const {
    if (!options_.ranks.text.empty()) std::printf("ranks: %s\n", options_.ranks.text.c_str());
    const std::string groups = DescribeGroups(plan);
    if (groups.empty()) return;
    std::printf("placement %s: slots %s%s\n", std::string(NameOfRankOrder(plan.rank_order)).c_str(),
                groups.c_str(), options_.pin ? ", each on its cores" : "");
  }

  Result<void> ChooseGraphs() {
    FT_ASSIGN(options_.graphs, graphs_.IsOn());
    FT_ASSIGN(options_.attention, attention_.Choice());
    cluster_.cuda_graphs = options_.graphs;
    if (options_.graphs && options_.virtual_time) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--cuda-graphs: --virtual-time measures op by op; leave one of the two out");
    }
    return {};
  }

  Result<void> CheckNumbers() const {
    const LearningRate& rate = options_.learning_rate;
    if (!std::isfinite(rate.peak) || rate.peak < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--lr: {} is no rate; give 0 or more, e.g. 3e-4", rate.peak));
    }
    if (rate.warmup < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--warmup: " + std::to_string(rate.warmup) + " is below 0");
    }
    if (seed_ < 0) {
      return Fail(ErrorCode::kInvalidArgument, "--seed: " + std::to_string(seed_) + " is below 0");
    }
    return {};
  }

  // What recording cost, where anything was recorded.
  std::string RecordingText(const CaptureCost& cost) const {
    if (options_.capture == CaptureLevel::kOff) return "";
    std::string text = FormatPercent(cost.share) + " of the threads' time";
    if (cost.recorded_step_s) {
      text += ", steps with it " + FormatSeconds(*cost.recorded_step_s) + ", without " +
              FormatSeconds(*cost.unrecorded_step_s);
    }
    return FigureLine("recording", text);
  }

  // What graphs were made, where they were asked for.
  std::string GraphsText(const GraphUse& use) const {
    if (!options_.graphs) return "";
    if (use.launches == 0 && use.refused == 0) {
      return FigureLine("graphs",
                        "none: a step whose ops the host times runs op by op, as the first one "
                        "does; --capture off, or full where the GPU's own recording works");
    }
    std::string text = std::to_string(use.made) + " made, " + std::to_string(use.launches) +
                       " launches of " + std::to_string(use.ops) + " ops";
    if (use.refused > 0) {
      text += "; " + std::to_string(use.refused) + " not made: " + use.why_refused;
    }
    return FigureLine("graphs", text);
  }

  void Print(const TrainingResult& result, const ParameterCounts& counts) const {
    const std::int64_t steps = result.summary.steps;
    std::printf("\n%lld step%s", static_cast<long long>(steps), steps == 1 ? "" : "s");
    if (steps > 0) std::printf(", loss %.4f -> %.4f", result.first_loss, result.last_loss);
    std::puts(result.summary.stopped ? " (stopped)" : "");
    if (result.metrics.overall)
      std::fputs(StepText(*result.metrics.overall, options_.capture != CaptureLevel::kOff).c_str(),
                 stdout);
    std::fputs(ParametersText(counts).c_str(), stdout);
    const std::string growth = FormatBytes(result.summary.resident_growth_bytes);
    std::fputs(FigureLine("memory of all ranks", growth).c_str(), stdout);
    std::fputs(FigureLine("predicted", FormatBytes(result.predicted_bytes)).c_str(), stdout);
    std::fputs(OffloadText(result.offload).c_str(), stdout);
    std::fputs(GraphsText(result.summary.graphs).c_str(), stdout);
    std::fputs(RecordingText(result.capture_cost).c_str(), stdout);
    if (result.emulated.run != 0) {
      std::fputs(FigureLine("step, emulated", FormatSeconds(result.emulated.step_s) +
                                                  " with a device a rank: compute as measured "
                                                  "alone, network modelled; run " +
                                                  std::to_string(result.emulated.run))
                     .c_str(),
                 stdout);
    }
    std::printf(
        "\nrecorded as run %lld in %s, its forecast is run %lld\n  foretrain compare --store %s "
        "--run %lld\n",
        static_cast<long long>(result.run), store_.c_str(), static_cast<long long>(result.forecast),
        store_.c_str(), static_cast<long long>(result.run));
  }

  static void WriteGraphs(JsonWriter& json, const GraphUse& use) {
    json.Name("graphs").BeginObject().Field("made", use.made).Field("launches", use.launches);
    json.Field("ops", use.ops).Field("refused", use.refused).EndObject();
  }

  void PrintJson(const Plan& plan, const TrainingResult& result,
                 const ParameterCounts& counts) const {
    JsonWriter json;
    json.BeginObject()
        .Field("schema", 1)
        .Field("run", result.run)
        .Field("forecast", result.forecast);
    json.Field("steps", result.summary.steps).Field("loss", result.last_loss);
    json.Field("rank_order", NameOfRankOrder(plan.rank_order)).Name("slots").BeginArray();
    for (int rank = 0; rank < plan.World(); ++rank) json.Integer(DeviceOf(plan, rank));
    json.EndArray();
    std::int64_t most = 0;
    for (const std::int64_t bytes : result.summary.peak_bytes) most = std::max(most, bytes);
    json.Field("peak_memory_gib", GibFromBytes(most));
    json.Field("predicted_bytes", result.predicted_bytes);
    WriteParameters(json, counts);
    WriteOffload(json, result.offload);
    json.Field("resident_growth_bytes", result.summary.resident_growth_bytes);
    if (options_.graphs) WriteGraphs(json, result.summary.graphs);
    if (result.emulated.run != 0) {
      json.Name("emulated").BeginObject().Field("run", result.emulated.run);
      json.Field("step_time_s", result.emulated.step_s).Field("covered", result.emulated.covered);
      json.EndObject();
    }
    if (result.metrics.overall) {
      json.Field("step_time_s", result.metrics.overall->time_s);
      json.Field("tokens_per_s", result.metrics.overall->tokens_per_s.value_or(0));
    }
    json.Field("recording_share", result.capture_cost.share);
    if (result.capture_cost.recorded_step_s) {
      json.Field("recorded_step_s", *result.capture_cost.recorded_step_s);
      json.Field("unrecorded_step_s", *result.capture_cost.unrecorded_step_s);
    }
    std::puts(json.Field("stopped", result.summary.stopped).EndObject().Take().c_str());
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  TrainingOptions options_;
  DeviceFlag device_;
  GraphsFlag graphs_;
  AttentionFlag attention_;
  std::string store_ = kDefaultStore;
  std::int64_t sm_share_ = 0;
  std::string budget_;
  std::string cap_copy_;
  std::string cap_nvme_;
  CaptureFlags capture_;
  std::string timeout_ = "10min";
  std::int64_t seed_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeTrain() { return std::make_unique<TrainCommand>(); }

}  // namespace foretrain
