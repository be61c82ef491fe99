// StoreReader: lists runs and loads them. All its queries go through one connection and one set of
// statements, so they stand in one file.
#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "traces/store.h"
#include "traces/store/owner.h"
#include "traces/store/run_reader.h"
#include "traces/store/run_sums.h"
#include "traces/store/schema.h"

namespace foretrain {
namespace {

using store_internal::DamagedRow;
using store_internal::Database;
using store_internal::Owner;
using store_internal::RowSum;
using store_internal::Statement;
using store_internal::Transaction;

constexpr int kProgressInstructions = 20'000;  // about 0.2 ms
// A recorder on another machine counts as dead after this time without a heartbeat.
constexpr std::int64_t kHeartbeatLostNs = 30'000'000'000;

// Lets SQLite call `cancelled` during long queries, as long as this object lives.
class Cancelling {
 public:
  Cancelling(const Database& database, const std::function<bool()>& cancelled)
      : database_(database) {
    if (!cancelled) return;
    sqlite3_progress_handler(
        database.handle(), kProgressInstructions,
        [](void* function) {
          return (*static_cast<const std::function<bool()>*>(function))() ? 1 : 0;
        },
        const_cast<std::function<bool()>*>(&cancelled));
  }
  ~Cancelling() { sqlite3_progress_handler(database_.handle(), 0, nullptr, nullptr); }
  Cancelling(const Cancelling&) = delete;
  Cancelling& operator=(const Cancelling&) = delete;

 private:
  const Database& database_;
};

// 0 if the text is no hexadecimal number: the run then has no program.
std::uint64_t HashOf(const std::string& hex) {
  std::uint64_t hash = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), hash, 16);
  return hash;
}

// The existing runs as a message lists them, at most 20.
std::string ListOf(const std::vector<RunInfo>& runs) {
  constexpr std::size_t kMaxListed = 20;
  if (runs.empty()) return "it holds none";
  std::string list = runs.size() == 1 ? "it holds run" : "it holds runs";
  for (std::size_t i = 0; i < runs.size() && i < kMaxListed; ++i) {
    list += (i == 0 ? " " : ", ") + std::to_string(runs[i].id);
  }
  return runs.size() > kMaxListed ? list + ", ..." : list;
}

}  // namespace

class StoreReader::Connection {
 public:
  explicit Connection(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  const Database& database() const { return *database_; }

  // One row a run, joined with its number of spans and its overall metrics.
  Result<std::vector<RunInfo>> ListRuns() const {
    FT_ASSIGN(const bool recording, IsBeingRecorded());
    FT_ASSIGN(Statement select,
              database_->Prepare(
                  "SELECT run_id, kind, status, label, pinned, world, created_unix_ns, "
                  "finished_unix_ns, forecast_run_id, last_step, dropped, invalid, overhead_ns, "
                  "clock_error_ns, message, pid, (SELECT hash FROM program p WHERE p.program_id = "
                  "r.program_id), (SELECT sum(spans) FROM batch b WHERE b.run_id = r.run_id) "
                  "FROM run r ORDER BY run_id"));
    FT_ASSIGN(Statement metrics,
              database_->Prepare("SELECT series.name, metric.* FROM metric "
                                 "JOIN series USING(series_id) "
                                 "WHERE run_id = ? AND rank = -1 AND step = -1 ORDER BY name"));
    std::vector<RunInfo> runs;
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return runs;
      FT_ASSIGN(RunInfo info, InfoOf(select, recording));
      FT_TRY(metrics.Bind(info.id).Each([&] { AddMetric(metrics, info); }));
      if (info.message.ends_with(store_internal::kDiedRecording)) FT_TRY(AddLastState(info));
      runs.push_back(std::move(info));
    }
  }

  // Puts before the message of a run whose process died how far it was: "ended at step 41, 61.0 GiB
  // resident: ". The step is the newest with stored rows, the memory that of the newest counter.
  Result<void> AddLastState(RunInfo& info) const {
    if (!info.last_step.has_value()) return {};
    std::string state = "ended at step " + std::to_string(*info.last_step);
    FT_ASSIGN(Statement select,
              database_->Prepare("SELECT series.name, counter.* FROM counter JOIN series "
                                 "USING(series_id) WHERE run_id = ? AND name = 'resident_bytes' "
                                 "AND rank = -1 ORDER BY step DESC LIMIT 1"));
    FT_ASSIGN(const bool row, select.Bind(info.id).Step());
    const double bytes = row ? select.Real(6) : 0;
    if (bytes > 0 && bytes < 1e18 &&
        select.Agrees(7, RowSum(info.id, select.Text(0), select.Int(3), select.Int(4),
                                select.Int(5), bytes))) {
      state += ", " + FormatBytes(static_cast<std::int64_t>(bytes)) + " resident";
    }
    info.message = state + ": " + info.message;
    return {};
  }

