#include "runtime/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "runtime/data/read_ahead.h"
#include "runtime/device/core_wait.h"
#include "runtime/device/resident_memory.h"
#include "runtime/run/captured_sink.h"
#include "runtime/run/loss_spikes.h"

namespace foretrain {
namespace {

// The lowest rank whose host reads the loss. It is not the first rank if steps overlap.
int ReportingRank(const Program& program) {
  for (const RankProgram& rank : program.ranks) {
    const auto reads = [](const Instruction& i) {
      return i.key.kind == InstructionKind::kHostRead;
    };
    if (std::any_of(rank.step.begin(), rank.step.end(), reads)) return rank.rank;
  }
  return program.ranks.front().rank;
}

// Forwards all calls, and makes one report a step from one rank's scalars.
class Reporter final : public RunSink {
 public:
  //   ranks_here  of this process
  //   start_ns    start of the first step
  //   before      losses of earlier steps
  Reporter(const Program& program, const LearningRate& rate, int ranks_here, std::int64_t start_ns,
           std::span<const double> before, RunSink& sink)
      : rank_(ReportingRank(program)),
        ranks_here_(ranks_here),
        tokens_(static_cast<double>(program.plan.global_batch * program.plan.sequence)),
        rate_(rate),
        sink_(sink),
        spikes_(before),
        last_ns_(start_ns) {}

  // The last losses, for the next run of the training.
  std::vector<double> Losses() const {
    const std::lock_guard<std::mutex> lock(losses_mutex_);
    return spikes_.Losses();
  }

  void OnSpans(std::span<const Span> spans) override { sink_.OnSpans(spans); }
  void OnMemory(std::span<const MemorySample> samples) override { sink_.OnMemory(samples); }
  void OnStepWindow(const StepWindow& window) override { sink_.OnStepWindow(window); }
  void OnScalars(const StepScalars& scalars) override {
    sink_.OnScalars(scalars);
    if (scalars.rank != rank_) return;
    StepReport report;
    report.step = scalars.step;
    report.loss = scalars.loss.value_or(0.0F);
    if (scalars.squared_norm)
      report.gradient_norm = std::sqrt(static_cast<double>(*scalars.squared_norm));
    report.learning_rate = rate_.At(scalars.step);
    report.seconds = SecondsFromNs(scalars.time_ns - last_ns_);
    report.tokens_per_s = report.seconds > 0 ? tokens_ / report.seconds : 0.0;
    report.resident_bytes = ResidentBytes();
    if (const auto waited_ns = core_wait_.SinceLast()) {
      report.core_wait_s = SecondsFromNs(*waited_ns) / ranks_here_;
    }
    report.skipped = scalars.skipped;
    {
      const std::lock_guard<std::mutex> lock(losses_mutex_);
      report.usual_loss = spikes_.Add(report.loss);
    }
    last_ns_ = scalars.time_ns;
    sink_.OnStep(report);
  }
  // The time of an evaluation belongs to no step.
  void OnEvaluation(const EvaluationReport& report) override {
    last_ns_ += NsFromSeconds(report.seconds);
    sink_.OnEvaluation(report);
  }
  void OnCounters(std::span<const Counter> counters) override { sink_.OnCounters(counters); }
  void OnCapture(int rank, const CaptureReport& report) override { sink_.OnCapture(rank, report); }

 private:
  int rank_;
  int ranks_here_;
  double tokens_;
  const LearningRate& rate_;
  RunSink& sink_;
  mutable std::mutex losses_mutex_;
  LossSpikes spikes_;  // guarded by losses_mutex_
  CoreWait core_wait_;
  std::int64_t last_ns_;  // end of the previous step
};

// Serializes calls from this process's ranks and from other processes.
class SharedSink final : public RunSink {
 public:
  explicit SharedSink(RunSink& sink) : sink_(sink) {}
  void OnSpans(std::span<const Span> spans) override { Locked(&RunSink::OnSpans, spans); }
  void OnMemory(std::span<const MemorySample> all) override { Locked(&RunSink::OnMemory, all); }
  void OnStepWindow(const StepWindow& window) override { Locked(&RunSink::OnStepWindow, window); }
  void OnRouting(const RoutedCounts& counts) override { Locked(&RunSink::OnRouting, counts); }
  void OnScalars(const StepScalars& scalars) override { Locked(&RunSink::OnScalars, scalars); }
  void OnEvaluation(const EvaluationReport& all) override { Locked(&RunSink::OnEvaluation, all); }
  void OnCounters(std::span<const Counter> all) override { Locked(&RunSink::OnCounters, all); }
  void OnCapture(int rank, const CaptureReport& report) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    sink_.OnCapture(rank, report);
  }

