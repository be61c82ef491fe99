#include "app/training/run_recording.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "app/runs/stored_runs.h"
#include "base/stop_point.h"
#include "base/units.h"
#include "runtime/device/cuda_driver.h"
#include "traces/metrics/statistics.h"

namespace foretrain {
namespace {

// Compute capability of this process's first GPU, as in KernelTable; 0 on the CPU.
int CapabilityOf(const TrainingOptions& options) {
  if (options.device == nullptr || std::string_view(options.device->name) != "cuda") return 0;
  const std::vector<LocalRank>& local = options.ranks.local;
  const auto number = static_cast<std::size_t>(local.empty() ? 0 : local.front().device);
  const auto driver = AskCudaDriver();
  if (!driver.has_value() || number >= driver->gpus.size()) return 0;
  return 10 * driver->gpus[number].capability_major + driver->gpus[number].capability_minor;
}

// Width of the terminal behind stderr; a large number if it does not tell.
std::int64_t TerminalColumns() {
  winsize size{};
  const bool told = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 1 << 20;
}

constexpr std::int64_t kMaxSpansOfAPart = 250'000;  // 12 MB, and as much again while they are read

// Without spans, keeps the metrics that step windows alone give: how long steps took, not what
// filled them.
std::vector<MetricValue> Known(std::vector<MetricValue> metrics, bool spans) {
  constexpr std::array<std::string_view, 6> kFromWindows{
      "step_time_s", "tokens_per_s", "mfu", "hfu", "step_time_spread", "steps"};
  if (spans) return metrics;
  std::erase_if(metrics, [&](const MetricValue& metric) {
    return std::find(kFromWindows.begin(), kFromWindows.end(), metric.name) == kFromWindows.end();
  });
  return metrics;
}

}  // namespace

TrainingProgress::TrainingProgress(const TrainingOptions& options, std::int64_t first_step,
                                   const StepForecast& predicted)
    : options_(options),
      first_step_(first_step),
      predicted_(predicted),
      terminal_(isatty(STDERR_FILENO) != 0) {}

// On a terminal one line is redrawn at each step. In a log file about twenty lines appear, so that
// long runs stay readable.
void TrainingProgress::OnStep(const StepReport& report) {
  // The first step warms up, so the time left is estimated from the others.
  if (report.step > first_step_) elapsed_s_ += report.seconds;
  const std::int64_t done = report.step + 1;
  if (options_.json_lines) {
    std::puts(StepLine(report, /*run=*/0, predicted_).c_str());
    std::fflush(stdout);
    return;
  }
  if (report.usual_loss) {
    End();
    std::fprintf(
        stderr,
        "foretrain: step %lld: the loss jumped to %.4g from a mean of %.4g; %sif it does not "
        "fall again, lower --lr or look at the data of this step\n",
        static_cast<long long>(report.step), report.loss, *report.usual_loss,
        report.skipped ? "its update is left out; " : "");
  }
  if (!options_.progress) return;
  const std::int64_t every = std::max<std::int64_t>(1, options_.job.steps / 20);
  if (!terminal_ && done % every != 0 && done != first_step_ + 1 && done != options_.job.steps) {
    return;
  }
  const std::string line = Line(report) + Left(done);
  std::string bar = Bar(done) + " ";
  if (terminal_ && static_cast<std::int64_t>(bar.size() + line.size()) >= TerminalColumns()) {
    bar.clear();
  }
  std::fprintf(stderr, "%s%s%s%s", terminal_ ? "\r" : "", bar.c_str(), line.c_str(),
               terminal_ ? "\033[K" : "\n");
  drawn_ = true;
}

void TrainingProgress::OnSaved(const SaveReport& report) const {
  if (options_.json_lines) {
    JsonWriter json;
    json.BeginObject().Field("checkpoint", report.path).Field("steps", report.step);
    if (report.error) json.Field("checkpoint_error", report.error->message);
    json.Field("bytes", report.bytes);
    json.Field("copy_s", SecondsFromNs(report.copy_end_ns - report.copy_start_ns));
    json.Field("write_s", SecondsFromNs(report.write_end_ns - report.write_start_ns));
    std::puts(json.EndObject().Take().c_str());
    std::fflush(stdout);
    return;
  }
  if (report.error) {
    End();
    std::fprintf(stderr, "foretrain: %s step %lld%s: %s\n",
                 report.path.empty() ? "no checkpoint of" : "an old checkpoint stays after",
                 static_cast<long long>(report.step),
                 report.path.empty() ? "; earlier ones stay, training goes on" : "",
                 report.error->message.c_str());
  }
  if (!report.path.empty() && options_.progress) {
    End();
    std::fprintf(stderr, "saved %s: %s, %s of standstill, written in %s beside training\n",
                 report.path.c_str(), FormatBytes(report.bytes).c_str(),
                 FormatSeconds(SecondsFromNs(report.copy_end_ns - report.copy_start_ns)).c_str(),
                 FormatSeconds(SecondsFromNs(report.write_end_ns - report.write_start_ns)).c_str());
  }
}

void TrainingProgress::End() const {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void TrainingProgress::OnEvaluation(const EvaluationReport& report) const {
  if (options_.json_lines) {
    std::puts(StepLine(report, /*run=*/0, predicted_).c_str());
    std::fflush(stdout);
    return;
  }
  if (!options_.progress) return;
  End();
  std::fprintf(stderr, "step %lld/%lld  evaluation loss %.4f  %s (forecast %s)\n",
               static_cast<long long>(report.step + 1), static_cast<long long>(options_.job.steps),
               report.loss, FormatSeconds(report.seconds).c_str(),
               FormatSeconds(predicted_.evaluation_s).c_str());
}

std::string TrainingProgress::Line(const StepReport& report) const {
  std::string line = fmt::format("step {}/{}  loss {:.4f}  {} tokens/s  {} a step", report.step + 1,
                                 options_.job.steps, report.loss, FormatSi(report.tokens_per_s, ""),
                                 FormatSeconds(report.seconds));
  if (predicted_.step_s > 0) line += " (forecast " + FormatSeconds(predicted_.step_s) + ")";
  if (report.resident_bytes > 0) line += "  " + FormatBytes(report.resident_bytes);
  return line;
}

std::string TrainingProgress::Left(std::int64_t done) const {
  const std::int64_t timed = done - first_step_ - 1;
  if (timed < 1 || done >= options_.job.steps) return "";
  const double step_s = elapsed_s_ / static_cast<double>(timed);
  return "  " + FormatSeconds(step_s * static_cast<double>(options_.job.steps - done)) + " left";
}

std::string TrainingProgress::Bar(std::int64_t done) const {
  constexpr std::int64_t kWidth = 24;
  const double share = static_cast<double>(done) / static_cast<double>(options_.job.steps);
  const auto full = static_cast<std::size_t>(kWidth * std::clamp(share, 0.0, 1.0));
  return "[" + std::string(full, '#') + std::string(kWidth - full, ' ') + "]";
}

RecordingSink::RecordingSink(RunRecorder& recorder, const TrainingOptions& options,
                             std::int64_t first_step, const StepForecast& predicted,
                             std::unique_ptr<StepFiles> files,
                             std::vector<std::string> known_troubles)
    : options_(options),
      first_step_(first_step),
      recorder_(recorder),
      predicted_(predicted),
      files_(std::move(files)),
      known_troubles_(std::move(known_troubles)),
      progress_(options, first_step, predicted) {}

void RecordingSink::Keep(const Result<void>& result) {
  if (result.has_value() || error_) return;
  error_ = result.error();
  if (options_.recording_required) return;
  progress_.End();
  std::fprintf(stderr,
               "foretrain: the training goes on unrecorded; --recording required ends it instead: "
               "%s\n",
               error_->message.c_str());
}

void RecordingSink::KeepFiles(const Result<void>& result) {
  if (result.has_value()) return;
  if (options_.recording_required) return Keep(result);
  progress_.End();
  std::fprintf(stderr,
               "foretrain: the training goes on without --metrics and --tensorboard; --recording "
               "required ends it instead: %s\n",
               result.error().message.c_str());
}

void RecordingSink::OnSpans(std::span<const Span> spans) {
  spans_.assign(spans.begin(), spans.end());
  Keep(recorder_.Add(spans_));
}

void RecordingSink::OnMemory(std::span<const MemorySample> samples) {
  samples_.assign(samples.begin(), samples.end());
  Keep(recorder_.Add(samples_));
}

void RecordingSink::OnStepWindow(const StepWindow& window) {
  Keep(recorder_.AddSteps(std::span(&window, 1)));
}

// Counters of a step are stored at once, so that a run that is killed keeps every step before.
void RecordingSink::OnStep(const StepReport& report) {
  const auto step = static_cast<std::int32_t>(report.step);
  std::vector<Counter> counters = {
      {"loss", -1, step, 0, report.loss},
      {"tokens_per_s", -1, step, 0, report.tokens_per_s},
      {"learning_rate", -1, step, 0, report.learning_rate},
      {"resident_bytes", -1, step, 0, static_cast<double>(report.resident_bytes)}};
  if (report.core_wait_s) counters.push_back({"core_wait_s", -1, step, 0, *report.core_wait_s});
  if (report.gradient_norm)
    counters.push_back({"gradient_norm", -1, step, 0, *report.gradient_norm});
  if (report.usual_loss) counters.push_back({"loss_spike", -1, step, 0, report.loss});
  if (report.skipped) counters.push_back({"skipped_update", -1, step, 0, 1});
  Keep(recorder_.AddCounters(counters));
  if (files_ != nullptr) KeepFiles(files_->Add(report, recorder_.id(), predicted_));
  if (report.step == first_step_) first_loss_ = report.loss;
  if (report.step > first_step_) {
    (options_.job.executor.window.CoversStep(report.step) ? recorded_s_ : unrecorded_s_)
        .push_back(report.seconds);
  }
  last_loss_ = report.loss;
  progress_.OnStep(report);
  ShowSaves();
  StopPoint("train.step");
}

void RecordingSink::OnEvaluation(const EvaluationReport& report) {
  const auto step = static_cast<std::int32_t>(report.step);
  const Counter counters[] = {{"evaluation_loss", -1, step, 0, report.loss},
                              {"evaluation_s", -1, step, 0, report.seconds}};
  Keep(recorder_.AddCounters(counters));
  if (files_ != nullptr) KeepFiles(files_->Add(report, recorder_.id(), predicted_));
  evaluation_loss_ = report.loss;
  progress_.OnEvaluation(report);
}

void RecordingSink::OnSaved(const SaveReport& report) {
  const std::lock_guard<std::mutex> lock(saving_);
  saves_.push_back(report);
}

void RecordingSink::ShowSaves() {
  const std::lock_guard<std::mutex> lock(saving_);
  for (; saves_shown_ < saves_.size(); ++saves_shown_) progress_.OnSaved(saves_[saves_shown_]);
}

void RecordingSink::OnCounters(std::span<const Counter> counters) {
  Keep(recorder_.AddCounters(counters));
}

// The run fails anyway, with an error of its own.
void RecordingSink::OnFailure(const std::string& last_ops) {
  (void)recorder_.Attach(kLastOpsAttachment, last_ops);
}

int RecordingSink::FirstRankHere() const {
  return options_.ranks.local.empty() ? 0 : options_.ranks.local.front().rank;
}

void RecordingSink::End() {
  progress_.End();
  ShowSaves();
  Keep(StoreCapture(recorder_, reports_, CapabilityOf(options_)));
  // Other processes report the problems of their own recording.
  const auto own = reports_.find(FirstRankHere());
  if (own == reports_.end()) return;
  std::vector<std::string> troubles{own->second.problem, own->second.counters_problem};
  std::erase(troubles, "");
  PrintTroubles(troubles, known_troubles_);
}

// The medians are given only with three steps of each kind: fewer tell nothing.
CaptureCost RecordingSink::Cost(const RecordingCost& recording) const {
  CaptureCost cost{.share = recording.Share()};
  if (std::min(recorded_s_.size(), unrecorded_s_.size()) < 3) return cost;
  cost.recorded_step_s = StatisticsOf(recorded_s_).median;
  cost.unrecorded_step_s = StatisticsOf(unrecorded_s_).median;
  return cost;
}

// Parts of whole steps, each with its two neighbours, because an op of a neighbouring step may run
// inside the window. Each part has about kMaxSpansOfAPart spans.
Result<Metrics> MetricsOfRecording(const std::string& path, RunRecorder& recorder,
                                   const MetricOptions& options) {
  FT_TRY(recorder.Flush());
  // The file was written a moment ago: only the checksums of what is read are verified.
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path, {.max_checked_bytes = 0}));
  FT_ASSIGN(const RunInfo info, reader.FindRun(recorder.id()));
  MetricsInParts metrics(options);
  const std::int32_t last = info.last_step.value_or(-1);
  const std::int64_t spans_a_step = info.spans / std::max(last + 1, 1) + 1;
  const auto steps = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(kMaxSpansOfAPart / spans_a_step, 1, std::int64_t{last} + 1));
  for (std::int32_t first = 0; first <= last; first += steps) {
    const std::int32_t end = first + std::min(steps, last - first + 1);
    LoadOptions part;
    part.counters = false;
    part.steps = {first - 1, end};  // ops of neighbouring steps run in the windows too
    part.kernels = false;
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

}  // namespace foretrain
