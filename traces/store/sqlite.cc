#include "traces/store/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "base/text.h"
#include "traces/store/sqlite_errors.h"

namespace foretrain::store_internal {
namespace {

constexpr std::size_t kMaxTextBytes = 500;  // of a message of SQLite

// A path as SQLite URI; all but plain characters are escaped.
std::string UriOf(const std::string& path, std::string_view parameters) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~";
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string uri = "file:";
  // An empty authority, so that no part of the path is taken for one.
  if (path.starts_with('/')) uri += "//";
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return uri.append(parameters);
}

int FlagsOf(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
    case OpenMode::kReadFixed:
      return SQLITE_OPEN_READONLY;
    case OpenMode::kWrite:
      return SQLITE_OPEN_READWRITE;
    case OpenMode::kCreate:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  }
  return SQLITE_OPEN_READONLY;
}

}  // namespace

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

// Bind errors are kept until Step, so that calls can be chained.
void Statement::BindAt(int parameter, std::int64_t value) {
  Keep(sqlite3_bind_int64(statement_.get(), parameter, value));
}

void Statement::BindAt(int parameter, double value) {
  Keep(sqlite3_bind_double(statement_.get(), parameter, value));
}

// TRANSIENT: SQLite copies the text, since it may be gone before Step.
void Statement::BindAt(int parameter, std::string_view text) {
  Keep(sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
}

// An empty blob must not become NULL.
void Statement::BindAt(int parameter, BlobBytes blob) {
  Keep(blob.bytes.empty() ? sqlite3_bind_zeroblob(statement_.get(), parameter, 0)
                          : sqlite3_bind_blob64(statement_.get(), parameter, blob.bytes.data(),
                                                blob.bytes.size(), SQLITE_TRANSIENT));
}

void Statement::BindAt(int parameter, const std::optional<std::int64_t>& value) {
  if (value.has_value()) return BindAt(parameter, *value);
  Keep(sqlite3_bind_null(statement_.get(), parameter));
}

// On an error the statement is reset: it would otherwise keep its read transaction open.
Result<bool> Statement::Step() {
  if (bind_code_ != SQLITE_OK) {
    auto failed = database_->FailWith(std::exchange(bind_code_, SQLITE_OK));
    Reset();
    return failed;
  }
  database_->work_ = 0;
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  auto failed = database_->FailWith(code);
  Reset();
  return failed;
}

// A returned row is discarded, and the statement reset, so that no read lock stays.
Result<void> Statement::Run() {
  FT_ASSIGN(const bool row, Step());
  if (row) Reset();
  return {};
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

bool Statement::Agrees(int column, std::uint32_t sum) const {
  if (column >= sqlite3_column_count(statement_.get()) || IsNull(column)) return true;
  return Int(column) == sum;
}

int Statement::Columns() const { return sqlite3_column_count(statement_.get()); }

std::string Statement::ColumnName(int column) const {
  const char* const name = sqlite3_column_name(statement_.get(), column);
  return name != nullptr ? name : "";
}

int Statement::TypeOf(int column) const { return sqlite3_column_type(statement_.get(), column); }

std::int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

// SQLite cannot store NaN: it is written as NULL.
double Statement::Real(int column) const {
  return IsNull(column) ? std::nan("") : sqlite3_column_double(statement_.get(), column);
}

std::string Statement::Text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return "";
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return {reinterpret_cast<const char*>(text), size};
}

std::string Statement::Blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return "";
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return {static_cast<const char*>(bytes), size};
}

void Database::Closer::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

// NOMUTEX: each connection is used by one thread at a time.
Result<std::unique_ptr<Database>> Database::Open(const std::string& path, OpenMode mode,
                                                 const std::string& vfs) {
  sqlite3* handle = nullptr;
  const std::string uri = UriOf(path, mode == OpenMode::kReadFixed ? "?immutable=1" : "");
  const int code =
      sqlite3_open_v2(uri.c_str(), &handle, FlagsOf(mode) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                      vfs.empty() ? nullptr : vfs.c_str());
  if (handle == nullptr) return Fail(ErrorCode::kResourceExhausted, path + ": out of memory");
  std::unique_ptr<Database> database(new Database(handle, path));
  if (code != SQLITE_OK) return database->FailWith(code);
  FT_TRY(database->Harden());
  return database;
}

namespace {

constexpr int kUnit = 1'000'000;  // operations of SQLite's virtual machine
constexpr int kMostUnits = 200;   // about a second
constexpr int kMaxValueBytes = 64 << 20;

// The one pragma is that behind pragma_table_info().
int Permit(void* /*data*/, int action, const char* first, const char* /*second*/,
           const char* /*database*/, const char* /*trigger*/) {
  const bool permitted = action == SQLITE_SELECT || action == SQLITE_READ ||
                         (action == SQLITE_PRAGMA && std::string_view(first) == "table_info");
  return permitted ? SQLITE_OK : SQLITE_DENY;
}

}  // namespace

int Database::CountWork(void* database) {
  return ++static_cast<Database*>(database)->work_ > kMostUnits ? 1 : 0;
}

