// Longer than 400 lines: one loader, whose parts share what the table of batches says.
#include "traces/store/run_reader.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/text.h"

namespace foretrain::store_internal {
namespace {

// Counts in a file may be wrong: they are bounded before memory is reserved.
constexpr std::int64_t kMaxBatchSpans = std::int64_t{1} << 20;
constexpr std::int64_t kMinSpanBytes = 20;  // smallest size of a row in the file
constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

// An empty list selects all ranks.
bool Selects(const std::vector<int>& ranks, std::int64_t rank) {
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool Selects(const LoadOptions& options, const Span& span) {
  if (options.steps.has_value() &&
      (span.step < options.steps->first || span.step > options.steps->second)) {
    return false;
  }
  // A span of length 0 touches the window in which it starts.
  return !options.window_ns.has_value() ||
         (span.start_ns < options.window_ns->second &&
          (span.end_ns > options.window_ns->first || span.start_ns >= options.window_ns->first));
}

bool Selects(const LoadOptions& options, const StepWindow& window) {
  if (!Selects(options.ranks, window.rank)) return false;
  if (options.steps.has_value() &&
      (window.step < options.steps->first || window.step > options.steps->second)) {
    return false;
  }
  return !options.window_ns.has_value() ||
         (window.start_ns < options.window_ns->second && window.end_ns > options.window_ns->first);
}

// True if the batch's summary does not rule out spans inside the part: whole batches are skipped
// unread.
bool MayHold(const LoadOptions& options, const BatchRow& batch) {
  if (batch.spans == 0) return false;
  if (options.steps.has_value() &&
      (batch.last_step < options.steps->first || batch.first_step > options.steps->second)) {
    return false;
  }
  return !options.window_ns.has_value() || (batch.first_start_ns < options.window_ns->second &&
                                            batch.last_end_ns >= options.window_ns->first);
}

// Checksum and row count of a batch, accumulated while its rows are read.
struct Sum {
  BatchRow expected;
  std::int64_t rows = 0;
  std::uint32_t crc = 0;
};

// Loads a part of a timeline. The batch table is read first: it tells which batches may hold spans
// of the part, which time range to read, and which checksums the rows must have.
class TimelineLoader {
 public:
  TimelineLoader(const Database& database, const RunInfo& info, const LoadOptions& options)
      : database_(database), info_(info), options_(options) {}

  Result<Timeline> Load() {
    timeline_.world = info_.world;
    FT_TRY(LoadBatches());
    FT_TRY(LoadSteps());
    FT_TRY(LoadOpNames());
    if (options_.spans) {
      FT_TRY(LoadTracks());
      FT_TRY(ByLevels() ? LoadMemoryOfWindow() : LoadMemory());
      KeepSelectedMemory();
    }
    SortTimeline(timeline_);
    return std::move(timeline_);
  }

 private:
  struct Track {
    std::int64_t id = 0;
    std::int64_t rank = 0;
    std::int64_t queue = 0;
  };

  // Whether memory is read from the levels before the window on, not from the run's first sample.
  bool ByLevels() const { return options_.sums != nullptr && options_.window_ns.has_value(); }

  tl::unexpected<Error> Corrupt(const std::string& what) const {
    return Fail(ErrorCode::kCorruptInput,
                RunText(database_, info_) + what +
                    ": the file was damaged after it was written; other runs can still be read");
  }

  // Batches are numbered and committed from 1 on; a gap means lost rows.
  Result<void> CountBatches() {
    FT_ASSIGN(Statement select,
              database_.Prepare("SELECT batch FROM batch WHERE run_id = ? ORDER BY batch"));
    select.Bind(info_.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      if (select.Int(0) != ++batches_)
        return Corrupt("batch " + std::to_string(batches_) + " is lost");
    }
  }

  // Collects, for each batch that is needed, the expected counts and checksums. The database leaves
  // out those outside a time window: a long run has many.
  Result<void> LoadBatches() {
    FT_TRY(CountBatches());
    const auto [from, to] = options_.window_ns.value_or(std::pair<std::int64_t, std::int64_t>());
    FT_ASSIGN(Statement select, database_.Prepare("SELECT * FROM batch WHERE run_id = ? AND "
                                                  "(? OR (samples > 0 AND ?) OR "
                                                  "(first_start_ns < ? AND last_end_ns >= ?))"));
    select.Bind(info_.id, !options_.window_ns.has_value(), !ByLevels(), to, from);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      BatchRow batch{.batch = select.Int(1),
                     .rank = select.Int(2),
                     .spans = select.Int(3),
                     .samples = select.Int(5),
                     .span_crc = static_cast<std::uint32_t>(select.Int(4)),
                     .sample_crc = static_cast<std::uint32_t>(select.Int(6)),
                     .first_start_ns = select.Int(7),
                     .last_start_ns = select.Int(8),
                     .last_end_ns = select.Int(9),
                     .first_step = static_cast<std::int32_t>(select.Int(10)),
                     .last_step = static_cast<std::int32_t>(select.Int(11))};
      if (!Selects(options_.ranks, batch.rank)) continue;
      if (batch.samples > 0) sample_sums_[batch.batch] = {.expected = batch};
      if (!MayHold(options_, batch)) continue;
      span_sums_[batch.batch] = {.expected = batch};
      expected_spans_ += std::clamp<std::int64_t>(batch.spans, 0, kMaxBatchSpans);
      const auto [at, is_new] =
          ranges_.try_emplace(batch.rank, batch.first_start_ns, batch.last_start_ns);
      at->second.first = std::min(at->second.first, batch.first_start_ns);
      at->second.second = std::max(at->second.second, batch.last_start_ns);
    }
  }

  // Windows of all steps are read, since a run has few of them; the part is selected here.
  Result<void> LoadSteps() {
    FT_ASSIGN(Statement select,
              database_.Prepare("SELECT rank, step, start_ns, end_ns, step.* FROM step "
                                "WHERE run_id = ?"));
    select.Bind(info_.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      const std::int64_t rank = select.Int(0);
      const StepWindow window{.start_ns = select.Int(2),
                              .end_ns = select.Int(3),
                              .step = static_cast<std::int32_t>(select.Int(1)),
                              .rank = static_cast<std::int16_t>(rank)};
      const std::string name = "the window of step " + std::to_string(select.Int(1)) + " of rank " +
                               std::to_string(rank);
      if (rank < 0 || rank >= std::min(info_.world, kMaxStoredRanks) || !IsStorable(window)) {
        return Corrupt(name + " cannot be");
      }
      if (!select.Agrees(9,
                         RowSum(info_.id, rank, select.Int(1), window.start_ns, window.end_ns))) {
        return DamagedRow(database_, info_, name);
      }
      if (Selects(options_, window)) timeline_.steps.push_back(window);
    }
  }

  // All names of the run, even if only a part of its spans is loaded.
  Result<void> LoadOpNames() {
    FT_ASSIGN(Statement select, database_.Prepare("SELECT * FROM op_name WHERE run_id = ?"));
    select.Bind(info_.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      const std::int64_t op = select.Int(1);
      std::string name = select.Text(2);
      if (!select.Agrees(3, RowSum(info_.id, op, name))) {
        return DamagedRow(database_, info_, "the name of op " + std::to_string(op));
      }
      timeline_.op_names[op] = std::move(name);
    }
  }

  // Reads each track by a range of start times. Memory is reserved for the expected rows, but never
  // for more rows than the file's size could hold.
  Result<void> LoadTracks() {
    FT_ASSIGN(Statement select, database_.Prepare("SELECT track_id, rank, queue FROM track "
                                                  "WHERE run_id = ? ORDER BY rank, queue"));
    select.Bind(info_.id);
    std::vector<Track> tracks;
    FT_TRY(select.Each([&] { tracks.push_back({select.Int(0), select.Int(1), select.Int(2)}); }));
    FT_ASSIGN(Statement spans,
              database_.Prepare("SELECT start_ns, batch, duration_ns, op, step, class, bytes, "
                                "wait_ns FROM span WHERE track_id = ? AND start_ns BETWEEN ? AND ? "
                                "ORDER BY track_id, start_ns, batch, seq"));
    FT_ASSIGN(const std::int64_t pages, database_.Number("PRAGMA page_count"));
    FT_ASSIGN(const std::int64_t page_bytes, database_.Number("PRAGMA page_size"));
    const std::int64_t possible = pages * page_bytes / kMinSpanBytes;
    timeline_.spans.reserve(static_cast<std::size_t>(std::min(expected_spans_, possible)));
    for (const Track& track : tracks) {
      const auto range = ranges_.find(track.rank);
      if (range == ranges_.end()) continue;
      if (track.rank < 0 || track.rank >= std::min(info_.world, kMaxStoredRanks) ||
          track.queue < 0 || track.queue >= kQueueCount) {
        return Corrupt("it has a track of rank " + std::to_string(track.rank) + ", queue " +
                       std::to_string(track.queue));
      }
      spans.Bind(track.id, range->second.first, range->second.second);
      FT_TRY(LoadSpans(track, spans));
    }
    return CheckSums(span_sums_, "spans");
  }

  // Rows come by start time, not by batch: each row extends the checksum of its own batch.
  Result<void> LoadSpans(const Track& track, Statement& select) {
    Sum* sum = nullptr;
    std::int64_t batch = -1;
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return {};
      if (select.Int(1) != batch) {
        batch = select.Int(1);
        if (batch < 1 || batch > batches_) {
          return Corrupt("it has a span of batch " + std::to_string(batch) + ", which is lost");
        }
        const auto at = span_sums_.find(batch);
        sum = at == span_sums_.end() || at->second.expected.rank != track.rank ? nullptr
                                                                               : &at->second;
      }
      // The batch holds nothing that was asked for, or the row was moved from another batch, whose
      // checksum then fails.
      if (sum == nullptr) continue;
      Span span;
      if (!ReadSpan(track, select, span))
        return Corrupt(BatchText(*sum) + "holds a span that cannot be");
      sum->crc = ChecksumOf({&span, 1}, sum->crc);
      ++sum->rows;
      if (Selects(options_, span)) timeline_.spans.push_back(span);
    }
  }

