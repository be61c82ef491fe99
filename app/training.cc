#include "app/training.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

#include "app/fit_advice.h"
#include "app/job_agreement.h"
#include "app/run_capture.h"
#include "app/stop_signal.h"
#include "app/training_progress.h"
#include "base/stop_point.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/attention_kernels.h"
#include "runtime/calibrate/reference_gemm.h"
#include "runtime/cuda_driver.h"
#include "runtime/data/token_data.h"
#include "runtime/gemm_algorithms.h"
#include "runtime/parameters/safetensors.h"
#include "sim/cost/profile_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSpansOfAPart = 250'000;  // 12 MB, and as much again while they are read

// Hands everything on to the store. A store that cannot be written ends the run at the next step,
// with its Error.
class StoreSink final : public RunSink {
 public:
  // `known_trouble`: what was told of this process's recording before the run.
  StoreSink(RunRecorder& recorder, const TrainingOptions& options, std::string known_trouble)
      : options_(options),
        recorder_(recorder),
        known_trouble_(std::move(known_trouble)),
        progress_(options) {}

  void OnSpans(std::span<const Span> spans) override {
    spans_.assign(spans.begin(), spans.end());
    Keep(recorder_.Add(spans_));
  }
  void OnMemory(std::span<const MemorySample> samples) override {
    samples_.assign(samples.begin(), samples.end());
    Keep(recorder_.Add(samples_));
  }
  void OnStepWindow(const StepWindow& window) override {
    Keep(recorder_.AddSteps(std::span(&window, 1)));
  }
  void OnStep(const StepReport& report) override {
    const auto step = static_cast<std::int32_t>(report.step);
    std::vector<Counter> counters = {
        {"loss", -1, step, 0, report.loss},
        {"tokens_per_s", -1, step, 0, report.tokens_per_s},
        {"learning_rate", -1, step, 0, report.learning_rate},
        {"resident_bytes", -1, step, 0, static_cast<double>(report.resident_bytes)}};
    if (report.gradient_norm)
      counters.push_back({"gradient_norm", -1, step, 0, *report.gradient_norm});
    Keep(recorder_.AddCounters(counters));
    if (report.step == 0) first_loss_ = report.loss;
    if (report.step > 0) {
      (options_.window.CoversStep(report.step) ? recorded_s_ : unrecorded_s_)
          .push_back(report.seconds);
    }
    last_loss_ = report.loss;
    progress_.OnStep(report);
    StopPoint("train.step");
  }

  void OnCounters(std::span<const Counter> counters) override {
    Keep(recorder_.AddCounters(counters));
  }
  void OnCapture(int rank, const CaptureReport& report) override { reports_[rank] = report; }

  // No rank runs any more. How the recording went goes to the store.
  void End() {
    progress_.End();
    Keep(StoreCapture(recorder_, reports_));
    // Other processes say themselves what troubles theirs.
    const auto own = reports_.find(Here());
    if (own != reports_.end() && own->second.problem != known_trouble_) {
      std::fprintf(stderr, "foretrain: %s\n", own->second.problem.c_str());
    }
  }
  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  double first_loss() const { return first_loss_; }
  double last_loss() const { return last_loss_; }
  CaptureCost Cost(const RecordingCost& recording) const {
    CaptureCost cost{.share = recording.Share()};
    if (std::min(recorded_s_.size(), unrecorded_s_.size()) < 3) return cost;
    cost.recorded_step_s = StatisticsOf(recorded_s_).median;
    cost.unrecorded_step_s = StatisticsOf(unrecorded_s_).median;
    return cost;
  }

 private:
  int Here() const { return options_.ranks.local.empty() ? 0 : options_.ranks.local.front().rank; }
  void Keep(const Result<void>& result) {
    if (!result.has_value() && !error_) error_ = result.error();
  }

  const TrainingOptions& options_;
  RunRecorder& recorder_;
  const std::string known_trouble_;
  CaptureReports reports_;
  TrainingProgress progress_;
  std::vector<Span> spans_;  // given to the recorder, which gives an empty one back
  std::vector<MemorySample> samples_;
  std::optional<Error> error_;
  double first_loss_ = 0, last_loss_ = 0;
  std::vector<double> recorded_s_, unrecorded_s_;  // times of steps
};

Result<std::unique_ptr<TokenData>> OpenData(const TrainingOptions& options, const ModelSpec& model,
                                            const Plan& plan) {
  if (options.data.empty()) {
    return TokenData::FromText(options.text, options.data_name, model.vocab, plan);
  }
  PosixFileSystem files;
  return TokenData::Open(files, options.data, model.vocab, plan);
}

}  // namespace

