#include "traces/store_query.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "base/text.h"
#include "traces/store.h"
#include "traces/store/query/exposed_table.h"
#include "traces/store/query/kernel_rows.h"
#include "traces/store/schema.h"
#include "traces/store/views.h"

namespace foretrain {
namespace {

using store_internal::Database;
using store_internal::Statement;

constexpr int kCheckInstructions = 20'000;  // of SQLite's machine between two looks: about 1 ms
constexpr std::int64_t kMaxMemoryBytes = std::int64_t{1} << 30;
constexpr int kMaxValueBytes = 16 << 20;

// Functions of a query, a space around each. Those that load code, open files or change the
// connection are missing.
constexpr std::string_view kFunctions =
    " -> ->> abs acos asin atan atan2 avg ceil ceiling char coalesce cos count cume_dist date"
    " datetime degrees dense_rank exp first_value floor format glob group_concat hex ifnull iif"
    " instr json json_array json_array_length json_extract json_group_array json_group_object"
    " json_object json_quote json_type json_valid julianday lag last_value lead length like"
    " likely ln log log10 log2 lower ltrim max min mod nth_value ntile nullif percent_rank pi"
    " pow power printf quote radians rank replace round row_number rtrim sign sin sqrt strftime"
    " substr substring sum tan time total trim trunc typeof upper ";

// Tables of the file that a query may read, besides the views: those that were compared with ours.
constexpr std::array<std::string_view, 18> kTables{
    "attachment", "batch",  "clock",  "counter", "enum_name", "hardware",
    "memory",     "metric", "model",  "note",    "op_name",   "plan",
    "program",    "run",    "series", "span",    "step",      "track"};
static_assert(std::is_sorted(kTables.begin(), kTables.end()));

// Watches one query: what it may do, and when it must end.
class QueryWatch {
 public:
  explicit QueryWatch(const QueryOptions& options)
      : options_(options),
        end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                 std::chrono::duration<double>(options.max_seconds))) {
    for (const QueryView& view : QueryViews()) views_.push_back(view.name);
  }