  // Decodes a row; false if it is no possible span.
  static bool ReadSpan(const Track& track, const Statement& row, Span& span) {
    const std::int64_t duration = row.Int(2);
    const std::int64_t step = row.Int(4);
    const std::int64_t op_class = row.Int(5);
    span.start_ns = row.Int(0);
    if (duration < 0 || op_class < 0 || op_class >= kOpClassCount) return false;
    if (step != static_cast<std::int32_t>(step)) return false;
    if (__builtin_add_overflow(span.start_ns, duration, &span.end_ns)) return false;
    if (__builtin_sub_overflow(span.start_ns, row.Int(7), &span.ready_ns)) return false;
    span.op = row.Int(3);
    span.bytes = row.Int(6);
    span.step = static_cast<std::int32_t>(step);
    span.rank = static_cast<std::int16_t>(track.rank);
    span.queue = static_cast<Queue>(track.queue);
    span.op_class = static_cast<OpClass>(op_class);
    return IsStorable(span);
  }

  // All samples of the selected ranks are checked; the part is selected afterwards.
  Result<void> LoadMemory() {
    FT_ASSIGN(Statement select,
              database_.Prepare("SELECT rank, time_ns, batch, category, space, bytes FROM memory "
                                "WHERE run_id = ? ORDER BY run_id, rank, time_ns, batch, seq"));
    select.Bind(info_.id);
    while (true) {
      FT_ASSIGN(const bool row, select.Step());
      if (!row) return CheckSums(sample_sums_, "memory samples");
      const auto at = sample_sums_.find(select.Int(2));
      if (at == sample_sums_.end() || at->second.expected.rank != select.Int(0)) continue;
      Sum& sum = at->second;
      MemorySample sample;
      if (!ReadSample(select, sample)) {
        return Corrupt(BatchText(sum) + "holds a memory sample that cannot be");
      }
      sum.crc = ChecksumOf(sample, sum.crc);
      ++sum.rows;
      timeline_.memory.push_back(sample);
    }
  }

