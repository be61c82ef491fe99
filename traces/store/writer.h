// The writing side of a store. Recorders queue rows under one lock; one thread writes them in
// batches, and keeps what fails to try again. SQL of rows is in traces/store/run_tables.h.
//
//   recorders ── Post ──► outbox of each run ── taken whole ──► backlog ── Commit ──► file
//             └─ Call ──► commands: run on the thread after all that was posted before them
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "traces/run.h"
#include "traces/store.h"
#include "traces/store/owner.h"
#include "traces/store/run_tables.h"

namespace foretrain::store_internal {

inline constexpr const char* kAbandoned = "its recorder was closed before it was finished";

// Rows of one run, on their way to the writing thread.
struct Outbox {
  std::vector<std::vector<Span>> spans{};
  std::vector<std::vector<MemorySample>> samples{};
  SmallRows small{};
  std::int64_t rows = 0;

  bool IsEmpty() const { return rows == 0 && small.totals == RecordingTotals{}; }
};

// One run that is being recorded.
struct RunState {
  RunId id = 0;
  int world = 0;
  // Guarded by Writer::mutex_:
  Outbox outbox{};
  bool finished = false;                       // takes no more rows
  std::int64_t lost = 0;                       // dropped rows not yet recorded
  RunStatus ending = RunStatus::kInterrupted;  // status with which it will end
  std::string ending_message = kAbandoned;
  // Used by the writing thread only:
  std::int64_t next_batch = 1;
};

class Writer {
 public:
  static Result<std::shared_ptr<Writer>> Open(const std::string& path, const StoreOptions& options);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Called by recorders; each is safe from any thread.
  Result<std::shared_ptr<RunState>> BeginRun(const RunSetup& setup);
  Result<void> PostRows(RunState& run, std::vector<Span>& spans);
  Result<void> PostRows(RunState& run, std::vector<MemorySample>& samples);
  Result<void> PostSmall(RunState& run, const std::function<void(SmallRows&)>& add);
  Result<void> Flush();
  Result<void> FinishRun(RunState& run, RunStatus status, std::string_view message);
  void Abandon(RunState& run);
  // Finishes open runs, releases the file and ends the thread. A second call does nothing.
  Result<void> Close();
  // Close for destructors: drops its result and throws nothing.
  void CloseAnyhow();

  std::int64_t NowUnixNs() const { return clock_->RealtimeNs(); }
  const std::string& path() const { return path_; }

 private:
  // Rows of one rank and run that fit one commit, or a run's small rows.
  struct Piece {
    std::shared_ptr<RunState> run{};
    int rank = 0;
    std::vector<Span> spans{};
    std::vector<MemorySample> samples{};
    std::optional<SmallRows> small{};
    std::int64_t rows = 0;
    std::int64_t batch = 0;
    std::optional<std::int32_t> last_step{};
  };
  struct Command {
    std::function<Result<void>()> run;
    std::promise<Result<void>> done;
    bool always = false;  // also run if rows before it could not be written
  };

  Writer(std::unique_ptr<Database> database, const StoreOptions& options);

  // Called on recorders' threads:
  Result<void> Call(std::function<Result<void>()> run, bool always = false);
  template <class Row>
  Result<void> Post(RunState& run, std::vector<Row>& rows,
                    std::vector<std::vector<Row>> Outbox::*box,
                    std::vector<std::vector<Row>>& spare);
  bool WaitForRoom(std::unique_lock<std::mutex>& lock, std::int64_t rows);
  Result<void> CheckLocked(const RunState& run) const;
  void CountLocked(RunState& run, std::int64_t rows);

  // Called on the writing thread:
  void Loop();
  void Turn() noexcept;
  void TakeWork();
  Result<void> WriteWork(bool beat);
  Result<void> Caught(const std::function<Result<void>()>& work) const noexcept;
  Result<void> Thrown(const std::exception& exception) const noexcept;
  std::chrono::steady_clock::time_point WakeTimeLocked() const;
  void AddToBacklog(const std::shared_ptr<RunState>& run, Outbox& box);
  template <class Row>
  void AddRows(const std::shared_ptr<RunState>& run, const std::vector<std::vector<Row>>& boxes,
               std::vector<Row> Piece::*rows);
  template <class Row>
  void Recycle(std::vector<std::vector<Row>>& boxes, std::vector<std::vector<Row>>& spare);
  template <class Row>
  void AddPieces(const std::shared_ptr<RunState>& run, int rank, std::vector<Row> all,
                 std::vector<Row> Piece::*rows);
  Result<void> WriteBacklog();
  Result<void> InsertPieces(std::size_t count);
  void DropWritten(std::size_t count);
  Result<void> Commit(bool durable, const std::function<Result<void>()>& insert);
  Result<void> TakeFile();
  Result<void> CloseFile();
  Result<void> CloseRuns();
  std::map<RunId, std::int64_t> LostRowsLocked() const;
  void SetStatus(const Result<void>& status) noexcept;

  const std::string path_;
  const StoreOptions options_;
  SystemClock system_clock_;
  Clock* const clock_;

  // Used by the writing thread only, once it runs:
  std::unique_ptr<Database> database_;
  std::unique_ptr<RunTables> tables_;
  std::vector<std::pair<std::shared_ptr<RunState>, Outbox>> taken_;  // not yet in the backlog
  std::deque<Piece> backlog_;
  std::deque<Command> running_;  // commands of this turn
  const Owner owner_ = ThisProcess();

  mutable std::mutex mutex_;
  std::condition_variable work_;  // signalled: something to write or to run
  std::condition_variable room_;  // signalled: rows were written, or writing fails
  // Guarded by mutex_:
  std::map<RunId, std::shared_ptr<RunState>>
      runs_;  // runs whose end is not written; shared with recorders
  std::deque<Command> commands_;
  std::int64_t waiting_rows_ = 0;  // in outboxes and backlog
  std::int64_t outbox_rows_ = 0;
  // arrival of the oldest row in an outbox
  std::optional<std::chrono::steady_clock::time_point> oldest_;
  std::optional<Error> failing_;  // error of the last commit, if it failed
  std::vector<std::vector<Span>> spare_spans_;
  std::vector<std::vector<MemorySample>> spare_samples_;
  bool closed_ = false;  // takes no more rows
  std::chrono::steady_clock::time_point last_turn_ = std::chrono::steady_clock::now();

  std::mutex close_mutex_;
  std::thread thread_;  // guarded by close_mutex_
};

}  // namespace foretrain::store_internal
