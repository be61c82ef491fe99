// The writing thread: takes queued rows, commits them batch by batch and keeps what fails.
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#include "base/stop_point.h"
#include "traces/store/writer.h"

namespace foretrain::store_internal {
namespace {

using std::chrono::steady_clock;

constexpr auto kRetryInterval = std::chrono::seconds(1);
constexpr auto kHeartbeatInterval = std::chrono::seconds(5);
constexpr std::size_t kMaxSpareRows = 65'536;
// Rows of one checksum. Readers read and verify whole batches, even for a short time window.
constexpr std::int64_t kMaxBatchRows = 1'024;
constexpr int kLogPages = 2'000;  // 16 MiB

std::int64_t TimeOf(const Span& span) { return span.start_ns; }
std::int64_t TimeOf(const MemorySample& sample) { return sample.time_ns; }

// Sorts the rows of a batch in stored order.
void SortBatch(std::vector<Span>& spans) { SortForStore(spans); }
void SortBatch(std::vector<MemorySample>& samples) {
  std::stable_sort(
      samples.begin(), samples.end(),
      [](const MemorySample& a, const MemorySample& b) { return a.time_ns < b.time_ns; });
}

std::optional<std::int32_t> LastStepOf(const std::vector<Span>& spans) {
  std::optional<std::int32_t> last;
  for (const Span& span : spans) last = std::max(last.value_or(span.step), span.step);
  return last;
}

std::optional<std::int32_t> LastStepOf(const std::vector<MemorySample>&) { return std::nullopt; }

std::optional<std::int32_t> LastStepOf(const SmallRows& rows) {
  std::optional<std::int32_t> last;
  for (const StepWindow& window : rows.steps)
    last = std::max(last.value_or(window.step), window.step);
  for (const Counter& counter : rows.counters) {
    if (counter.step >= 0) last = std::max(last.value_or(counter.step), counter.step);
  }
  return last;
}

// Removes windows that a reader would reject, and returns their number.
std::int64_t DropInvalid(int world, std::vector<StepWindow>& windows) {
  return static_cast<std::int64_t>(std::erase_if(windows, [world](const StepWindow& window) {
    return window.rank < 0 || window.rank >= world || !IsStorable(window);
  }));
}

}  // namespace

void Writer::Loop() {
  while (database_ != nullptr) Turn();
}

// Time of the next action without a command: retry after a failure, a full batch, the batch
// interval or the heartbeat. A time in the past means now.
steady_clock::time_point Writer::WakeTimeLocked() const {
  if (failing_.has_value()) return last_turn_ + kRetryInterval;
  if (outbox_rows_ >= options_.commit_rows) return last_turn_;
  const auto heartbeat = last_turn_ + kHeartbeatInterval;
  if (!oldest_.has_value()) return heartbeat;
  return std::min<steady_clock::time_point>(
      heartbeat, *oldest_ + std::chrono::nanoseconds(options_.commit_interval_ns));
}

// Waits for work and takes all of it. Rows posted before a command are in taken_, so they are
// written before the command runs. Allocates before it takes any row: without memory all stay.
void Writer::TakeWork() {
  std::unique_lock lock(mutex_);
  while (commands_.empty()) {
    const auto wake = WakeTimeLocked();
    if (steady_clock::now() >= wake) break;
    work_.wait_until(lock, wake);
  }
  last_turn_ = steady_clock::now();
  running_.swap(commands_);
  taken_.reserve(taken_.size() + runs_.size());
  for (const auto& [id, run] : runs_) {
    if (!failing_.has_value()) {
      run->outbox.small.totals.dropped += std::exchange(run->lost, 0);
    }
    if (run->outbox.IsEmpty()) continue;
    taken_.emplace_back(run, std::exchange(run->outbox, {}));
  }
  outbox_rows_ = 0;
  oldest_.reset();
}

// Moves what was taken into the backlog, run by run, and writes it. What fails stays where it is.
Result<void> Writer::WriteWork(bool beat) {
  while (!taken_.empty()) {
    AddToBacklog(taken_.front().first, taken_.front().second);
    taken_.erase(taken_.begin());
  }
  if (!backlog_.empty()) return WriteBacklog();
  if (beat) return Commit(/*durable=*/false, [] { return Result<void>(); });
  return {};
}

// An Error for what a library threw. It is made where memory ran out, so its text may have to be
// one that needs none.
Result<void> Writer::Thrown(const std::exception& exception) const noexcept {
  try {
    return Fail(ErrorCode::kResourceExhausted, path_ + ": recording failed: " + exception.what());
  } catch (const std::exception&) {
    return tl::unexpected<Error>(Error{ErrorCode::kResourceExhausted, "out of memory"});
  }
}

// Runs `work`. This is the entry of a thread, so what libraries throw becomes an Error here.
Result<void> Writer::Caught(const std::function<Result<void>()>& work) const noexcept {
  try {
    return work();
  } catch (const std::exception& exception) {
    return Thrown(exception);
  }
}

// One round of the thread: waiting rows first, then the commands after them.
void Writer::Turn() noexcept {
  const Result<void> status = Caught([this]() -> Result<void> {
    TakeWork();
    return WriteWork(/*beat=*/running_.empty());
  });
  SetStatus(status);
  for (Command& command : running_) {
    // If rows before a command could not be written, that error is its result.
    Result<void> result = Caught([&status] { return status; });
    if (status.has_value() || command.always) {
      Result<void> done = Caught(command.run);
      if (result.has_value()) result = std::move(done);
    }
    command.done.set_value(std::move(result));
  }
  running_.clear();
}

void Writer::SetStatus(const Result<void>& status) noexcept {
  Result<void> copy = Caught([&status] { return status; });
  {
    const std::lock_guard lock(mutex_);
    failing_.reset();
    if (!copy.has_value()) failing_.emplace(std::move(copy).error());
  }
  room_.notify_all();
}

// Sorts rows by rank, checks them, and adds them to the backlog.
template <class Row>
void Writer::AddRows(const std::shared_ptr<RunState>& run,
                     const std::vector<std::vector<Row>>& boxes, std::vector<Row> Piece::*rows) {
  std::map<int, std::vector<Row>> by_rank;
  std::int64_t invalid = 0;
  std::vector<Row>* of_rank = nullptr;
  int rank = -1;
  for (const std::vector<Row>& box : boxes) {
    for (const Row& row : box) {
      if (row.rank < 0 || row.rank >= run->world || !IsStorable(row)) {
        ++invalid;
        continue;
      }
      if (row.rank != rank) {
        rank = row.rank;
        of_rank = &by_rank[rank];
      }
      of_rank->push_back(row);
    }
  }
  if (invalid > 0) {
    Piece piece{.run = run, .small = SmallRows{}, .rows = invalid};
    piece.small->totals.invalid = invalid;
    backlog_.push_back(std::move(piece));
  }
  for (auto& [of, all] : by_rank) AddPieces(run, of, std::move(all), rows);
}

// A box larger than a batch is cut by time, so that a time window of a long run lies in few rows.
template <class Row>
void Writer::AddPieces(const std::shared_ptr<RunState>& run, int rank, std::vector<Row> all,
                       std::vector<Row> Piece::*rows) {
  const auto add = [&](std::vector<Row> part) {
    Piece piece{.run = run, .rank = rank, .rows = static_cast<std::int64_t>(part.size())};
    SortBatch(part);
    piece.batch = run->next_batch++;
    piece.last_step = LastStepOf(part);
    piece.*rows = std::move(part);
    backlog_.push_back(std::move(piece));
  };
  const auto max = static_cast<std::ptrdiff_t>(std::min(options_.commit_rows, kMaxBatchRows));
  if (std::ssize(all) <= max) return add(std::move(all));
  std::stable_sort(all.begin(), all.end(),
                   [](const Row& a, const Row& b) { return TimeOf(a) < TimeOf(b); });
  for (std::ptrdiff_t from = 0; from < std::ssize(all); from += max) {
    const std::ptrdiff_t to = std::min(std::ssize(all), from + max);
    add(std::vector<Row>(all.begin() + from, all.begin() + to));
  }
}

// Gives emptied vectors back to the recorders, as far as the pool has place.
template <class Row>
void Writer::Recycle(std::vector<std::vector<Row>>& boxes, std::vector<std::vector<Row>>& spare) {
  const std::lock_guard lock(mutex_);
  for (std::vector<Row>& box : boxes) {
    if (spare.size() == spare.capacity()) return;
    box.clear();
    if (box.capacity() <= kMaxSpareRows) spare.push_back(std::move(box));
  }
}

// All of the box becomes part of the backlog, or nothing: if memory runs out on the way, the pieces
// made so far are dropped and the box is whole for the next try.
void Writer::AddToBacklog(const std::shared_ptr<RunState>& run, Outbox& box) {
  struct Undo {
    ~Undo() {
      if (done) return;
      while (std::ssize(backlog) > pieces) backlog.pop_back();
      run.next_batch = batch;
    }
    std::deque<Piece>& backlog;
    RunState& run;
    std::ptrdiff_t pieces;
    std::int64_t batch;
    bool done = false;
  } undo{backlog_, *run, std::ssize(backlog_), run->next_batch};
  AddRows(run, box.spans, &Piece::spans);
  AddRows(run, box.samples, &Piece::samples);
  if (const std::int64_t rows = box.small.Rows();
      rows > 0 || box.small.totals != RecordingTotals{}) {
    Piece& piece = backlog_.emplace_back(Piece{.run = run, .rows = rows});
    // No allocation from here on.
    box.small.totals.invalid += DropInvalid(run->world, box.small.steps);
    piece.last_step = LastStepOf(box.small);
    piece.small.emplace(std::move(box.small));
  }
  undo.done = true;
  Recycle(box.spans, spare_spans_);
  Recycle(box.samples, spare_samples_);
}

// Commits the backlog, one batch of rows at a time. Rows of a failed commit stay in the backlog.
Result<void> Writer::WriteBacklog() {
  while (!backlog_.empty()) {
    std::size_t count = 0;
    std::int64_t rows = 0;
    while (count < backlog_.size() &&
           (count == 0 || rows + backlog_[count].rows <= options_.commit_rows)) {
      rows += backlog_[count++].rows;
    }
    FT_TRY(Commit(/*durable=*/false, [this, count] { return InsertPieces(count); }));
    DropWritten(count);
  }
  return {};
}

Result<void> Writer::InsertPieces(std::size_t count) {
  std::map<RunId, std::int32_t> last_steps;
  for (std::size_t i = 0; i < count; ++i) {
    const Piece& piece = backlog_[i];
    const RunId run = piece.run->id;
    if (piece.small.has_value()) {
      FT_TRY(tables_->InsertSmall(run, *piece.small));
    } else {
      FT_TRY(tables_->InsertBatch(run, piece.rank, piece.batch, piece.spans, piece.samples));
    }
    if (!piece.last_step.has_value()) continue;
    const auto [at, is_new] = last_steps.try_emplace(run, *piece.last_step);
    at->second = std::max(at->second, *piece.last_step);
  }
  for (const auto& [run, step] : last_steps) FT_TRY(tables_->SetLastStep(run, step));
  StopPoint("store.batch");
  return {};
}

// Subtracts written rows under the lock, then wakes all recorders in WaitForRoom.
void Writer::DropWritten(std::size_t count) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    rows += backlog_.front().rows;
    backlog_.pop_front();
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_rows_ -= rows;
  }
  room_.notify_all();
}

