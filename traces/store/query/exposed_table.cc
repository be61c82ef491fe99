#include "traces/store/query/exposed_table.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/metrics/classes.h"

namespace foretrain::store_internal {
namespace {

enum Column : int { kRunId, kRank, kStep, kClass, kBusyNs, kExposedNs };
constexpr const char* kTable =
    "CREATE TABLE x(run_id INT, rank INT, step INT, class TEXT, busy_ns INT, exposed_ns INT, "
    "PRIMARY KEY(run_id, rank, step, class)) WITHOUT ROWID";

// Bits of sqlite3_index_info::idxNum: the query names run or rank.
constexpr int kNamesRun = 1;
constexpr int kNamesRank = 2;

struct Row {
  RunId run = 0;
  int rank = 0;
  std::int32_t step = 0;
  OpClass op_class{};
  std::int64_t busy_ns = 0;
  std::int64_t exposed_ns = 0;
};

// Runs up to this size are read whole, larger ones rank by rank.
constexpr std::int64_t kMaxSpansAtOnce = 2'000'000;

// The rows of the ranks of `timeline`; a class without spans has none.
void AddRows(const RunInfo& info, const Timeline& timeline, std::vector<Row>& rows) {
  std::optional<RankClasses> classes;
  int rank = -1;
  for (const StepWindow& window : timeline.steps) {
    if (!classes.has_value() || window.rank != rank) {
      rank = window.rank;
      classes.emplace(SpansOfRank(timeline, rank));
    }
    const auto busy = classes->BusyIn(window.start_ns, window.end_ns);
    const auto exposed = classes->ExclusiveIn(window.start_ns, window.end_ns);
    for (std::size_t c = 0; c < busy.size(); ++c) {
      if (busy[c] == 0) continue;
      rows.push_back({info.id, rank, window.step, static_cast<OpClass>(c), busy[c], exposed[c]});
    }
  }
}

// A scan over the asked runs and ranks; holds the rows of one rank.
class Scan {
 public:
  explicit Scan(ExposedSource& source) : source_(source) {}

  Result<void> Begin(std::optional<std::int64_t> run, std::optional<std::int64_t> rank) {
    runs_.clear();
    rows_.clear();
    at_ = 0;
    next_run_ = 0;
    next_rank_ = 0;
    rank_ = rank;
    FT_ASSIGN(const std::vector<RunInfo> all, source_.reader->ListRuns());
    for (const RunInfo& info : all) {
      if (!run.has_value() || info.id == *run) runs_.push_back(info);
    }
    return Fill();
  }

  Result<void> Next() {
    if (++at_ < rows_.size()) return {};
    return Fill();
  }

  bool AtEnd() const { return at_ >= rows_.size(); }
  const Row& row() const { return rows_[at_]; }

 private:
  // Reads runs or ranks until one has rows.
  Result<void> Fill() {
    rows_.clear();
    at_ = 0;
    while (rows_.empty() && next_run_ < runs_.size()) {
      const RunInfo& info = runs_[next_run_];
      const bool whole = !rank_.has_value() && info.spans <= kMaxSpansAtOnce;
      const std::int64_t rank = rank_.value_or(next_rank_);
      const bool is_rank = rank >= 0 && rank < std::min(info.world, kMaxRanks);
      LoadOptions options = source_.load;
      options.counters = options.kernels = false;
      if (!whole) options.ranks = {static_cast<int>(rank)};
      if (options.cancelled && options.cancelled()) return Fail(ErrorCode::kAborted, "stopped");
      if (is_rank && info.spans > 0) {
        FT_ASSIGN(const StoredRun run, source_.reader->LoadRun(info.id, options));
        AddRows(info, run.timeline, rows_);
      }
      ++next_rank_;
      if (!whole && !rank_.has_value() && next_rank_ < std::min(info.world, kMaxRanks)) continue;
      ++next_run_;
      next_rank_ = 0;
    }
    return {};
  }

  static constexpr int kMaxRanks = 1 << 15;  // spans of higher ranks are not stored

