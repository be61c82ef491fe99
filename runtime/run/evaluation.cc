#include "runtime/run/evaluation.h"

#include <optional>
#include <span>

#include "runtime/parameters/averages_in_use.h"

namespace foretrain {
namespace {

// Every evaluation reads the same batches, whatever the executor's step.
class FirstBatches final : public BatchSource {
 public:
  FirstBatches(BatchSource& source, std::int64_t batches) : source_(source), batches_(batches) {}

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    return source_.Fill(FirstOf(request), ids, targets);
  }
  Result<void> FillDocumentStarts(const BatchRequest& request,
                                  std::span<std::int32_t> starts) override {
    return source_.FillDocumentStarts(FirstOf(request), starts);
  }

 private:
  BatchRequest FirstOf(BatchRequest request) const {
    request.step %= batches_;
    return request;
  }

  BatchSource& source_;
  const std::int64_t batches_;
};

// Adds up the losses of one rank: the loss is reduced, so all ranks read the same one.
class LossSink final : public RunSink {
 public:
  explicit LossSink(int rank) : rank_(rank) {}

  void OnScalars(const StepScalars& scalars) override {
    if (scalars.rank != rank_ || !scalars.loss) return;
    sum_ += double{*scalars.loss};
    ++batches_;
  }
  double Mean() const { return batches_ > 0 ? sum_ / static_cast<double>(batches_) : 0.0; }

 private:
  const int rank_;
  double sum_ = 0;
  std::int64_t batches_ = 0;
};

}  // namespace

// Nothing is recorded, so that spans and counters of the training stay those of its steps. Steps of
// other processes need no agreement: all run the same number of batches.
Result<std::unique_ptr<HeldOutLoss>> HeldOutLoss::Make(const EvaluationJob& job, Executor& training,
                                                       const FtDeviceApi& api, RunClock& clock,
                                                       const ExecutorOptions& options) {
  FT_CHECK(job.program != nullptr && job.every > 0 && job.batches > 0 && job.data != nullptr);
  ExecutorOptions own = options;
  own.first_step = 0;
  own.agreement = nullptr;
  own.record_spans = own.record_memory = own.graphs = own.take_turns = false;
  own.ends_if_not_finite = false;
  own.spike_guard = nullptr;
  own.capture = nullptr;
  own.faults = nullptr;
  own.routing = nullptr;
  FT_ASSIGN(auto executor, Executor::MakeIn(training, job.program, api, clock, std::move(own)));
  return std::unique_ptr<HeldOutLoss>(new HeldOutLoss(job, training, std::move(executor)));
}

Result<EvaluationReport> HeldOutLoss::Run(std::int64_t step) {
  FirstBatches batches(*job_.data, job_.batches);
  LossSink sink(executor_->Rank(0).rank);
  std::optional<AveragesInUse> averages;
  if (training_.program().plan.average_decay > 0) {
    FT_ASSIGN(averages, AveragesInUse::Make(training_));
  }
  const auto summary = executor_->Run(job_.batches, batches, sink);
  if (!summary.has_value()) return tl::unexpected<Error>(summary.error());
  if (averages) FT_TRY(averages->Restore());
  return EvaluationReport{step, sink.Mean(), summary->seconds};
}

}  // namespace foretrain
