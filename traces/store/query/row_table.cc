#include "traces/store/query/row_table.h"

#include <sqlite3.h>

#include <cstddef>
#include <exception>
#include <new>
#include <utility>

namespace foretrain::store_internal {
namespace {

// The objects that SQLite hands back to each call.
struct Table : sqlite3_vtab {
  explicit Table(const RowTable& of) : sqlite3_vtab{}, spec(of) {}
  const RowTable& spec;
};
struct Cursor : sqlite3_vtab_cursor {
  Cursor() : sqlite3_vtab_cursor{} {}
  std::unique_ptr<RowScan> scan{};
  std::int64_t row = 0;
};

Cursor& CursorOf(sqlite3_vtab_cursor* cursor) { return *static_cast<Cursor*>(cursor); }
const RowTable& SpecOf(sqlite3_vtab* table) { return static_cast<Table*>(table)->spec; }

// Runs `work`, whose Error is kept for the query; nothing is thrown through SQLite.
template <class Work>
int Guarded(sqlite3_vtab* table, Work work) {
  try {
    Result<void> done = work();
    if (done.has_value()) return SQLITE_OK;
    *SpecOf(table).error = std::move(done).error();
  } catch (const std::exception&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_ERROR;
}

int Connect(sqlite3* handle, void* raw, int, const char* const*, sqlite3_vtab** out, char**) {
  const RowTable& spec = *static_cast<const RowTable*>(raw);
  const int code = sqlite3_declare_vtab(handle, spec.columns);
  if (code != SQLITE_OK) return code;
  auto* const table = new (std::nothrow) Table(spec);
  if (table == nullptr) return SQLITE_NOMEM;
  *out = table;
  return SQLITE_OK;
}

int Disconnect(sqlite3_vtab* table) {
  delete static_cast<Table*>(table);
  return SQLITE_OK;
}

// Equality with a key is used; SQLite checks every condition again. Bit i of idxNum: key i is asked
// for.
int BestIndex(sqlite3_vtab* table, sqlite3_index_info* info) {
  int arguments = 0;
  info->estimatedCost = 1e9;
  const std::vector<int>& keys = SpecOf(table).keys;
  for (std::size_t key = 0; key < keys.size(); ++key) {
    for (int i = 0; i < info->nConstraint; ++i) {
      const auto& constraint = info->aConstraint[i];
      if (constraint.usable == 0 || constraint.iColumn != keys[key] ||
          constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) {
        continue;
      }
      info->aConstraintUsage[i].argvIndex = ++arguments;
      info->idxNum |= 1 << key;
      info->estimatedCost /= 1000;
      break;
    }
  }
  return SQLITE_OK;
}

int OpenCursor(sqlite3_vtab* table, sqlite3_vtab_cursor** out) {
  return Guarded(table, [&]() -> Result<void> {
    auto cursor = std::make_unique<Cursor>();
    cursor->scan = SpecOf(table).scan();
    *out = cursor.release();
    return {};
  });
}

int CloseCursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

int Filter(sqlite3_vtab_cursor* cursor, int named, const char*, int, sqlite3_value** values) {
  return Guarded(cursor->pVtab, [&] {
    std::vector<std::optional<std::int64_t>> asked(SpecOf(cursor->pVtab).keys.size());
    for (std::size_t key = 0; key < asked.size(); ++key) {
      if ((named & (1 << key)) != 0) asked[key] = sqlite3_value_int64(*values++);
    }
    CursorOf(cursor).row = 0;
    return CursorOf(cursor).scan->Begin(asked);
  });
}

int NextRow(sqlite3_vtab_cursor* cursor) {
  ++CursorOf(cursor).row;
  return Guarded(cursor->pVtab, [&] { return CursorOf(cursor).scan->Next(); });
}

int IsAtEnd(sqlite3_vtab_cursor* cursor) { return CursorOf(cursor).scan->AtEnd() ? 1 : 0; }

int RowId(sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
  *out = CursorOf(cursor).row;
  return SQLITE_OK;
}

int ValueOf(sqlite3_vtab_cursor* cursor, sqlite3_context* out, int column) {
  return Guarded(cursor->pVtab, [&]() -> Result<void> {
    const RowValue value = CursorOf(cursor).scan->At(column);
    if (const auto* const number = std::get_if<std::int64_t>(&value)) {
      sqlite3_result_int64(out, *number);
    } else if (const auto* const real = std::get_if<double>(&value)) {
      sqlite3_result_double(out, *real);
    } else if (const auto* const text = std::get_if<std::string>(&value)) {
      sqlite3_result_text64(out, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    } else {
      sqlite3_result_null(out);
    }
    return {};
  });
}

void Delete(void* table) { delete static_cast<RowTable*>(table); }

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

// SQLite deletes the copy of `table` with the connection, also where it fails.
Result<void> MakeRowTable(const Database& database, RowTable table) {
  static const sqlite3_module kModule = ModuleOf();
  const char* const create = table.create;
  auto owned = std::make_unique<RowTable>(std::move(table));
  const char* const module = owned->module;
  const int code =
      sqlite3_create_module_v2(database.handle(), module, &kModule, owned.release(), &Delete);
  if (code != SQLITE_OK) return database.FailWith(code);
  return database.Execute(create);
}

}  // namespace foretrain::store_internal
