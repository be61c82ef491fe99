// Reads traces of other programs as runs of the store's kind: PyTorch's profiler and other Chrome
// JSON (.json, .json.gz), the SQLite export of Nsight Systems, and foretrain's own exports, which
// come back as they were. docs/import.md says what becomes of what. Leaves out comparing runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "traces/run.h"
#include "traces/store.h"

namespace foretrain {

struct ImportProgress {
  std::string what{};  // "reading trace.json"
  double share = 0.0;  // of it, in [0, 1]
};

struct ImportOptions {
  std::string label{};      // empty: the files' names
  std::string step_name{};  // ranges that begin so count steps; empty: those of op_patterns.csv
  std::optional<RunId> forecast{};  // the run to hold it against
  // Told now and then, by the thread that imports; false ends the import with kAborted.
  std::function<bool(const ImportProgress&)> progress{};
};

// One run as read, not yet stored.
struct TraceRun {
  std::string label{};
  Timeline timeline{};  // sorted, with step windows
  RecordingTotals totals{};
  std::string details_json{};        // files, profiler, devices, streams
  std::vector<std::string> notes{};  // what was assumed or is missing
  int recorded_ranks = 0;
};

// The runs in `paths`: one whose ranks are the files (and the processes of an Nsight export), and
// each run of a foretrain export by itself. Times start at 0 with the first event.
//
// Errors, each naming the file: kInvalidArgument, a file that cannot be opened, no event in it, two
// of one kind that do not go together; kCorruptInput, not a trace (with the byte); kUnsupported, a
// kind that is not read; kResourceExhausted, more than 2^26 events; kAborted.
// O(n log n); about 150 bytes of memory an event. Safe from any thread.
Result<std::vector<TraceRun>> ReadTraces(FileSystem& files, std::span<const std::string> paths,
                                         const ImportOptions& options = {});

struct ImportedRun {
  RunId id = 0;
  std::string label{};
  int ranks = 0;
  std::int64_t spans = 0;
  std::int64_t steps = 0;  // of the rank with the most
  RecordingTotals totals{};
  std::vector<std::string> notes{};
};

// Stores what ReadTraces read, each run with its metrics.
Result<ImportedRun> StoreTrace(Store& store, TraceRun run, const ImportOptions& options = {});

// Whether the file may be a trace, by its first bytes and the tables of a database.
Result<bool> LooksLikeTrace(FileSystem& files, const std::string& path);

}  // namespace foretrain
