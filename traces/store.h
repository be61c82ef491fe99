// The store: one SQLite file that holds runs with their specs, spans, memory samples, counters and
// metrics, written by a background thread and read while it is written. docs/store.md describes the
// file and its SQL views. Leaves out import and export (traces/chrome_trace.h).
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
  // Rows of one commit and one checksum; [1, 2^20].
  std::int64_t batch_rows = 50'000;
  // A batch that is not full is committed after this long.
  std::int64_t batch_interval_ns = 250'000'000;
  // Bound on what waits to be written, in rows of 48 bytes. Beyond it Add waits for the disk or,
  // where writing fails, drops what it was given and counts it.
  std::int64_t most_waiting_rows = 2'000'000;
  // The SQLite VFS to use; empty is the system's. Tests name one that fails.
  std::string vfs{};
  // Borrowed; nothing is the system's clock.
  Clock* clock = nullptr;
};

namespace store_internal {
class Writer;
struct RunState;
}  // namespace store_internal

// Records one run. All functions are safe from any thread and cost the caller a lock that is held
// for the moving of a pointer; rows are written later, by the store's thread. When writing fails
// (disk full, I/O), every call returns that one Error until writing works again: what was committed
// stays, what waits is kept up to StoreOptions::most_waiting_rows and written when the disk takes
// it; a caller may ignore the Error and go on without a record. Must not outlive its Store.
class RunRecorder {
 public:
  RunRecorder(std::shared_ptr<store_internal::Writer> writer,
              std::shared_ptr<store_internal::RunState> state);
  ~RunRecorder();  // a run not finished is closed as interrupted
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  RunId id() const;

  // Takes the contents of `spans` and leaves it empty, with the capacity of an earlier one where
  // there is any. Any order, any ranks in [0, world), any number. Spans that end before they start,
  // lie beyond +-2^60 ns or have bytes outside [0, 2^56] are not stored but counted as invalid.
  Result<void> Add(std::vector<Span>& spans);
  // The same for memory samples. Samples of one rank come in the order in which they happened.
  Result<void> Add(std::vector<MemorySample>& samples);
  Result<void> AddSteps(std::span<const StepWindow> steps);
  Result<void> AddCounters(std::span<const Counter> counters);
  Result<void> AddMetrics(std::span<const MetricValue> metrics);
  Result<void> AddOpNames(const std::map<OpId, std::string>& names);
  Result<void> AddClock(const ClockReading& reading);
  Result<void> AddNote(std::string_view text);
  // Bytes under a name, such as the routing counts of a step; the same name again replaces them.
  Result<void> Attach(std::string_view name, std::string_view bytes);
  // Adds to what the run has.
  Result<void> AddTotals(const RecordingTotals& totals);
  // All of a timeline: spans, samples, windows and names.
  Result<void> AddTimeline(Timeline timeline);

  // Returns when all that this thread added before is on the disk and survives a loss of power.
  Result<void> Flush();

  // Writes all that was added, closes the run as `status` (kFinished, kFailed or kInterrupted) with
  // `message`, and flushes. At most once, and nothing after it.
  Result<void> Finish(RunStatus status, std::string_view message = {});

 private:
  std::shared_ptr<store_internal::Writer> writer_;   // shared by the store and its recorders
  std::shared_ptr<store_internal::RunState> state_;  // shared with the writing thread
};

// A store open for recording: at most one in the world per file.
class Store {
 public:
  // Opens the store at `path`, or makes one. Runs that a dead process left `running` become
  // interrupted.
  //
  // Errors: kInvalidArgument, a folder, not a regular file, not readable or writable, another
  // program's
  //         database, or another process is recording into it (named, with its pid); kUnsupported,
  //         written by a newer foretrain (both schema numbers); kCorruptInput, damaged or not a
  //         database; kResourceExhausted, disk full; kIo.
  static Result<std::unique_ptr<Store>> Open(const std::string& path,
                                             const StoreOptions& options = {});
  ~Store();  // Close, dropping what it says
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Commits the run's row, durably, and returns its recorder. Errors: kInvalidArgument, a field out
  // of range; and those of writing.
  Result<std::unique_ptr<RunRecorder>> BeginRun(const RunSetup& setup);

