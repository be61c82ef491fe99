#include "traces/store/writer.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#include "base/stop_point.h"
#include "base/units.h"
#include "traces/store/schema.h"

namespace foretrain::store_internal {
namespace {

using std::chrono::steady_clock;

constexpr auto kRetryInterval = std::chrono::seconds(1);
constexpr auto kHeartbeatInterval = std::chrono::seconds(5);
constexpr std::int64_t kHeartbeatLostNs = 30'000'000'000;
constexpr std::int64_t kMostBatchRows = std::int64_t{1} << 20;
constexpr std::int64_t kMostCheckedBytes = std::int64_t{32} << 20;
constexpr std::size_t kMostSpare = 32;
constexpr std::size_t kMostSpareRows = 65'536;
constexpr int kMostWorld = 1 << 24;
constexpr int kLogPages = 2'000;  // 16 MiB

std::int64_t TimeOf(const Span& span) { return span.start_ns; }
std::int64_t TimeOf(const MemorySample& sample) { return sample.time_ns; }

// Rows that are stored together come in the order of the file.
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

Error BusyError(const std::string& path, const Owner& owner, bool same_machine) {
  return {ErrorCode::kInvalidArgument,
          path + ": process " + std::to_string(owner.pid) +
              (same_machine ? std::string() : " on " + owner.host) +
              " is recording into it: wait until it has ended, or give another file with --store"};
}

}  // namespace

Writer::Writer(std::unique_ptr<Database> database, std::unique_ptr<RunTables> tables,
               const StoreOptions& options)
    : path_(database->path()),
      options_(options),
      clock_(options.clock != nullptr ? options.clock : &system_clock_),
      database_(std::move(database)),
      tables_(std::move(tables)) {}

Result<std::shared_ptr<Writer>> Writer::Open(const std::string& path, const StoreOptions& options) {
  if (options.batch_rows < 1 || options.batch_rows > kMostBatchRows) {
    return Fail(ErrorCode::kInvalidArgument, "batch_rows " + std::to_string(options.batch_rows) +
                                                 ": must be 1 to " +
                                                 std::to_string(kMostBatchRows));
  }
  FT_ASSIGN(auto database, OpenStore({.path = path,
                                      .mode = OpenMode::kCreate,
                                      .vfs = options.vfs,
                                      .most_checked_bytes = kMostCheckedBytes}));
  FT_TRY(database->Execute("PRAGMA synchronous = NORMAL"));
  FT_TRY(database->Execute("PRAGMA cache_size = -65536"));  // 64 MiB
  database->CheckpointByHand();
  FT_TRY(database->Execute("PRAGMA journal_size_limit = 67108864"));  // 64 MiB
  FT_ASSIGN(auto tables, RunTables::Prepare(*database));
  std::shared_ptr<Writer> writer(new Writer(std::move(database), std::move(tables), options));
  FT_TRY(writer->TakeFile());
  writer->thread_ = std::thread([raw = writer.get()] { raw->Loop(); });
  return writer;
}

Writer::~Writer() { static_cast<void>(Close().has_value()); }

// Enters this process as the one that records, unless another one lives, and notes what a dead one
// left.
Result<void> Writer::TakeFile() {
  return Commit(/*durable=*/true, [this]() -> Result<void> {
    FT_ASSIGN(Statement select,
              database_->Prepare("SELECT pid, start_ticks, boot, pid_namespace, host, "
                                 "heartbeat_unix_ns FROM writer"));
    FT_ASSIGN(const bool found, select.Step());
    if (found) {
      const Owner owner{.pid = select.Int(0),
                        .start_ticks = select.Int(1),
                        .boot = select.Text(2),
                        .pid_namespace = select.Text(3),
                        .host = select.Text(4)};
      const Life life = LifeOf(owner);
      const bool beats = NowUnixNs() - select.Int(5) < kHeartbeatLostNs;
      if (life == Life::kAlive || (life == Life::kUnknown && beats)) {
        const Error error = BusyError(path_, owner, life == Life::kAlive);
        return Fail(error.code, error.message);
      }
      select.Reset();
    }
    FT_ASSIGN(Statement mark,
              database_->Prepare("UPDATE run SET status = ?1, message = ?3 || pid || ?4 "
                                 "WHERE status = ?2"));
    mark.Bind(1, static_cast<std::int64_t>(RunStatus::kInterrupted))
        .Bind(2, static_cast<std::int64_t>(RunStatus::kRunning))
        .BindText(3, "process ")
        .BindText(4, ", which recorded it, ended without finishing it");
    FT_TRY(mark.Run());
    FT_ASSIGN(Statement enter,
              database_->Prepare("INSERT OR REPLACE INTO writer VALUES(1, ?, ?, ?, ?, ?, ?, ?)"));
    return enter.Bind(1, owner_.pid)
        .Bind(2, owner_.start_ticks)
        .BindText(3, owner_.boot)
        .BindText(4, owner_.pid_namespace)
        .BindText(5, owner_.host)
        .Bind(6, NowUnixNs())
        .Bind(7, NowUnixNs())
        .Run();
  });
}

// ---- of the callers

Result<void> Writer::Call(std::function<Result<void>()> run, bool always) {
  std::future<Result<void>> done;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Fail(ErrorCode::kAborted, path_ + ": the store was closed");
    Command command{std::move(run), {}, always};
    done = command.done.get_future();
    commands_.push_back(std::move(command));
  }
  work_.notify_one();
  return done.get();
}

