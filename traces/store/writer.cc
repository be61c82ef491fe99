// The calls of recorders, and opening a store. The writing thread is in writer_thread.cc.
#include "traces/store/writer.h"

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/stop_point.h"
#include "traces/store/schema.h"

namespace foretrain::store_internal {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kHeartbeatLostNs = 30'000'000'000;
constexpr std::int64_t kMaxCommitRows = std::int64_t{1} << 20;
constexpr std::int64_t kMaxCheckedBytes = std::int64_t{32} << 20;
constexpr int kMaxWorld = 1 << 24;
constexpr std::size_t kMaxSpare = 32;  // emptied vectors kept for recorders

Error BusyError(const std::string& path, const Owner& owner, bool same_machine) {
  return {ErrorCode::kInvalidArgument,
          path + ": process " + std::to_string(owner.pid) +
              (same_machine ? std::string() : " on " + owner.host) +
              " is recording into it: wait until it has ended, or give another file with --store"};
}

}  // namespace

Writer::Writer(std::unique_ptr<Database> database, const StoreOptions& options)
    : path_(database->path()),
      options_(options),
      clock_(options.clock != nullptr ? options.clock : &system_clock_),
      database_(std::move(database)) {
  // Vectors are given back to these without allocating.
  spare_spans_.reserve(kMaxSpare);
  spare_samples_.reserve(kMaxSpare);
}

Result<std::shared_ptr<Writer>> Writer::Open(const std::string& path, const StoreOptions& options) {
  if (options.commit_rows < 1 || options.commit_rows > kMaxCommitRows) {
    return Fail(ErrorCode::kInvalidArgument, "commit_rows " + std::to_string(options.commit_rows) +
                                                 ": must be 1 to " +
                                                 std::to_string(kMaxCommitRows));
  }
  FT_ASSIGN(auto database, OpenStore({.path = path,
                                      .mode = OpenMode::kCreate,
                                      .vfs = options.vfs,
                                      .max_checked_bytes = kMaxCheckedBytes}));
  FT_TRY(database->Execute("PRAGMA synchronous = NORMAL"));
  FT_TRY(database->Execute("PRAGMA cache_size = -65536"));  // 64 MiB
  database->CheckpointByHand();
  FT_TRY(database->Execute("PRAGMA journal_size_limit = 67108864"));  // 64 MiB
  std::shared_ptr<Writer> writer(new Writer(std::move(database), options));
  FT_TRY(writer->TakeFile());
  try {
    writer->thread_ = std::thread([raw = writer.get()] { raw->Loop(); });
  } catch (const std::exception&) {  // no thread, or no memory for it
    // Close does this on the thread. Without it, this process would seem to record until its end.
    static_cast<void>(writer->database_->Execute("DELETE FROM writer").has_value());
    return Fail(ErrorCode::kResourceExhausted,
                path +
                    ": no thread can be started to write it: raise the limit (ulimit -u, or pids "
                    "of the container)");
  }
  return writer;
}

Writer::~Writer() { CloseAnyhow(); }

// Registers this process as the recorder unless another one is alive, and marks the runs of a dead
// one as interrupted. Then no other process records, and an older schema is brought up to date. One
// transaction, so that two processes cannot both register.
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
    mark.Bind(RunStatus::kInterrupted, RunStatus::kRunning, "process ", kDiedRecording);
    FT_TRY(mark.Run());
    FT_TRY(Migrate(*database_));
    FT_ASSIGN(tables_, RunTables::Prepare(*database_));
    FT_ASSIGN(Statement enter,
              database_->Prepare("INSERT OR REPLACE INTO writer VALUES(1, ?, ?, ?, ?, ?, ?, ?)"));
    return enter
        .Bind(owner_.pid, owner_.start_ticks, owner_.boot, owner_.pid_namespace, owner_.host,
              NowUnixNs(), NowUnixNs())
        .Run();
  });
}

// Runs `run` on the writing thread, after all rows posted before it, and waits for its result.
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

// The run is visible in the file before its first row; runs_ is changed under mutex_, since
// TakeWork iterates over it.
Result<std::shared_ptr<RunState>> Writer::BeginRun(const RunSetup& setup) {
  if (setup.world < 1 || setup.world > kMaxWorld) {
    return Fail(ErrorCode::kInvalidArgument, "world " + std::to_string(setup.world) +
                                                 ": must be 1 to " + std::to_string(kMaxWorld));
  }
  auto state = std::make_shared<RunState>();
  state->world = setup.world;
  const auto insert = [this, &setup, &state]() -> Result<void> {
    FT_ASSIGN(state->id, tables_->InsertRun(setup, owner_, NowUnixNs()));
    StopPoint("store.begin_run");
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

// Called with mutex_ held, after the rows were taken: the caller learns of a failure at each call.
Result<void> Writer::CheckLocked(const RunState& run) const {
  if (closed_) return Fail(ErrorCode::kAborted, path_ + ": the store was closed");
  if (run.finished) {
    return Fail(ErrorCode::kAborted, path_ + ": run " + std::to_string(run.id) + " was finished");
  }
  if (failing_.has_value()) return Fail(failing_->code, failing_->message);
  return {};
}

// Waits until `rows` fit below max_waiting_rows. False if they do not fit and nothing will make
// room: writing fails or the store is closed. A call larger than the limit is accepted when nothing
// waits.
bool Writer::WaitForRoom(std::unique_lock<std::mutex>& lock, std::int64_t rows) {
  const auto fits = [this, rows] {
    return waiting_rows_ == 0 || waiting_rows_ + rows <= options_.max_waiting_rows;
  };
  if (!fits()) work_.notify_one();
  room_.wait(lock, [this, &fits] { return fits() || failing_.has_value() || closed_; });
  return fits() && !closed_;
}

// Wakes the writing thread for the first row, which starts the batch interval, and for a full
// batch; not for each call.
void Writer::CountLocked(RunState& run, std::int64_t rows) {
  run.outbox.rows += rows;
  outbox_rows_ += rows;
  waiting_rows_ += rows;
  const bool first = !oldest_.has_value();
  if (first) oldest_ = steady_clock::now();
  if (first || outbox_rows_ >= options_.commit_rows) work_.notify_one();
}

// Moves the caller's vector into the outbox and returns a used one in exchange: the lock is held
// for two pointer moves, and no memory is allocated in steady state.
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

// An empty durable commit: it syncs every commit before it.
Result<void> Writer::Flush() {
  return Call([this] { return Commit(/*durable=*/true, [] { return Result<void>(); }); });
}

// `finished` is set first, under the lock, so that no row arrives after the run's end was queued.
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

// Called by a destructor: without memory for the command, the store's end closes the run.
void Writer::Abandon(RunState& run) {
  try {
    // Returns kAborted if the run was finished or the store closed.
    static_cast<void>(FinishRun(run, RunStatus::kInterrupted, kAbandoned).has_value());
  } catch (const std::bad_alloc&) {
  }
}

// close_mutex_ serializes callers; the thread is joined only once.
Result<void> Writer::Close() {
  const std::lock_guard closing(close_mutex_);
  if (!thread_.joinable()) return {};
  const Result<void> result = Call([this] { return CloseFile(); }, /*always=*/true);
  thread_.join();
  return result;
}

// A thread that is not joined would end the program. So without memory for the last command it
// waits, up to a second, for some.
void Writer::CloseAnyhow() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    try {
      static_cast<void>(Close().has_value());
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace foretrain::store_internal
