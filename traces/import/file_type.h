// Tells what a file with a trace holds, by its first bytes and the tables of a database.
#pragma once

#include <cstdint>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain::trace_import {

enum class FileType : std::uint8_t {
  kText,  // JSON, plain or gzip
  kStore,
  kDatabase,
  kNsightReport,
  kPickle,
  kChakra,
  kOther
};

// Decides by the first bytes, not the file name. Databases are then told apart by their tables.
Result<FileType> TypeOf(FileSystem& files, const std::string& path);

// True for a database with the tables that Nsight Systems exports.
bool IsNsightExport(const std::string& path);

}  // namespace foretrain::trace_import