// One transaction that also updates the heartbeat. `durable`: it and all earlier commits survive a
// loss of power.
Result<void> Writer::Commit(bool durable, const std::function<Result<void>()>& insert) {
  // In WAL mode, FULL syncs the log at the commit, and with it every earlier commit
  // [sqlite.org/wal.html].
  if (durable) FT_TRY(database_->Execute("PRAGMA synchronous = FULL"));
  // An exception also rolls the transaction back. Ids that it gave out are void then.
  const Result<void> result = Caught([&]() -> Result<void> {
    FT_ASSIGN(Transaction transaction, Transaction::Begin(*database_, /*write=*/true));
    FT_TRY(insert());
    FT_ASSIGN(Statement beat, database_->Prepare("UPDATE writer SET heartbeat_unix_ns = ?"));
    FT_TRY(beat.Bind(NowUnixNs()).Run());
    return transaction.Commit();
  });
  if (!result.has_value() && tables_ != nullptr) tables_->Forget();
  if (result.has_value()) database_->CheckpointAt(kLogPages);
  if (durable) FT_TRY(database_->Execute("PRAGMA synchronous = NORMAL"));
  return result;
}

// Rows that will never reach the file, by run.
std::map<RunId, std::int64_t> Writer::LostRowsLocked() const {
  std::map<RunId, std::int64_t> lost;
  for (const auto& [run, box] : taken_) lost[run->id] += box.rows;
  for (const Piece& piece : backlog_) lost[piece.run->id] += piece.rows;
  for (const auto& [id, run] : runs_) lost[id] += run->lost + run->outbox.rows;
  return lost;
}

