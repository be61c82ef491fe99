#include "traces/store/query/kernel_rows.h"

#include <sqlite3.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/op_table.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain::store_internal {
namespace {

enum Column : int {
  kRunId,
  kName,
  kClass,
  kOp,
  kCalls,
  kTotalNs,
  kMeanNs,
  kLaunch,
  kOccupancy,
  kFullName
};
constexpr const char* kTable =
    "CREATE TABLE x(run_id INT, name TEXT, class TEXT, op TEXT, calls INT, total_ns INT, "
    "mean_ns REAL, launch TEXT, occupancy REAL, full_name TEXT)";

struct Row {
  RunId run = 0;
  KernelRow kernel{};
  std::string op{};  // the names of the ops that run it; empty: unknown
  OpClass op_class = OpClass::kMemoryBound;
  int capability = 0;
};

// The names of the ops of each row, in the order of their ids.
std::vector<std::string> OpsOf(const StoredRun& run) {
  std::vector<std::string> ops(run.kernels.rows.size());
  std::vector<std::string_view> last(ops.size());
  for (const auto& [op, rows] : run.kernels.ops) {
    const auto name = run.timeline.op_names.find(op);
    if (name == run.timeline.op_names.end()) continue;
    for (const std::uint32_t row : rows) {
      if (row >= ops.size() || last[row] == name->second) continue;
      const bool is_known =
          (", " + ops[row] + ", ").find(", " + name->second + ", ") != std::string::npos;
      last[row] = name->second;
      if (!is_known) ops[row] += (ops[row].empty() ? "" : ", ") + name->second;
    }
  }
  return ops;
}

void AddRows(const StoredRun& run, const trace_import::OpTable& classes, std::vector<Row>& rows) {
  const std::vector<std::string> ops = OpsOf(run);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const KernelRow& kernel = run.kernels.rows[i];
    const auto meaning = classes.Find(trace_import::NamePlace::kKernel, kernel.name);
    rows.push_back({.run = run.info.id,
                    .kernel = kernel,
                    .op = ops[i],
                    .op_class = meaning ? meaning->op_class : OpClass::kMemoryBound,
                    .capability = run.kernels.capability});
  }
}

// The objects that SQLite hands back to each call.
struct KernelTableOfSql : sqlite3_vtab {
  explicit KernelTableOfSql(KernelSource& from) : sqlite3_vtab{}, source(from) {}
  KernelSource& source;
  trace_import::OpTable classes;
};
struct KernelCursor : sqlite3_vtab_cursor {
  std::vector<Row> rows{};
  std::size_t at = 0;
};

Result<void> Read(KernelTableOfSql& table, std::optional<std::int64_t> asked,
                  std::vector<Row>& rows) {
  FT_ASSIGN(const std::vector<RunInfo> runs, table.source.reader->ListRuns());
  LoadOptions options = table.source.load;
  options.spans = options.counters = false;
  for (const RunInfo& info : runs) {
    if (asked.has_value() && info.id != *asked) continue;
    if (options.cancelled && options.cancelled()) return Fail(ErrorCode::kAborted, "stopped");
    FT_ASSIGN(const StoredRun run, table.source.reader->LoadRun(info.id, options));
    AddRows(run, table.classes, rows);
  }
  return {};
}

int Connect(sqlite3* handle, void* source, int, const char* const*, sqlite3_vtab** out, char**) {
  const int code = sqlite3_declare_vtab(handle, kTable);
  if (code != SQLITE_OK) return code;
  auto* const table = new (std::nothrow) KernelTableOfSql(*static_cast<KernelSource*>(source));
  if (table == nullptr) return SQLITE_NOMEM;
  *out = table;
  return SQLITE_OK;
}

int Disconnect(sqlite3_vtab* table) {
  delete static_cast<KernelTableOfSql*>(table);
  return SQLITE_OK;
}

// Equality with a run is used; SQLite checks every condition again.
int BestIndex(sqlite3_vtab*, sqlite3_index_info* info) {
  info->estimatedCost = 1e6;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (constraint.usable == 0 || constraint.iColumn != kRunId ||
        constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) {
      continue;
    }
    info->aConstraintUsage[i].argvIndex = 1;
    info->idxNum = 1;
    info->estimatedCost = 1e3;
    break;
  }
  return SQLITE_OK;
}