  // Adds a metric to a list's row. A damaged one is left out and told in the run's message, so that
  // the list, and with it every other run, can still be read.
  static void AddMetric(const Statement& row, RunInfo& info) {
    if (IsWholeMetric(row, info.id)) {
      info.metrics.push_back({.name = row.Text(0), .value = row.Real(5)});
      return;
    }
    info.message += (info.message.empty() ? "metric " : "; metric ") + Printable(row.Text(0)) +
                    " was damaged after it was written";
  }

  // `row` has a metric's name and then the columns of its table.
  static bool IsWholeMetric(const Statement& row, RunId id) {
    return row.Agrees(6, RowSum(id, row.Int(2), row.Int(3), row.Text(0), row.Real(5)));
  }

  // Lists all runs, since the message of a missing one names the others; stores hold few runs.
  Result<RunInfo> FindRun(RunId id) const {
    FT_ASSIGN(std::vector<RunInfo> runs, ListRuns());
    for (RunInfo& info : runs) {
      if (info.id == id) return std::move(info);
    }
    return Fail(ErrorCode::kInvalidArgument, database_->path() + ": there is no run " +
                                                 std::to_string(id) + ": " + ListOf(runs));
  }

  // Specs are joined by ids; a missing row means that the file was damaged.
  Result<void> LoadSpecs(StoredRun& run) const {
    FT_ASSIGN(
        Statement select,
        database_->Prepare(
            "SELECT model.json, hardware.json, plan.json, program.body, details_json FROM run "
            "JOIN model USING(model_id) JOIN hardware USING(hardware_id) "
            "JOIN plan USING(plan_id) LEFT JOIN program USING(program_id) WHERE run_id = ?"));
    FT_ASSIGN(const bool row, select.Bind(run.info.id).Step());
    if (!row) {
      return Fail(ErrorCode::kCorruptInput,
                  RunText(*database_, run.info) + "its specs are lost: the file was damaged");
    }
    run.specs = {.model_json = select.Text(0),
                 .hardware_json = select.Text(1),
                 .plan_json = select.Text(2),
                 .program_hash = run.info.program_hash,
                 .program = select.Blob(3)};
    run.details_json = select.Text(4);
    return {};
  }

  // Ordered by key, so that equal runs load to equal vectors.
  Result<void> LoadCounters(StoredRun& run) const {
    FT_ASSIGN(Statement select, database_->Prepare("SELECT series.name, counter.* FROM counter "
                                                   "JOIN series USING(series_id) WHERE run_id = ? "
                                                   "ORDER BY name, rank, step, time_ns"));
    select.Bind(run.info.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      Counter counter{.name = select.Text(0),
                      .rank = static_cast<int>(select.Int(3)),
                      .step = static_cast<std::int32_t>(select.Int(4)),
                      .time_ns = select.Int(5),
                      .value = select.Real(6)};
      if (!select.Agrees(7, RowSum(run.info.id, counter.name, select.Int(3), select.Int(4),
                                   counter.time_ns, counter.value))) {
        return DamagedRow(*database_, run.info,
                          "series " + Printable(counter.name) + " at step " +
                              std::to_string(counter.step) + " of rank " +
                              std::to_string(counter.rank));
      }
      run.counters.push_back(std::move(counter));
    }
  }

  Result<void> LoadMetrics(StoredRun& run) const {
    FT_ASSIGN(Statement select, database_->Prepare("SELECT series.name, metric.* FROM metric "
                                                   "JOIN series USING(series_id) WHERE run_id = ? "
                                                   "ORDER BY rank, step, name"));
    select.Bind(run.info.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      if (!IsWholeMetric(select, run.info.id)) {
        return DamagedRow(*database_, run.info,
                          "metric " + Printable(select.Text(0)) + " of rank " +
                              std::to_string(select.Int(2)) + ", step " +
                              std::to_string(select.Int(3)));
      }
      run.metrics.push_back({.rank = static_cast<int>(select.Int(2)),
                             .step = static_cast<std::int32_t>(select.Int(3)),
                             .name = select.Text(0),
                             .value = select.Real(5)});
    }
  }

