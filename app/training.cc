#include "app/training.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <mutex>

#include "base/json.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/calibrate/reference_gemm.h"
#include "runtime/data/token_data.h"
#include "runtime/parameters/safetensors.h"
#include "sim/cost/profile_json.h"

namespace foretrain {
namespace {

// Written by the handler alone. The second signal ends the process at once.
volatile std::sig_atomic_t stop_signal = 0;

extern "C" void OnSignal(int signal) {
  if (stop_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  stop_signal = signal;
}

// SIGINT and SIGTERM set a flag while this lives.
class SignalGuard {
 public:
  SignalGuard() {
    stop_signal = 0;
    interrupt_ = std::signal(SIGINT, OnSignal);
    terminate_ = std::signal(SIGTERM, OnSignal);
  }
  ~SignalGuard() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

// Shows each step: a JSON line, a bar that redraws itself, or a line now and then.
class Progress {
 public:
  explicit Progress(const TrainingOptions& options)
      : options_(options), terminal_(isatty(STDERR_FILENO) != 0) {}

  void OnStep(const StepReport& report) {
    elapsed_s_ += report.seconds;
    const std::int64_t done = report.step + 1;
    if (options_.json_lines) {
      JsonWriter json;
      json.BeginObject().Field("step", report.step).Field("loss", report.loss);
      json.Field("seconds", report.seconds).Field("tokens_per_s", report.tokens_per_s);
      if (report.gradient_norm) json.Field("gradient_norm", *report.gradient_norm);
      std::puts(json.EndObject().Take().c_str());
      std::fflush(stdout);
      return;
    }
    if (!options_.progress) return;
    const std::int64_t every = std::max<std::int64_t>(1, options_.steps / 20);
    if (!terminal_ && done % every != 0 && done != 1 && done != options_.steps) return;
    const double left_s =
        elapsed_s_ / static_cast<double>(done) * static_cast<double>(options_.steps - done);
    std::fprintf(stderr, "%s%s step %lld/%lld  loss %.4f  %s tokens/s  %s left%s",
                 terminal_ ? "\r" : "", Bar(done).c_str(), static_cast<long long>(done),
                 static_cast<long long>(options_.steps), report.loss,
                 FormatSi(report.tokens_per_s, "").c_str(), FormatSeconds(left_s).c_str(),
                 terminal_ ? "\033[K" : "\n");
    drawn_ = true;
  }

  void End() const {
    if (terminal_ && drawn_) std::fputc('\n', stderr);
  }

 private:
  std::string Bar(std::int64_t done) const {
    constexpr std::int64_t kWidth = 24;
    const auto full =
        static_cast<std::size_t>(kWidth * done / std::max<std::int64_t>(1, options_.steps));
    return "[" + std::string(full, '#') + std::string(kWidth - full, ' ') + "]";
  }

  const TrainingOptions& options_;
  bool terminal_;
  bool drawn_ = false;
  double elapsed_s_ = 0;
};

// Hands everything on to the store and keeps a copy for the figures. A store that cannot be written
// ends the run at the next step, with its Error.
class StoreSink final : public RunSink {
 public:
  StoreSink(RunRecorder& recorder, const TrainingOptions& options)
      : recorder_(recorder), progress_(options) {}

  void OnSpans(std::span<const Span> spans) override {
    timeline_.spans.insert(timeline_.spans.end(), spans.begin(), spans.end());
    std::vector<Span> copy(spans.begin(), spans.end());
    Keep(recorder_.Add(copy));
  }
  void OnMemory(std::span<const MemorySample> samples) override {
    timeline_.memory.insert(timeline_.memory.end(), samples.begin(), samples.end());
    std::vector<MemorySample> copy(samples.begin(), samples.end());
    Keep(recorder_.Add(copy));
  }
  void OnStepWindow(const StepWindow& window) override {
    timeline_.steps.push_back(window);
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
    last_loss_ = report.loss;
    progress_.OnStep(report);
  }

  void End() const { progress_.End(); }
  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  Timeline TakeTimeline(int world) {
    timeline_.world = world;
    SortTimeline(timeline_);
    return std::move(timeline_);
  }
  double first_loss() const { return first_loss_; }
  double last_loss() const { return last_loss_; }

 private:
  void Keep(const Result<void>& result) {
    if (!result.has_value() && !error_) error_ = result.error();
  }

  RunRecorder& recorder_;
  Progress progress_;
  Timeline timeline_;
  std::optional<Error> error_;
  double first_loss_ = 0, last_loss_ = 0;
};

Result<std::unique_ptr<TokenData>> OpenData(const TrainingOptions& options, const ModelSpec& model,
                                            const Plan& plan) {
  if (options.data.empty()) {
    return TokenData::FromText(options.text, options.data_name, model.vocab, plan);
  }
  PosixFileSystem files;
  return TokenData::Open(files, options.data, model.vocab, plan);
}

RunStatus StatusOf(const Result<RunSummary>& summary) {
  if (!summary.has_value()) return RunStatus::kFailed;
  return summary->stopped ? RunStatus::kInterrupted : RunStatus::kFinished;
}

}  // namespace

int StopSignal() { return stop_signal; }

Result<TrainingResult> RunTraining(Store& store, const ForecastContext& context, const Plan& plan,
                                   const TrainingOptions& options) {
  FT_ASSIGN(const auto data, OpenData(options, context.model, plan));
  TrainJob job;
  job.steps = options.steps;
  job.seed = options.seed;
  job.learning_rate = options.learning_rate;
  job.executor.budget_bytes = options.budget_bytes;
  job.executor.timeout_ns = options.timeout_ns;
  job.executor.record_spans = options.capture;
  job.executor.record_memory = options.capture;
  if (!options.init.empty()) {
    PosixFileSystem files;
    FT_ASSIGN(job.weights, WeightsFromSafetensors(files, options.init, context.model));
  }
  FT_ASSIGN(Forecast forecast, MakeForecast(context.model, plan, context.costs, false, true));
  TrainingResult result;
  FT_ASSIGN(result.forecast,
            StoreForecast(store, context, forecast, ForecastMetrics(context, forecast)));
  job.program = std::make_shared<const Program>(std::move(forecast.program));

  RunSetup setup = SetupFor(RunKind::kMeasured, context, *job.program, Describe(plan));
  setup.forecast = result.forecast;
  FT_ASSIGN(const auto recorder, store.BeginRun(setup));
  result.run = recorder->id();
  FT_TRY(recorder->AddOpNames(OpNamesOf(*job.program)));
  FT_TRY(recorder->Attach("device_profile", ProfileToJson(context.costs.profile())));

  StoreSink sink(*recorder, options);
  RealClock clock;
  FT_ASSIGN(const double drift_before,
            MeasureDrift(CpuDeviceApi(), 0, clock, context.costs.profile(), plan.World()));
  const SignalGuard guard;
  const auto summary = Train(job, CpuDeviceApi(), clock, *data, sink,
                             [&] { return StopSignal() != 0 || sink.failed(); });
  sink.End();
  if (!summary.has_value()) {
    (void)recorder->Finish(RunStatus::kFailed, summary.error().message);
    return tl::unexpected<Error>(summary.error());
  }
  if (sink.failed()) return tl::unexpected<Error>(*sink.error());
  FT_ASSIGN(const double drift_after,
            MeasureDrift(CpuDeviceApi(), 0, clock, context.costs.profile(), plan.World()));
  result.machine_drift = (drift_before + drift_after) / 2;
  const Counter drift{"machine_drift", -1, -1, 0, result.machine_drift};
  FT_TRY(recorder->AddCounters(std::span(&drift, 1)));
  result.summary = *summary;
  result.first_loss = sink.first_loss();
  result.last_loss = sink.last_loss();
  result.metrics =
      ComputeMetrics(sink.TakeTimeline(plan.World()), MetricOptionsFor(context, plan, 1));
  FT_TRY(recorder->AddMetrics(Flatten(result.metrics)));
  FT_TRY(recorder->AddTotals({.overhead_ns = summary->recording.recording_ns}));
  FT_TRY(recorder->Finish(StatusOf(summary)));
  return result;
}

}  // namespace foretrain
