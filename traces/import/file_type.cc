#include "traces/import/file_type.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "traces/import/chakra/chakra_trace.h"
#include "traces/store/sqlite.h"

namespace foretrain::trace_import {
namespace {

// True if `query`, which counts tables of the database, returns at least `min`.
bool HasTables(const std::string& path, const char* query, std::int64_t min) {
  const auto database = store_internal::Database::Open(path, store_internal::OpenMode::kRead, "");
  if (!database.has_value()) return false;
  const auto tables = (*database)->Number(query);
  return tables.has_value() && *tables >= min;
}

// Three tables that together only our stores have.
bool IsStore(const std::string& path) {
  return HasTables(path,
                   "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('run', "
                   "'batch', 'enum_name')",
                   3);
}

}  // namespace

bool IsNsightExport(const std::string& path) {
  return HasTables(path,
                   "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND (name = "
                   "'NVTX_EVENTS' OR name LIKE 'CUPTI_ACTIVITY_KIND_%')",
                   1);
}

Result<FileType> TypeOf(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  std::array<char, 64> first{};
  FT_ASSIGN(const std::int64_t read, file->ReadAt(0, std::as_writable_bytes(std::span(first))));
  const std::string_view text(first.data(), static_cast<std::size_t>(read));
  if (text.starts_with("SQLite format 3"))
    return IsStore(path) ? FileType::kStore : FileType::kDatabase;
  if (text.starts_with("\x1f\x8b")) return FileType::kText;
  // A pickle begins with the number of its protocol.
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return FileType::kPickle;
  if (LooksLikeChakra(text) || (path.ends_with(".et") && !text.empty())) return FileType::kChakra;
  if (text.starts_with("NVTX") || path.ends_with(".nsys-rep") || path.ends_with(".qdrep")) {
    return FileType::kNsightReport;
  }
  const std::size_t at = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const bool json = at != std::string_view::npos && (text[at] == '{' || text[at] == '[');
  return json ? FileType::kText : FileType::kOther;
}

}  // namespace foretrain::trace_import