  // Clock readings and notes, in the order in which they were recorded.
  Result<void> LoadNotes(StoredRun& run) const {
    FT_ASSIGN(Statement clocks,
              database_->Prepare("SELECT * FROM clock WHERE run_id = ? ORDER BY rank, host_ns"));
    clocks.Bind(run.info.id);
    while (true) {
      FT_ASSIGN(const bool row, clocks.Step());
      if (!row) break;
      if (!clocks.Agrees(
              5, RowSum(run.info.id, clocks.Int(1), clocks.Int(2), clocks.Int(3), clocks.Int(4)))) {
        return DamagedRow(*database_, run.info,
                          "a clock reading of rank " + std::to_string(clocks.Int(1)));
      }
      run.clocks.push_back({.rank = static_cast<int>(clocks.Int(1)),
                            .host_ns = clocks.Int(2),
                            .device_ns = clocks.Int(3),
                            .width_ns = clocks.Int(4)});
    }
    FT_ASSIGN(Statement notes,
              database_->Prepare("SELECT * FROM note WHERE run_id = ? ORDER BY note_id"));
    notes.Bind(run.info.id);
    while (true) {
      FT_ASSIGN(const bool row, notes.Step());
      if (!row) return {};
      Note note{.unix_ns = notes.Int(2), .text = notes.Text(3)};
      if (!notes.Agrees(4, RowSum(run.info.id, note.unix_ns, note.text))) {
        return DamagedRow(*database_, run.info, "a note");
      }
      run.notes.push_back(std::move(note));
    }
  }

  // The bytes attached to a run; `nullopt` if there are none under that name.
  Result<std::optional<std::string>> Attached(const RunInfo& info, std::string_view name) const {
    FT_ASSIGN(Statement select,
              database_->Prepare("SELECT * FROM attachment WHERE run_id = ? AND name = ?"));
    FT_ASSIGN(const bool row, select.Bind(info.id, name).Step());
    if (!row) return std::optional<std::string>();
    std::string bytes = select.Blob(3);
    if (!select.Agrees(4, RowSum(info.id, name, bytes))) {
      return DamagedRow(*database_, info, "attachment " + Printable(name));
    }
    return std::optional(std::move(bytes));
  }

  // Compares the rows of a run that has ended with their numbers then. Runs of older programs, and
  // those that were cut off, have none.
  Result<void> CheckCounts(const RunInfo& info) const {
    FT_ASSIGN(const std::optional<std::string> then,
              Attached(info, store_internal::kCountsAttachment));
    if (!then.has_value()) return {};
    FT_ASSIGN(const std::string now, store_internal::CountRows(*database_, info.id));
    if (now == *then) return {};
    return Fail(ErrorCode::kCorruptInput,
                RunText(*database_, info) +
                    "rows of steps, names, metrics, clocks, notes or counters are lost: of " +
                    Printable(*then) + "there are " + now +
                    "left: the file was damaged after it was written; other runs can still be "
                    "read");
  }

  // Empty if nothing is attached.
  Result<KernelTable> LoadKernels(const RunInfo& info) const {
    FT_ASSIGN(const std::optional<std::string> bytes, Attached(info, kKernelsAttachment));
    if (!bytes.has_value()) return KernelTable{};
    return KernelsFromJson(
        *bytes, database_->path() + ": run " + std::to_string(info.id) + ", attachment kernels");
  }

 private:
  // True if a living process records into the store: only then are `running` runs really running.
  // For an owner on another machine the heartbeat decides.
  Result<bool> IsBeingRecorded() const {
    FT_ASSIGN(Statement select,
              database_->Prepare("SELECT pid, start_ticks, boot, pid_namespace, host, "
                                 "heartbeat_unix_ns FROM writer"));
    FT_ASSIGN(const bool row, select.Step());
    if (!row) return false;
    const Owner owner{.pid = select.Int(0),
                      .start_ticks = select.Int(1),
                      .boot = select.Text(2),
                      .pid_namespace = select.Text(3),
                      .host = select.Text(4)};
    const store_internal::Life life = store_internal::LifeOf(owner);
    if (life != store_internal::Life::kUnknown) return life == store_internal::Life::kAlive;
    SystemClock clock;
    return clock.RealtimeNs() - select.Int(5) < kHeartbeatLostNs;
  }