KernelCursor& CursorOf(sqlite3_vtab_cursor* cursor) { return *static_cast<KernelCursor*>(cursor); }

int OpenCursor(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
  auto* const cursor = new (std::nothrow) KernelCursor();
  if (cursor == nullptr) return SQLITE_NOMEM;
  *out = cursor;
  return SQLITE_OK;
}

int CloseCursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<KernelCursor*>(cursor);
  return SQLITE_OK;
}

// An Error is kept for the query; nothing is thrown through SQLite.
int Filter(sqlite3_vtab_cursor* raw, int named, const char*, int, sqlite3_value** values) {
  KernelCursor& cursor = CursorOf(raw);
  auto& table = *static_cast<KernelTableOfSql*>(raw->pVtab);
  std::optional<std::int64_t> run;
  if (named != 0) run = sqlite3_value_int64(values[0]);
  try {
    cursor.rows.clear();
    cursor.at = 0;
    Result<void> done = Read(table, run, cursor.rows);
    if (done.has_value()) return SQLITE_OK;
    table.source.error = std::move(done).error();
  } catch (const std::exception&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_ERROR;
}

int NextRow(sqlite3_vtab_cursor* cursor) {
  ++CursorOf(cursor).at;
  return SQLITE_OK;
}

int IsAtEnd(sqlite3_vtab_cursor* raw) {
  const KernelCursor& cursor = CursorOf(raw);
  return cursor.at >= cursor.rows.size() ? 1 : 0;
}

int RowId(sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
  *out = static_cast<sqlite3_int64>(CursorOf(cursor).at);
  return SQLITE_OK;
}

// NULL if `text` is empty.
void SetText(sqlite3_context* out, std::string_view text) {
  if (text.empty()) return sqlite3_result_null(out);
  sqlite3_result_text64(out, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void SetOccupancy(sqlite3_context* out, const Row& row) {
  const auto occupancy = TheoreticalOccupancy(row.kernel.launch, row.capability);
  if (occupancy) {
    sqlite3_result_double(out, occupancy->share);
  } else {
    sqlite3_result_null(out);
  }
}

int ValueOf(sqlite3_vtab_cursor* cursor, sqlite3_context* out, int column) {
  const Row& row = CursorOf(cursor).rows[CursorOf(cursor).at];
  const KernelRow& kernel = row.kernel;
  try {
    switch (column) {
      case kRunId:
        sqlite3_result_int64(out, row.run);
        break;
      case kName:
        SetText(out, ShortKernelName(kernel.name));
        break;
      case kClass:
        SetText(out, Name(row.op_class));
        break;
      case kOp:
        SetText(out, row.op);
        break;
      case kCalls:
        sqlite3_result_int64(out, kernel.calls);
        break;
      case kTotalNs:
        sqlite3_result_int64(out, kernel.total_ns);
        break;
      case kMeanNs:
        if (kernel.calls > 0) {
          sqlite3_result_double(
              out, static_cast<double>(kernel.total_ns) / static_cast<double>(kernel.calls));
        }
        break;
      case kLaunch:
        SetText(out, Describe(kernel.launch));
        break;
      case kOccupancy:
        SetOccupancy(out, row);
        break;
      default:
        SetText(out, kernel.name);
    }
  } catch (const std::exception&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

sqlite3_module ModuleOf() {
  sqlite3_module module{};
  module.xCreate = Connect;
  module.xConnect = Connect;
  module.xBestIndex = BestIndex;
  module.xDisconnect = Disconnect;
  module.xDestroy = Disconnect;
  module.xOpen = OpenCursor;
  module.xClose = CloseCursor;
  module.xFilter = Filter;
  module.xNext = NextRow;
  module.xEof = IsAtEnd;
  module.xColumn = ValueOf;
  module.xRowid = RowId;
  return module;
}

}  // namespace

// In the temporary schema it hides a table of this name in the file.
Result<void> MakeKernelTable(const Database& database, KernelSource& source) {
  static const sqlite3_module kModule = ModuleOf();
  const int code =
      sqlite3_create_module_v2(database.handle(), "ft_kernel", &kModule, &source, nullptr);
  if (code != SQLITE_OK) return database.FailWith(code);
  return database.Execute("CREATE VIRTUAL TABLE temp.v_kernel USING ft_kernel");
}

}  // namespace foretrain::store_internal
