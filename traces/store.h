// The store: one SQLite file with runs, their specs, spans, memory samples, counters and metrics. A
// background thread writes it, and it can be read meanwhile. docs/store.md describes the file and
// its SQL views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "traces/run.h"
#include "traces/span_sums.h"

namespace foretrain {

struct StoreOptions {
  // Rows of one commit, in [1, 2^20].
  std::int64_t commit_rows = 50'000;
  // Rows wait at most this long for a commit.
  std::int64_t commit_interval_ns = 250'000'000;
  // Maximum number of rows (of 48 bytes) that wait to be written. Beyond it Add waits for the disk;
  // if writing fails, Add drops its rows and counts them.
  std::int64_t max_waiting_rows = 2'000'000;
  // The SQLite VFS; empty for the system's. Tests use one that fails.
  std::string vfs{};
  // Borrowed; null for the system's clock.
  Clock* clock = nullptr;
};

namespace store_internal {
class Writer;
struct RunState;
}  // namespace store_internal

// Records one run. All functions are safe from any thread and hold a lock only to move a pointer;
// the store's thread writes the rows later.
//
// If writing fails (disk full, I/O), every call returns that Error until writing works again.
// Committed rows stay. Waiting rows are kept up to StoreOptions::max_waiting_rows and written once
// the disk takes them. A caller may ignore the Error and continue without a record. Must not
// outlive its Store.
class RunRecorder {
 public:
  RunRecorder(std::shared_ptr<store_internal::Writer> writer,
              std::shared_ptr<store_internal::RunState> state);
  ~RunRecorder();  // an unfinished run is closed as interrupted
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  RunId id() const;

  // Takes the contents of `spans` and leaves it empty, with the capacity of a used vector if one is
  // available. Any order, number, and ranks in [0, world). Spans that end before they start, lie
  // beyond +-2^60 ns or have bytes outside [0, 2^56] are not stored and count as invalid.
  Result<void> Add(std::vector<Span>& spans);
  // As above for memory samples. Samples of one rank must come in order of time.
  Result<void> Add(std::vector<MemorySample>& samples);
  Result<void> AddSteps(std::span<const StepWindow> steps);
  Result<void> AddCounters(std::span<const Counter> counters);
  Result<void> AddMetrics(std::span<const MetricValue> metrics);
  Result<void> AddOpNames(const std::map<OpId, std::string>& names);
  Result<void> AddClock(const ClockReading& reading);
  Result<void> AddNote(std::string_view text);
  // Stores bytes under a name, e.g. the routing counts of a step. The same name replaces them.
  Result<void> Attach(std::string_view name, std::string_view bytes);
  // Adds to the run's totals.
  Result<void> AddTotals(const RecordingTotals& totals);
  // Adds all parts of a timeline: spans, samples, windows and names.
  Result<void> AddTimeline(Timeline timeline);

  // Returns once everything this thread added before is on disk and survives a loss of power.
  Result<void> Flush();

  // Writes everything that was added, closes the run as `status` (kFinished, kFailed or
  // kInterrupted) with `message`, and flushes. Called at most once; no call may follow.
  Result<void> Finish(RunStatus status, std::string_view message = {});

 private:
  std::shared_ptr<store_internal::Writer> writer_;   // shared by the store and its recorders
  std::shared_ptr<store_internal::RunState> state_;  // shared with the writing thread
};

// A store opened for recording: one process at a time for each file.
class Store {
 public:
  // Opens or creates the store at `path`. Runs that a dead process left `running` become
  // interrupted.
  //
  // Errors: kInvalidArgument, a folder, not a regular file, not readable or writable, another
  // program's
  //         database, or in use by another recording process (named with its pid); kUnsupported,
  //         written
  //         by a newer foretrain (states both schema numbers); kCorruptInput, damaged or not a
  //         database;
  //         kResourceExhausted, disk full; kIo.
  static Result<std::unique_ptr<Store>> Open(const std::string& path,
                                             const StoreOptions& options = {});
  ~Store();  // calls Close and drops its result
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Commits the run's row durably and returns its recorder. Errors: kInvalidArgument, a field out
  // of range; errors of writing.
  Result<std::unique_ptr<RunRecorder>> BeginRun(const RunSetup& setup);