  // Flushes all runs.
  Result<void> Flush();

  // Writes all that was added, closes unfinished runs as interrupted and releases the file. A
  // second call does nothing.
  Result<void> Close();

  const std::string& path() const;

 private:
  explicit Store(std::shared_ptr<store_internal::Writer> writer);

  std::shared_ptr<store_internal::Writer> writer_;  // shared with the recorders
};

struct ReaderOptions {
  // SQLite checks the whole file on opening up to this size; spans are checked by their checksums
  // when they are read, in a file of any size.
  std::int64_t most_checked_bytes = std::int64_t{32} << 20;
  std::string vfs{};
};

// Which part of a run's timeline to load. Everything by default. Memory samples before a part are
// loaded as far as they say what is live at its start.
struct LoadOptions {
  // Spans that serve steps first to second, both included, and the windows of those steps.
  std::optional<std::pair<std::int32_t, std::int32_t>> steps{};
  // Spans that touch [first, second) ns, and windows that do.
  std::optional<std::pair<std::int64_t, std::int64_t>> window_ns{};
  // Ranks; empty is all.
  std::vector<int> ranks{};
  // False: run info, specs, figures and counters alone.
  bool timeline = true;
  // False: of the timeline windows and names alone, no spans and memory samples.
  bool spans = true;
  // Of the run, with window_ns: memory samples before the part are then taken from its levels, and
  // samples are tested for their ranges instead of by checksums, for those are of whole batches.
  // Borrowed; null: all samples up to the part are read.
  const SpanSums* sums = nullptr;
  // Asked now and then while loading; true ends it with kAborted.
  std::function<bool()> cancelled{};
};

// Reads a store, also one that is being written, through a connection that cannot write and takes
// nothing in the file on trust. Reads are short transactions. One thread at a time.
class StoreReader {
 public:
  // Errors as Store::Open, but for recording: kInvalidArgument where the file is missing or empty.
  static Result<StoreReader> Open(const std::string& path, const ReaderOptions& options = {});
  StoreReader(StoreReader&&) noexcept;
  StoreReader& operator=(StoreReader&&) noexcept;
  ~StoreReader();

  // All runs, oldest first. A run whose recorder is dead is shown as interrupted.
  Result<std::vector<RunInfo>> ListRuns() const;

  // Errors: kInvalidArgument, no such run (the message lists those there are).
  Result<RunInfo> FindRun(RunId id) const;

  // The run with its timeline, each checksum verified. About 3 million spans a second.
  //
  // Errors: kInvalidArgument, no such run; kCorruptInput, naming run and batch, where stored rows
  // are not those that were written; kAborted; kIo.
  Result<StoredRun> LoadRun(RunId id, const LoadOptions& options = {}) const;

  // The sums of the run's spans, for pictures of all of it. Those of a finished long run are stored
  // with it; else they are made by reading all spans.
  //
  //   cancelled  asked now and then; true ends it with kAborted
  //
  // Errors: kInvalidArgument, no such run; kCorruptInput, a span that cannot be; kAborted; kIo.
  Result<SpanSums> LoadSums(RunId id, const std::function<bool()>& cancelled = {}) const;

  // Bytes attached under `name`. Errors: kInvalidArgument, none of that name.
  Result<std::string> Attachment(RunId id, std::string_view name) const;
  Result<std::vector<std::string>> AttachmentNames(RunId id) const;

  // A number that changes when any process has committed to the store. Cheap: ask every frame.
  Result<std::int64_t> DataVersion() const;

  const std::string& path() const;

 private:
  class Connection;
  explicit StoreReader(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

// ---- changes to stored runs; short transactions, also while another process records. Errors:
// kInvalidArgument, no such run or file; kTimeout, the file stayed locked for 10 s; those of
// writing.

Result<void> RenameRun(const std::string& path, RunId id, std::string_view label);

// A pinned run is refused by DeleteRun.
Result<void> SetPinned(const std::string& path, RunId id, bool pinned);

// Removes a run with all that only it uses. Its space is used again by later runs. Refuses pinned
// runs and one that is being recorded.
Result<void> DeleteRun(const std::string& path, RunId id);

}  // namespace foretrain