 private:
  template <class Method, class Value>
  void Locked(Method method, const Value& value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (sink_.*method)(value);
  }
  RunSink& sink_;
  std::mutex mutex_;
};

// Directs other processes' records to the sink during its lifetime.
class Collecting {
 public:
  Collecting(ProcessGroup* group, RunSink& sink, std::int64_t first_step, std::int64_t end_step)
      : group_(group) {
    if (group_ != nullptr) group_->Collect(&sink, first_step, end_step);
  }
  ~Collecting() {
    if (group_ != nullptr) group_->Collect(nullptr);
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;

 private:
  ProcessGroup* const group_;
};

// Adds a later run of the same executor: its times add up, and what it counts from the start is the
// later one's.
void Append(const RunSummary& later, RunSummary& all) {
  const std::int64_t steps = all.steps + later.steps;
  const double seconds = all.seconds + later.seconds;
  all = later;
  all.steps = steps;
  all.seconds = seconds;
}

// Runs the executor from pause to pause: for a checkpoint, while ranks rest and their state is
// copied, and for an evaluation. The last step is followed by both.
class Segments {
 public:
  // `saver` and `evaluator` may be null. Losses of the `reporter` are saved too.
  Segments(const TrainJob& job, Executor& executor, RunClock& clock, CheckpointSaver* saver,
           HeldOutLoss* evaluator, const Reporter& reporter)
      : plan_(job.save),
        executor_(executor),
        clock_(clock),
        saver_(saver),
        evaluator_(evaluator),
        reporter_(reporter),
        end_(executor.next_step() + job.steps),
        apart_(job.processes != nullptr) {
    SetDue();
  }

  //   batches, sink   of the training
  //   evaluations     gets the losses of evaluations
  Result<RunSummary> Run(BatchSource& batches, RunSink& sink, RunSink& evaluations,
                         const std::function<bool()>& stop) {
    RunSummary all;
    std::int64_t saved = executor_.next_step();  // steps that need no checkpoint
    for (bool stopped = false; executor_.next_step() < end_ && !stopped;) {
      const std::int64_t next = executor_.next_step();
      const std::int64_t until = PauseAfter(next);
      const auto pause = [&] { return (stop && stop()) || clock_.Now() >= due_ns_; };
      FT_ASSIGN(const RunSummary part, executor_.Run(until - next, batches, sink, pause));
      Append(part, all);
      const bool due = clock_.Now() >= due_ns_;
      const std::int64_t now = executor_.next_step();
      // Processes that were asked to stop at different moments ran the same steps.
      stopped = apart_ ? now < until : (part.stopped && !due) || (stop && stop());
      if (now == next && !stopped) continue;
      if (evaluator_ != nullptr && !stopped && (now == end_ || evaluator_->IsDue(now))) {
        FT_ASSIGN(const EvaluationReport report, evaluator_->Run(now - 1));
        evaluations.OnEvaluation(report);
      }
      const bool by_step = plan_.every_steps > 0 && now % plan_.every_steps == 0;
      if (saver_ != nullptr && now > saved && (due || by_step || stopped || now == end_)) {
        saved = now;
        FT_TRY(saver_->Save(now, TimeAfter(all, stopped || now == end_), reporter_.Losses()));
        SetDue();
      }
    }
    if (saver_ != nullptr) saver_->Wait();
    all.stopped = executor_.next_step() < end_;
    return all;
  }

 private:
  TrainingTime TimeAfter(const RunSummary& all, bool ended) const {
    TrainingTime time = plan_.time;
    time.steps_ns += NsFromSeconds(all.seconds);
    time.saved_unix_ns = SystemClock().RealtimeNs();
    time.ended = ended;
    return time;
  }
  void SetDue() {
    due_ns_ = saver_ != nullptr && plan_.every_ns > 0 ? clock_.Now() + plan_.every_ns
                                                      : std::numeric_limits<std::int64_t>::max();
  }
  // Number of the step before which the run pauses, by steps alone.
  std::int64_t PauseAfter(std::int64_t next) const {
    std::int64_t until = end_;
    if (saver_ != nullptr && plan_.every_steps > 0) {
      until = std::min(until, (next / plan_.every_steps + 1) * plan_.every_steps);
    }
    if (evaluator_ != nullptr) until = std::min(until, evaluator_->NextAfter(next));
    return until;
  }