  // Writes everything that was added, closes unfinished runs as interrupted and releases the file.
  // A second call does nothing.
  Result<void> Close();

  const std::string& path() const;

 private:
  explicit Store(std::shared_ptr<store_internal::Writer> writer);

  std::shared_ptr<store_internal::Writer> writer_;  // shared with the recorders
};

struct ReaderOptions {
  // Files up to this size are checked completely by SQLite when opened. In files of any size, spans
  // are checked by their checksums when read.
  std::int64_t max_checked_bytes = std::int64_t{32} << 20;
  std::string vfs{};
};

// Part of a run's timeline to load; everything by default. Memory samples before the part are
// loaded as far as they determine what is live at its start.
struct LoadOptions {
  // Spans that serve steps first to second, both included, and those steps' windows.
  std::optional<std::pair<std::int32_t, std::int32_t>> steps{};
  // Spans and windows that touch [first, second) ns.
  std::optional<std::pair<std::int64_t, std::int64_t>> window_ns{};
  // Ranks; empty means all.
  std::vector<int> ranks{};
  // If false: only run info, specs, metrics and counters.
  bool timeline = true;
  // If false: only windows and names of the timeline, no spans and memory samples.
  bool spans = true;
  // If false: no counters, of which a long run on GPUs has millions.
  bool counters = true;
  // If false: no kernels. They are read whole, which takes milliseconds.
  bool kernels = true;
  // The run's sums, for use with window_ns. Memory before the part then comes from their levels.
  // Samples are checked by ranges instead of checksums, which cover whole batches. Borrowed; null:
  // all samples up to the part are read.
  const SpanSums* sums = nullptr;
  // Called now and then while loading; returning true ends it with kAborted.
  std::function<bool()> cancelled{};
};

// Reads a store, also while it is being written. The connection cannot write, and nothing in the
// file is trusted. Reads are short transactions. One thread at a time.
class StoreReader {
 public:
  // Errors as in Store::Open except recording; kInvalidArgument if the file is missing or empty.
  static Result<StoreReader> Open(const std::string& path, const ReaderOptions& options = {});
  StoreReader(StoreReader&&) noexcept;
  StoreReader& operator=(StoreReader&&) noexcept;
  ~StoreReader();

  // All runs, oldest first. A run whose recorder is dead appears as interrupted.
  Result<std::vector<RunInfo>> ListRuns() const;

  // Errors: kInvalidArgument, no such run (the message lists the existing ones).
  Result<RunInfo> FindRun(RunId id) const;

  // Loads the run with its timeline and verifies each checksum. About 3 million spans a second.
  //
  // Errors: kInvalidArgument, no such run; kCorruptInput, naming run and batch, if stored rows
  // differ from those written; kAborted; kIo.
  Result<StoredRun> LoadRun(RunId id, const LoadOptions& options = {}) const;

  // The sums of the run's spans, for pictures of all of it. A finished long run has them stored;
  // else they are computed from all spans.
  //
  //   cancelled  called now and then; returning true ends it with kAborted
  //
  // Errors: kInvalidArgument, no such run; kCorruptInput, an impossible span; kAborted; kIo.
  Result<SpanSums> LoadSums(RunId id, const std::function<bool()>& cancelled = {}) const;

  // The bytes attached under `name`. Errors: kInvalidArgument, no such name.
  Result<std::string> Attachment(RunId id, std::string_view name) const;

  // A number that changes when any process commits to the store. Cheap enough for every frame.
  Result<std::int64_t> DataVersion() const;

  const std::string& path() const;

 private:
  class Connection;
  explicit StoreReader(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

// ---- changes to stored runs Short transactions, also while another process records. Errors:
// kInvalidArgument, no such run or file; kTimeout, the file stayed locked for 10 s; errors of
// writing.

Result<void> RenameRun(const std::string& path, RunId id, std::string_view label);

// DeleteRun refuses pinned runs.
Result<void> SetPinned(const std::string& path, RunId id, bool pinned);

// Removes a run and everything only it uses. Later runs reuse the space. Refuses pinned runs and
// runs being recorded.
Result<void> DeleteRun(const std::string& path, RunId id);

}  // namespace foretrain