  ExposedSource& source_;
  std::vector<RunInfo> runs_;
  std::optional<std::int64_t> rank_;
  std::size_t next_run_ = 0;
  int next_rank_ = 0;
  std::vector<Row> rows_;
  std::size_t at_ = 0;
};

// The objects that SQLite hands back to each call.
struct ExposedTable : sqlite3_vtab {
  explicit ExposedTable(ExposedSource& from) : sqlite3_vtab{}, source(from) {}
  ExposedSource& source;
};
struct ExposedCursor : sqlite3_vtab_cursor {
  explicit ExposedCursor(ExposedSource& source) : sqlite3_vtab_cursor{}, scan(source) {}
  Scan scan;
};

Scan& ScanOf(sqlite3_vtab_cursor* cursor) { return static_cast<ExposedCursor*>(cursor)->scan; }

// Runs `work`, whose Error is kept for the query; nothing is thrown through SQLite.
template <class Work>
int Guarded(ExposedSource& source, Work work) {
  try {
    Result<void> done = work();
    if (done.has_value()) return SQLITE_OK;
    source.error = std::move(done).error();
  } catch (const std::exception&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_ERROR;
}

int Connect(sqlite3* handle, void* source, int, const char* const*, sqlite3_vtab** out, char**) {
  const int code = sqlite3_declare_vtab(handle, kTable);
  if (code != SQLITE_OK) return code;
  auto* const table = new (std::nothrow) ExposedTable(*static_cast<ExposedSource*>(source));
  if (table == nullptr) return SQLITE_NOMEM;
  *out = table;
  return SQLITE_OK;
}

int Disconnect(sqlite3_vtab* table) {
  delete static_cast<ExposedTable*>(table);
  return SQLITE_OK;
}

// Equality with a run or a rank is used; SQLite checks every condition again.
int BestIndex(sqlite3_vtab*, sqlite3_index_info* info) {
  int arguments = 0;
  info->estimatedCost = 1e9;
  for (const auto& [column, bit] : {std::pair{int{kRunId}, kNamesRun}, {int{kRank}, kNamesRank}}) {
    for (int i = 0; i < info->nConstraint; ++i) {
      const auto& constraint = info->aConstraint[i];
      if (constraint.usable == 0 || constraint.iColumn != column ||
          constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) {
        continue;
      }
      info->aConstraintUsage[i].argvIndex = ++arguments;
      info->idxNum |= bit;
      info->estimatedCost /= 1000;
      break;
    }
  }
  return SQLITE_OK;
}

int OpenCursor(sqlite3_vtab* table, sqlite3_vtab_cursor** out) {
  auto* const cursor = new (std::nothrow) ExposedCursor(static_cast<ExposedTable*>(table)->source);
  if (cursor == nullptr) return SQLITE_NOMEM;
  *out = cursor;
  return SQLITE_OK;
}

int CloseCursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<ExposedCursor*>(cursor);
  return SQLITE_OK;
}

ExposedSource& SourceOf(sqlite3_vtab_cursor* cursor) {
  return static_cast<ExposedTable*>(cursor->pVtab)->source;
}

int Filter(sqlite3_vtab_cursor* cursor, int named, const char*, int, sqlite3_value** values) {
  std::optional<std::int64_t> run, rank;
  if ((named & kNamesRun) != 0) run = sqlite3_value_int64(*values++);
  if ((named & kNamesRank) != 0) rank = sqlite3_value_int64(*values);
  return Guarded(SourceOf(cursor), [&] { return ScanOf(cursor).Begin(run, rank); });
}

int NextRow(sqlite3_vtab_cursor* cursor) {
  return Guarded(SourceOf(cursor), [&] { return ScanOf(cursor).Next(); });
}

int IsAtEnd(sqlite3_vtab_cursor* cursor) { return ScanOf(cursor).AtEnd() ? 1 : 0; }

int ValueOf(sqlite3_vtab_cursor* cursor, sqlite3_context* out, int column) {
  const Row& row = ScanOf(cursor).row();
  const std::string_view name = Name(row.op_class);
  switch (column) {
    case kClass:
      sqlite3_result_text(out, name.data(), static_cast<int>(name.size()), SQLITE_STATIC);
      return SQLITE_OK;
    case kRunId:
      sqlite3_result_int64(out, row.run);
      return SQLITE_OK;
    default:
      break;
  }
  const std::array<std::int64_t, 6> numbers{0, row.rank, row.step, 0, row.busy_ns, row.exposed_ns};
  sqlite3_result_int64(out, numbers[static_cast<std::size_t>(column)]);
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
  return module;
}

}  // namespace

// In the temporary schema it hides a table of this name in the file.
Result<void> MakeExposedTable(const Database& database, ExposedSource& source) {
  static const sqlite3_module kModule = ModuleOf();
  const int code =
      sqlite3_create_module_v2(database.handle(), "ft_exposed", &kModule, &source, nullptr);
  if (code != SQLITE_OK) return database.FailWith(code);
  return database.Execute("CREATE VIRTUAL TABLE temp.v_exposed USING ft_exposed");
}

}  // namespace foretrain::store_internal
