#include "app/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "app/cli/stop_signal.h"
#include "app/report/checkpoint_report.h"
#include "app/training/evaluation/evaluations.h"
#include "app/training/evaluation/training_data.h"
#include "app/training/training_job.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/calibrate/reference_gemm.h"
#include "runtime/device/attention_kernels.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/gemm_algorithms.h"
#include "runtime/device/resident_memory.h"
#include "sim/compare/emulate.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/memory/host_memory.h"
#include "sim/search/advice/advice.h"

namespace foretrain {
namespace {

constexpr int kMaxAdvice = 2;

// Adds to an error about memory the kMaxAdvice changes of `plan` that fit in `memory_bytes` a rank
// and cost the least time by the forecast. Returns other errors unchanged, and every error if
// nothing fits or memory_bytes <= 0. Takes up to some seconds for large models.
Error WithAdvice(Error error, const ForecastContext& context, const Plan& plan,
                 std::int64_t memory_bytes) {
  const bool of_memory =
      error.code == ErrorCode::kInfeasible || error.code == ErrorCode::kResourceExhausted;
  if (!of_memory || memory_bytes <= 0) return error;
  SearchSpace space;
  space.base = plan;
  const std::vector<Advice> advice =
      AdviseToFit(context.model, context.costs, space, plan.World(), memory_bytes,
                  HostShareOf(context.cluster, context.costs.profile().system), /*threads=*/1);
  int told = 0;
  for (const Advice& one : advice) {
    if (told == kMaxAdvice) break;
    error.message += (told++ == 0 ? ". What would fit: " : ", or ") + one.change + " (" +
                     FormatBytes(one.bytes) + " a rank, step " + FormatSeconds(one.step_s) +
                     " by closed form)";
  }
  return error;
}

// Plays `program` with the compute times of the measured run, each rank on a device of its own, and
// stores the timeline as a resimulated run. Errors: the store's, and those of EmulateRanks.
Result<EmulatedRun> StoreEmulated(Store& store, const ForecastContext& context,
                                  const Program& program, RunId measured, std::int64_t first_step) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(store.path(), {.max_checked_bytes = 0}));
  FT_ASSIGN(const StoredRun run, reader.LoadRun(measured));
  FT_ASSIGN(const ProgramCosts costs, context.costs.CostsOf(program));
  // The first step warms up, unless it is the only one.
  const auto from =
      static_cast<int>(std::min<std::int64_t>(run.info.last_step.value_or(0), first_step + 1));
  SimulateOptions options;
  options.last_step = true;
  FT_ASSIGN(Emulation emulation, EmulateRanks(program, costs, run.timeline, from, options));
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

// The names are those that docs/store.md lists.
std::vector<MetricValue> MetricsOf(const CaptureCost& cost) {
  std::vector<MetricValue> metrics{{.name = "recording_share", .value = cost.share}};
  if (cost.recorded_step_s) {
    metrics.push_back({.name = "recorded_step_s", .value = *cost.recorded_step_s});
    metrics.push_back({.name = "unrecorded_step_s", .value = *cost.unrecorded_step_s});
  }
  return metrics;
}

// Says on stderr which of the device's libraries this run cannot use as forecasts assume. If
// the options ask for such a library by name, the run fails instead.
void WarnOfUnusedLibraries(const FtDeviceApi& device, const DeviceProfile& profile,
                           AttentionChoice attention, const Plan& plan) {
  std::string of_attention =
      attention == AttentionChoice::kAuto ? WhyLibraryNotUsed(device, attention) : "";
  if (!of_attention.empty()) of_attention += "; foretrain's own kernels compute it";
  std::string of_blocks;
  if (plan.precision == Precision::kFp8Block) {
    const auto driver = AskCudaDriver();
    const bool has_gpu = driver.has_value() && !driver->gpus.empty();
    const GpuFacts gpu = has_gpu ? driver->gpus.front() : GpuFacts{};
    of_blocks = WhyNoLibraryBlocks(device, gpu.capability_major * 10 + gpu.capability_minor);
  }
  for (const std::string& why :
       {WhyNotUsed(device, profile.gemm_algorithms), of_attention, of_blocks}) {
    if (!why.empty()) std::fprintf(stderr, "foretrain: %s\n", why.c_str());
  }
}

// The speed of the machine around a run, relative to its profile. Known only on the CPU, which has
// a reference in the profile, and only if all ranks are in this process.
class Drift {
 public:
  Drift(const DeviceProfile& profile, const TrainingOptions& options, int ranks)
      : profile_(profile),
        ranks_(ranks),
        known_(&DeviceOf(options) == &CpuDeviceApi() && options.ranks.processes == nullptr &&
               ReferenceSeconds(profile, ranks) > 0) {}

