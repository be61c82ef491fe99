#include "traces/store/schema.h"

#include <unistd.h>

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/io/writable_place.h"
#include "base/text.h"
#include "traces/kinds.h"
#include "traces/run.h"
#include "traces/store/views.h"

namespace foretrain::store_internal {
namespace {

// docs/store.md describes each table. Changing any table requires a new kSchemaVersion and a step
// in Migrate. `crc` is the sum of a row's values (RowSum), NULL in rows of schema 1. It stands
// where ALTER TABLE ADD COLUMN puts it, so that a migrated table has the same text. Tables WITHOUT
// ROWID lie in the order of their primary key: a range of a track or rank is then read without
// seeks.
constexpr const char* kTables = R"sql(
CREATE TABLE enum_name(domain TEXT NOT NULL, id INT NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY(domain, id)) WITHOUT ROWID;
CREATE TABLE writer(writer_id INTEGER PRIMARY KEY, pid INT NOT NULL, start_ticks INT NOT NULL,
  boot TEXT NOT NULL, pid_namespace TEXT NOT NULL, host TEXT NOT NULL, opened_unix_ns INT NOT NULL,
  heartbeat_unix_ns INT NOT NULL);
CREATE TABLE model(model_id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE hardware(hardware_id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE plan(plan_id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE program(program_id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE run(run_id INTEGER PRIMARY KEY AUTOINCREMENT, kind INT NOT NULL, status INT NOT NULL,
  label TEXT NOT NULL, pinned INT NOT NULL DEFAULT 0, world INT NOT NULL,
  created_unix_ns INT NOT NULL, finished_unix_ns INT, pid INT NOT NULL,
  model_id INT NOT NULL REFERENCES model, hardware_id INT NOT NULL REFERENCES hardware,
  plan_id INT NOT NULL REFERENCES plan, program_id INT REFERENCES program, forecast_run_id INT,
  last_step INT, dropped INT NOT NULL DEFAULT 0, invalid INT NOT NULL DEFAULT 0,
  overhead_ns INT NOT NULL DEFAULT 0, clock_error_ns INT NOT NULL DEFAULT 0,
  message TEXT NOT NULL DEFAULT '', details_json TEXT NOT NULL);
CREATE TABLE track(track_id INTEGER PRIMARY KEY, run_id INT NOT NULL REFERENCES run,
  rank INT NOT NULL, queue INT NOT NULL, UNIQUE(run_id, rank, queue));
CREATE TABLE batch(run_id INT NOT NULL, batch INT NOT NULL, rank INT NOT NULL, spans INT NOT NULL,
  span_crc INT NOT NULL, samples INT NOT NULL, sample_crc INT NOT NULL, first_start_ns INT NOT NULL,
  last_start_ns INT NOT NULL, last_end_ns INT NOT NULL, first_step INT NOT NULL,
  last_step INT NOT NULL, PRIMARY KEY(run_id, batch)) WITHOUT ROWID;
CREATE TABLE span(track_id INT NOT NULL, start_ns INT NOT NULL, batch INT NOT NULL,
  seq INT NOT NULL, duration_ns INT NOT NULL, op INT NOT NULL, step INT NOT NULL,
  class INT NOT NULL, bytes INT NOT NULL, wait_ns INT NOT NULL,
  PRIMARY KEY(track_id, start_ns, batch, seq)) WITHOUT ROWID;
CREATE TABLE memory(run_id INT NOT NULL, rank INT NOT NULL, time_ns INT NOT NULL,
  batch INT NOT NULL, seq INT NOT NULL, category INT NOT NULL, space INT NOT NULL,
  bytes INT NOT NULL, PRIMARY KEY(run_id, rank, time_ns, batch, seq)) WITHOUT ROWID;
CREATE TABLE step(run_id INT NOT NULL, rank INT NOT NULL, step INT NOT NULL,
  start_ns INT NOT NULL, end_ns INT NOT NULL, crc INT, PRIMARY KEY(run_id, rank, step)) WITHOUT ROWID;
CREATE TABLE op_name(run_id INT NOT NULL, op INT NOT NULL, name TEXT NOT NULL, crc INT,
  PRIMARY KEY(run_id, op)) WITHOUT ROWID;
CREATE TABLE series(series_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE counter(run_id INT NOT NULL, series_id INT NOT NULL REFERENCES series,
  rank INT NOT NULL, step INT NOT NULL, time_ns INT NOT NULL, value REAL, crc INT,
  PRIMARY KEY(run_id, series_id, rank, step, time_ns)) WITHOUT ROWID;
CREATE TABLE metric(run_id INT NOT NULL, rank INT NOT NULL, step INT NOT NULL,
  series_id INT NOT NULL REFERENCES series, value REAL, crc INT,
  PRIMARY KEY(run_id, rank, step, series_id)) WITHOUT ROWID;
CREATE TABLE clock(run_id INT NOT NULL, rank INT NOT NULL, host_ns INT NOT NULL,
  device_ns INT NOT NULL, width_ns INT NOT NULL, crc INT, PRIMARY KEY(run_id, rank, host_ns)) WITHOUT ROWID;
CREATE TABLE note(note_id INTEGER PRIMARY KEY, run_id INT NOT NULL REFERENCES run,
  unix_ns INT NOT NULL, text TEXT NOT NULL, crc INT);
CREATE INDEX note_of_run ON note(run_id);
CREATE TABLE attachment(attachment_id INTEGER PRIMARY KEY, run_id INT NOT NULL REFERENCES run,
  name TEXT NOT NULL, body BLOB NOT NULL, crc INT, UNIQUE(run_id, name));
)sql";

// Enum names are stored in the file, so that SQL views can show them.
template <class E>
Result<void> AddNames(Statement& insert, std::string_view domain, int count) {
  for (int i = 0; i < count; ++i) {
    insert.Bind(domain, i, Name(static_cast<E>(i)));
    FT_TRY(insert.Run());
  }
  return {};
}

// The version is set last: a file without it is treated as not yet created.
Result<void> CreateSchema(const Database& database) {
  FT_TRY(database.Execute(kTables));
  FT_TRY(database.Execute(kFileViews));
  FT_ASSIGN(Statement insert, database.Prepare("INSERT INTO enum_name VALUES(?, ?, ?)"));
  FT_TRY(AddNames<Queue>(insert, "queue", kQueueCount));
  FT_TRY(AddNames<Category>(insert, "category", kCategoryCount));
  FT_TRY(AddNames<Space>(insert, "space", kSpaceCount));
  FT_TRY(AddNames<OpClass>(insert, "class", kOpClassCount));
  FT_TRY(AddNames<Pass>(insert, "pass", kPassCount));
  FT_TRY(AddNames<InstructionKind>(insert, "kind", kInstructionKindCount));
  FT_TRY(AddNames<RunKind>(insert, "run_kind", kRunKindCount));
  FT_TRY(AddNames<RunStatus>(insert, "run_status", kRunStatusCount));
  static_assert(kApplicationId == 0x46547261 && kSchemaVersion == 2);
  FT_TRY(database.Execute("PRAGMA application_id = 0x46547261"));
  return database.Execute("PRAGMA user_version = 2");
}

// Name and SQL text of each table.
Result<std::map<std::string, std::string>> TablesOf(const Database& database) {
  FT_ASSIGN(Statement select,
            database.Prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name "
                             "NOT LIKE 'sqlite_%' LIMIT 10000"));
  std::map<std::string, std::string> tables;
  FT_TRY(select.Each([&] { tables[select.Text(0)] = select.Text(1); }));
  return tables;
}

// The text of a table in schema `version`. Schema 1 has the same tables without their sums.
std::string TextIn(std::int64_t version, std::string sql) {
  constexpr std::string_view kSum = ", crc INT";
  const std::size_t at = version > 1 ? std::string::npos : sql.find(kSum);
  return at == std::string::npos ? sql : sql.erase(at, kSum.size());
}

// Compares each table's SQL text with ours: a hostile file may hold a view, a virtual table or
// other columns under our names.
Result<void> CheckTables(const Database& database) {
  FT_ASSIGN(const std::int64_t version, database.Number("PRAGMA user_version"));
  FT_ASSIGN(const auto ours, Database::Open(":memory:", OpenMode::kCreate, ""));
  FT_TRY(ours->Execute(kTables));
  FT_ASSIGN(const auto expected, TablesOf(*ours));
  FT_ASSIGN(const auto found, TablesOf(database));
  for (const auto& [name, sql] : expected) {
    const auto at = found.find(name);
    if (at == found.end() || at->second != TextIn(version, sql)) {
      return Fail(ErrorCode::kCorruptInput, database.path() + ": table `" + name +
                                                "` is not that of a foretrain store of schema " +
                                                std::to_string(version) +
                                                ": the file is damaged or was changed");
    }
  }
  return {};
}

constexpr std::size_t kMaxProblemBytes = 300;

// SQLite's own check of the file's structure; it reads every page. The answer is bounded to one
// problem: one is enough to refuse the file.
Result<void> CheckWhole(const Database& database) {
  FT_ASSIGN(Statement check, database.Prepare("PRAGMA quick_check(1)"));
  FT_ASSIGN(const bool row, check.Step());
  const std::string verdict = row ? check.Text(0) : "no answer";
  if (verdict == "ok") return {};
  // The problem may stand on a line of its own, after one that names the database.
  const std::size_t line = verdict.rfind('\n');
  const std::string problem = line == std::string::npos ? verdict : verdict.substr(line + 1);
  return Fail(ErrorCode::kCorruptInput,
              database.path() + ": the file is damaged: " + Printable(problem, kMaxProblemBytes));
}

// True if the file is a store; false if it is still empty. Errors for all other databases.
Result<bool> CheckIdentity(const Database& database) {
  FT_ASSIGN(const std::int64_t application, database.Number("PRAGMA application_id"));
  FT_ASSIGN(const std::int64_t version, database.Number("PRAGMA user_version"));
  if (application != kApplicationId) {
    FT_ASSIGN(const std::int64_t tables, database.Number("SELECT count(*) FROM sqlite_schema"));
    if (application == 0 && tables == 0) return false;
    return Fail(ErrorCode::kInvalidArgument,
                database.path() + ": an SQLite database of another program, not a foretrain store");
  }
  if (version > kSchemaVersion) {
    return Fail(ErrorCode::kUnsupported,
                database.path() + ": written in schema " + std::to_string(version) +
                    ", this foretrain knows schemas up to " + std::to_string(kSchemaVersion) +
                    ": use a newer foretrain, or another file with --store");
  }
  if (version < 1) {
    return Fail(ErrorCode::kCorruptInput, database.path() + ": there is no schema " +
                                              std::to_string(version) + ": the file is damaged");
  }
  return true;
}

// The error for a path that cannot hold a store.
Error NotAStore(const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalidArgument, path + ": " + why};
}

// The first bytes of every SQLite database, without the zero that ends them.
constexpr std::string_view kMagic = "SQLite format 3";

// Whether the store can be written: SQLite would blame the file for what its folder lacks. The log
// lies beside the file, so its folder must take new files, unless the log is there already.
Result<void> CheckWritable(FileSystem& files, const OpenRequest& request, const FileInfo& info) {
  const std::string& path = request.path;
  const bool exists = info.kind != FileKind::kMissing;
  if (exists && access(path.c_str(), W_OK) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                path +
                    ": this user may not write the file: change its permissions, or give another "
                    "file with --store");
  }
  FT_ASSIGN(const FileInfo log, files.Stat(path + "-wal"));
  const std::string why = log.kind == FileKind::kMissing ? WhyNoFileCanBeMade(path) : "";
  if (why.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              path + ": " + (exists ? "its log must lie beside it, but " : "") + why);
}

// Checks the file before SQLite opens it: SQLite would block on a FIFO, and takes a short file for
// an empty database.
Result<FileInfo> CheckFile(FileSystem& files, const OpenRequest& request) {
  if (request.path.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--store: the name is empty; give a file");
  }
  FT_ASSIGN(const FileInfo info, files.Stat(request.path));
  const bool create = request.mode == OpenMode::kCreate;
  const bool usable = info.kind == FileKind::kRegular || info.kind == FileKind::kMissing;
  if (request.mode != OpenMode::kRead && usable) FT_TRY(CheckWritable(files, request, info));
  if (info.kind == FileKind::kMissing) {
    if (create) return info;
    const Error error = NotAStore(
        request.path, "no such file; `train`, `import` and `predict --store FILE` make stores");
    return Fail(error.code, error.message);
  }
  if (info.kind != FileKind::kRegular) {
    const Error error =
        NotAStore(request.path, info.kind == FileKind::kDirectory ? "a folder, not a store"
                                                                  : "not a regular file");
    return Fail(error.code, error.message);
  }
  FT_ASSIGN(const auto file, files.Open(request.path));
  std::vector<std::byte> head(kMagic.size() + 1);
  FT_ASSIGN(const std::int64_t bytes, file->ReadAt(0, head));
  if (bytes == 0) {
    if (create) return info;
    const Error error = NotAStore(request.path, "the file is empty: no run was stored");
    return Fail(error.code, error.message);
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()),
                              static_cast<std::size_t>(bytes));
  if (!text.starts_with(kMagic)) {
    return Fail(ErrorCode::kCorruptInput,
                request.path + ": not a foretrain store: not an SQLite database");
  }
  return info;
}

// On read-only media SQLite cannot create the shared-memory file of its log. If there is no log,
// the file is opened as immutable instead.
Result<std::unique_ptr<Database>> OpenFile(const OpenRequest& request) {
  auto database = Database::Open(request.path, request.mode, request.vfs);
  if (request.mode != OpenMode::kRead) return database;
  if (database.has_value()) {
    // A connection accesses the file at its first read only.
    const auto first = (*database)->Number("PRAGMA application_id");
    if (first.has_value()) return database;
    database = Result<std::unique_ptr<Database>>(tl::unexpected<Error>(first.error()));
  }
  // Without write permission SQLite cannot share a log; if no log exists, none needs sharing.
  PosixFileSystem files;
  const auto log = files.Stat(request.path + "-wal");
  if (log.has_value() && (log->kind == FileKind::kMissing || log->size_bytes == 0)) {
    auto fixed = Database::Open(request.path, OpenMode::kReadFixed, request.vfs);
    if (fixed.has_value() && (*fixed)->Number("PRAGMA application_id").has_value()) return fixed;
  }
  return database;
}

// WAL mode lets readers run while the recorder writes. Another process may create the schema at the
// same time, so it is checked again inside the write transaction.
Result<void> Create(const Database& database, FileSystem& files) {
  FT_TRY(database.Execute("PRAGMA page_size = 8192"));
  FT_ASSIGN(Statement journal, database.Prepare("PRAGMA journal_mode = WAL"));
  FT_ASSIGN(const bool row, journal.Step());
  const std::string mode = row ? journal.Text(0) : "";
  journal.Reset();
  if (mode != "wal") {
    return Fail(ErrorCode::kUnsupported,
                database.path() + ": its file system cannot share a database log (journal mode " +
                    mode + "): put the store on a local disk");
  }
  FT_TRY(database.Execute("PRAGMA synchronous = FULL"));
  FT_ASSIGN(Transaction transaction, Transaction::Begin(database, /*write=*/true));
  FT_ASSIGN(const bool made_meanwhile, CheckIdentity(database));
  if (!made_meanwhile) FT_TRY(CreateSchema(database));
  FT_TRY(transaction.Commit());
  return files.SyncDirectory(ParentFolder(database.path()));
}

}  // namespace

Result<std::string> CountRows(const Database& database, std::int64_t run) {
  std::string counts;
  for (const auto& [name, sql] : kCountedTables) {
    FT_ASSIGN(Statement select, database.Prepare(sql));
    FT_ASSIGN(const bool row, select.Bind(run).Step());
    counts += std::to_string(row ? select.Int(0) : 0) + " ";
  }
  return counts;
}

// One ALTER adds a column without touching rows: those of schema 1 have no sums and are not
// checked.
Result<void> Migrate(const Database& database) {
  FT_ASSIGN(const std::int64_t version, database.Number("PRAGMA user_version"));
  if (version >= kSchemaVersion) return {};
  for (const char* sql : {
           "ALTER TABLE step ADD COLUMN crc INT",
           "ALTER TABLE op_name ADD COLUMN crc INT",
           "ALTER TABLE counter ADD COLUMN crc INT",
           "ALTER TABLE metric ADD COLUMN crc INT",
           "ALTER TABLE clock ADD COLUMN crc INT",
           "ALTER TABLE note ADD COLUMN crc INT",
           "ALTER TABLE attachment ADD COLUMN crc INT",
       }) {
    FT_TRY(database.Execute(sql));
  }
  return database.Execute("PRAGMA user_version = 2");
}

// Checks go from cheap to expensive: file, identity, tables, then all pages of small files.
Result<std::unique_ptr<Database>> OpenStore(const OpenRequest& request) {
  PosixFileSystem files;
  FT_ASSIGN(const FileInfo info, CheckFile(files, request));
  FT_ASSIGN(auto database, OpenFile(request));
  FT_ASSIGN(const bool is_store, CheckIdentity(*database));
  if (!is_store) {
    if (request.mode != OpenMode::kCreate) {
      const Error error = NotAStore(request.path, "no run was stored: its making was interrupted");
      return Fail(error.code, error.message);
    }
    FT_TRY(Create(*database, files));
  }
  FT_TRY(CheckTables(*database));
  if (info.size_bytes <= request.max_checked_bytes) FT_TRY(CheckWhole(*database));
  return database;
}

}  // namespace foretrain::store_internal