  // The limits and the authorizer begin here: they forbid making the tables of a query.
  Result<void> Start(const Database& database) {
    FT_ASSIGN(Statement names, database.Prepare("SELECT name FROM main.sqlite_schema"));
    FT_TRY(names.Each([&] { NoteForeign(ToLower(names.Text(0))); }));
    for (const auto& [limit, most] : {std::pair{SQLITE_LIMIT_LENGTH, kMaxValueBytes},
                                      {SQLITE_LIMIT_SQL_LENGTH, 100'000},
                                      {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1'000},
                                      {SQLITE_LIMIT_ATTACHED, 0},
                                      {SQLITE_LIMIT_WORKER_THREADS, 0}}) {
      sqlite3_limit(database.handle(), limit, most);
    }
    sqlite3_progress_handler(database.handle(), kCheckInstructions, &Look, this);
    sqlite3_set_authorizer(database.handle(), &Permit, this);
    return {};
  }

  // True once the query must end.
  bool IsOver() {
    if (std::chrono::steady_clock::now() >= end_) {
      over_ = Error{ErrorCode::kTimeout,
                    "the query takes more than " + NumberText(options_.max_seconds) +
                        " s; name a run and a step, or give it more with --timeout"};
    } else if (sqlite3_memory_used() + answer_bytes_ > kMaxMemoryBytes) {
      over_ = Error{ErrorCode::kResourceExhausted,
                    "the query needs more than 1 GiB of memory; name a run and a step, or ask for "
                    "fewer rows"};
    } else if (options_.cancelled && options_.cancelled()) {
      over_ = Error{ErrorCode::kAborted, "the query was stopped"};
    }
    return over_.has_value();
  }

  void CountAnswer(std::int64_t bytes) { answer_bytes_ += bytes; }

  // The Error of a query that failed with `error`: why it was ended or refused, that of reading a
  // run for it, or what SQLite says.
  Error ErrorOf(const Database& database, Error error, const std::optional<Error>& reading) const {
    if (over_.has_value()) return {over_->code, database.path() + ": " + over_->message};
    if (reading.has_value()) return *reading;
    if (!denied_.empty()) {
      return {ErrorCode::kInvalidArgument, database.path() +
                                               ": a query may only read the views, and " + denied_ +
                                               " is refused; `foretrain sql --views` lists them"};
    }
    const int code = sqlite3_errcode(database.handle()) & 0xFF;
    if (code == SQLITE_ERROR || code == SQLITE_TOOBIG || code == SQLITE_MISMATCH) {
      error.code = ErrorCode::kInvalidArgument;
      error.message += "; `foretrain sql --views` lists views and columns";
    }
    return error;
  }

 private:
  void NoteForeign(std::string name) {
    if (!IsOurs(name) && !IsView(name)) foreign_.push_back(std::move(name));
  }

  static int Look(void* watch) { return static_cast<QueryWatch*>(watch)->IsOver() ? 1 : 0; }

  static int Permit(void* watch, int action, const char* first, const char* second,
                    const char* schema, const char* /*view*/) {
    const auto text = [](const char* of) { return std::string_view(of == nullptr ? "" : of); };
    return static_cast<QueryWatch*>(watch)->Permits(action, text(first), text(second), text(schema))
               ? SQLITE_OK
               : SQLITE_DENY;
  }

  bool Permits(int action, std::string_view first, std::string_view second,
               std::string_view schema) {
    std::string what;
    switch (action) {
      case SQLITE_SELECT:
      case SQLITE_RECURSIVE:
        return true;
      case SQLITE_READ:
        if (IsReadable(first, schema)) return true;
        what = "table " + Printable(first);
        break;
      case SQLITE_FUNCTION:
        if (IsHarmless(ToLower(second))) return true;
        what = "function " + Printable(second);
        break;
      default:
        what = "anything but SELECT";
    }
    if (denied_.empty()) denied_ = what;
    return false;
  }

  static bool IsHarmless(const std::string& function) {
    return function.find(' ') == std::string::npos &&
           kFunctions.find(" " + function + " ") != std::string_view::npos;
  }

  bool IsView(std::string_view name) const {
    return std::find(views_.begin(), views_.end(), name) != views_.end();
  }

  static bool IsOurs(std::string_view table) {
    return std::binary_search(kTables.begin(), kTables.end(), table);
  }

  // A read of no column, as by count(*), comes with the names as the query has them: without a
  // schema, and of a common table expression too.
  bool IsReadable(std::string_view name, std::string_view schema) const {
    const std::string table = ToLower(name);
    if (schema == "temp") return IsView(table);
    if (schema == "main") return IsOurs(table);
    return schema.empty() && !table.starts_with("sqlite_") && !table.starts_with("pragma_") &&
           std::find(foreign_.begin(), foreign_.end(), table) == foreign_.end();
  }

  const QueryOptions& options_;
  const std::chrono::steady_clock::time_point end_;
  std::vector<std::string_view> views_;
  std::vector<std::string> foreign_;  // names in the file that are not ours
  std::int64_t answer_bytes_ = 0;
  std::optional<Error> over_;
  std::string denied_;  // the first thing that was refused
};

// `text` in at most `limit` bytes, cut before a character.
std::string Cut(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
  text.resize(limit);
  return text + "...";
}

QueryValue ValueOf(const Statement& row, int column, std::size_t max_text) {
  switch (row.TypeOf(column)) {
    case SQLITE_INTEGER:
      return row.Int(column);
    case SQLITE_FLOAT:
      return row.Real(column);
    case SQLITE_TEXT:
      return Cut(row.Text(column), max_text);
    case SQLITE_BLOB:
      return "(blob of " + std::to_string(row.Blob(column).size()) + " bytes)";
    default:
      return std::monostate();
  }
}

Result<QueryAnswer> RowsOf(Statement& query, const QueryOptions& options, QueryWatch& watch) {
  QueryAnswer answer;
  for (int i = 0; i < query.Columns(); ++i) answer.columns.push_back(query.ColumnName(i));
  while (true) {
    FT_ASSIGN(const bool row, query.Step());
    if (!row) return answer;
    if (std::ssize(answer.rows) >= options.max_rows) {
      answer.more = true;
      query.Reset();
      return answer;
    }
    std::vector<QueryValue>& values = answer.rows.emplace_back();
    std::int64_t bytes = 64;
    for (int i = 0; i < query.Columns(); ++i) {
      values.push_back(ValueOf(query, i, options.max_text_bytes));
      const auto* text = std::get_if<std::string>(&values.back());
      bytes += std::int64_t{48} + (text != nullptr ? std::ssize(*text) : 0);
    }
    watch.CountAnswer(bytes);
    if (watch.IsOver()) return Fail(ErrorCode::kAborted, "");  // the watch says why
  }
}

}  // namespace

Result<QueryAnswer> QueryStore(const std::string& path, std::string_view sql,
                               const QueryOptions& options) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path));
  QueryWatch watch(options);
  store_internal::ExposedSource source{.reader = &reader};
  source.load.cancelled = [&watch] { return watch.IsOver(); };
  FT_ASSIGN(const auto database,
            store_internal::OpenStore({.path = path, .mode = store_internal::OpenMode::kRead}));
  const std::string views = store_internal::TempViewsSql();
  FT_TRY(database->Execute(views.c_str()));
  FT_TRY(store_internal::MakeExposedTable(*database, source));
  store_internal::KernelSource kernels{.reader = &reader};
  kernels.load.cancelled = source.load.cancelled;
  FT_TRY(store_internal::MakeKernelTable(*database, kernels));
  FT_TRY(watch.Start(*database));
  const auto run = [&]() -> Result<QueryAnswer> {
    FT_ASSIGN(Statement query, database->PrepareQuery(sql));
    return RowsOf(query, options, watch);
  };
  Result<QueryAnswer> answer = run();
  if (answer.has_value()) return answer;
  return tl::unexpected<Error>(watch.ErrorOf(
      *database, answer.error(), source.error.has_value() ? source.error : kernels.error));
}

}  // namespace foretrain