// The last command: closes open runs, releases the file and ends the thread, whose loop runs while
// database_ is set.
Result<void> Writer::CloseFile() {
  const Result<void> result = Caught([this] { return CloseRuns(); });
  if (!result.has_value()) {
    // The runs are then shown as interrupted, and this process no longer as their recorder.
    const auto leave = [this] { return database_->Execute("DELETE FROM writer"); };
    static_cast<void>(Caught(leave).has_value());
  }
  backlog_.clear();
  taken_.clear();
  tables_.reset();
  database_.reset();
  return result;
}

// closed_ is set first, so that no recorder adds rows that would be lost silently.
Result<void> Writer::CloseRuns() {
  std::map<RunId, std::int64_t> lost;
  std::vector<std::shared_ptr<RunState>> left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    lost = LostRowsLocked();
    for (const auto& [id, run] : runs_) left.push_back(run);
    runs_.clear();
  }
  room_.notify_all();
  const auto finish = [this, &left, &lost]() -> Result<void> {
    for (const auto& [run, rows] : lost) {
      SmallRows small;
      small.totals.dropped = rows;
      FT_TRY(tables_->InsertSmall(run, small));
    }
    for (const auto& run : left) {
      RunStatus ending = run->ending;
      std::string message = run->ending_message;
      // A run without all its rows must not look whole.
      if (const std::int64_t rows = lost[run->id]; rows > 0 && ending == RunStatus::kFinished) {
        ending = RunStatus::kInterrupted;
        if (message.empty()) message = std::to_string(rows) + " rows could not be written";
      }
      FT_TRY(tables_->FinishRun(run->id, ending, message, NowUnixNs()));
    }
    return database_->Execute("DELETE FROM writer");
  };
  const Result<void> result = Commit(/*durable=*/true, finish);
  if (result.has_value()) {
    // If a reader still holds the log, the last connection to close does this.
    static_cast<void>(database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)").has_value());
  }
  return result;
}

}  // namespace foretrain::store_internal
