#include "app/trace_store.h"

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/file_system.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

bool IsUpToDate(const std::string& store, const std::string& trace) {
  std::error_code error;
  const auto stored = fs::last_write_time(store, error);
  if (error) return false;
  const auto written = fs::last_write_time(trace, error);
  return !error && stored >= written;
}

Result<void> Write(const std::string& path, std::vector<TraceRun> runs,
                   const ImportOptions& options) {
  FT_ASSIGN(const std::unique_ptr<Store> store, Store::Open(path));
  for (TraceRun& run : runs) FT_TRY(StoreTrace(*store, std::move(run), options));
  return store->Close();
}

bool CanWriteIn(const fs::path& folder) {
  PosixFileSystem files;
  const std::string probe = (folder / ".foretrain-probe").string();
  if (!files.Create(probe).has_value()) return false;
  static_cast<void>(files.Remove(probe).has_value());
  return true;
}

}  // namespace

Result<std::string> StoreOfTrace(const std::string& path, const ImportOptions& options) {
  const fs::path beside = path + ".db";
  std::error_code error;
  const fs::path elsewhere = fs::temp_directory_path(error) / beside.filename();
  for (const fs::path& store : {beside, elsewhere}) {
    if (IsUpToDate(store.string(), path)) return store.string();
  }
  PosixFileSystem files;
  FT_ASSIGN(std::vector<TraceRun> runs, ReadTraces(files, std::span(&path, 1), options));
  const fs::path folder = ParentFolder(path);
  const std::string store = (CanWriteIn(folder) ? beside : elsewhere).string();
  FT_TRY(Write(store, std::move(runs), options));
  return store;
}

}  // namespace foretrain
