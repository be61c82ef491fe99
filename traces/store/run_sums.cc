#include "traces/store/run_sums.h"

#include "traces/store/rows.h"

namespace foretrain::store_internal {
namespace {

// Summed over the batches, which is much faster than counting rows.
Result<std::int64_t> SpansOf(const Database& database, RunId run) {
  FT_ASSIGN(Statement select,
            database.Prepare("SELECT coalesce(sum(spans), 0) FROM batch WHERE run_id = ?"));
  FT_ASSIGN(const bool row, select.Bind(run).Step());
  return row ? select.Int(0) : 0;
}

// The error for a value outside its range: the store never writes such rows.
tl::unexpected<Error> CannotBe(const Database& database, const char* what) {
  return Fail(ErrorCode::kCorruptInput,
              database.path() + ": a run holds " + what +
                  " that cannot be: the file was damaged after it was written");
}

// Adds a track's spans. Their order and ranges are verified, because the summer relies on them. The
// length is compared with the room that is left, because start + length could overflow.
Result<void> AddTrack(const Database& database, Statement& spans, int rank, Queue queue,
                      SpanSummer& summer) {
  std::int64_t before_ns = -kMaxTimeNs;
  while (true) {
    FT_ASSIGN(const bool row, spans.Step());
    if (!row) return {};
    const std::int64_t start_ns = spans.Int(0), length_ns = spans.Int(1);
    const std::int64_t op_class = spans.Int(3);
    if (start_ns < before_ns || start_ns > kMaxTimeNs || length_ns < 0 ||
        length_ns > kMaxTimeNs - start_ns || op_class < 0 || op_class >= kOpClassCount) {
      return CannotBe(database, "a span");
    }
    before_ns = start_ns;
    summer.Add(rank, queue, start_ns, start_ns + length_ns,
               WorkOf(spans.Int(2), static_cast<OpClass>(op_class)));
  }
}

// Samples come in the order in which they were recorded, which decides ties in time.
Result<void> AddMemory(const Database& database, RunId run, SpanSummer& summer) {
  FT_ASSIGN(Statement select,
            database.Prepare("SELECT rank, time_ns, category, space, bytes FROM memory "
                             "WHERE run_id = ? ORDER BY run_id, rank, time_ns, batch, seq"));
  select.Bind(run);
  while (true) {
    FT_ASSIGN(const bool row, select.Step());
    if (!row) return {};
    const std::int64_t rank = select.Int(0), category = select.Int(2), space = select.Int(3);
    const bool possible = rank >= 0 && rank < kMaxStoredRanks && category >= 0 &&
                          category < kCategoryCount && space >= 0 && space < kSpaceCount;
    if (!possible) return CannotBe(database, "a memory sample");
    const MemorySample sample{select.Int(1), select.Int(4), static_cast<std::int16_t>(rank),
                              static_cast<Category>(category), static_cast<Space>(space)};
    if (!IsStorable(sample)) return CannotBe(database, "a memory sample");
    summer.Add(sample);
  }
}

// One pass over memory samples and one over each track: O(spans), a few seconds for a long run.
Result<SpanSums> MakeSums(const Database& database, RunId run, std::int64_t count) {
  SpanSummer summer(count);
  FT_TRY(AddMemory(database, run, summer));
  FT_ASSIGN(Statement tracks,
            database.Prepare("SELECT track_id, rank, queue FROM track WHERE run_id = ? "
                             "ORDER BY rank, queue"));
  FT_ASSIGN(Statement spans, database.Prepare("SELECT start_ns, duration_ns, op, class FROM span "
                                              "WHERE track_id = ? ORDER BY track_id, start_ns"));
  tracks.Bind(run);
  while (true) {
    FT_ASSIGN(const bool row, tracks.Step());
    if (!row) return summer.Take();
    const std::int64_t rank = tracks.Int(1), queue = tracks.Int(2);
    if (rank < 0 || rank >= kMaxStoredRanks || queue < 0 || queue >= kQueueCount) {
      return CannotBe(database, "a track");
    }
    spans.Bind(tracks.Int(0));
    FT_TRY(AddTrack(database, spans, static_cast<int>(rank), static_cast<Queue>(queue), summer));
  }
}

}  // namespace

// Short runs are drawn from their spans and need no sums.
Result<void> AttachSums(const Database& database, RunId run) {
  FT_ASSIGN(const std::int64_t count, SpansOf(database, run));
  if (count < kMinSummedSpans) return {};
  FT_ASSIGN(const SpanSums sums, MakeSums(database, run, count));
  FT_ASSIGN(Statement attach, database.Prepare("INSERT OR REPLACE INTO attachment(run_id, name, "
                                               "body) VALUES(?, ?, ?)"));
  return attach.Bind(run, kSumsAttachment, BlobBytes{PackSums(sums)}).Run();
}

// Stored sums are used only if their number of spans matches the run; else they are computed anew.
Result<SpanSums> ReadSums(const Database& database, const RunInfo& info) {
  FT_ASSIGN(Statement select,
            database.Prepare("SELECT body FROM attachment WHERE run_id = ? AND name = ?"));
  FT_ASSIGN(const bool kept, select.Bind(info.id, kSumsAttachment).Step());
  if (kept) {
    auto sums = UnpackSums(select.Blob(0));
    if (sums.has_value() && sums->Spans() == info.spans) return sums;
  }
  return MakeSums(database, info.id, info.spans);
}

}  // namespace foretrain::store_internal