Result<std::shared_ptr<RunState>> Writer::BeginRun(const RunSetup& setup) {
  if (setup.world < 1 || setup.world > kMostWorld) {
    return Fail(ErrorCode::kInvalidArgument, "world " + std::to_string(setup.world) +
                                                 ": must be 1 to " + std::to_string(kMostWorld));
  }
  auto state = std::make_shared<RunState>();
  state->world = setup.world;
  const auto insert = [this, &setup, &state]() -> Result<void> {
    FT_ASSIGN(state->id, tables_->InsertRun(setup, owner_, NowUnixNs()));
    FT_STOP_POINT("store.begin_run");
    return {};
  };
  const auto begin = [this, &state, &insert]() -> Result<void> {
    FT_TRY(Commit(/*durable=*/true, insert));
    const std::lock_guard lock(mutex_);
    runs_[state->id] = state;
    return {};
  };
  FT_TRY(Call(begin));
  return state;
}

Result<void> Writer::CheckLocked(const RunState& run) const {
  if (closed_) return Fail(ErrorCode::kAborted, path_ + ": the store was closed");
  if (run.finished) {
    return Fail(ErrorCode::kAborted, path_ + ": run " + std::to_string(run.id) + " was finished");
  }
  if (failing_.has_value()) return Fail(failing_->code, failing_->message);
  return {};
}

// False: the rows do not fit, and nothing will make room for them.
bool Writer::WaitForRoom(std::unique_lock<std::mutex>& lock, std::int64_t rows) {
  const auto fits = [this, rows] {
    return waiting_rows_ == 0 || waiting_rows_ + rows <= options_.most_waiting_rows;
  };
  if (!fits()) work_.notify_one();
  room_.wait(lock, [this, &fits] { return fits() || failing_.has_value() || closed_; });
  return fits() && !closed_;
}

void Writer::CountLocked(RunState& run, std::int64_t rows) {
  run.outbox.rows += rows;
  outbox_rows_ += rows;
  waiting_rows_ += rows;
  const bool first = !oldest_.has_value();
  if (first) oldest_ = steady_clock::now();
  if (first || outbox_rows_ >= options_.batch_rows) work_.notify_one();
}

template <class Row>
Result<void> Writer::Post(RunState& run, std::vector<Row>& rows,
                          std::vector<std::vector<Row>> Outbox::*box,
                          std::vector<std::vector<Row>>& spare) {
  const auto count = static_cast<std::int64_t>(rows.size());
  std::unique_lock lock(mutex_);
  if (count > 0 && !run.finished && !closed_) {
    if (WaitForRoom(lock, count)) {
      (run.outbox.*box).push_back(std::move(rows));
      CountLocked(run, count);
      rows = {};
      if (!spare.empty()) {
        rows = std::move(spare.back());
        spare.pop_back();
      }
    } else {
      run.lost += count;
    }
  }
  rows.clear();
  return CheckLocked(run);
}

Result<void> Writer::PostRows(RunState& run, std::vector<Span>& spans) {
  return Post(run, spans, &Outbox::spans, spare_spans_);
}

Result<void> Writer::PostRows(RunState& run, std::vector<MemorySample>& samples) {
  return Post(run, samples, &Outbox::samples, spare_samples_);
}