namespace {

// The figures that can be told: without spans, how long steps took but not what filled them.
std::vector<MetricValue> Known(std::vector<MetricValue> figures, bool spans) {
  constexpr std::array<std::string_view, 6> kOfWindows{"step_time_s", "tokens_per_s",     "mfu",
                                                       "hfu",         "step_time_spread", "steps"};
  if (spans) return figures;
  std::erase_if(figures, [&](const MetricValue& figure) {
    return std::find(kOfWindows.begin(), kOfWindows.end(), figure.name) == kOfWindows.end();
  });
  return figures;
}

}  // namespace

Result<Metrics> MetricsOfRecording(const std::string& path, RunRecorder& recorder,
                                   const MetricOptions& options) {
  FT_TRY(recorder.Flush());
  // Written a moment ago: only the checksums of what is read are looked at again.
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path, {.most_checked_bytes = 0}));
  FT_ASSIGN(const RunInfo info, reader.FindRun(recorder.id()));
  MetricsInParts metrics(options);
  const std::int32_t last = info.last_step.value_or(-1);
  const std::int64_t spans_a_step = info.spans / std::max(last + 1, 1) + 1;
  const auto steps = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(kSpansOfAPart / spans_a_step, 1, std::int64_t{last} + 1));
  for (std::int32_t first = 0; first <= last; first += steps) {
    const std::int32_t end = first + std::min(steps, last - first + 1);
    LoadOptions part;
    part.steps = {first - 1, end};  // ops of neighbouring steps run in the windows too
    FT_ASSIGN(StoredRun run, reader.LoadRun(info.id, part));
    std::erase_if(run.timeline.steps, [&](const StepWindow& window) {
      return window.step < first || window.step >= end;
    });
    FT_TRY(recorder.AddMetrics(Known(metrics.Add(run.timeline), info.spans > 0)));
  }
  Metrics all = metrics.Take();
  FT_TRY(recorder.AddMetrics(Known(Flatten(all, /*steps=*/false), info.spans > 0)));
  return all;
}