  bool known() const { return known_; }
  Result<void> MeasureBefore(RunClock& clock) {
    if (!known_) return {};
    FT_ASSIGN(before_, MeasureDrift(CpuDeviceApi(), 0, clock, profile_, ranks_));
    return {};
  }
  // The mean of before and now.
  Result<double> MeasureAfter(RunClock& clock) const {
    FT_ASSIGN(const double after, MeasureDrift(CpuDeviceApi(), 0, clock, profile_, ranks_));
    return (before_ + after) / 2;
  }

 private:
  const DeviceProfile& profile_;
  int ranks_;
  bool known_;
  double before_ = 1.0;
};

// The result of a run that ended well, without its metrics. Peaks are the maximum over ranks.
TrainingResult ResultOf(const Program& program, const RunSummary& summary,
                        const RecordingSink& sink) {
  TrainingResult result;
  result.summary = summary;
  result.offload.moved = OffloadStatsOf(program).moved;
  for (const auto& peaks : summary.peak_by_space) {
    for (std::size_t space = 0; space < peaks.size(); ++space) {
      std::int64_t& max = result.offload.peak_bytes[space];
      max = std::max(max, peaks[space]);
    }
  }
  result.first_loss = sink.first_loss();
  result.last_loss = sink.last_loss();
  result.evaluation_loss = sink.evaluation_loss();
  result.capture_cost = sink.Cost(summary.recording);
  result.saves = sink.saves();
  return result;
}

// Whether the run's first step, which warms up, is recorded.
bool RecordsWarmUp(const TrainJob& job) {
  return job.executor.window.first_step <= job.executor.first_step;
}

Result<void> AddCounter(RunRecorder& recorder, const char* name, double value) {
  const Counter counter{name, -1, -1, 0, value};
  return recorder.AddCounters(std::span(&counter, 1));
}

// Trains and records everything but how the run ended. The order keeps a run useful if it stops
// early: names and profile are stored before the first step, metrics are computed from the store
// after the last.
Result<TrainingResult> TrainAndRecord(const std::string& store, const ForecastContext& context,
                                      TrainJob job, TokenData& data, const TrainingOptions& options,
                                      const StepForecast& predicted,
                                      std::unique_ptr<StepFiles> files, RunRecorder& recorder) {
  const Plan& plan = job.program->plan;
  const DeviceProfile& profile = context.costs.profile();
  const FtDeviceApi& device = DeviceOf(options);
  const bool records = options.capture != CaptureLevel::kOff;
  FT_TRY(recorder.AddOpNames(OpNamesOf(*job.program)));
  FT_TRY(recorder.Attach("device_profile", ProfileToJson(profile)));
  RealClock clock;
  Drift drift(profile, options, plan.World());
  FT_TRY(drift.MeasureBefore(clock));
  const CaptureWindow& window = job.executor.window;
  // The sink tells of a store that fails, so errors of the readings are dropped.
  const auto take = [&](std::vector<Counter> readings) { (void)recorder.AddCounters(readings); };
  job.capture =
      OpenCapture(device, *job.program, options.ranks.local, clock, options.capture, window,
                  CountersOf(options.ranks.local, window, options.counters_interval_ns, take));
  if (device.asynchronous != 0) {
    WarnOfUnusedLibraries(device, profile, job.executor.attention, plan);
  }
  RecordingSink sink(recorder, options, job.executor.first_step, predicted, std::move(files),
                     job.capture == nullptr ? std::vector<std::string>() : job.capture->Troubles());
  const auto monitor = !records ? nullptr : StartMonitor(device, options.ranks.local, clock, take);
  job.save.on_saved = [&sink](const SaveReport& report) { sink.OnSaved(report); };
  const auto summary =
      Train(job, device, clock, data, sink, [&] { return StopSignal() != 0 || sink.failed(); });
  if (monitor != nullptr) monitor->Stop();
  sink.End();
  // If the store failed, the ranks stopped because of it: its error is the cause.
  if (sink.failed()) return tl::unexpected<Error>(*sink.error());
  if (!summary.has_value()) return tl::unexpected<Error>(summary.error());
  TrainingResult result = ResultOf(*job.program, *summary, sink);
  if (sink.error()) {
    result.unrecorded = sink.error()->message;
    return result;
  }
  if (drift.known() && !summary->stopped) {
    FT_ASSIGN(result.machine_drift, drift.MeasureAfter(clock));
    FT_TRY(AddCounter(recorder, "machine_drift", result.machine_drift));
  }
  FT_ASSIGN(result.metrics,
            MetricsOfRecording(store, recorder,
                               MetricOptionsFor(context, plan, RecordsWarmUp(job) ? 1 : 0)));
  if (records) FT_TRY(recorder.AddMetrics(MetricsOf(result.capture_cost)));
  if (const auto cost = MeasuredCost(result.saves)) FT_TRY(recorder.AddMetrics(MetricsOf(*cost)));
  if (!job.save.saver.folder.empty()) {
    TrainingTime time = job.save.time;
    time.steps_ns += NsFromSeconds(summary->seconds);
    result.goodput = GoodputOf(time, SystemClock().RealtimeNs());
    FT_TRY(AddCounter(recorder, "goodput", result.goodput));
  }
  if (const std::int64_t growth = summary->resident_growth_bytes; growth > 0) {
    FT_TRY(AddCounter(recorder, "resident_growth_bytes", static_cast<double>(growth)));
  }
  FT_TRY(recorder.AddTotals({.overhead_ns = summary->recording.recording_ns}));
  return result;
}

// Bytes of all ranks' arenas in this machine's memory, with the gaps between their buffers.
std::int64_t ArenaBytes(const Program& program) {
  std::int64_t all = 0;
  for (const RankProgram& rank : program.ranks) {
    for (const Space space : {Space::kDevice, Space::kPinned, Space::kHost})
      all += rank.arena_bytes[static_cast<std::size_t>(space)];
  }
  return all;
}

// Device memory that one rank may use: its budget, or its share of the device's free bytes; 0 if
// unknown.
std::int64_t MemoryOfRank(const TrainingOptions& options, int ranks) {
  const std::int64_t budget_bytes = options.job.executor.budget_bytes;
  if (budget_bytes > 0) return budget_bytes;
  const FtDeviceApi& device = DeviceOf(options);
  const std::vector<LocalRank>& local = options.ranks.local;
  const int number = local.empty() ? 0 : local.front().device;
  FtMemory memory{};
  std::array<char, 256> why{};
  if (device.memory(number, &memory, why.data(), why.size()) != FT_OK) return 0;
  const auto on_it = std::count_if(local.begin(), local.end(),
                                   [&](const LocalRank& at) { return at.device == number; });
  return memory.free_bytes / (local.empty() ? ranks : on_it);
}

// A stopped run keeps its steps, says how many there are, and is interrupted. A run without a whole
// record says so, if the store can be written again: its error is known by then.
Result<void> FinishRun(RunRecorder& recorder, const TrainingOptions& options,
                       const TrainingResult& result) {
  const RunSummary& summary = result.summary;
  const RunStatus status = summary.stopped ? RunStatus::kInterrupted : RunStatus::kFinished;
  const std::string message =
      summary.stopped ? fmt::format("stopped by {} after {} of {} steps", NameOfStopSignal(),
                                    summary.steps, options.job.steps)
                      : "";
  if (result.unrecorded.empty()) return recorder.Finish(status, message);
  (void)recorder.Finish(status, message + (message.empty() ? "" : "; ") +
                                    "not all of it is recorded: " + result.unrecorded);
  return {};
}

// The forecast counts attention with documents as long as the data's.
Result<ForecastContext> WithDocuments(const ForecastContext& context, const Plan& plan,
                                      const TokenData& data) {
  ForecastContext counted = context;
  if (!plan.documents) return counted;
  FT_ASSIGN(const double tokens, data.MeanDocumentTokens());
  counted.costs.SetDocumentTokens(tokens);
  return counted;
}

}  // namespace

