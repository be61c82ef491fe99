// SQLite with RAII and Result: hardened connections, statements with bound parameters, and errors
// with SQLite's own text. The tables are in traces/store/schema.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace foretrain::store_internal {

class Database;

// A value that is stored as a blob instead of a text.
struct BlobBytes {
  std::string_view bytes;
};

// One prepared statement. Parameters count from 1, columns from 0. The next Step reports a failed
// Bind. Must not outlive its Database.
class Statement {
 public:
  Statement() = default;

  // Binds the first parameters, in order: numbers, enums, texts and blobs. NaN and an empty
  // optional are stored as NULL. Texts and blobs are copied.
  template <class... Values>
  Statement& Bind(const Values&... values) {
    int parameter = 0;
    (BindAt(++parameter, values), ...);
    return *this;
  }

  // True: a row is available. False: done, and reset for the next use.
  Result<bool> Step();
  // Step for statements without rows.
  Result<void> Run();
  // Calls `visit` for each row that is left.
  template <class Visit>
  Result<void> Each(Visit visit) {
    while (true) {
      FT_ASSIGN(const bool row, Step());
      if (!row) return {};
      visit();
    }
  }
  void Reset();

  bool IsNull(int column) const;
  // False if `column` holds another checksum than `sum`. True if the row has none: the column is
  // NULL or, in a store of an older schema, missing.
  bool Agrees(int column, std::uint32_t sum) const;
  int Columns() const;
  std::string ColumnName(int column) const;
  // SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL.
  int TypeOf(int column) const;
  std::int64_t Int(int column) const;
  double Real(int column) const;  // NULL is NaN
  std::string Text(int column) const;
  std::string Blob(int column) const;

 private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };

  void Keep(int code) {
    if (code != 0) bind_code_ = code;  // SQLITE_OK is 0
  }
  void BindAt(int parameter, std::int64_t value);
  void BindAt(int parameter, double value);
  void BindAt(int parameter, std::string_view text);
  void BindAt(int parameter, BlobBytes blob);
  void BindAt(int parameter, const std::optional<std::int64_t>& value);
  template <class Value>
  requires(std::is_integral_v<Value> || std::is_enum_v<Value>) void BindAt(int parameter,
                                                                           Value value) {
    BindAt(parameter, static_cast<std::int64_t>(value));
  }

  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  const Database* database_ = nullptr;
  int bind_code_ = 0;  // SQLITE_OK
};

enum class OpenMode {
  kRead,       // read only
  kReadFixed,  // read only, and no process writes the file: for read-only media
  kWrite,      // an existing file
  kCreate,     // an existing file or a new one
};

// A hardened connection: the schema is not trusted; triggers, views, extensions and mapped files
// are off, and page contents are checked. One thread at a time. Neither copied nor moved, since
// statements point to it.
class Database {
 public:
  static Result<std::unique_ptr<Database>> Open(const std::string& path, OpenMode mode,
                                                const std::string& vfs);
  // A file of another program, for reading. Statements may only select, without functions; values
  // are at most 64 MiB long, and a row that takes more than about a second of work ends its
  // statement with an Error.
  static Result<std::unique_ptr<Database>> OpenForeign(const std::string& path);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs `sql`, one or more statements without parameters. `sql` is a constant, never data.
  Result<void> Execute(const char* sql) const;
  Result<Statement> Prepare(std::string_view sql) const;
  // Prepares a query that a user wrote. Errors: as Prepare; kInvalidArgument if it is empty, more
  // than one statement, or not one that only reads.
  Result<Statement> PrepareQuery(std::string_view sql) const;
  // The integer in the first column of the first row of `sql`.
  Result<std::int64_t> Number(std::string_view sql) const;

  // Disables automatic checkpoints, so that only CheckpointAt moves the log into the file.
  // Otherwise a COMMIT would do it and could fail after its rows were committed.
  void CheckpointByHand();
  // Moves the log into the file once it has `pages` pages. Errors are ignored: the rows are safe in
  // the log and are moved later.
  void CheckpointAt(int pages);

  std::int64_t LastInsertId() const;
  std::int64_t ChangedRows() const;
  bool InTransaction() const;

  // Fails with the Error for result `code`, with SQLite's text and the path.
  tl::unexpected<Error> FailWith(int code) const;

  sqlite3* handle() const { return handle_.get(); }
  const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Result<void> Harden() const;
  static int CountWork(void* database);

  std::unique_ptr<sqlite3, Closer> handle_;
  std::string path_;
  int log_pages_ = 0;                     // size after the last commit
  mutable int work_ = 0;                  // units of work since the last row; OpenForeign's alone
  mutable bool rollback_is_due_ = false;  // a transaction has ended, but could not be rolled back
  friend class Statement;
  friend class Transaction;
};

// A transaction for one scope: rolled back unless Commit was called.
class Transaction {
 public:
  // write: takes the write lock now, waiting up to the busy timeout.
  static Result<Transaction> Begin(const Database& database, bool write);
  Transaction(Transaction&& other) noexcept : database_(other.database_) {
    other.database_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> Commit();

 private:
  explicit Transaction(const Database* database) : database_(database) {}

  const Database* database_;  // null once ended
};

}  // namespace foretrain::store_internal