  // Reads the window's samples, after the levels that give what is live at its start. Batches are
  // read in part here, so their checksums cannot be verified.
  Result<void> LoadMemoryOfWindow() {
    FT_ASSIGN(Statement select,
              database_.Prepare("SELECT rank, time_ns, batch, category, space, bytes FROM memory "
                                "WHERE run_id = ? AND rank = ? AND time_ns > ? AND time_ns < ? "
                                "ORDER BY run_id, rank, time_ns, batch, seq"));
    FT_ASSIGN(const std::vector<int> ranks, SampledRanks());
    for (const int rank : ranks) {
      const auto levels = options_.sums->LevelsBefore(rank, options_.window_ns->first);
      timeline_.memory.insert(timeline_.memory.end(), levels.begin(), levels.end());
      select.Bind(info_.id, rank, levels.empty() ? -kAlways : levels.front().time_ns,
                  options_.window_ns->second);
      while (true) {
        FT_ASSIGN(const bool row, select.Step());
        if (!row) break;
        MemorySample sample;
        if (!ReadSample(select, sample)) return Corrupt("it holds a memory sample that cannot be");
        timeline_.memory.push_back(sample);
      }
    }
    return {};
  }

  // The selected ranks of the batches that contain samples.
  Result<std::vector<int>> SampledRanks() const {
    FT_ASSIGN(Statement select,
              database_.Prepare("SELECT DISTINCT rank FROM batch WHERE run_id = ? "
                                "AND samples > 0 ORDER BY rank"));
    select.Bind(info_.id);
    std::vector<int> ranks;
    FT_TRY(select.Each([&] {
      if (Selects(options_.ranks, select.Int(0))) ranks.push_back(static_cast<int>(select.Int(0)));
    }));
    return ranks;
  }

