#include "traces/import/nsys.h"

#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "traces/store/sqlite.h"

namespace foretrain::trace_import {
namespace {

using store_internal::Database;
using store_internal::OpenMode;
using store_internal::Statement;

// Larger times or sizes cannot be: sums of two still fit int64_t.
constexpr std::int64_t kMaxNs = std::int64_t{1} << 60;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;
constexpr std::int64_t kAskEvery = 100'000;  // rows

// Names of CUpti_ActivityMemcpyKind, as PyTorch writes them.
std::string CopyName(std::int64_t kind) {
  switch (kind) {
    case 1:
      return "Memcpy HtoD";
    case 2:
      return "Memcpy DtoH";
    case 8:
      return "Memcpy DtoD";
    case 10:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

// A global id packs hardware (8 bits), machine (8), process (24) and thread (24).
std::int64_t ProcessOf(std::int64_t global) { return (global >> 24) & 0xFFFFFF; }
std::int64_t ThreadOf(std::int64_t global) { return global & 0xFFFFFF; }

struct Table {
  const char* name;
  RawKind kind;
  const char* process;            // the column with the packed process
  std::vector<const char*> text;  // columns with the name, by preference: keys of StringIds
};

// Reads the tables that exist, by the columns that exist: the schema of an export changes from
// version to version. Rows are grouped by process, and each becomes the events of one rank.
class Reader {
 public:
  Reader(const Database& database, const std::function<bool()>& go_on)
      : database_(database), go_on_(go_on) {}

  Result<std::vector<RankEvents>> Read() {
    FT_TRY(ReadStrings());
    const std::array<Table, 4> tables{{
        {"CUPTI_ACTIVITY_KIND_KERNEL",
         RawKind::kKernel,
         "globalPid",
         {"demangledName", "shortName", "mangledName"}},
        {"CUPTI_ACTIVITY_KIND_MEMCPY", RawKind::kCopy, "globalPid", {}},
        {"CUPTI_ACTIVITY_KIND_MEMSET", RawKind::kSet, "globalPid", {}},
        {"CUPTI_ACTIVITY_KIND_RUNTIME", RawKind::kCall, "globalTid", {"nameId"}},
    }};
    for (const Table& table : tables) FT_TRY(ReadTable(table));
    FT_TRY(ReadRanges());
    FT_TRY(ReadSession());
    if (!found_) {
      return Fail(
          ErrorCode::kCorruptInput,
          Printable(database_.path(), 512) +
              ": a database, but no export of Nsight Systems: it has none of the tables "
              "CUPTI_ACTIVITY_KIND_* and NVTX_EVENTS; `nsys export --type sqlite` makes one");
    }
    return Take();
  }

 private:
  // A table that does not exist has no columns, nor has a view or a virtual table of its name.
  Result<std::set<std::string>> ColumnsOf(std::string_view table) {
    FT_ASSIGN(Statement plain, database_.Prepare("SELECT sql FROM sqlite_schema WHERE name = ? "
                                                 "AND type = 'table'"));
    bool is_plain = false;
    FT_TRY(plain.Bind(table).Each([&] { is_plain = plain.Text(0).starts_with("CREATE TABLE"); }));
    if (!is_plain) return std::set<std::string>{};
    FT_ASSIGN(Statement info, database_.Prepare("SELECT name FROM pragma_table_info(?)"));
    info.Bind(table);
    std::set<std::string> columns;
    FT_TRY(info.Each([&] { columns.insert(info.Text(0)); }));
    return columns;
  }

  // Names are stored once, as numbers in all other tables.
  Result<void> ReadStrings() {
    FT_ASSIGN(const std::set<std::string> columns, ColumnsOf("StringIds"));
    if (!columns.contains("id") || !columns.contains("value")) return {};
    FT_ASSIGN(Statement rows, database_.Prepare("SELECT id, value FROM StringIds"));
    return rows.Each([&] { strings_.try_emplace(rows.Int(0), Printable(rows.Text(1), 4096)); });
  }

  // The column if the table has it, else NULL, so that one query text fits all versions.
  static std::string Or(const std::set<std::string>& columns, const char* name) {
    return columns.contains(name) ? std::string("\"") + name + "\"" : "NULL";
  }

  // Events of device tables lie on a track for each stream, those of the runtime on one for each
  // thread.
  Result<void> ReadTable(const Table& table) {
    FT_ASSIGN(const std::set<std::string> columns, ColumnsOf(table.name));
    if (!columns.contains("start") || !columns.contains("end")) return {};
    found_ = true;
    std::string text = "NULL";
    for (const char* name : table.text) {
      if (text == "NULL") text = Or(columns, name);
    }
    FT_ASSIGN(Statement rows,
              database_.Prepare("SELECT start, \"end\", " + Or(columns, table.process) + ", " +
                                Or(columns, "correlationId") + ", " + Or(columns, "deviceId") +
                                ", " + Or(columns, "streamId") + ", " + Or(columns, "bytes") +
                                ", " + Or(columns, "copyKind") + ", " + text +
                                LaunchColumns(columns) + " FROM " + table.name));
    while (true) {
      FT_ASSIGN(const bool row, rows.Step());
      if (!row) return {};
      FT_TRY(CountRow());
      AddRow(table, rows);
    }
  }

  // Columns 9 to 17 of a row. Tables without kernels have none of them.
  static std::string LaunchColumns(const std::set<std::string>& columns) {
    std::string text;
    for (const char* name : {"gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
                             "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"}) {
      text += ", " + Or(columns, name);
    }
    return text;
  }

  static KernelLaunch LaunchOf(const Statement& row) {
    const auto number = [&row](int column) {
      const std::int64_t value = row.Int(column);
      return value >= 0 && value <= INT32_MAX ? static_cast<std::int32_t>(value) : 0;
    };
    return {.grid = {number(9), number(10), number(11)},
            .block = {number(12), number(13), number(14)},
            .registers = number(15),
            .static_shared_bytes = number(16),
            .dynamic_shared_bytes = number(17)};
  }

  // Rows with impossible times are counted and skipped; the export is input, not ours.
  void AddRow(const Table& table, const Statement& row) {
    RankEvents& process = ProcessNumbered(ProcessOf(row.Int(2)));
    RawEvent event{.start_ns = row.Int(0), .end_ns = row.Int(1), .kind = table.kind};
    if (!IsTimed(row, event)) {
      ++process.invalid;
      return;
    }
    if (!row.IsNull(3)) event.correlation = row.Int(3);
    if (row.Int(6) >= 0 && row.Int(6) <= kMaxBytes) event.bytes = row.Int(6);
    if (table.kind == RawKind::kCall) {
      event.track = process.TrackOf(std::to_string(ProcessOf(row.Int(2))),
                                    std::to_string(ThreadOf(row.Int(2))));
    } else {
      event.track = process.TrackOf("device " + std::to_string(row.Int(4)),
                                    "stream " + std::to_string(row.Int(5)));
      devices_[&process].insert(row.Int(4));
    }
    event.name = process.names.Of(NameOf(table, row));
    if (table.kind == RawKind::kKernel) event.detail = process.LaunchOf(LaunchOf(row));
    process.events.push_back(event);
  }

  // Kernels and calls have their name's number in the row; copies and fills have none, so they are
  // named by their kind.
  std::string NameOf(const Table& table, const Statement& row) const {
    if (table.kind == RawKind::kCopy) return CopyName(row.Int(7));
    if (table.kind == RawKind::kSet) return "Memset";
    const auto found = strings_.find(row.Int(8));
    if (found != strings_.end() && !found->second.empty()) return found->second;
    return table.kind == RawKind::kKernel ? "kernel without a name" : "call without a name";
  }

  // NVTX texts are stored directly or as a string's number.
  Result<void> ReadRanges() {
    FT_ASSIGN(const std::set<std::string> columns, ColumnsOf("NVTX_EVENTS"));
    if (!columns.contains("start") || !columns.contains("end")) return {};
    found_ = true;
    // Marks and domain records have no end.
    FT_ASSIGN(Statement rows,
              database_.Prepare("SELECT start, \"end\", " + Or(columns, "globalTid") + ", " +
                                Or(columns, "text") + ", " + Or(columns, "textId") +
                                " FROM NVTX_EVENTS WHERE \"end\" IS NOT NULL"));
    while (true) {
      FT_ASSIGN(const bool row, rows.Step());
      if (!row) return {};
      FT_TRY(CountRow());
      RankEvents& process = ProcessNumbered(ProcessOf(rows.Int(2)));
      RawEvent event{.start_ns = rows.Int(0), .end_ns = rows.Int(1), .kind = RawKind::kRange};
      if (!IsTimed(rows, event)) {
        ++process.invalid;
        continue;
      }
      std::string text = Printable(rows.Text(3), 4096);
      if (const auto found = strings_.find(rows.Int(4)); text.empty() && found != strings_.end()) {
        text = found->second;
      }
      event.track = process.TrackOf(std::to_string(ProcessOf(rows.Int(2))),
                                    std::to_string(ThreadOf(rows.Int(2))));
      event.name = process.names.Of(text);
      process.events.push_back(event);
    }
  }

  // Bounds on times keep differences inside int64_t.
  static bool IsTimed(const Statement& row, const RawEvent& event) {
    return !row.IsNull(0) && !row.IsNull(1) && event.start_ns >= -kMaxNs &&
           event.end_ns <= kMaxNs && event.end_ns >= event.start_ns;
  }

  // Reads the session's start and the devices. If these tables are missing, only names and the
  // common clock are lost.
  Result<void> ReadSession() {
    FT_ASSIGN(std::set<std::string> columns, ColumnsOf("TARGET_INFO_SESSION_START_TIME"));
    if (columns.contains("utcEpochNs")) {
      FT_ASSIGN(Statement rows,
                database_.Prepare("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"));
      FT_ASSIGN(const bool row, rows.Step());
      const std::int64_t base = row ? rows.Int(0) : 0;
      for (auto& [number, process] : processes_) {
        process.base_ns = base >= 0 && base < 2 * kMaxNs ? base : 0;
      }
    }
    FT_ASSIGN(columns, ColumnsOf("TARGET_INFO_GPU"));
    if (!columns.contains("id") || !columns.contains("name")) return {};
    FT_ASSIGN(Statement rows,
              database_.Prepare("SELECT id, name, " + Or(columns, "totalMemory") + ", " +
                                Or(columns, "computeMajor") + ", " + Or(columns, "computeMinor") +
                                " FROM TARGET_INFO_GPU"));
    while (true) {
      FT_ASSIGN(const bool row, rows.Step());
      if (!row) return {};
      for (auto& [process, ids] : devices_) {
        if (!ids.contains(rows.Int(0))) continue;
        process->devices.push_back({rows.Int(0), Printable(rows.Text(1)), rows.Int(2),
                                    CapabilityOf(rows.Int(3), rows.Int(4))});
      }
    }
  }

  // Asks for permission to continue once in kAskEvery rows; a query itself cannot be interrupted
  // here.
  Result<void> CountRow() {
    if (++rows_ % kAskEvery == 0 && go_on_ && !go_on_()) {
      return Fail(ErrorCode::kAborted, "the import was stopped");
    }
    return {};
  }

  // Creates the process at its first row.
  RankEvents& ProcessNumbered(std::int64_t number) { return processes_[number]; }

  // Processes without a device (launchers, data loaders) are dropped if any process used one.
  std::vector<RankEvents> Take() {
    std::vector<RankEvents> taken;
    for (auto& [number, process] : processes_) {
      if (!devices_.empty() && !devices_.contains(&process)) continue;
      process.source = "process " + std::to_string(number);
      taken.push_back(std::move(process));
    }
    return taken;
  }

  const Database& database_;
  const std::function<bool()>& go_on_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::map<std::int64_t, RankEvents> processes_;           // addresses of entries stay valid
  std::map<RankEvents*, std::set<std::int64_t>> devices_;  // devices used by a process
  std::int64_t rows_ = 0;
  bool found_ = false;
};

}  // namespace

Result<std::vector<RankEvents>> ReadNsys(const std::string& path,
                                         const std::function<bool()>& go_on) {
  FT_ASSIGN(const std::unique_ptr<Database> database, Database::OpenForeign(path));
  return Reader(*database, go_on).Read();
}

}  // namespace foretrain::trace_import