  // Fields come from a file, so enum values and the number of ranks are checked before they are
  // used.
  Result<RunInfo> InfoOf(const Statement& row, bool recording) const {
    RunInfo info{.id = row.Int(0),
                 .label = row.Text(3),
                 .pinned = row.Int(4) != 0,
                 .world = static_cast<int>(row.Int(5)),
                 .created_unix_ns = row.Int(6),
                 .spans = row.Int(17),
                 .totals = {.dropped = row.Int(10),
                            .invalid = row.Int(11),
                            .overhead_ns = row.Int(12),
                            .clock_error_ns = row.Int(13)},
                 .program_hash = HashOf(row.Text(16)),
                 .message = row.Text(14)};
    if (row.Int(1) < 0 || row.Int(1) >= kRunKindCount || row.Int(2) < 0 ||
        row.Int(2) >= kRunStatusCount || row.Int(5) < 1 || row.Int(5) > (1 << 24)) {
      return Fail(ErrorCode::kCorruptInput, RunText(*database_, info) +
                                                "its kind, status or number of ranks cannot be: "
                                                "the file was damaged");
    }
    info.kind = static_cast<RunKind>(row.Int(1));
    info.status = static_cast<RunStatus>(row.Int(2));
    if (!row.IsNull(7)) info.finished_unix_ns = row.Int(7);
    if (!row.IsNull(8)) info.forecast = row.Int(8);
    if (!row.IsNull(9)) info.last_step = static_cast<std::int32_t>(row.Int(9));
    if (info.status == RunStatus::kRunning && !recording) {
      info.status = RunStatus::kInterrupted;
      info.message =
          "process " + std::to_string(row.Int(15)) + std::string(store_internal::kDiedRecording);
    }
    return info;
  }

  std::unique_ptr<Database> database_;
};

StoreReader::StoreReader(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
StoreReader::StoreReader(StoreReader&&) noexcept = default;
StoreReader& StoreReader::operator=(StoreReader&&) noexcept = default;
StoreReader::~StoreReader() = default;

// The connection stays open, so later reads see what a recorder commits meanwhile.
Result<StoreReader> StoreReader::Open(const std::string& path, const ReaderOptions& options) {
  FT_ASSIGN(auto database,
            store_internal::OpenStore({.path = path,
                                       .mode = store_internal::OpenMode::kRead,
                                       .vfs = options.vfs,
                                       .max_checked_bytes = options.max_checked_bytes}));
  return StoreReader(std::make_unique<Connection>(std::move(database)));
}

Result<std::vector<RunInfo>> StoreReader::ListRuns() const {
  FT_ASSIGN(const Transaction reading,
            Transaction::Begin(connection_->database(), /*write=*/false));
  return connection_->ListRuns();
}

// The transaction makes the runs and their metrics those of one commit.
Result<RunInfo> StoreReader::FindRun(RunId id) const {
  FT_ASSIGN(const Transaction reading,
            Transaction::Begin(connection_->database(), /*write=*/false));
  return connection_->FindRun(id);
}

// One read transaction spans all parts, so that they belong to the same commit.
Result<StoredRun> StoreReader::LoadRun(RunId id, const LoadOptions& options) const {
  const Database& database = connection_->database();
  const Cancelling cancelling(database, options.cancelled);
  FT_ASSIGN(const Transaction reading, Transaction::Begin(database, /*write=*/false));
  StoredRun run;
  FT_ASSIGN(run.info, connection_->FindRun(id));
  FT_TRY(connection_->LoadSpecs(run));
  if (options.counters) FT_TRY(connection_->CheckCounts(run.info));
  if (options.counters) FT_TRY(connection_->LoadCounters(run));
  FT_TRY(connection_->LoadMetrics(run));
  FT_TRY(connection_->LoadNotes(run));
  run.timeline.world = run.info.world;
  if (options.timeline) {
    FT_ASSIGN(run.timeline, store_internal::LoadTimeline(database, run.info, options));
  }
  if (options.timeline && options.kernels) {
    FT_ASSIGN(run.kernels, connection_->LoadKernels(run.info));
  }
  return run;
}

// Computing missing sums takes seconds for long runs, so it can be cancelled too.
Result<SpanSums> StoreReader::LoadSums(RunId id, const std::function<bool()>& cancelled) const {
  const Database& database = connection_->database();
  const Cancelling cancelling(database, cancelled);
  FT_ASSIGN(const Transaction reading, Transaction::Begin(database, /*write=*/false));
  FT_ASSIGN(const RunInfo info, connection_->FindRun(id));
  return store_internal::ReadSums(database, info);
}

Result<std::string> StoreReader::Attachment(RunId id, std::string_view name) const {
  FT_ASSIGN(std::optional<std::string> bytes, connection_->Attached({.id = id}, name));
  if (bytes.has_value()) return *std::move(bytes);
  return Fail(ErrorCode::kInvalidArgument, path() + ": run " + std::to_string(id) +
                                               " has nothing attached as " + Printable(name));
}

// SQLite changes this number when another connection commits; it reads no table.
Result<std::int64_t> StoreReader::DataVersion() const {
  return connection_->database().Number("PRAGMA data_version");
}

const std::string& StoreReader::path() const { return connection_->database().path(); }

}  // namespace foretrain