Result<void> Writer::PostSmall(RunState& run, const std::function<void(SmallRows&)>& add) {
  const std::lock_guard lock(mutex_);
  if (!run.finished && !closed_) {
    const std::int64_t before = run.outbox.small.Rows();
    add(run.outbox.small);
    CountLocked(run, run.outbox.small.Rows() - before);
  }
  return CheckLocked(run);
}

Result<void> Writer::Flush() {
  return Call([this] { return Commit(/*durable=*/true, [] { return Result<void>(); }); });
}

Result<void> Writer::FinishRun(RunState& run, RunStatus status, std::string_view message) {
  {
    const std::lock_guard lock(mutex_);
    if (run.finished) {
      return Fail(ErrorCode::kAborted, path_ + ": run " + std::to_string(run.id) + " was finished");
    }
    run.finished = true;
    run.ending = status;
    run.ending_message = message;
  }
  return Call([this, &run]() -> Result<void> {
    FT_TRY(Commit(/*durable=*/true, [this, &run] {
      return tables_->FinishRun(run.id, run.ending, run.ending_message, NowUnixNs());
    }));
    const std::lock_guard lock(mutex_);
    runs_.erase(run.id);
    return {};
  });
}

void Writer::Abandon(RunState& run) {
  // Says kAborted where the run was finished or the store closed.
  static_cast<void>(FinishRun(run, RunStatus::kInterrupted, kAbandoned).has_value());
}

Result<void> Writer::Close() {
  const std::lock_guard closing(close_mutex_);
  if (!thread_.joinable()) return {};
  const Result<void> result = Call([this] { return CloseFile(); }, /*always=*/true);
  thread_.join();
  return result;
}

// ---- of the writing thread

void Writer::Loop() {
  while (database_ != nullptr) Turn();
}

// When there is something to do without being asked; the past: now.
steady_clock::time_point Writer::WakeTimeLocked() const {
  if (failing_.has_value()) return last_turn_ + kRetryInterval;
  if (outbox_rows_ >= options_.batch_rows) return last_turn_;
  const auto heartbeat = last_turn_ + kHeartbeatInterval;
  if (!oldest_.has_value()) return heartbeat;
  return std::min<steady_clock::time_point>(
      heartbeat, *oldest_ + std::chrono::nanoseconds(options_.batch_interval_ns));
}

// Waits for something to do and takes all of it: what was posted before a command is in `work`.
std::deque<Writer::Command> Writer::TakeWork(Work& work) {
  std::unique_lock lock(mutex_);
  while (commands_.empty()) {
    const auto wake = WakeTimeLocked();
    if (steady_clock::now() >= wake) break;
    work_.wait_until(lock, wake);
  }
  for (const auto& [id, run] : runs_) {
    if (!failing_.has_value()) {
      run->outbox.small.totals.dropped += std::exchange(run->lost, 0);
    }
    work.emplace_back(run, std::exchange(run->outbox, {}));
  }
  outbox_rows_ = 0;
  oldest_.reset();
  last_turn_ = steady_clock::now();
  return std::exchange(commands_, {});
}

Result<void> Writer::WriteWork(Work work, bool beat) {
  try {
    for (auto& [run, box] : work) AddToBacklog(run, std::move(box));
    if (!backlog_.empty()) return WriteBacklog();
    if (beat) return Commit(/*durable=*/false, [] { return Result<void>(); });
    return {};
  } catch (const std::exception& exception) {
    return Fail(ErrorCode::kResourceExhausted, path_ + ": recording failed: " + exception.what());
  }
}

// One round of the thread: what waits, then the commands behind it.
void Writer::Turn() {
  Work work;
  std::deque<Command> commands = TakeWork(work);
  const Result<void> status = WriteWork(std::move(work), commands.empty());
  SetStatus(status);
  for (Command& command : commands) {
    // Where the rows before a command could not be written, that is its answer.
    Result<void> result = status;
    try {
      if (status.has_value() || command.always) {
        const Result<void> done = command.run();
        if (result.has_value()) result = done;
      }
    } catch (const std::exception& exception) {
      result = Fail(ErrorCode::kResourceExhausted, path_ + ": " + exception.what());
    }
    command.done.set_value(std::move(result));
  }
}

void Writer::SetStatus(const Result<void>& status) {
  {
    const std::lock_guard lock(mutex_);
    if (status.has_value()) {
      failing_.reset();
    } else {
      failing_ = status.error();
    }
  }
  room_.notify_all();
}

