#include "traces/store.h"

#include "traces/store/writer.h"

namespace foretrain {

using store_internal::SmallRows;
using store_internal::Writer;

RunRecorder::RunRecorder(std::shared_ptr<Writer> writer,
                         std::shared_ptr<store_internal::RunState> state)
    : writer_(std::move(writer)), state_(std::move(state)) {}

// Abandon records a run that was not finished as interrupted, so no run stays `running` by mistake.
RunRecorder::~RunRecorder() { writer_->Abandon(*state_); }

RunId RunRecorder::id() const { return state_->id; }

// The writer takes the caller's vector and gives back an empty one in exchange.
Result<void> RunRecorder::Add(std::vector<Span>& spans) {
  return writer_->PostRows(*state_, spans);
}

Result<void> RunRecorder::Add(std::vector<MemorySample>& samples) {
  return writer_->PostRows(*state_, samples);
}

// Few rows, so they are copied into the outbox under the writer's lock.
Result<void> RunRecorder::AddSteps(std::span<const StepWindow> steps) {
  return writer_->PostSmall(*state_, [steps](SmallRows& rows) {
    rows.steps.insert(rows.steps.end(), steps.begin(), steps.end());
  });
}

Result<void> RunRecorder::AddCounters(std::span<const Counter> counters) {
  return writer_->PostSmall(*state_, [counters](SmallRows& rows) {
    rows.counters.insert(rows.counters.end(), counters.begin(), counters.end());
  });
}

Result<void> RunRecorder::AddMetrics(std::span<const MetricValue> metrics) {
  return writer_->PostSmall(*state_, [metrics](SmallRows& rows) {
    rows.metrics.insert(rows.metrics.end(), metrics.begin(), metrics.end());
  });
}

Result<void> RunRecorder::AddOpNames(const std::map<OpId, std::string>& names) {
  return writer_->PostSmall(*state_, [&names](SmallRows& rows) {
    for (const auto& [op, name] : names) rows.op_names.insert_or_assign(op, name);
  });
}

Result<void> RunRecorder::AddClock(const ClockReading& reading) {
  return writer_->PostSmall(*state_,
                            [&reading](SmallRows& rows) { rows.clocks.push_back(reading); });
}

// The time of a note is taken here, not when the writing thread reaches it.
Result<void> RunRecorder::AddNote(std::string_view text) {
  const std::int64_t now = writer_->NowUnixNs();
  return writer_->PostSmall(*state_, [now, text](SmallRows& rows) {
    rows.notes.push_back({now, std::string(text)});
  });
}

Result<void> RunRecorder::Attach(std::string_view name, std::string_view bytes) {
  return writer_->PostSmall(*state_, [name, bytes](SmallRows& rows) {
    rows.attachments.emplace_back(std::string(name), std::string(bytes));
  });
}

// Counts add up; the clock error keeps its largest value.
Result<void> RunRecorder::AddTotals(const RecordingTotals& totals) {
  return writer_->PostSmall(*state_, [&totals](SmallRows& rows) {
    rows.totals.dropped += totals.dropped;
    rows.totals.invalid += totals.invalid;
    rows.totals.overhead_ns += totals.overhead_ns;
    rows.totals.clock_error_ns = std::max(rows.totals.clock_error_ns, totals.clock_error_ns);
  });
}

// Names and windows go first, so that a reader never shows spans without them.
Result<void> RunRecorder::AddTimeline(Timeline timeline) {
  FT_TRY(AddOpNames(timeline.op_names));
  FT_TRY(AddSteps(timeline.steps));
  FT_TRY(Add(timeline.memory));
  return Add(timeline.spans);
}

Result<void> RunRecorder::Flush() { return writer_->Flush(); }

// `running` is the state of an open run and cannot be an ending.
Result<void> RunRecorder::Finish(RunStatus status, std::string_view message) {
  if (status == RunStatus::kRunning) {
    return Fail(ErrorCode::kInvalidArgument, "a run cannot be finished as running");
  }
  return writer_->FinishRun(*state_, status, message);
}

Store::Store(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

// An error at this point has no receiver: callers that need to know call Close.
Store::~Store() { writer_->CloseAnyhow(); }

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, const StoreOptions& options) {
  FT_ASSIGN(std::shared_ptr<Writer> writer, Writer::Open(path, options));
  return std::unique_ptr<Store>(new Store(std::move(writer)));
}

Result<std::unique_ptr<RunRecorder>> Store::BeginRun(const RunSetup& setup) {
  FT_ASSIGN(std::shared_ptr<store_internal::RunState> state, writer_->BeginRun(setup));
  return std::make_unique<RunRecorder>(writer_, std::move(state));
}

Result<void> Store::Close() { return writer_->Close(); }

const std::string& Store::path() const { return writer_->path(); }

}  // namespace foretrain
