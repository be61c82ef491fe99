// Changes to stored runs: rename, pin, delete.
#include <array>
#include <string>
#include <string_view>

#include "base/stop_point.h"
#include "traces/store.h"
#include "traces/store/schema.h"
#include "traces/store/sqlite.h"

namespace foretrain {
namespace {

using store_internal::Database;
using store_internal::OpenMode;
using store_internal::Statement;
using store_internal::Transaction;

constexpr std::size_t kMaxLabelBytes = 4'096;

// A connection of its own, with short transactions: a recorder in another process keeps working.
Result<std::unique_ptr<Database>> OpenForChange(const std::string& path) {
  return store_internal::OpenStore({.path = path, .mode = OpenMode::kWrite});
}

// An update that changed no row means that the run does not exist.
Result<void> CheckChanged(const Database& database, RunId id) {
  if (database.ChangedRows() > 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              database.path() + ": there is no run " + std::to_string(id));
}

// Statements that delete a run's rows, each with the run as ?1. Specs that no run refers to any
// more are deleted afterwards.
constexpr std::array<const char*, 12> kDeleteRun = {
    "DELETE FROM span WHERE track_id IN (SELECT track_id FROM track WHERE run_id = ?1)",
    "DELETE FROM memory WHERE run_id = ?1",
    "DELETE FROM track WHERE run_id = ?1",
    "DELETE FROM batch WHERE run_id = ?1",
    "DELETE FROM step WHERE run_id = ?1",
    "DELETE FROM op_name WHERE run_id = ?1",
    "DELETE FROM counter WHERE run_id = ?1",
    "DELETE FROM metric WHERE run_id = ?1",
    "DELETE FROM clock WHERE run_id = ?1",
    "DELETE FROM note WHERE run_id = ?1",
    "DELETE FROM attachment WHERE run_id = ?1",
    "UPDATE run SET forecast_run_id = NULL WHERE forecast_run_id = ?1",
};
constexpr const char* kDeleteUnused =
    "DELETE FROM plan WHERE plan_id NOT IN (SELECT plan_id FROM run);"
    "DELETE FROM hardware WHERE hardware_id NOT IN (SELECT hardware_id FROM run);"
    "DELETE FROM model WHERE model_id NOT IN (SELECT model_id FROM run);"
    "DELETE FROM program WHERE program_id NOT IN "
    "(SELECT program_id FROM run WHERE program_id IS NOT NULL)";

}  // namespace

Result<void> RenameRun(const std::string& path, RunId id, std::string_view label) {
  if (label.size() > kMaxLabelBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a label of " + std::to_string(label.size()) +
                                                 " bytes: at most " +
                                                 std::to_string(kMaxLabelBytes));
  }
  FT_ASSIGN(const auto database, OpenForChange(path));
  FT_ASSIGN(Statement update, database->Prepare("UPDATE run SET label = ?2 WHERE run_id = ?1"));
  FT_TRY(update.Bind(id, label).Run());
  return CheckChanged(*database, id);
}

Result<void> SetPinned(const std::string& path, RunId id, bool pinned) {
  FT_ASSIGN(const auto database, OpenForChange(path));
  FT_ASSIGN(Statement update, database->Prepare("UPDATE run SET pinned = ?2 WHERE run_id = ?1"));
  FT_TRY(update.Bind(id, pinned).Run());
  return CheckChanged(*database, id);
}

// All deletions form one transaction: a crash leaves the run complete or absent. The pin is checked
// again inside it, since another process may set it in between.
Result<void> DeleteRun(const std::string& path, RunId id) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path, {.max_checked_bytes = 0}));
  FT_ASSIGN(const RunInfo info, reader.FindRun(id));
  if (info.pinned) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ": run " + std::to_string(id) + " is pinned: unpin it first");
  }
  if (info.status == RunStatus::kRunning) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ": run " + std::to_string(id) + " is being recorded: stop it first");
  }
  FT_ASSIGN(const auto database, OpenForChange(path));
  FT_ASSIGN(Transaction transaction, Transaction::Begin(*database, /*write=*/true));
  for (const char* sql : kDeleteRun) {
    FT_ASSIGN(Statement statement, database->Prepare(sql));
    FT_TRY(statement.Bind(id).Run());
    StopPoint("store.delete_run");
  }
  FT_ASSIGN(Statement remove, database->Prepare("DELETE FROM run WHERE run_id = ? AND pinned = 0"));
  FT_TRY(remove.Bind(id).Run());
  FT_TRY(CheckChanged(*database, id));
  FT_TRY(database->Execute(kDeleteUnused));
  return transaction.Commit();
}

}  // namespace foretrain