// A rank in another process than rank 0's. It compiles the program itself, and AgreeOnJob compares
// its hash with rank 0's before any step. Nothing is stored here: the recording goes to rank 0.
Result<bool> TrainAsMember(const ForecastContext& given, const Plan& plan,
                           const TrainingOptions& options) {
  FT_ASSIGN(const TrainingData data, OpenTrainingData(options, given.model, plan));
  FT_ASSIGN(const ForecastContext context, WithDocuments(given, plan, *data.training));
  FT_ASSIGN(TrainJob job, JobOf(context, plan, options));
  FT_ASSIGN(Forecast forecast, MakeForecast(context.model, plan, context.costs));
  FT_TRY(PrepareCheckpoints(options.checkpoints, forecast.program, data.training->Digest(),
                            forecast.simulation.step_s, job));
  FT_TRY(
      PrepareEvaluation(options.evaluation, context, data.evaluation.get(), forecast.program, job));
  job.program = std::make_shared<const Program>(std::move(forecast.program));
  FT_TRY(AgreeOnJob(*job.processes, job, options, *data.training, data.evaluation.get()));
  const StopSignals signals;
  RealClock clock;
  RunSink nobody;  // the recording goes to rank 0
  const FtDeviceApi& device = DeviceOf(options);
  const std::vector<LocalRank>& local = options.ranks.local;
  const auto take = [&job](std::vector<Counter> readings) {
    job.processes->Sender().OnCounters(readings);
  };
  const CaptureWindow& window = job.executor.window;
  job.capture = OpenCapture(device, *job.program, local, clock, options.capture, window,
                            CountersOf(local, window, options.counters_interval_ns, take));
  const auto monitor =
      options.capture == CaptureLevel::kOff ? nullptr : StartMonitor(device, local, clock, take);
  const auto troubles = [&] {
    return job.capture == nullptr ? std::vector<std::string>() : job.capture->Troubles();
  };
  const std::vector<std::string> known = troubles();
  const auto end =
      Train(job, device, clock, *data.training, nobody, [] { return StopSignal() != 0; });
  PrintTroubles(troubles(), known);
  if (!end.has_value()) return tl::unexpected<Error>(end.error());
  return end->stopped;
}