Result<std::unique_ptr<Database>> Database::OpenForeign(const std::string& path) {
  FT_ASSIGN(std::unique_ptr<Database> database, Open(path, OpenMode::kRead, ""));
  sqlite3* const handle = database->handle();
  for (const auto& [limit, most] : {std::pair{SQLITE_LIMIT_LENGTH, kMaxValueBytes},
                                    {SQLITE_LIMIT_ATTACHED, 0},
                                    {SQLITE_LIMIT_WORKER_THREADS, 0}}) {
    sqlite3_limit(handle, limit, most);
  }
  // Its first use declares the virtual table, which asks for more than reading.
  FT_TRY(database->Prepare("SELECT name FROM pragma_table_info('')"));
  sqlite3_progress_handler(handle, kUnit, &CountWork, database.get());
  sqlite3_set_authorizer(handle, &Permit, nullptr);
  return database;
}

// Defence against hostile files: no schema functions, triggers, views, extensions or memory
// mapping, and page contents are checked.
Result<void> Database::Harden() const {
  sqlite3_extended_result_codes(handle(), 1);
  sqlite3_busy_timeout(handle(), kBusyTimeoutMs);
  int code = SQLITE_OK;
  for (const auto& [setting, value] : {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                       {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                       {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                       {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                                       {SQLITE_DBCONFIG_ENABLE_FKEY, 0}}) {
    if (code == SQLITE_OK) code = sqlite3_db_config(handle(), setting, value, nullptr);
  }
  if (code != SQLITE_OK) return FailWith(code);
  FT_TRY(Execute("PRAGMA cell_size_check = ON"));
  FT_TRY(Execute("PRAGMA mmap_size = 0"));
  return Execute("PRAGMA temp_store = MEMORY");
}

Result<void> Database::Execute(const char* sql) const {
  if (std::exchange(rollback_is_due_, false) && InTransaction()) {
    static_cast<void>(sqlite3_exec(handle(), "ROLLBACK", nullptr, nullptr, nullptr));
    rollback_is_due_ = InTransaction();
  }
  const int code = sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return FailWith(code);
}

// PERSISTENT tells SQLite that the statement is kept and reused.
Result<Statement> Database::Prepare(std::string_view sql) const {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  Statement statement;
  statement.statement_.reset(raw);
  statement.database_ = this;
  if (code == SQLITE_OK) return statement;
  return FailWith(code);
}

// Text after the first statement is prepared too: comments and semicolons give no statement.
Result<Statement> Database::PrepareQuery(std::string_view sql) const {
  Statement query;
  query.database_ = this;
  while (!sql.empty()) {
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    const int code =
        sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()), 0, &raw, &rest);
    std::unique_ptr<sqlite3_stmt, Statement::Finalizer> next(raw);
    const bool second = query.statement_ != nullptr && (code != SQLITE_OK || next != nullptr);
    if (second) return Fail(ErrorCode::kInvalidArgument, path_ + ": more than one statement");
    if (code != SQLITE_OK) return FailWith(code);
    if (next != nullptr) query.statement_ = std::move(next);
    sql.remove_prefix(static_cast<std::size_t>(rest - sql.data()));
  }
  if (query.statement_ == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, path_ + ": the query is empty; give a SELECT");
  }
  if (sqlite3_stmt_readonly(query.statement_.get()) == 0 || query.Columns() == 0) {
    return Fail(ErrorCode::kInvalidArgument, path_ + ": the query is no SELECT");
  }
  return query;
}

Result<std::int64_t> Database::Number(std::string_view sql) const {
  FT_ASSIGN(Statement statement, Prepare(sql));
  FT_ASSIGN(const bool row, statement.Step());
  return row ? statement.Int(0) : 0;
}

// The hook only records the log's size; it replaces SQLite's automatic checkpoint.
void Database::CheckpointByHand() {
  sqlite3_wal_hook(
      handle(),
      [](void* database, sqlite3*, const char*, int pages) {
        static_cast<Database*>(database)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

// PASSIVE moves what it can without waiting for readers.
void Database::CheckpointAt(int pages) {
  if (log_pages_ < pages) return;
  sqlite3_wal_checkpoint_v2(handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
}

std::int64_t Database::LastInsertId() const { return sqlite3_last_insert_rowid(handle()); }

std::int64_t Database::ChangedRows() const { return sqlite3_changes64(handle()); }

bool Database::InTransaction() const { return sqlite3_get_autocommit(handle()) == 0; }

// Must be called before any other call on the connection, which would replace the text.
tl::unexpected<Error> Database::FailWith(int code) const {
  // SQLite's text belongs to the connection's last call; for another code the general text is used.
  const bool last = sqlite3_extended_errcode(handle()) == code || sqlite3_errcode(handle()) == code;
  // It may quote the file, which may come from elsewhere.
  const std::string text =
      Printable(last ? sqlite3_errmsg(handle()) : sqlite3_errstr(code), kMaxTextBytes);
  return tl::unexpected<Error>(MakeError(code, sqlite3_system_errno(handle()), text, path_));
}

// IMMEDIATE takes the write lock at once: a later upgrade could fail with BUSY.
Result<Transaction> Transaction::Begin(const Database& database, bool write) {
  FT_TRY(database.Execute(write ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  if (database_ == nullptr || !database_->InTransaction()) return;
  // Without memory this may fail. The next statement then rolls back first.
  static_cast<void>(database_->Execute("ROLLBACK").has_value());
  database_->rollback_is_due_ = database_->InTransaction();
}

Result<void> Transaction::Commit() {
  FT_TRY(database_->Execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace foretrain::store_internal