  // Decodes a row; false if it is no possible sample.
  bool ReadSample(const Statement& row, MemorySample& sample) const {
    const std::int64_t rank = row.Int(0);
    const std::int64_t category = row.Int(3);
    const std::int64_t space = row.Int(4);
    if (rank < 0 || rank >= std::min(info_.world, kMaxStoredRanks) || category < 0 ||
        category >= kCategoryCount || space < 0 || space >= kSpaceCount) {
      return false;
    }
    sample = {.time_ns = row.Int(1),
              .bytes = row.Int(5),
              .rank = static_cast<std::int16_t>(rank),
              .category = static_cast<Category>(category),
              .space = static_cast<Space>(space)};
    return IsStorable(sample);
  }

  static std::string BatchText(const Sum& sum) {
    return "batch " + std::to_string(sum.expected.batch) + " of rank " +
           std::to_string(sum.expected.rank) + " ";
  }

  // Compares count and checksum of each batch that was read. The count comes first, as its message
  // says more than that of a checksum.
  Result<void> CheckSums(const std::map<std::int64_t, Sum>& sums, const char* what) const {
    for (const auto& [batch, sum] : sums) {
      const bool spans = &sums == &span_sums_;
      const std::int64_t rows = spans ? sum.expected.spans : sum.expected.samples;
      const std::uint32_t crc = spans ? sum.expected.span_crc : sum.expected.sample_crc;
      if (sum.rows != rows) {
        return Corrupt(BatchText(sum) + "has " + std::to_string(sum.rows) + " of its " +
                       std::to_string(rows) + " " + what);
      }
      if (sum.crc != crc) {
        return Corrupt(BatchText(sum) + "does not have the checksum of its " +
                       std::to_string(rows) + " " + what);
      }
    }
    return {};
  }

  // The part's time range for a rank. With a range of steps, it is that of their windows.
  std::pair<std::int64_t, std::int64_t> PartOf(std::int16_t rank) const {
    std::int64_t from = options_.window_ns.has_value() ? options_.window_ns->first : -kAlways;
    std::int64_t to = options_.window_ns.has_value() ? options_.window_ns->second : kAlways;
    if (!options_.steps.has_value()) return {from, to};
    std::int64_t first = kAlways;
    std::int64_t last = -kAlways;
    for (const StepWindow& window : timeline_.steps) {
      if (window.rank != rank) continue;
      first = std::min(first, window.start_ns);
      last = std::max(last, window.end_ns);
    }
    // Without windows the steps have no known time: all samples stay.
    if (last < first) return {from, to};
    return {std::max(from, first), std::min(to, last)};
  }

  // Keeps the samples inside the part and, for each category and space, the last one before it.
  void KeepSelectedMemory() {
    if (!options_.steps.has_value() && !options_.window_ns.has_value()) return;
    std::vector<MemorySample> kept;
    const std::vector<MemorySample>& all = timeline_.memory;
    for (std::size_t i = 0; i < all.size();) {
      const auto [from, to] = PartOf(all[i].rank);
      std::map<std::pair<Category, Space>, MemorySample> before;
      const std::int16_t rank = all[i].rank;
      for (; i < all.size() && all[i].rank == rank && all[i].time_ns < from; ++i) {
        before[{all[i].category, all[i].space}] = all[i];
      }
      for (const auto& [kind, sample] : before) kept.push_back(sample);
      for (; i < all.size() && all[i].rank == rank; ++i) {
        if (all[i].time_ns < to) kept.push_back(all[i]);
      }
    }
    timeline_.memory = std::move(kept);
  }

  const Database& database_;
  const RunInfo& info_;
  const LoadOptions& options_;
  std::int64_t batches_ = 0;
  std::int64_t expected_spans_ = 0;
  std::map<std::int64_t, Sum> span_sums_;  // batches that may hold a requested span
  std::map<std::int64_t, Sum> sample_sums_;
  // by rank: range of start times to read
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> ranges_;
  Timeline timeline_;
};

}  // namespace

Result<Timeline> LoadTimeline(const Database& database, const RunInfo& info,
                              const LoadOptions& options) {
  return TimelineLoader(database, info, options).Load();
}

tl::unexpected<Error> DamagedRow(const Database& database, const RunInfo& info,
                                 const std::string& what) {
  return Fail(ErrorCode::kCorruptInput,
              RunText(database, info) + what +
                  " does not have its checksum: the file was damaged after it was written; other "
                  "runs can still be read");
}

std::string RunText(const Database& database, const RunInfo& info) {
  std::string text = database.path() + ": run " + std::to_string(info.id);
  if (!info.label.empty()) text += " (" + Printable(info.label) + ")";
  return text + ": ";
}

}  // namespace foretrain::store_internal
