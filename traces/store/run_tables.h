// Inserts rows of runs by prepared statements, inside the caller's transaction. Queues, threads and
// retries are in traces/store/writer.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "traces/run.h"
#include "traces/store/owner.h"
#include "traces/store/rows.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// The few rows of a run: all except spans and samples.
struct SmallRows {
  std::vector<StepWindow> steps{};
  std::vector<Counter> counters{};
  std::vector<MetricValue> metrics{};
  std::map<OpId, std::string> op_names{};
  std::vector<ClockReading> clocks{};
  std::vector<Note> notes{};
  std::vector<std::pair<std::string, std::string>> attachments{};
  RecordingTotals totals{};

  std::int64_t Rows() const;  // approximate
};

class RunTables {
 public:
  // Prepares all statements for `database`, which must outlive this.
  static Result<std::unique_ptr<RunTables>> Prepare(const Database& database);

  // Inserts the run's row, and its specs if they are new. Returns the run's id.
  Result<RunId> InsertRun(const RunSetup& setup, const Owner& owner, std::int64_t now_unix_ns);

  // Inserts rows of one rank as batch `batch` of the run. `spans` are in stored order, `samples` by
  // time.
  Result<void> InsertBatch(RunId run, int rank, std::int64_t batch, const std::vector<Span>& spans,
                           const std::vector<MemorySample>& samples);
  Result<void> InsertSmall(RunId run, const SmallRows& rows);
  Result<void> SetLastStep(RunId run, std::int32_t step);
  // Also attaches the sums of a long run's spans (traces/span_sums.h).
  Result<void> FinishRun(RunId run, RunStatus status, std::string_view message,
                         std::int64_t now_unix_ns);

  // To call after a rollback: ids given out in the transaction are void.
  void Forget();

 private:
  explicit RunTables(const Database& database) : database_(database) {}
  Result<void> PrepareAll();
  Result<std::int64_t> TrackId(RunId run, int rank, Queue queue);
  Result<std::int64_t> SeriesId(const std::string& name);
  Result<std::int64_t> SpecId(const char* select_sql, const char* insert_sql,
                              std::string_view json);
  Result<std::int64_t> ProgramId(const RunSpecs& specs);
  Result<void> InsertSpans(RunId run, int rank, std::int64_t batch, const std::vector<Span>& spans);
  Result<void> InsertSamples(RunId run, std::int64_t batch,
                             const std::vector<MemorySample>& samples);
  Result<void> InsertCounters(RunId run, const SmallRows& rows);
  Result<void> InsertTexts(RunId run, const SmallRows& rows);

  const Database& database_;
  Statement span_, sample_, batch_, track_, find_track_, series_, find_series_;
  Statement step_, counter_, metric_, op_name_, clock_, note_, attachment_, totals_;
  Statement last_step_, finish_;
  std::map<std::pair<RunId, int>, std::array<std::int64_t, kQueueCount>> tracks_;  // 0: unknown
  std::map<std::string, std::int64_t> series_ids_;
};

}  // namespace foretrain::store_internal