// Data, weights, forecast and the agreement of all processes come before BeginRun, so that a
// refused job leaves no measured run. From then on the run has a row, and any end, also a failure,
// is written into it.
Result<TrainingResult> RunTraining(Store& store, const ForecastContext& given, const Plan& plan,
                                   const TrainingOptions& options) {
  FT_ASSIGN(const TrainingData data, OpenTrainingData(options, given.model, plan));
  FT_ASSIGN(const ForecastContext context, WithDocuments(given, plan, *data.training));
  FT_ASSIGN(TrainJob job, JobOf(context, plan, options));
  FT_ASSIGN(Forecast forecast, MakeForecast(context.model, plan, context.costs));
  FT_ASSIGN(
      const double evaluation_s,
      PrepareEvaluation(options.evaluation, context, data.evaluation.get(), forecast.program, job));
  FT_TRY(PrepareCheckpoints(options.checkpoints, forecast.program, data.training->Digest(),
                            forecast.simulation.step_s, job));
  FT_ASSIGN(const RunId forecast_run,
            StoreForecast(store, context, forecast, ForecastMetrics(context, forecast)));
  StepForecast predicted{forecast.simulation.step_s, evaluation_s};
  job.program = std::make_shared<const Program>(std::move(forecast.program));
  // Ranks that are threads of this process have their arenas in it.
  const bool here = job.processes == nullptr && &DeviceOf(options) == &CpuDeviceApi();
  if (const std::int64_t now_bytes = ResidentBytes(); here && now_bytes > 0) {
    predicted.resident_bytes = now_bytes + ArenaBytes(*job.program);
  }
  if (job.processes != nullptr)
    FT_TRY(AgreeOnJob(*job.processes, job, options, *data.training, data.evaluation.get()));
  PosixFileSystem files;
  SystemClock clock;
  FT_ASSIGN(auto step_files, StepFiles::Open(files, clock, options.step_files));
  RunSetup setup = SetupFor(RunKind::kMeasured, context, *job.program, Describe(plan));
  setup.forecast = forecast_run;
  FT_ASSIGN(const auto recorder, store.BeginRun(setup));

  const StopSignals signals;
  auto result = TrainAndRecord(store.path(), context, job, *data.training, options, predicted,
                               std::move(step_files), *recorder);
  if (!result.has_value()) {
    result = tl::unexpected<Error>(
        WithAdvice(result.error(), context, plan, MemoryOfRank(options, plan.World())));
    // If the store fails here, closing it tries once more to write this.
    (void)recorder->Finish(RunStatus::kFailed, result.error().message);
    return result;
  }
  result->run = recorder->id();
  result->forecast = forecast_run;
  result->document_tokens = context.costs.document_tokens();
  result->predicted_bytes = ArenaBytes(*job.program);
  result->predicted_checkpoint = CheckpointCostIn(context, plan);
  if (!job.save.saver.folder.empty()) {
    result->predicted_bytes += result->predicted_checkpoint.bytes;
  }
  FT_TRY(FinishRun(*recorder, options, *result));
  if (job.executor.take_turns && !result->summary.stopped && result->unrecorded.empty()) {
    FT_ASSIGN(result->emulated,
              StoreEmulated(store, context, *job.program, result->run, job.executor.first_step));
  }
  return result;
}

}  // namespace foretrain
