// SQLite behind RAII and Result: connections that trust nothing in the file, statements with bound
// parameters, errors with SQLite's own text. Leaves out what is stored (traces/store/schema.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace foretrain::store_internal {

class Database;

// One prepared statement. Parameters count from 1, columns from 0. A failed Bind is told by the
// next Step. Must not outlive its Database.
class Statement {
 public:
  Statement() = default;

  Statement& Bind(int parameter, std::int64_t value);
  Statement& Bind(int parameter, double value);  // NaN is stored as NULL
  // Texts and blobs are copied.
  Statement& BindText(int parameter, std::string_view text);
  Statement& BindBlob(int parameter, std::string_view bytes);
  Statement& BindNull(int parameter);

  // True: there is a row. False: done, and reset for the next use.
  Result<bool> Step();
  // Step for a statement without rows.
  Result<void> Run();
  void Reset();

  bool IsNull(int column) const;
  std::int64_t Int(int column) const;
  double Real(int column) const;  // NULL is NaN
  std::string Text(int column) const;
  std::string Blob(int column) const;

 private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };

  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  const Database* database_ = nullptr;
  int bind_code_ = 0;  // SQLITE_OK
};

enum class OpenMode {
  kRead,       // cannot write
  kReadFixed,  // cannot write, and takes the file as one that no one writes: for read-only media
  kWrite,      // an existing file
  kCreate,     // an existing file or a new one
};

// A connection, hardened: no trust in the schema, no triggers, views, extensions or mapped files,
// and page sizes are checked. One thread at a time. Neither copied nor moved: statements point to
// it.
class Database {
 public:
  static Result<std::unique_ptr<Database>> Open(const std::string& path, OpenMode mode,
                                                const std::string& vfs);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs `sql`, one or several statements without parameters. `sql` is ours, never data.
  Result<void> Execute(const char* sql) const;
  Result<Statement> Prepare(std::string_view sql) const;
  // The first column of the first row of `sql`, an integer.
  Result<std::int64_t> Number(std::string_view sql) const;

  // From now on the log is moved into the file by Checkpoint alone. Otherwise a COMMIT would do it
  // and could fail after its rows had been committed.
  void CheckpointByHand();
  // Moves the log into the file once it has grown to `pages`. An error leaves the rows safe in the
  // log, to be moved later: it is not told.
  void CheckpointAt(int pages);

  std::int64_t LastInsertId() const;
  std::int64_t ChangedRows() const;
  bool InTransaction() const;

  // The Error for SQLite's result `code` with its text and the path.
  Error ErrorFor(int code) const;
  Error LastError() const;

  sqlite3* handle() const { return handle_.get(); }
  const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Result<void> Harden() const;

  std::unique_ptr<sqlite3, Closer> handle_;
  std::string path_;
  int log_pages_ = 0;  // after the last commit
};

// A transaction that ends as it leaves its scope: rolled back unless Commit was called.
class Transaction {
 public:
  // Write: takes the write lock now, waiting up to the busy time-out.
  static Result<Transaction> Begin(const Database& database, bool write);
  Transaction(Transaction&& other) noexcept : database_(other.database_) {
    other.database_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> Commit();

 private:
  explicit Transaction(const Database* database) : database_(database) {}

  const Database* database_;  // nothing once ended
};

}  // namespace foretrain::store_internal