namespace {

Result<TrainJob> JobOf(const ForecastContext& context, const TrainingOptions& options) {
  TrainJob job;
  job.steps = options.steps;
  job.seed = options.seed;
  job.learning_rate = options.learning_rate;
  job.executor.local = options.ranks.local;
  job.executor.world = options.ranks.world;
  job.processes = options.ranks.processes.get();
  job.executor.budget_bytes = options.budget_bytes;
  job.executor.timeout_ns = options.timeout_ns;
  job.executor.sm_share = options.sm_share;
  job.executor.graphs = options.graphs;
  job.executor.attention = options.attention;
  job.executor.gemm_algorithms = context.costs.profile().gemm_algorithms;
  job.executor.attention_times = context.costs.profile().attention_times;
  job.executor.take_turns = options.virtual_time;
  job.executor.pin = options.pin;
  job.executor.nvme.folder = options.nvme_folder;
  job.executor.copy_caps = {options.cap_copy_bytes_per_s, options.cap_copy_bytes_per_s,
                            options.cap_nvme_bytes_per_s};
  job.executor.record_spans = options.capture != CaptureLevel::kOff;
  job.executor.record_memory = options.capture == CaptureLevel::kFull;
  job.executor.window = options.window;
  job.executor.faults = AskedFaults();
  if (options.pattern_weights) job.weights = PatternWeights(context.model, options.seed);
  if (!options.init.empty()) {
    PosixFileSystem files;
    FT_ASSIGN(job.weights,
              WeightsFromSafetensors(files, options.init, context.model, options.seed));
  }
  return job;
}

// Under the names that docs/store.md lists.
std::vector<MetricValue> FiguresOf(const CaptureCost& cost) {
  std::vector<MetricValue> figures{{.name = "recording_share", .value = cost.share}};
  if (cost.recorded_step_s) {
    figures.push_back({.name = "recorded_step_s", .value = *cost.recorded_step_s});
    figures.push_back({.name = "unrecorded_step_s", .value = *cost.unrecorded_step_s});
  }
  return figures;
}

// What the profile measured with the device's libraries and this run computes without them, and
// which of its products the library lacks. Where they are asked for it is the run that fails.
void TellWhatIsNotUsed(const FtDeviceApi& device, const DeviceProfile& profile,
                       AttentionChoice attention, const Plan& plan) {
  const std::string of_attention =
      attention == AttentionChoice::kAuto
          ? WhyLibraryNotUsed(device, attention, profile.attention_times)
          : "";
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

// Trains, with the run's row in the store, and adds to `recorder` all but how it ended.
Result<TrainingResult> TrainAndRecord(const std::string& store, const ForecastContext& context,
                                      TrainJob job, TokenData& data, const TrainingOptions& options,
                                      RunRecorder& recorder) {
  const Plan& plan = job.program->plan;
  FT_TRY(recorder.AddOpNames(OpNamesOf(*job.program)));
  FT_TRY(recorder.Attach("device_profile", ProfileToJson(context.costs.profile())));
  RealClock clock;
  const DeviceProfile& profile = context.costs.profile();
  // The profile's reference is the CPU's.
  const FtDeviceApi& device = options.device != nullptr ? *options.device : CpuDeviceApi();
  const bool has_reference = &device == &CpuDeviceApi() && options.ranks.processes == nullptr &&
                             ReferenceSeconds(profile, plan.World()) > 0;
  const auto drift = [&] { return MeasureDrift(CpuDeviceApi(), 0, clock, profile, plan.World()); };
  double drift_before = 1.0;
  if (has_reference) {
    FT_ASSIGN(drift_before, drift());
  }
  job.capture = OpenCapture(device, *job.program, options.ranks.local, clock, options.capture,
                            options.window);
  if (device.asynchronous != 0) TellWhatIsNotUsed(device, profile, options.attention, plan);
  StoreSink sink(recorder, options, job.capture == nullptr ? "" : job.capture->Trouble());
  const auto monitor =
      options.capture == CaptureLevel::kOff
          ? nullptr
          : StartMonitor(device, options.ranks.local, clock, [&](std::vector<Counter> readings) {
              // A store that fails says so to the run itself.
              (void)recorder.AddCounters(readings);
            });
  const auto summary =
      Train(job, device, clock, data, sink, [&] { return StopSignal() != 0 || sink.failed(); });
  if (monitor != nullptr) monitor->Stop();
  sink.End();
  // Ranks that stop because the store fails are no fault of the run.
  if (sink.failed()) return tl::unexpected<Error>(*sink.error());
  if (!summary.has_value()) return tl::unexpected<Error>(summary.error());
  TrainingResult result;
  result.summary = *summary;
  result.offload.moved = OffloadFiguresOf(*job.program).moved;
  for (const auto& peaks : summary->peak_by_space) {
    for (std::size_t space = 0; space < peaks.size(); ++space) {
      std::int64_t& most = result.offload.peak_bytes[space];
      most = std::max(most, peaks[space]);
    }
  }
  result.first_loss = sink.first_loss();
  result.last_loss = sink.last_loss();
  if (has_reference && !summary->stopped) {
    FT_ASSIGN(const double drift_after, drift());
    result.machine_drift = (drift_before + drift_after) / 2;
    const Counter counter{"machine_drift", -1, -1, 0, result.machine_drift};
    FT_TRY(recorder.AddCounters(std::span(&counter, 1)));
  }
  FT_ASSIGN(
      result.metrics,
      MetricsOfRecording(store, recorder,
                         MetricOptionsFor(context, plan, options.window.first_step == 0 ? 1 : 0)));
  result.capture_cost = sink.Cost(summary->recording);
  if (options.capture != CaptureLevel::kOff) {
    FT_TRY(recorder.AddMetrics(FiguresOf(result.capture_cost)));
  }
  if (summary->resident_growth_bytes > 0) {
    const Counter growth{"resident_growth_bytes", -1, -1, 0,
                         static_cast<double>(summary->resident_growth_bytes)};
    FT_TRY(recorder.AddCounters(std::span(&growth, 1)));
  }
  FT_TRY(recorder.AddTotals({.overhead_ns = summary->recording.recording_ns}));
  return result;
}

// The arenas of all ranks in this machine's memory, what lies idle between their buffers included.
std::int64_t ArenaBytes(const Program& program) {
  std::int64_t all = 0;
  for (const RankProgram& rank : program.ranks) {
    for (const Space space : {Space::kDevice, Space::kPinned, Space::kHost})
      all += rank.arena_bytes[static_cast<std::size_t>(space)];
  }
  return all;
}

// What one rank may have of the device that it shares with others or has for itself; 0: not known.
std::int64_t MemoryOfRank(const TrainingOptions& options, int ranks) {
  if (options.budget_bytes > 0) return options.budget_bytes;
  const FtDeviceApi& device = options.device != nullptr ? *options.device : CpuDeviceApi();
  const std::vector<LocalRank>& local = options.ranks.local;
  const int number = local.empty() ? 0 : local.front().device;
  FtMemory memory{};
  std::array<char, 256> why{};
  if (device.memory(number, &memory, why.data(), why.size()) != FT_OK) return 0;
  const auto on_it = std::count_if(local.begin(), local.end(),
                                   [&](const LocalRank& at) { return at.device == number; });
  return memory.free_bytes / (local.empty() ? ranks : on_it);
}

Result<void> FinishRun(RunRecorder& recorder, const TrainingOptions& options,
                       const RunSummary& summary) {
  if (!summary.stopped) return recorder.Finish(RunStatus::kFinished);
  return recorder.Finish(
      RunStatus::kInterrupted,
      std::string("stopped by ") + (StopSignal() == SIGTERM ? "SIGTERM" : "Ctrl-C") + " after " +
          std::to_string(summary.steps) + " of " + std::to_string(options.steps) + " steps");
}

}  // namespace

Result<void> TrainAsMember(const ForecastContext& context, const Plan& plan,
                           const TrainingOptions& options) {
  FT_ASSIGN(const auto data, OpenData(options, context.model, plan));
  FT_ASSIGN(TrainJob job, JobOf(context, options));
  FT_ASSIGN(Forecast forecast,
            MakeForecast(context.model, plan, context.costs, RankChoice::kAll, true));
  job.program = std::make_shared<const Program>(std::move(forecast.program));
  FT_TRY(AgreeOnJob(*job.processes, job, options, *data));
  const StopSignals signals;
  RealClock clock;
  RunSink nobody;  // what is recorded goes to rank 0
  const FtDeviceApi& device = options.device != nullptr ? *options.device : CpuDeviceApi();
  const std::vector<LocalRank>& local = options.ranks.local;
  job.capture = OpenCapture(device, *job.program, local, clock, options.capture, options.window);
  const auto monitor =
      options.capture == CaptureLevel::kOff
          ? nullptr
          : StartMonitor(device, local, clock, [&job](std::vector<Counter> readings) {
              job.processes->Sender().OnCounters(readings);
            });
  const auto trouble = [&] { return job.capture == nullptr ? "" : job.capture->Trouble(); };
  const std::string known = trouble();
  const auto end = Train(job, device, clock, *data, nobody, [] { return StopSignal() != 0; });
  if (trouble() != known) std::fprintf(stderr, "foretrain: %s\n", trouble().c_str());
  if (!end.has_value()) return tl::unexpected<Error>(end.error());
  return {};
}

Result<TrainingResult> RunTraining(Store& store, const ForecastContext& context, const Plan& plan,
                                   const TrainingOptions& options) {
  FT_ASSIGN(const auto data, OpenData(options, context.model, plan));
  FT_ASSIGN(TrainJob job, JobOf(context, options));
  FT_ASSIGN(Forecast forecast,
            MakeForecast(context.model, plan, context.costs, RankChoice::kAll, true));
  FT_ASSIGN(const RunId forecast_run,
            StoreForecast(store, context, forecast, ForecastMetrics(context, forecast)));
  job.program = std::make_shared<const Program>(std::move(forecast.program));
  if (job.processes != nullptr) FT_TRY(AgreeOnJob(*job.processes, job, options, *data));
  RunSetup setup = SetupFor(RunKind::kMeasured, context, *job.program, Describe(plan));
  setup.forecast = forecast_run;
  FT_ASSIGN(const auto recorder, store.BeginRun(setup));

  const StopSignals signals;
  auto result = TrainAndRecord(store.path(), context, job, *data, options, *recorder);
  if (!result.has_value()) {
    result = tl::unexpected<Error>(
        WithAdvice(result.error(), context, plan, MemoryOfRank(options, plan.World())));
    // Where the store fails, closing it tries once more to write this.
    (void)recorder->Finish(RunStatus::kFailed, result.error().message);
    return result;
  }
  result->run = recorder->id();
  result->forecast = forecast_run;
  result->predicted_bytes = ArenaBytes(*job.program);
  FT_TRY(FinishRun(*recorder, options, result->summary));
  if (options.virtual_time && !result->summary.stopped) {
    FT_ASSIGN(result->emulated, StoreEmulated(store, context, *job.program, result->run));
  }
  return result;
}

}  // namespace foretrain