template <class Row>
void Writer::AddRows(const std::shared_ptr<RunState>& run, std::vector<std::vector<Row>> boxes,
                     std::vector<Row> Piece::*rows, std::vector<std::vector<Row>>& spare) {
  std::map<int, std::vector<Row>> by_rank;
  std::int64_t invalid = 0;
  std::vector<Row>* of_rank = nullptr;
  int rank = -1;
  for (std::vector<Row>& box : boxes) {
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
    box.clear();
    const std::lock_guard lock(mutex_);
    if (spare.size() < kMostSpare && box.capacity() <= kMostSpareRows) {
      spare.push_back(std::move(box));
    }
  }
  if (invalid > 0) {
    Piece piece{.run = run, .small = SmallRows{}, .rows = invalid};
    piece.small->totals.invalid = invalid;
    backlog_.push_back(std::move(piece));
  }
  for (auto& [of, all] : by_rank) AddPieces(run, of, std::move(all), rows);
}

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
  const auto most = static_cast<std::ptrdiff_t>(options_.batch_rows);
  if (std::ssize(all) <= most) return add(std::move(all));
  // Cut by time, so that a window of a long run lies in few batches.
  std::stable_sort(all.begin(), all.end(),
                   [](const Row& a, const Row& b) { return TimeOf(a) < TimeOf(b); });
  for (std::ptrdiff_t from = 0; from < std::ssize(all); from += most) {
    const std::ptrdiff_t to = std::min(std::ssize(all), from + most);
    add(std::vector<Row>(all.begin() + from, all.begin() + to));
  }
}

void Writer::AddToBacklog(const std::shared_ptr<RunState>& run, Outbox box) {
  AddRows(run, std::move(box.spans), &Piece::spans, spare_spans_);
  AddRows(run, std::move(box.samples), &Piece::samples, spare_samples_);
  const std::int64_t rows = box.small.Rows();
  if (rows == 0 && box.small.totals == RecordingTotals{}) return;
  Piece piece{.run = run, .rows = rows, .last_step = LastStepOf(box.small)};
  piece.small = std::move(box.small);
  backlog_.push_back(std::move(piece));
}

// Commits the backlog, a batch's rows at a time; what a failed commit held stays in it.
Result<void> Writer::WriteBacklog() {
  while (!backlog_.empty()) {
    std::size_t count = 0;
    std::int64_t rows = 0;
    while (count < backlog_.size() &&
           (count == 0 || rows + backlog_[count].rows <= options_.batch_rows)) {
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
  FT_STOP_POINT("store.batch");
  return {};
}

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

// One transaction, with the heartbeat in it. Durable: it and all before it survive a loss of power.
Result<void> Writer::Commit(bool durable, const std::function<Result<void>()>& insert) {
  // In WAL mode FULL syncs the log at the commit, and with it every commit before
  // [sqlite.org/wal.html].
  if (durable) FT_TRY(database_->Execute("PRAGMA synchronous = FULL"));
  const Result<void> result = [&]() -> Result<void> {
    FT_ASSIGN(Transaction transaction, Transaction::Begin(*database_, /*write=*/true));
    FT_TRY(insert());
    FT_ASSIGN(Statement beat, database_->Prepare("UPDATE writer SET heartbeat_unix_ns = ?"));
    FT_TRY(beat.Bind(1, NowUnixNs()).Run());
    return transaction.Commit();
  }();
  if (!result.has_value()) tables_->Forget();
  if (result.has_value()) database_->CheckpointAt(kLogPages);
  if (durable) FT_TRY(database_->Execute("PRAGMA synchronous = NORMAL"));
  return result;
}

// What the file will never hold, by run.
std::map<RunId, std::int64_t> Writer::LostRowsLocked() const {
  std::map<RunId, std::int64_t> lost;
  for (const Piece& piece : backlog_) lost[piece.run->id] += piece.rows;
  for (const auto& [id, run] : runs_) lost[id] += run->lost + run->outbox.rows;
  return lost;
}

// The last command: closes what is open, gives the file back and ends the thread.
Result<void> Writer::CloseFile() {
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
      FT_TRY(tables_->FinishRun(run->id, run->ending, run->ending_message, NowUnixNs()));
    }
    return database_->Execute("DELETE FROM writer");
  };
  const Result<void> result = Commit(/*durable=*/true, finish);
  if (result.has_value()) {
    // A reader may hold the log: then the last connection to close does this.
    static_cast<void>(database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)").has_value());
  }
  backlog_.clear();
  tables_.reset();
  database_.reset();
  return result;
}

}  // namespace foretrain::store_internal