  const SavePlan& plan_;
  Executor& executor_;
  RunClock& clock_;
  CheckpointSaver* const saver_;
  HeldOutLoss* const evaluator_;
  const Reporter& reporter_;
  const std::int64_t end_;
  const bool apart_;         // ranks run in other processes too
  std::int64_t due_ns_ = 0;  // time of the next checkpoint by time
};

// Whether the spans of a save after `step` steps are recorded, as those of the step before it are.
bool IsRecorded(const ExecutorOptions& options, std::int64_t step) {
  return options.record_spans && options.window.CoversStep(step - 1);
}

}  // namespace

// Records pass from the ranks through `captured` and `shared` to `reporter` and `sink`. On ranks
// other than 0 they go to the group's sender instead, and rank 0 feeds them into `shared`.
Result<RunSummary> Train(const TrainJob& job, const FtDeviceApi& api, RunClock& clock,
                         BatchSource& batches, RunSink& sink, const std::function<bool()>& stop) {
  ProcessGroup* const group = job.processes;
  ExecutorOptions options = job.executor;
  options.learning_rate = [rate = job.learning_rate](std::int64_t step) { return rate.At(step); };
  options.seed = job.seed;
  options.optimizer.seed = job.seed;
  options.agreement = group;
  options.ends_if_not_finite = true;
  options.capture = job.capture;
  const std::vector<double> before =
      job.resume != nullptr ? job.resume->manifest().losses : std::vector<double>();
  if (job.skips_spikes) {
    FT_TRY(CheckSkipsSpikes(job.program->plan));
    options.spike_guard = std::make_shared<SpikeGuard>(before);
  }
  // If the peak cannot be reset, an earlier larger peak may hide that of the run.
  ResetPeakResident();
  const std::int64_t before_bytes = ResidentBytes();
  FT_ASSIGN(const auto executor, Executor::Make(job.program, api, clock, options));
  FT_TRY(FillParameters(*executor,
                        job.weights ? job.weights : InitialWeights(job.program->model, job.seed)));
  PosixFileSystem files;
  if (job.resume != nullptr) FT_TRY(job.resume->Load(files, *executor));
  Reporter reporter(*job.program, job.learning_rate, executor->ranks(), clock.Now(), before, sink);
  SharedSink shared(reporter);
  const bool sends = group != nullptr && group->rank() != 0;
  const std::int64_t first = job.executor.first_step;
  const Collecting collecting(sends ? nullptr : group, shared, first, first + job.steps);
  const std::vector<LocalRank>& local = job.executor.local;
  CapturedSink captured(job.capture, local.empty() ? 0 : local.front().rank,
                        sends ? group->Sender() : shared);
  std::unique_ptr<CheckpointSaver> saver;
  if (!job.save.saver.folder.empty()) {
    // Calls of a sink come from any thread of the run.
    RunSink& spans = sends ? group->Sender() : static_cast<RunSink&>(shared);
    const auto on_saved = [&job, &spans](const SaveReport& report) {
      if (IsRecorded(job.executor, report.step)) spans.OnSpans(report.spans);
      if (job.save.on_saved) job.save.on_saved(report);
    };
    FT_ASSIGN(saver, CheckpointSaver::Make(job.save.saver, files, *executor, clock, on_saved));
  }
  std::unique_ptr<HeldOutLoss> evaluator;
  if (job.evaluation.program != nullptr) {
    FT_ASSIGN(evaluator, HeldOutLoss::Make(job.evaluation, *executor, api, clock, options));
  }
  ReadAhead ahead(batches);
  RunSink unheard;
  Segments segments(job, *executor, clock, saver.get(), evaluator.get(), reporter);
  auto run = saver == nullptr && evaluator == nullptr
                 ? executor->Run(job.steps, ahead, captured, stop)
                 : segments.Run(ahead, captured, sends ? unheard : shared, stop);
  captured.End();
  if (!run.has_value()) {
    std::string last_ops = executor->FlightText();
    if (group != nullptr) last_ops = group->GatherLastOps(std::move(last_ops));
    sink.OnFailure(last_ops);
  }
  FT_ASSIGN(RunSummary summary, std::move(run));
  summary.resident_growth_bytes = PeakResidentBytes() - before_bytes;
  return group != nullptr ? group->Finish(std::move(summary)) : summary;
}

}  // namespace foretrain
