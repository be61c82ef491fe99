#include "traces/store/run_tables.h"

#include <cstddef>
#include <optional>

#include "base/hash.h"
#include "traces/store/run_sums.h"
#include "traces/store/schema.h"

namespace foretrain::store_internal {
namespace {

constexpr std::size_t kMaxLabelBytes = 4'096;

// Cuts a text after at most max_bytes, at a character's end.
std::string_view CutText(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t size = max_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

}  // namespace

std::int64_t SmallRows::Rows() const {
  return static_cast<std::int64_t>(steps.size() + counters.size() + metrics.size() +
                                   op_names.size() + clocks.size() + notes.size() +
                                   attachments.size());
}

Result<std::unique_ptr<RunTables>> RunTables::Prepare(const Database& database) {
  std::unique_ptr<RunTables> tables(new RunTables(database));
  FT_TRY(tables->PrepareAll());
  return tables;
}

// Statements are prepared once and reused for every row. Numbered parameters (?1) bind once and are
// used twice.
Result<void> RunTables::PrepareAll() {
  const std::pair<Statement*, std::string_view> statements[] = {
      {&span_, "INSERT INTO span VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&sample_, "INSERT INTO memory VALUES(?, ?, ?, ?, ?, ?, ?, ?)"},
      {&batch_, "INSERT INTO batch VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&find_track_, "SELECT track_id FROM track WHERE run_id = ? AND rank = ? AND queue = ?"},
      {&track_, "INSERT INTO track(run_id, rank, queue) VALUES(?, ?, ?)"},
      {&find_series_, "SELECT series_id FROM series WHERE name = ?"},
      {&series_, "INSERT INTO series(name) VALUES(?)"},
      {&step_, "INSERT OR REPLACE INTO step VALUES(?, ?, ?, ?, ?, ?)"},
      {&counter_, "INSERT OR REPLACE INTO counter VALUES(?, ?, ?, ?, ?, ?, ?)"},
      {&metric_, "INSERT OR REPLACE INTO metric VALUES(?, ?, ?, ?, ?, ?)"},
      {&op_name_, "INSERT OR REPLACE INTO op_name VALUES(?, ?, ?, ?)"},
      {&clock_, "INSERT OR REPLACE INTO clock VALUES(?, ?, ?, ?, ?, ?)"},
      {&note_, "INSERT INTO note(run_id, unix_ns, text, crc) VALUES(?, ?, ?, ?)"},
      {&attachment_,
       "INSERT OR REPLACE INTO attachment(run_id, name, body, crc) VALUES(?, ?, ?, ?)"},
      {&totals_,
       "UPDATE run SET dropped = dropped + ?2, invalid = invalid + ?3, "
       "overhead_ns = overhead_ns + ?4, clock_error_ns = max(clock_error_ns, ?5) "
       "WHERE run_id = ?1"},
      {&last_step_,
       "UPDATE run SET last_step = max(coalesce(last_step, ?2), ?2) WHERE run_id = ?1"},
      {&finish_,
       "UPDATE run SET status = ?2, message = ?3, finished_unix_ns = ?4 WHERE run_id = ?1"},
  };
  for (const auto& [statement, sql] : statements) {
    FT_ASSIGN(*statement, database_.Prepare(sql));
  }
  return {};
}

// Ids of a rolled-back transaction may be given out again to other rows: the caches must be empty.
void RunTables::Forget() {
  tracks_.clear();
  series_ids_.clear();
}

// Equal spec texts share one row: looks the text up and inserts it only if it is new.
Result<std::int64_t> RunTables::SpecId(const char* select_sql, const char* insert_sql,
                                       std::string_view json) {
  FT_ASSIGN(Statement select, database_.Prepare(select_sql));
  FT_ASSIGN(const bool found, select.Bind(json).Step());
  if (found) return select.Int(0);
  FT_ASSIGN(Statement insert, database_.Prepare(insert_sql));
  FT_TRY(insert.Bind(json).Run());
  return database_.LastInsertId();
}

// A program may have been stored without its body; the body is filled in by the first run that has
// it.
Result<std::int64_t> RunTables::ProgramId(const RunSpecs& specs) {
  const std::string hash = HexText(specs.program_hash);
  FT_ASSIGN(Statement select, database_.Prepare("SELECT program_id FROM program WHERE hash = ?"));
  FT_ASSIGN(const bool found, select.Bind(hash).Step());
  if (found) {
    const std::int64_t id = select.Int(0);
    FT_ASSIGN(Statement fill,
              database_.Prepare("UPDATE program SET body = ?2 WHERE program_id = ?1 "
                                "AND length(body) = 0 AND length(?2) > 0"));
    FT_TRY(fill.Bind(id, BlobBytes{specs.program}).Run());
    return id;
  }
  FT_ASSIGN(Statement insert, database_.Prepare("INSERT INTO program(hash, body) VALUES(?, ?)"));
  FT_TRY(insert.Bind(hash, BlobBytes{specs.program}).Run());
  return database_.LastInsertId();
}

// Specs are looked up first, since most runs of a store share them.
Result<RunId> RunTables::InsertRun(const RunSetup& setup, const Owner& owner,
                                   std::int64_t now_unix_ns) {
  FT_ASSIGN(const std::int64_t model,
            SpecId("SELECT model_id FROM model WHERE json = ?", "INSERT INTO model(json) VALUES(?)",
                   setup.specs.model_json));
  FT_ASSIGN(const std::int64_t hardware,
            SpecId("SELECT hardware_id FROM hardware WHERE json = ?",
                   "INSERT INTO hardware(json) VALUES(?)", setup.specs.hardware_json));
  FT_ASSIGN(const std::int64_t plan,
            SpecId("SELECT plan_id FROM plan WHERE json = ?", "INSERT INTO plan(json) VALUES(?)",
                   setup.specs.plan_json));
  FT_ASSIGN(Statement insert,
            database_.Prepare(
                "INSERT INTO run(kind, status, label, world, created_unix_ns, pid, model_id, "
                "hardware_id, plan_id, program_id, forecast_run_id, details_json) "
                "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  std::optional<std::int64_t> program;
  if (setup.specs.program_hash != 0) {
    FT_ASSIGN(program, ProgramId(setup.specs));
  }
  insert.Bind(setup.kind, RunStatus::kRunning, CutText(setup.label, kMaxLabelBytes), setup.world,
              now_unix_ns, owner.pid, model, hardware, plan, program, setup.forecast,
              setup.details_json);
  FT_TRY(insert.Run());
  return database_.LastInsertId();
}

// Cached: a track is looked up once for each run, rank and queue. 0 in the cache means unknown:
// SQLite gives ids from 1 on. A statement that found a row is reset, else it would keep its read
// open.
Result<std::int64_t> RunTables::TrackId(RunId run, int rank, Queue queue) {
  std::int64_t& known = tracks_[{run, rank}][static_cast<std::size_t>(queue)];
  if (known != 0) return known;
  const auto queue_id = static_cast<std::int64_t>(queue);
  FT_ASSIGN(const bool found, find_track_.Bind(run, rank, queue_id).Step());
  if (found) {
    known = find_track_.Int(0);
    find_track_.Reset();
    return known;
  }
  FT_TRY(track_.Bind(run, rank, queue_id).Run());
  known = database_.LastInsertId();
  return known;
}

// Names of series are stored once; counters and metrics refer to them by id.
Result<std::int64_t> RunTables::SeriesId(const std::string& name) {
  std::int64_t& known = series_ids_[name];
  if (known != 0) return known;
  FT_ASSIGN(const bool found, find_series_.Bind(name).Step());
  if (found) {
    known = find_series_.Int(0);
    find_series_.Reset();
    return known;
  }
  FT_TRY(series_.Bind(name).Run());
  known = database_.LastInsertId();
  return known;
}

// The batch row with its checksums is written in the same transaction as its rows.
Result<void> RunTables::InsertBatch(RunId run, int rank, std::int64_t batch,
                                    const std::vector<Span>& spans,
                                    const std::vector<MemorySample>& samples) {
  const BatchRow row = Summarise(spans, samples);
  batch_.Bind(run, batch, rank, row.spans, row.span_crc, row.samples, row.sample_crc,
              row.first_start_ns, row.last_start_ns, row.last_end_ns, row.first_step,
              row.last_step);
  FT_TRY(batch_.Run());
  FT_TRY(InsertSpans(run, rank, batch, spans));
  return InsertSamples(run, batch, samples);
}

// `seq` counts rows with the same start, so that the primary key stays unique. The rows come in key
// order, which SQLite appends without searching.
Result<void> RunTables::InsertSpans(RunId run, int rank, std::int64_t batch,
                                    const std::vector<Span>& spans) {
  const Span* before = nullptr;
  std::int64_t track = 0;
  std::int64_t seq = 0;
  for (const Span& span : spans) {
    if (before == nullptr || before->queue != span.queue) {
      FT_ASSIGN(track, TrackId(run, rank, span.queue));
      seq = 0;
    } else {
      seq = before->start_ns == span.start_ns ? seq + 1 : 0;
    }
    before = &span;
    span_.Bind(track, span.start_ns, batch, seq, span.end_ns - span.start_ns, span.op, span.step,
               span.op_class, span.bytes, span.start_ns - span.ready_ns);
    FT_TRY(span_.Run());
  }
  return {};
}

// Samples of a batch come sorted by time, so equal times are neighbours; `seq` keeps their order.
Result<void> RunTables::InsertSamples(RunId run, std::int64_t batch,
                                      const std::vector<MemorySample>& samples) {
  std::int64_t seq = 0;
  const MemorySample* before = nullptr;
  for (const MemorySample& sample : samples) {
    seq = before != nullptr && before->time_ns == sample.time_ns ? seq + 1 : 0;
    before = &sample;
    sample_.Bind(run, sample.rank, sample.time_ns, batch, seq, sample.category, sample.space,
                 sample.bytes);
    FT_TRY(sample_.Run());
  }
  return {};
}

Result<void> RunTables::InsertCounters(RunId run, const SmallRows& rows) {
  for (const Counter& counter : rows.counters) {
    FT_ASSIGN(const std::int64_t series, SeriesId(counter.name));
    counter_.Bind(
        run, series, counter.rank, counter.step, counter.time_ns, counter.value,
        RowSum(run, counter.name, counter.rank, counter.step, counter.time_ns, counter.value));
    FT_TRY(counter_.Run());
  }
  for (const MetricValue& metric : rows.metrics) {
    FT_ASSIGN(const std::int64_t series, SeriesId(metric.name));
    metric_.Bind(run, metric.rank, metric.step, series, metric.value,
                 RowSum(run, metric.rank, metric.step, metric.name, metric.value));
    FT_TRY(metric_.Run());
  }
  return {};
}

Result<void> RunTables::InsertTexts(RunId run, const SmallRows& rows) {
  for (const auto& [op, name] : rows.op_names) {
    FT_TRY(op_name_.Bind(run, op, name, RowSum(run, op, name)).Run());
  }
  for (const Note& note : rows.notes) {
    FT_TRY(note_.Bind(run, note.unix_ns, note.text, RowSum(run, note.unix_ns, note.text)).Run());
  }
  for (const auto& [name, bytes] : rows.attachments) {
    FT_TRY(attachment_.Bind(run, name, BlobBytes{bytes}, RowSum(run, name, bytes)).Run());
  }
  return {};
}

// Totals are added to the run's row only if there are any. Rows with the same key replace each
// other: the value recorded last counts.
Result<void> RunTables::InsertSmall(RunId run, const SmallRows& rows) {
  for (const StepWindow& window : rows.steps) {
    step_.Bind(run, window.rank, window.step, window.start_ns, window.end_ns,
               RowSum(run, window.rank, window.step, window.start_ns, window.end_ns));
    FT_TRY(step_.Run());
  }
  for (const ClockReading& reading : rows.clocks) {
    clock_.Bind(run, reading.rank, reading.host_ns, reading.device_ns, reading.width_ns,
                RowSum(run, reading.rank, reading.host_ns, reading.device_ns, reading.width_ns));
    FT_TRY(clock_.Run());
  }
  FT_TRY(InsertCounters(run, rows));
  FT_TRY(InsertTexts(run, rows));
  if (rows.totals == RecordingTotals{}) return {};
  return totals_
      .Bind(run, rows.totals.dropped, rows.totals.invalid, rows.totals.overhead_ns,
            rows.totals.clock_error_ns)
      .Run();
}

// The largest step stays, as ranks may report theirs in any order.
Result<void> RunTables::SetLastStep(RunId run, std::int32_t step) {
  return last_step_.Bind(run, step).Run();
}

// Sums and counts are attached in the transaction that finishes the run.
Result<void> RunTables::FinishRun(RunId run, RunStatus status, std::string_view message,
                                  std::int64_t now_unix_ns) {
  FT_TRY(AttachSums(database_, run));
  FT_ASSIGN(const std::string counts, CountRows(database_, run));
  FT_TRY(
      attachment_
          .Bind(run, kCountsAttachment, BlobBytes{counts}, RowSum(run, kCountsAttachment, counts))
          .Run());
  return finish_.Bind(run, status, message, now_unix_ns).Run();
}

}  // namespace foretrain::store_internal
