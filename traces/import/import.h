// Imports traces of other programs as runs: PyTorch's profiler and other Chrome JSON (.json,
// .json.gz), the SQLite export of Nsight Systems, and foretrain's own exports, which are restored
// exactly. docs/import.md lists how events map to spans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/import/traced_communication.h"
#include "traces/run.h"
#include "traces/store.h"

namespace foretrain {

struct ImportProgress {
  std::string what{};  // "reading trace.json"
  double share = 0.0;  // fraction done, in [0, 1]
};

struct ImportOptions {
  std::string label{};      // empty: the names of the files
  std::string step_name{};  // prefix of ranges that count steps; empty: those of op_patterns.csv
  std::string patterns{};   // a file of rows that go before op_patterns.csv; empty: none
  std::optional<RunId> forecast{};  // the run to compare with
  // Called now and then by the importing thread; returning false ends the import with kAborted.
  std::function<bool(const ImportProgress&)> progress{};
};

// A run that was read and is not yet stored.
struct TraceRun {
  std::string label{};
  Timeline timeline{};  // sorted, with step windows
  RecordingTotals totals{};
  KernelTable kernels{};  // of the ranks together
  TracedCommunication communication{};
  std::string details_json{};        // files, profiler, devices, streams, pipelines
  std::vector<std::string> notes{};  // assumptions made, and things missing
  int recorded_ranks = 0;
  bool own = false;                                  // an export of foretrain
  std::map<std::string, std::string> attachments{};  // to store with the run, by name
};

// Reads the runs in `paths`: one run whose ranks are the files (and the processes of an Nsight
// export), and each run of a foretrain export by itself. Times start at 0 with the first event.
//
// Errors, each naming the file: kInvalidArgument, a file that cannot be opened or holds no event,
// or files that do not belong together; kCorruptInput, not a trace (with the byte); kUnsupported, a
// format that is not read; kResourceExhausted, more than 2^26 events; kAborted. O(n log n); about
// 150 bytes of memory an event. Safe from any thread.
Result<std::vector<TraceRun>> ReadTraces(FileSystem& files, std::span<const std::string> paths,
                                         const ImportOptions& options = {});

struct ImportedRun {
  RunId id = 0;
  std::string label{};
  int ranks = 0;
  std::int64_t spans = 0;
  std::int64_t steps = 0;  // of the rank with the largest number
  RecordingTotals totals{};
  std::vector<std::string> notes{};
};

// Stores a run of ReadTraces, with its metrics.
Result<ImportedRun> StoreTrace(Store& store, TraceRun run, const ImportOptions& options = {});

// True if the file may be a trace, judged by its first bytes and a database's tables.
Result<bool> LooksLikeTrace(FileSystem& files, const std::string& path);

}  // namespace foretrain
